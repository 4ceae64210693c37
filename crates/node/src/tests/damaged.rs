//! Part of the journal is lost: the site begins anew with what it follows, and decides nothing before it has asked all others.

use std::os::unix::fs::FileExt;

use skerry_gateway::service::{
    AnewStatus, ErrorKind, HomeRequest, JoinRequest, LossRequest, Outcome, WriteCondition,
};

use super::world::{TestSite, TestWorld};

/// Bits flip in the last frame of the journal that holds these bytes, and the index is gone, which would know what it said.
/// The site must not run.
pub(super) fn rot(site: &TestSite, bytes: &[u8]) {
    rot_last(site, bytes);
    std::fs::remove_dir_all(site.directory.path().join("data/index")).unwrap();
}

fn journal(site: &TestSite) -> Vec<std::path::PathBuf> {
    let folder = site.directory.path().join("data/journal");
    let mut segments: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

fn is_in_journal(site: &TestSite, bytes: &[u8]) -> bool {
    let has = |path: &std::path::PathBuf| {
        std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
    };
    journal(site).iter().any(has)
}

/// The same, and the index stays.
fn rot_last(site: &TestSite, bytes: &[u8]) {
    let segments = journal(site);
    let found = segments.iter().rev().find_map(|path| {
        let content = std::fs::read(path).unwrap();
        let at = content.windows(bytes.len()).rposition(|window| window == bytes)?;
        Some((path, at))
    });
    let (path, at) = found.unwrap();
    let flipped: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&flipped, at as u64).unwrap();
}

pub(super) async fn anew(site: &TestSite) -> Option<AnewStatus> {
    site.services().admin.status().await.unwrap().anew
}

async fn create(site: &TestSite, key: &str) -> Outcome<()> {
    let absent = WriteCondition { absent: true, ..WriteCondition::default() };
    site.put_if("photos", key, key.to_uppercase(), absent).await.map(drop)
}

async fn joins(site: &TestSite) {
    site.until("the bucket is known", || async { site.site().bucket("photos").await.unwrap().is_some() })
        .await;
    site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    let whole = || async { site.services().admin.membership("photos").await.unwrap().standing == "member" };
    site.until("it is a whole member", whole).await;
}

/// The first has a bucket, the second follows it.
pub(super) async fn world_of(sites: usize) -> TestWorld {
    let world = TestWorld::new(sites).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    if sites > 1 {
        joins(&world.sites[1]).await;
    }
    world
}

