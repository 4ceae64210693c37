//! What others meet at a site that lost part of its journal: reads, copies, pins, a drain, and the homes of a node.

use std::os::unix::fs::FileExt;

use skerry_base::{SiteId, Vector};
use skerry_federation::Federation;
use skerry_federation::site_view::{Seat, View};
use skerry_gateway::service::{
    BucketPatch, DutyRequest, ErrorKind, LossRequest, PinAct, PinRequest, WriteCondition,
};
use skerry_model::space;

use super::damaged::{anew, has_key, rot, world_of};
use super::refusing::Hung;
use super::tenures::ready;
use super::within;
use super::world::{PATIENCE, TestSite, TestWorld, noise};
use crate::copies::book::Covered;
use crate::copies::{claims, handover};
use crate::init;
use crate::paths::answer;
use crate::peers::message::{Holdings, Part, Read, Request, Response, Which};
use crate::site::{entry, unreadable};

fn asked(bucket: skerry_base::BucketId, key: &str, which: Which) -> Read {
    Read { bucket, key: key.into(), which, part: Part::Nothing }
}

async fn id_of(site: &TestSite) -> skerry_base::BucketId {
    site.site().bucket("photos").await.unwrap().unwrap().id
}

/// Whether a site knows of another one that it does not follow a bucket.
async fn is_stranger(site: &TestSite, bucket: skerry_base::BucketId, other: SiteId) -> bool {
    let of = move |machine: &Federation, _: &dyn skerry_federation::Replica| {
        machine.strangers(bucket).contains(&other)
    };
    site.site().drive.ask(of).await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_here_is_read_while_all_others_say_that_they_follow_nothing() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, key.to_uppercase()).await.unwrap();
    }
    for site in &mut world.sites {
        site.stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    // Nothing becomes whole meanwhile.
    let site = world.sites[0].site().clone();
    let gate = site.leaving.gate().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    let (id, other) = (id_of(one).await, two.id());
    one.until("the other one follows nothing", || async { is_stranger(one, id, other).await }).await;
    assert!(anew(one).await.is_some() && !site.is_complete(id));
    assert_eq!(one.get("photos", "first").await.unwrap(), "FIRST");
    assert_eq!(one.list("photos").await.unwrap(), ["first", "later"]);
    // It cannot say that there is nothing.
    assert_eq!(one.get("photos", "which-rots").await.unwrap_err().kind(), ErrorKind::Unreachable);
    drop(gate);
    one.until("all have been heard", || async { anew(one).await.is_none() }).await;
    assert_eq!(one.get("photos", "which-rots").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    world.stop().await;
}

/// What only it has others get of it, and of who has something newer if they reach one that has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_get_what_was_taken_before_where_nobody_else_can_be_asked() {
    let mut world = world_of(3).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        let patch = BucketPatch { join: Some("manual".into()), ..BucketPatch::default() };
        one.services().admin.update_bucket("photos", patch).await.unwrap();
        one.put("photos", "mine", "v1").await.unwrap();
        two.put("photos", "theirs", "v1").await.unwrap();
        one.until("it has come", || async { one.get("photos", "theirs").await.is_ok() }).await;
        one.put("photos", "mine", "v2").await.unwrap();
        one.put("photos", "later", "l").await.unwrap();
        two.has_all_of(one, "photos").await;
        let manual = || async {
            let found = three.site().bucket("photos").await.unwrap();
            found.is_some_and(|found| three.site().joins(&found) == skerry_model::bucket::Joins::Manual)
        };
        three.until("the bucket is known", manual).await;
    }
    for site in &mut world.sites {
        site.stop().await;
    }
    rot(&world.sites[0], b"mine");
    world.sites[0].start().await;
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    let id = id_of(&world.sites[0]).await;
    let is_v1 = async |site: &TestSite, key: &str| {
        let body = site.get("photos", key).await.ok();
        body.is_some_and(|body| body == "v1")
    };
    {
        // Nobody is linked, as far as is known here; who asks is, and has not been heard.
        let holdings = || Holdings { bucket: id, life: None, from: Vector::new() };
        let site = world.sites[0].site();
        assert!(claims::answer(site, holdings(), world.sites[1].id()).await.is_err());
    }
    world.sites[2].start().await;
    {
        let [one, _, three] = &world.sites[..] else { panic!("three sites") };
        world.until_linked(one, three).await;
        for (key, which) in [("mine", Which::Current), ("mine", Which::Null), ("theirs", Which::Current)] {
            let said = answer::object(one.site(), asked(id, key, which), 0).await.0;
            assert!(matches!(said, Response::Joining), "who has something newer is asked first: {said:?}");
        }
        // Nobody else can be asked.
        for key in ["mine", "theirs"] {
            three.until("it is given", || async { is_v1(three, key).await }).await;
            assert_eq!(one.get("photos", key).await.unwrap(), "v1");
        }
        assert!(!three.site().is_member(id) && anew(one).await.is_some());
    }
    // Nothing of what the other one has can be taken.
    let hung = Hung::of(&world.sites[0]);
    world.sites[1].start().await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        world.until_linked(one, two).await;
        let question = Request::Kept(Box::new(asked(id, "mine", Which::Current)));
        let said = three.site().peers.call(one.id(), &question).await.unwrap().response;
        assert!(
            matches!(said, Response::Joining),
            "one that is linked there may have something newer: {said:?}"
        );
    }
    drop(hung);
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(two, three).await;
    for site in [three, one] {
        site.until("the newer one is read", || async {
            site.get("photos", "mine").await.is_ok_and(|body| body == "v2")
        })
        .await;
    }
    world.stop().await;
}