async fn has(site: &TestSite, keys: &[&str]) {
    for key in keys {
        site.until("it has come", || async { site.get("photos", key).await.is_ok() }).await;
        assert_eq!(site.get("photos", key).await.unwrap(), key.to_uppercase());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_journal_lost_comes_back_from_who_has_it_and_goes_on_to_who_joins() {
    let mut world = world_of(3).await;
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, key.to_uppercase()).await.unwrap();
    }
    create(&world.sites[0], "decided").await.unwrap();
    has(&world.sites[1], &["first", "which-rots", "later", "decided"]).await;
    for site in [0, 2] {
        world.sites[site].stop().await;
    }
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(one, two).await;
    has(one, &["first", "which-rots", "later"]).await;
    one.until("it lists all", || async { one.list("photos").await.is_ok_and(|keys| keys.len() == 4) }).await;
    // The third may have what the first had decided, and cannot be asked.
    let waits =
        || async { anew(one).await.is_some_and(|anew| anew.names && anew.waits == ["site-3 (not linked)"]) };
    one.until("it says for whom it waits", waits).await;
    let refused = create(one, "undecided").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{refused}");
    assert!(refused.message().contains("lost part of its journal"), "{refused}");
    // A start in between forgets nothing of it, and takes nothing back again.
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(anew(one).await.is_some());
    has(one, &["which-rots"]).await;
    assert_eq!(create(one, "undecided").await.unwrap_err().kind(), ErrorKind::HomeUnreachable);
    world.sites[2].start().await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    world.until_linked(one, two).await;
    world.until_linked(one, three).await;
    one.until("all have been heard", || async { anew(one).await.is_none() }).await;
    assert_eq!(create(one, "decided").await.unwrap_err().kind(), ErrorKind::PreconditionFailed);
    create(one, "undecided").await.unwrap();
    // Who joins by way of it lacks nothing.
    two.cut(true).await;
    joins(three).await;
    has(three, &["first", "which-rots", "later"]).await;
    assert_eq!(three.list("photos").await.unwrap().len(), 5);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_lost_that_it_gave_itself_away_decides_nothing() {
    let mut world = world_of(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        create(one, "before").await.unwrap();
        has_key(two, "before").await;
        let request = HomeRequest { site: "site-2".into(), destroyed: None };
        one.gives_home("photos", request).await;
        two.until("it decides", || async { create(two, "at-two").await.is_ok() }).await;
        // What covers the lost frame: another record of the system bucket.
        one.create_bucket("another").await.unwrap();
        let known = || async { two.site().bucket("another").await.unwrap().is_some() };
        two.until("it is known", known).await;
    }
    let home = {
        let bucket = world.sites[0].site().bucket("photos").await.unwrap().unwrap();
        format!("home/{}", bucket.id)
    };
    for site in &mut world.sites {
        site.stop().await;
    }
    rot(&world.sites[0], home.as_bytes());
    world.sites[0].start().await;
    let one = &world.sites[0];
    let refused = create(one, "at-two").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "it would be decided twice: {refused}");
    // What it has it answers for.
    assert_eq!(one.get("photos", "before").await.unwrap(), "BEFORE");
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    one.until("all have been heard", || async { anew(one).await.is_none() }).await;
    assert_eq!(create(one, "at-two").await.unwrap_err().kind(), ErrorKind::PreconditionFailed);
    create(one, "by-two").await.unwrap();
    world.stop().await;
}

pub(super) async fn has_key(site: &TestSite, key: &str) {
    site.until("it has come", || async { site.get("photos", key).await.is_ok() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_knows_no_other_goes_on_without_what_it_lost() {
    let mut world = world_of(1).await;
    for key in ["first", "which-rots", "later"] {
        world.sites[0].put("photos", key, key.to_uppercase()).await.unwrap();
    }
    world.sites[0].stop().await;
    rot(&world.sites[0], b"which-rots");
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(anew(one).await.is_none());
    assert_eq!(one.list("photos").await.unwrap(), ["first", "later"]);
    create(one, "which-rots").await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_member_of_a_bucket_is_whole_again_once_all_others_said_that_they_have_nothing() {
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
    let one = &world.sites[0];
    // Nobody says that the other one is gone.
    assert_eq!(one.get("photos", "first").await.unwrap(), "FIRST");
    let missed = one.get("photos", "which-rots").await.unwrap_err();
    assert_eq!(missed.kind(), ErrorKind::Unreachable, "{missed}");
    one.services().admin.declare_loss("site-2", LossRequest { lost: true }).await.unwrap();
    one.until("nobody is waited for", || async { anew(one).await.is_none() }).await;
    assert_eq!(one.list("photos").await.unwrap(), ["first", "later"]);
    assert_eq!(one.get("photos", "which-rots").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    create(one, "which-rots").await.unwrap();
    // What it vouched for before it does again: nothing lies beyond its vector.
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    let loose = move |view: &dyn skerry_base::kv::View| {
        skerry_model::space::loose(view, id).map_err(crate::site::unreadable)
    };
    assert!(one.site().read(loose).await.unwrap().is_empty());
    world.stop().await;
}

/// What the store says of a bucket in this node's own table, as it lies in the journal.
fn own_row(prefix: &[u8], bucket: skerry_base::BucketId) -> Vec<u8> {
    [prefix, &bucket.0].concat()
}

/// Its spare was written behind it.
async fn is_spared(site: &TestSite, bucket: skerry_base::BucketId) {
    let key = own_row(b"model/claim/", bucket);
    let has = || async {
        let key = key.clone();
        let get = move |view: &dyn skerry_base::kv::View| {
            view.get(skerry_base::kv::Table::Local, &key)
                .map_err(|error| crate::site::unreadable(error.into()))
        };
        site.site().read(get).await.unwrap().is_some()
    };
    site.until("its claim lies there twice", has).await;
}

/// The record that says the claim.
async fn claim_dot(site: &TestSite, bucket: skerry_base::BucketId) -> skerry_base::Dot {
    let (system, key) = (site.site().system, format!("claim/photos/{bucket}"));
    let read = move |view: &dyn skerry_base::kv::View| {
        skerry_model::space::current(view, system, &key).map_err(crate::site::unreadable)
    };
    site.site().read(read).await.unwrap().unwrap().dot
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_whose_claim_is_lost_is_there_again() {
    let mut world = world_of(1).await;
    let id = world.sites[0].site().bucket("photos").await.unwrap().unwrap().id;
    is_spared(&world.sites[0], id).await;
    world.sites[0].put("photos", "first", "FIRST").await.unwrap();
    let before = world.sites[0].site().bucket("photos").await.unwrap().unwrap();
    let said = claim_dot(&world.sites[0], id).await;
    world.sites[0].stop().await;
    // The frame that says it makes the site a member as well.
    rot(&world.sites[0], format!("claim/photos/{id}").as_bytes());
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert_eq!(one.core.as_ref().unwrap().recovery.lost.len(), 1);
    one.until("it is known again", || async { one.get("photos", "first").await.is_ok() }).await;
    // Whether its home is named already is the register's.
    let after = crate::paths::bucket::Bucket {
        epoch: before.epoch,
        ..one.site().bucket("photos").await.unwrap().unwrap()
    };
    assert_eq!(after, before);
    assert_ne!(claim_dot(one, id).await, said, "it was written again");
    one.put("photos", "second", "SECOND").await.unwrap();
    assert_eq!(one.list("photos").await.unwrap(), ["first", "second"]);
    assert!(one.site().is_member(id));
    world.stop().await;
}

/// Else it would say to the other, which lost something as well, that it is no member and has nothing that counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_membership_that_is_lost_is_none_that_never_was() {
    let mut world = world_of(2).await;
    world.sites[0].put("photos", "first", "FIRST").await.unwrap();
    has(&world.sites[1], &["first"]).await;
    let id = world.sites[1].site().bucket("photos").await.unwrap().unwrap().id;
    for site in &mut world.sites {
        site.stop().await;
    }
    // It was joining, and then whole: two frames say it.
    rot_last(&world.sites[1], &own_row(b"member/", id));
    rot(&world.sites[1], &own_row(b"member/", id));
    assert!(!is_in_journal(&world.sites[1], &own_row(b"member/", id)), "no frame says it any more");
    world.sites[1].start().await;
    let two = &world.sites[1];
    assert!(two.site().is_member(id) && !two.site().is_complete(id), "it takes the bucket anew");
    assert!(anew(two).await.is_some());
    world.sites[0].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    two.until("all have been heard", || async { anew(two).await.is_none() }).await;
    assert_eq!(two.services().admin.membership("photos").await.unwrap().standing, "member");
    has(two, &["first"]).await;
    world.stop().await;
}

/// No vector says anything of it, and the frame of its claim made the site a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_with_nothing_in_it_is_followed_still_though_that_is_lost() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].cut(true).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let id = world.sites[0].site().bucket("photos").await.unwrap().unwrap().id;
    is_spared(&world.sites[0], id).await;
    for site in &mut world.sites {
        site.stop().await;
    }
    rot(&world.sites[0], format!("claim/photos/{id}").as_bytes());
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert_eq!(one.core.as_ref().unwrap().recovery.lost.len(), 1);
    assert!(one.site().is_member(id) && !one.site().is_complete(id));
    world.stop().await;
}

/// A client that makes its bucket where it is not found: while another site is away nothing is written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_makes_a_bucket_whose_claim_is_lost_gets_the_one_that_was() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        two.cut(true).await;
        one.create_bucket("photos").await.unwrap();
        let id = one.site().bucket("photos").await.unwrap().unwrap().id;
        is_spared(one, id).await;
        one.put("photos", "first", "FIRST").await.unwrap();
    }
    let before = world.sites[0].site().bucket("photos").await.unwrap().unwrap();
    for site in &mut world.sites {
        site.stop().await;
    }
    rot(&world.sites[0], format!("claim/photos/{}", before.id).as_bytes());
    world.sites[0].start().await;
    let one = &world.sites[0];
    assert!(anew(one).await.is_some() && one.site().bucket("photos").await.unwrap().is_none());
    one.create_bucket("photos").await.unwrap();
    let after = one.site().bucket("photos").await.unwrap().unwrap();
    assert_eq!((after.id, after.created, &after.config), (before.id, before.created, &before.config));
    assert!(!one.site().is_complete(before.id), "it is taken anew still");
    assert_eq!(one.get("photos", "first").await.unwrap(), "FIRST");
    world.stop().await;
}

/// A tenth of a second apart: homes pass on within two of a view.
const TRIES: usize = 40;

/// What a node promised and accepted as one of three that agree on the view of their site is part of its journal as well. Where it may
/// be among what was lost the node has no vote: else a view goes on without the one that has what was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_what_it_accepted_does_not_agree_on_another_view() {
    use skerry_federation::site_view::{Seat, Seats, View};
    use skerry_model::bucket::Known;

    let mut world = TestWorld::of_nodes(3, 0).await;
    for node in &world.sites {
        super::nodes::leased(node, &[0, 1, 2]).await;
    }
    // The home is the second node; of a view without it the third one is the owner.
    let seats = |of: &[usize]| -> Seats { of.iter().filter_map(|seat| Seat::new(*seat)).collect() };
    let without = View { live: seats(&[0, 2]), ..View::genesis() };
    let (mut name, mut id) = (String::new(), skerry_base::BucketId::default());
    for n in 0.. {
        name = format!("bucket-{n}");
        world.sites[1].create_bucket(&name).await.unwrap();
        id = world.sites[1].site().bucket(&name).await.unwrap().unwrap().id;
        if without.owner(id) == Seat::new(2) {
            break;
        }
    }
    let absent = || WriteCondition { absent: true, ..WriteCondition::default() };
    for node in &world.sites {
        let system = node.site().system;
        node.until("it could take the home over", || async {
            let read = move |view: &dyn skerry_base::kv::View| {
                Known::load(view, system, id).map_err(crate::site::unreadable)
            };
            let known = node.site().read(read).await.unwrap();
            node.site().is_complete(id) && known.is_some_and(|known| known.tenure().is_some())
        })
        .await;
    }
    world.sites[2].stop().await;
    for node in &world.sites[..2] {
        super::nodes::leased(node, &[0, 1]).await;
    }
    // Decided in the view of the first two, and acknowledged.
    world.sites[1]
        .until("the lock is given", || async {
            world.sites[1].put_if(&name, "lock-that-rots", "first", absent()).await.is_ok()
        })
        .await;
    world.sites[1].put(&name, "later", "x").await.unwrap();
    world.sites[0].until("it has all", || async { world.sites[0].get(&name, "later").await.is_ok() }).await;
    world.sites[0].put(&name, "latest", "x").await.unwrap();
    let accepted = world.sites[0].site().nodes.accepted().unwrap();
    for node in &mut world.sites[..2] {
        node.stop().await;
    }
    // A sector of the first one's journal rots, in which the view and the decision lie.
    while is_in_journal(&world.sites[0], &accepted) {
        rot_last(&world.sites[0], &accepted);
    }
    while is_in_journal(&world.sites[0], b"lock-that-rots") {
        rot_last(&world.sites[0], b"lock-that-rots");
    }
    std::fs::remove_dir_all(world.sites[0].directory.path().join("data/index")).unwrap();
    // The second one, which has it, comes back later than the others.
    for node in [0, 2] {
        world.sites[node].start().await;
    }
    assert!(!world.sites[0].core.as_ref().unwrap().recovery.lost.is_empty());
    let three = &world.sites[2];
    super::nodes::leased(three, &[0, 2]).await;
    for _ in 0..TRIES {
        let given = three.put_if(&name, "lock-that-rots", "third", absent()).await;
        assert!(given.is_err(), "the lock was given twice");
        crate::tasks::rest(std::time::Duration::from_millis(100)).await;
    }
    world.stop().await;
}