/// Bits flip wherever these bytes lie in the journal, and the index is gone.
fn rot_all(site: &TestSite, bytes: &[u8]) {
    rot(site, bytes);
    let journal = site.directory.path().join("data").join("journal");
    for entry in std::fs::read_dir(journal).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        for (at, window) in content.windows(bytes.len()).enumerate() {
            if window == bytes {
                file.write_all_at(&[!bytes[0]], at as u64).unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_lost_the_record_of_the_only_other_one_finds_it_again() {
    let mut world = world_of(2).await;
    world.sites[0].put("photos", "first", "FIRST").await.unwrap();
    has_key(&world.sites[1], "first").await;
    for site in &world.sites {
        let place = site.directory.path().to_owned();
        let is_kept = || async { init::take_roster(&place).unwrap().len() == 2 };
        site.until("the records of sites lie beside the store", is_kept).await;
    }
    let name = format!("site/{}", world.sites[1].id());
    for site in &mut world.sites {
        site.stop().await;
    }
    rot_all(&world.sites[0], name.as_bytes());
    world.sites[0].start().await;
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    one.until("all have been heard", || async { anew(one).await.is_none() }).await;
    one.put("photos", "second", "SECOND").await.unwrap();
    has_key(two, "second").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_lost_with_its_frame_counts_as_held_there_no_more_though_a_site_is_away() {
    let mut world = world_of(3).await;
    let body = noise(20_000, 1);
    world.sites[0].set_copies("photos", 2).await.unwrap();
    world.sites[0].put("photos", "which-rots", body.clone()).await.unwrap();
    {
        let two = &world.sites[1];
        has_key(two, "which-rots").await;
        let unprotected = || async {
            two.services().admin.bucket("photos").await.is_ok_and(|found| found.unprotected_bytes == 0)
                && two.site().copies.life(id_of(two).await, world.sites[0].id()).is_some()
        };
        two.until("it counts on the first, which said what it holds", unprotected).await;
        world.sites[0].put("photos", "later", "LATER").await.unwrap();
        two.has_all_of(&world.sites[0], "photos").await;
    }
    for site in [0, 2] {
        world.sites[site].stop().await;
    }
    let id = id_of(&world.sites[1]).await;
    let said = world.sites[1].site().copies.life(id, world.sites[0].id()).unwrap();
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(one, two).await;
    // Its word of before counts for nothing, though it is not whole.
    two.until("it says anew what it holds", || async {
        two.site().copies.life(id, one.id()).is_some_and(|life| life != said)
    })
    .await;
    let chunks = {
        let record = move |view: &dyn skerry_base::kv::View| {
            space::current(view, id, "which-rots").map_err(unreadable)
        };
        let record = two.site().read(record).await.unwrap().unwrap();
        record.object().unwrap().clone()
    };
    // It was told, and had it held there again.
    let is_there = || async { crate::copies::look::is_here(&one.site().store, id, &chunks) };
    two.until("the body is at both again", is_there).await;
    assert!(anew(one).await.is_some_and(|anew| anew.waits == ["site-3 (not linked)"]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefetch_at_a_site_that_waits_for_one_at_sea_says_so_and_is_over() {
    let mut world = world_of(3).await;
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, noise(5000, 1)).await.unwrap();
    }
    world.sites[1].has_all_of(&world.sites[0], "photos").await;
    for site in [0, 2] {
        world.sites[site].stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(one, two).await;
    let request = PinRequest { bucket: "photos".into(), prefix: String::new(), act: PinAct::Prefetch };
    one.services().admin.set_pin(request).await.unwrap();
    let says = || async {
        let pins = one.services().admin.pins().await.unwrap().pins;
        let waits = |reason: &str| reason.contains("site-3 (not linked)");
        pins.iter().any(|pin| !pin.taking && pin.reason.as_deref().is_some_and(waits))
    };
    one.until("nothing is to be waited for", says).await;
    assert!(anew(one).await.is_some());
    one.services().admin.declare_loss("site-3", LossRequest { lost: true }).await.unwrap();
    one.until("it is complete", || async {
        one.services().admin.pins().await.unwrap().pins.iter().any(|pin| pin.complete && pin.objects == 3)
    })
    .await;
    world.stop().await;
}

/// All that a site has may be records that no feed covers: they are looked through in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_feed_covers_is_handed_over_part_by_part() {
    let mut world = TestWorld::new(1).await;
    // Two lives: the records of each come by themselves.
    for life in 0..2 {
        for bucket in ["photos", "others"] {
            let one = &world.sites[0];
            if life == 0 {
                one.create_bucket(bucket).await.unwrap();
            }
            for n in 0..3 {
                one.put(bucket, &format!("{life}-{n}"), noise(300, n)).await.unwrap();
            }
        }
        world.sites[0].stop().await;
        world.sites[0].start().await;
    }
    let one = &world.sites[0];
    for bucket in ["photos", "others"] {
        let id = one.site().bucket(bucket).await.unwrap().unwrap().id;
        let propose = move |view: &dyn skerry_base::kv::View| {
            let entries = space::anew(view, id).map_err(unreadable)?;
            Ok(((), entries.iter().map(entry).collect()))
        };
        one.site().commit(id, (), propose).await.unwrap();
    }
    let whole = handover::loose(one.site(), None, 100).await.unwrap();
    let all = |loose: &handover::Loose| {
        let dots = |(bucket, kept): (&skerry_base::BucketId, &Vec<handover::Kept>)| {
            kept.iter().map(|kept| (*bucket, kept.want.dot)).collect::<Vec<_>>()
        };
        loose.all.iter().flat_map(dots).collect::<Vec<_>>()
    };
    assert!(whole.is_all());
    assert_eq!(all(&whole).len(), 12);
    // A page of records comes at once: with no room left none does.
    let (mut from, mut parts) = (None, Vec::new());
    loop {
        let part = handover::loose(one.site(), from, 1).await.unwrap();
        assert!(!part.is_all(), "others were not looked at");
        parts.push(all(&part));
        from = part.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [3; 4]);
    assert_eq!(parts.concat(), all(&whole));
    world.stop().await;
}

/// Which decides nothing until all other sites were heard: the other nodes have all that was decided.
#[tokio::test(flavor = "multi_thread")]
async fn the_homes_of_a_node_that_lost_entries_pass_to_the_others_though_a_site_is_away() {
    let mut world = TestWorld::of_nodes(3, 1).await;
    let absent = || WriteCondition { absent: true, ..WriteCondition::default() };
    for node in &world.sites[..3] {
        super::nodes::leased(node, &[0, 1, 2]).await;
    }
    world.sites[0].create_bucket("photos").await.unwrap();
    ready(&world.sites[..3]).await;
    for key in ["before", "which-rots", "later"] {
        within::put(&world.sites[0], key, key.to_uppercase()).await.unwrap();
    }
    // All at once, as when the power fails: nobody is left out of the view.
    for node in &mut world.sites {
        node.stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    for node in [1, 2, 0] {
        world.sites[node].start().await;
    }
    let [one, two, three, _] = &world.sites[..] else { panic!("four") };
    let decides = async |node: &TestSite, key: &str| match node.put_if("photos", key, "x", absent()).await {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::PreconditionFailed,
    };
    two.until("a condition is decided", || async { decides(two, "lock").await }).await;
    three
        .until("it is refused", || async {
            let refused = three.put_if("photos", "lock", "y", absent()).await.unwrap_err();
            refused.kind() == ErrorKind::PreconditionFailed
        })
        .await;
    // The register of names as well.
    let makes = || async {
        let created = three.create_bucket("another").await;
        let named = three.put_if("another", "lock", "x", absent()).await;
        created.is_ok()
            && (named.is_ok() || named.is_err_and(|why| why.kind() == ErrorKind::PreconditionFailed))
    };
    three.until("a bucket is made whose home is named", makes).await;
    // It is back in the view, and has others decide.
    super::nodes::leased(two, &[0, 1, 2]).await;
    one.until("a condition is decided through it", || async { decides(one, "lock-of-one").await }).await;
    assert!(anew(one).await.is_some_and(|anew| anew.names));
    world.stop().await;
}

/// Of two nodes none is left to whom homes could pass: what one lost it has of the other, body and all, and goes on as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_entries_has_them_of_the_other_and_reads_for_its_site_again() {
    let mut world = within::site_of(2).await;
    let body = noise(20_000, 7);
    for key in ["before", "which-rots", "later"] {
        within::put(&world.sites[0], key, body.clone()).await.unwrap();
    }
    within::put(&world.sites[1], "of-the-other", body.clone()).await.unwrap();
    for node in &mut world.sites {
        node.stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    for node in &mut world.sites {
        node.start().await;
    }
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    one.until("all have been heard", || async { anew(one).await.is_none() }).await;
    for node in [one, two] {
        super::nodes::leased(node, &[0, 1]).await;
        for key in ["before", "which-rots", "later", "of-the-other"] {
            within::sees(node, key, &body).await;
        }
    }
    let id = id_of(one).await;
    one.until("nothing of it is a gap", || async { !one.site().nodes.has_gap(id) }).await;
    let chunk = skerry_base::ChunkId::of(&body);
    one.until("it holds the body", || async { one.site().store.counts(id, chunk) }).await;
    let absent = || WriteCondition { absent: true, ..WriteCondition::default() };
    for node in [one, two] {
        node.until("a condition is decided", || async {
            match node.put_if("photos", "lock", "x", absent()).await {
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::PreconditionFailed,
            }
        })
        .await;
        let known = node.put_if("photos", "which-rots", "y", absent()).await.unwrap_err();
        assert_eq!(known.kind(), ErrorKind::PreconditionFailed, "it is there");
    }
    world.stop().await;
}

/// Two of three begin anew at once, as after a power failure of the whole site with cards of one batch: those homes pass that the third
/// one takes over, first of one and then of the other.
#[tokio::test(flavor = "multi_thread")]
async fn the_homes_of_two_nodes_that_lost_entries_pass_one_after_the_other() {
    let mut world = TestWorld::of_nodes(3, 1).await;
    let absent = || WriteCondition { absent: true, ..WriteCondition::default() };
    for node in &world.sites[..3] {
        super::nodes::leased(node, &[0, 1, 2]).await;
    }
    // Of these the third node is the owner of a view without the home.
    let live = |home: u32| [home ^ 1, 2].into_iter().filter_map(|seat| Seat::new(seat as usize)).collect();
    let passes = |home: u32, id: skerry_base::BucketId| {
        let view = View { live: live(home), ..View::genesis() };
        view.owner(id) == Seat::new(2)
    };
    let mut named: [Vec<String>; 2] = Default::default();
    for home in [0_u32, 1] {
        for n in 0.. {
            let name = format!("bucket-{home}-{n}");
            let node = &world.sites[home as usize];
            node.create_bucket(&name).await.unwrap();
            let id = node.site().bucket(&name).await.unwrap().unwrap().id;
            if passes(home, id) {
                named[home as usize].push(name);
                break;
            }
        }
    }
    for (home, names) in named.iter().enumerate() {
        for name in names {
            let node = &world.sites[home];
            node.until("its home decides", || async {
                node.put_if(name, "which-rots", "x", absent()).await.is_ok()
                    || node.get(name, "which-rots").await.is_ok()
            })
            .await;
            node.put(name, "later", "x").await.unwrap();
        }
    }
    // What was decided is at all of them, and each can take the homes over.
    for (home, name) in
        named.iter().enumerate().flat_map(|(home, names)| names.iter().map(move |name| (home, name)))
    {
        for node in &world.sites[..3] {
            node.until("it has all of the bucket", || async {
                let found = node.site().bucket(name).await.unwrap();
                found.is_some_and(|found| node.site().is_complete(found.id))
            })
            .await;
            node.has_all_of(&world.sites[home], name).await;
        }
    }
    for node in &mut world.sites {
        node.stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    rot(&world.sites[1], b"which-rots");
    for node in [0, 1, 2] {
        world.sites[node].start().await;
    }
    let three = &world.sites[2];
    for name in named.iter().flatten() {
        three
            .until("a condition is decided", || async {
                match three.put_if(name, "lock", "x", absent()).await {
                    Ok(_) => true,
                    Err(error) => error.kind() == ErrorKind::PreconditionFailed,
                }
            })
            .await;
    }
    for node in &world.sites[..2] {
        assert!(anew(node).await.is_some_and(|anew| anew.names));
    }
    world.stop().await;
}

/// What holds up the drain of a site that waits for another one is that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_of_a_site_that_lost_entries_says_for_whom_it_waits() {
    let mut world = world_of(3).await;
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, noise(5000, 1)).await.unwrap();
    }
    world.sites[1].has_all_of(&world.sites[0], "photos").await;
    for site in [0, 2] {
        world.sites[site].stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(one, two).await;
    let request = DutyRequest { duty: "drain".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-1", request).await.unwrap();
    let says = || async {
        let drain = one.services().admin.site("site-1").await.unwrap().drain;
        drain.is_some_and(|drain| drain.bodies == 0 && drain.waits_for.contains("site-3 (not linked)"))
    };
    one.until("its bodies are elsewhere, and it says for whom it waits", says).await;
    world.stop().await;
}

/// An own body that went with its frame: what was found to have its copies before is looked through again, as it has one less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_body_that_is_lost_with_its_frame_is_held_here_again() {
    let mut world = world_of(2).await;
    let body = noise(20_000, 1);
    world.sites[0].set_copies("photos", 2).await.unwrap();
    world.sites[0].put("photos", "which-rots", body.clone()).await.unwrap();
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        two.until("it holds it", || super::trim::holds_of(two, "photos", "which-rots")).await;
        one.until("all has its copies, and that is written down", || async {
            let id = id_of(one).await;
            let key = [b"covered/", &id.0[..]].concat();
            let row =
                skerry_base::kv::View::get(&one.site().store.view(), skerry_base::kv::Table::Local, &key)
                    .unwrap();
            let covered = row.map(|row| skerry_base::codec::decode::<Covered>(&row).unwrap().upto);
            let vector = move |view: &dyn skerry_base::kv::View| space::vector(view, id).map_err(unreadable);
            covered.unwrap_or_default().includes(&one.site().read(vector).await.unwrap())
        })
        .await;
    }
    world.sites[0].stop().await;
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    one.until("it is whole again", || async { anew(one).await.is_none() }).await;
    two.has_all_of(one, "photos").await;
    one.has_all_of(two, "photos").await;
    let again = async {
        while !super::trim::holds_of(one, "photos", "which-rots").await {
            crate::tasks::rest(std::time::Duration::from_millis(100)).await;
        }
    };
    let held = tokio::time::timeout(std::time::Duration::from_secs(30), again).await.is_ok();
    let risk = one.services().admin.bucket("photos").await.unwrap().unprotected_bytes;
    assert!(
        held,
        "it is at one place only, nobody makes another copy, and {risk} bytes are said to be at risk"
    );
    // The one place burns.
    two.cut(true).await;
    assert_eq!(one.get("photos", "which-rots").await.unwrap(), body);
    world.stop().await;
}

/// Two sites of which the first lost an entry, and went on without the second: its operator had declared that one lost.
async fn gone_on_alone() -> TestWorld {
    let mut world = world_of(2).await;
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, key.to_uppercase()).await.unwrap();
    }
    world.sites[1].has_all_of(&world.sites[0], "photos").await;
    world.sites[1].stop().await;
    world.sites[0].stop().await;
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(!one.core.as_ref().unwrap().recovery.lost.is_empty());
    one.services().admin.declare_loss("site-2", LossRequest { lost: true }).await.unwrap();
    one.until("nobody is waited for", || async { anew(one).await.is_none() }).await;
    world
}

/// Is started anew, which it asks for, and has what it had lost.
async fn starts_anew_and_has_all(world: &mut TestWorld) {
    let begins = world.sites[0].core.as_ref().unwrap().begins_anew();
    tokio::time::timeout(PATIENCE, begins).await.unwrap();
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    one.until("all is heard", || async { anew(one).await.is_none() }).await;
    assert_eq!(one.get("photos", "which-rots").await.unwrap(), "WHICH-ROTS");
    one.has_all_of(two, "photos").await;
    assert_eq!(one.list("photos").await.unwrap(), two.list("photos").await.unwrap());
    assert_eq!(two.get("photos", "which-rots").await.unwrap(), "WHICH-ROTS");
}

/// What only a declared-lost site has of what a journal lost comes back with it: nothing else is heard of it before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_journal_lost_comes_back_with_a_site_that_was_declared_lost_meanwhile() {
    let mut world = gone_on_alone().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let is_seen = || async { one.site().peers.kept_out.came().contains(&two.site().id) };
    one.until("it has a link, and is kept out", is_seen).await;
    assert!(!one.site().linked(two.site().id));
    let question = Request::Remains { bucket: id_of(one).await };
    assert!(two.site().peers.call(one.site().id, &question).await.is_err(), "it is told what is not so");
    starts_anew_and_has_all(&mut world).await;
    // It is there, whatever the operator says.
    world.sites[0].services().admin.declare_loss("site-2", LossRequest { lost: false }).await.unwrap();
    world.stop().await;
}

/// The word alone is enough: another site may have it from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_journal_lost_is_asked_for_once_more_when_a_loss_is_taken_back() {
    let mut world = gone_on_alone().await;
    // An island may be started anew in between: it goes on without it, and keeps it out.
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(anew(one).await.is_none() && one.site().peers.kept_out.all().len() == 1);
    one.services().admin.declare_loss("site-2", LossRequest { lost: false }).await.unwrap();
    world.sites[1].start().await;
    starts_anew_and_has_all(&mut world).await;
    world.stop().await;
}
