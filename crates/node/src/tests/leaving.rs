//! Sites join buckets and leave them: what only they hold is handed over first, whatever happens meanwhile.

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Origin, Vector};
use skerry_gateway::service::{
    BucketPatch, ErrorKind, HomeRequest, JoinRequest, LossRequest, MembershipState, Outcome, ScrubRequest,
    WriteCondition,
};
use skerry_model::{Entry, Record, space};

use super::trim;
use super::world::{TestSite, TestWorld, noise};
use crate::copies::book;
use crate::site::{entry, unreadable};

async fn id_of(site: &TestSite, bucket: &str) -> BucketId {
    site.until("the bucket is known", || async { site.site().bucket(bucket).await.unwrap().is_some() }).await;
    site.site().bucket(bucket).await.unwrap().unwrap().id
}

async fn join(site: &TestSite, bucket: &str) {
    let id = id_of(site, bucket).await;
    site.services().admin.join_bucket(bucket, JoinRequest::default()).await.unwrap();
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

async fn leave(site: &TestSite, bucket: &str) -> Outcome<MembershipState> {
    site.services().admin.leave_bucket(bucket).await
}

async fn state(site: &TestSite, bucket: &str) -> MembershipState {
    site.services().admin.membership(bucket).await.unwrap()
}

/// Waits until a site has left and nothing of the bucket is there.
async fn gone(site: &TestSite, bucket: &str) {
    let id = id_of(site, bucket).await;
    site.until("the bucket is left and swept", || async {
        let state = state(site, bucket).await;
        state.standing == "none" && !state.sweeping
    })
    .await;
    let read = move |view: &dyn View| {
        let sums = space::sums(view, id).map_err(unreadable)?;
        Ok((sums.records, space::vector(view, id).map_err(unreadable)?.len()))
    };
    assert_eq!(site.site().read(read).await.unwrap(), (0, 0), "records and vector");
}

/// A site begins to leave while this goes on, and has left, or is back already, when it returns.
async fn leaves_during(site: &TestSite, bucket: &str, work: impl Future<Output = ()>) {
    let (_, begun) = tokio::join!(work, leave(site, bucket));
    begun.unwrap();
    site.until("it has left, or is back", || async { state(site, bucket).await.standing != "leaving" }).await;
}

/// Bodies of this length, by round and number, are all at a site.
async fn all_at(site: &TestSite, bucket: &str, rounds: u64, numbers: u64, length: usize) {
    for round in 0..rounds {
        for number in 0..numbers {
            let key = format!("{round}-{number}");
            assert_eq!(site.get(bucket, &key).await.unwrap(), noise(length, number), "{key}");
        }
    }
}

async fn set_join(site: &TestSite, bucket: &str, join: &str) -> Outcome<()> {
    let patch = BucketPatch { join: Some(join.into()), ..BucketPatch::default() };
    site.services().admin.update_bucket(bucket, patch).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_leaving_site_holds_is_handed_over_and_it_asks_others_then() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    join(two, "photos").await;
    two.put("photos", "large", noise(2_500_000, 1)).await.unwrap();
    two.put("photos", "small", "abc").await.unwrap();
    two.put("photos", "gone", "x").await.unwrap();
    two.delete("photos", "gone").await.unwrap();
    assert_eq!(leave(two, "photos").await.unwrap().standing, "leaving");
    gone(two, "photos").await;
    one.until("it counts no more", || async {
        one.services().admin.bucket("photos").await.unwrap().members == ["site-1"]
    })
    .await;
    // It reads and lists as any site that is no member, and does not become one by that.
    assert_eq!(two.get("photos", "large").await.unwrap(), noise(2_500_000, 1));
    assert_eq!(two.list("photos").await.unwrap(), ["large", "small"]);
    assert_eq!(two.get("photos", "gone").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    assert_eq!(state(two, "photos").await.standing, "none");
    // The others have the payload without it.
    two.cut(true).await;
    assert_eq!(one.get("photos", "large").await.unwrap(), noise(2_500_000, 1));
    assert_eq!(one.get("photos", "small").await.unwrap(), "abc");
    two.cut(false).await;
    world.linked(two).await;
    // It overwrites what it once wrote: no conflict, for it hears of it first; and it is a member again.
    two.put("photos", "small", "def").await.unwrap();
    world.converged("photos").await;
    assert_eq!(one.get("photos", "small").await.unwrap(), "def");
    assert_eq!(one.services().admin.bucket("photos").await.unwrap().conflicts, 0);
    let id = id_of(two, "photos").await;
    two.until("it is a whole member again", || async { two.site().is_complete(id) }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_is_refused_with_what_to_do_and_who_is_given_it_follows_the_bucket() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let refused = leave(one, "photos").await.unwrap_err();
    assert!(refused.message().contains("skerry bucket home photos --to"), "{refused}");
    join(two, "photos").await;
    one.put("photos", "a", noise(100_000, 1)).await.unwrap();
    let request = HomeRequest { site: "site-2".into(), destroyed: None };
    one.gives_home("photos", request).await;
    leave(one, "photos").await.unwrap();
    gone(one, "photos").await;
    let request = HomeRequest { site: "site-1".into(), destroyed: None };
    two.until("its former home is known to have left", || async {
        two.services().admin.bucket("photos").await.unwrap().members == ["site-2"]
    })
    .await;
    two.gives_home("photos", request).await;
    two.until("its home is known to follow it", || async {
        two.services().admin.bucket("photos").await.unwrap().members == ["site-1", "site-2"]
    })
    .await;
    leave(two, "photos").await.unwrap();
    gone(two, "photos").await;
    two.cut(true).await;
    assert_eq!(one.get("photos", "a").await.unwrap(), noise(100_000, 1));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_while_it_leaves_holds_it_back_also_over_a_restart_and_what_it_writes_then_is_handed_over() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        join(two, "photos").await;
        two.cut(true).await;
        two.put("photos", "cut", noise(300_000, 1)).await.unwrap();
        leave(two, "photos").await.unwrap();
        two.until("it says why it stays", || async {
            state(two, "photos").await.reason.contains("site-1")
                || state(two, "photos").await.reason.contains("no other member")
        })
        .await;
        two.put("photos", "meanwhile", "written while it leaves").await.unwrap();
        assert_eq!(two.get("photos", "cut").await.unwrap(), noise(300_000, 1), "still served");
    }
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert_eq!(state(two, "photos").await.standing, "leaving");
    two.cut(false).await;
    world.linked(two).await;
    gone(two, "photos").await;
    two.cut(true).await;
    assert_eq!(one.get("photos", "cut").await.unwrap(), noise(300_000, 1));
    assert_eq!(one.get("photos", "meanwhile").await.unwrap(), "written while it leaves");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_writes_while_the_site_leaves_loses_nothing() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    join(two, "photos").await;
    join(three, "photos").await;
    for round in 0..4 {
        let write = async {
            for number in 0..25 {
                two.put("photos", &format!("{round}-{number}"), noise(40_000, number)).await.unwrap();
            }
        };
        leaves_during(two, "photos", write).await;
    }
    leave(two, "photos").await.unwrap();
    gone(two, "photos").await;
    two.cut(true).await;
    all_at(one, "photos", 4, 25, 40_000).await;
    assert_eq!(one.services().admin.bucket("photos").await.unwrap().conflicts, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_conditional_writes_outlive_that_their_site_leaves_meanwhile() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    join(two, "photos").await;
    for round in 0..4 {
        let write = async {
            for number in 0..15 {
                let absent = WriteCondition { absent: true, matches: None };
                let key = format!("{round}-{number}");
                two.put_if("photos", &key, noise(60_000, number), absent).await.unwrap();
            }
        };
        leaves_during(two, "photos", write).await;
    }
    leave(two, "photos").await.unwrap();
    gone(two, "photos").await;
    two.cut(true).await;
    all_at(one, "photos", 4, 15, 60_000).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_while_the_bucket_is_let_go_waits_until_that_has_ended() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    join(two, "photos").await;
    let (id, site) = (id_of(two, "photos").await, two.site().clone());
    let gate = two.site().leaving.gate().await;
    let complete = two.site().close(id).await;
    // As a read does that makes a member.
    let mut joining = tokio::spawn(async move { site.join(id).await });
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut joining).await;
    assert!(early.is_err() && !two.site().is_member(id));
    // It stays after all.
    two.site().joined(id, complete);
    drop(gate);
    joining.await.unwrap().unwrap();
    assert!(complete && two.site().is_complete(id), "the membership is not begun anew");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_leave_together_leave_all_to_the_third() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.set_copies("photos", 2).await.unwrap();
    for site in [two, three] {
        join(site, "photos").await;
    }
    two.put("photos", "two", noise(200_000, 2)).await.unwrap();
    three.put("photos", "three", noise(200_000, 3)).await.unwrap();
    let (first, second) = tokio::join!(leave(two, "photos"), leave(three, "photos"));
    first.unwrap();
    second.unwrap();
    gone(two, "photos").await;
    gone(three, "photos").await;
    for site in [two, three] {
        site.cut(true).await;
    }
    assert_eq!(one.get("photos", "two").await.unwrap(), noise(200_000, 2));
    assert_eq!(one.get("photos", "three").await.unwrap(), noise(200_000, 3));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_or_a_site_says_whether_a_read_makes_a_member() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "a").await.unwrap();
    assert!(set_join(one, "photos", "sometimes").await.is_err());
    set_join(one, "photos", "manual").await.unwrap();
    let known = |join: &'static str| async move {
        two.services().admin.bucket("photos").await.is_ok_and(|found| found.join == join)
    };
    two.until("the setting is known", || known("manual")).await;
    assert_eq!(two.get("photos", "a").await.unwrap(), "a");
    assert_eq!(two.list("photos").await.unwrap(), ["a"]);
    assert_eq!(state(two, "photos").await.standing, "none");
    // For this site alone, over a restart of nothing: said and taken back.
    let when = |when: &str| JoinRequest { when: Some(when.into()), ..JoinRequest::default() };
    let said = two.services().admin.join_bucket("photos", when("always")).await.unwrap();
    assert!(said.join == "always" && said.join_here && said.standing == "none");
    let said = two.services().admin.join_bucket("photos", when("bucket")).await.unwrap();
    assert!(said.join == "manual" && !said.join_here);
    assert!(two.services().admin.join_bucket("photos", when("later")).await.is_err());
    // Never: what is written here is written there, what is deleted here is deleted there.
    set_join(one, "photos", "never").await.unwrap();
    two.until("the setting is known", || known("never")).await;
    two.put("photos", "b", noise(100_000, 1)).await.unwrap();
    assert_eq!(two.get("photos", "b").await.unwrap(), noise(100_000, 1));
    two.delete("photos", "a").await.unwrap();
    assert_eq!(one.list("photos").await.unwrap(), ["b"]);
    assert_eq!(state(two, "photos").await.standing, "none");
    let refused = two.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap_err();
    assert!(refused.message().contains("--join manual"), "{refused}");
    two.cut(true).await;
    assert_eq!(one.get("photos", "b").await.unwrap(), noise(100_000, 1));
    assert_eq!(two.put("photos", "c", "c").await.unwrap_err().kind(), ErrorKind::NotResident);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_loose_records_of_one_origin_are_counted_page_by_page() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "k", noise(0, 1)).await.unwrap();
    join(two, "photos").await;
    let id = id_of(one, "photos").await;
    let read = move |view: &dyn View| space::current(view, id, "k").map_err(unreadable);
    let first = one.site().read(read).await.unwrap().unwrap();
    // Of a writer that is gone, and its first record with it: what came after is loose for ever.
    let lost = Origin { incarnation: 77, ..first.dot.origin };
    let loose = |seq: u64| {
        let key = format!("loose-{seq}");
        Record { key, dot: Dot { origin: lost, seq }, context: Vector::new(), ..first.clone() }
    };
    for site in [one, two] {
        for page in 0..9 {
            let records = (0..1000).map(|number| loose(2 + page * 1000 + number));
            let entries: Vec<_> = records.map(|record| entry(&Entry::Record(Box::new(record)))).collect();
            site.site().commit(id, (), move |_| Ok(((), entries))).await.unwrap();
        }
    }
    let read = move |view: &dyn View| space::loose(view, id).map_err(unreadable);
    let held = two.site().read(read).await.unwrap();
    assert_eq!(held.iter().map(|loose| loose.print.count).collect::<Vec<_>>(), [9000]);
    leave(two, "photos").await.unwrap();
    gone(two, "photos").await;
    world.stop().await;
}

/// What does not read here, and nobody else has, is not let go of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_read_whole_keeps_its_site_a_member() {
    let mut world = TestWorld::new(2).await;
    let body = noise(3 << 20, 1);
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        join(two, "photos").await;
        two.put("photos", "rotten", body.clone()).await.unwrap();
    }
    world.sites[1].stop().await;
    world.sites[1].damage(&body[(1 << 20) + 5..(1 << 20) + 69]);
    world.sites[1].start().await;
    world.linked(&world.sites[1]).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert!(two.get("photos", "rotten").await.is_err());
    // Who else follows the bucket comes in a moment after the link stands.
    two.until("it may leave", || async { leave(two, "photos").await.is_ok() }).await;
    two.until("it says why it stays", || async {
        let state = state(two, "photos").await;
        assert_eq!(state.standing, "leaving", "all that is left of it is here");
        state.reason.contains("does not read whole here")
    })
    .await;
    one.delete("photos", "rotten").await.unwrap();
    gone(two, "photos").await;
    world.stop().await;
}

/// What a member said that it holds has rotted there since, and was found so: it is held there again before this site goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_rotted_at_who_said_that_it_holds_it_is_handed_over_again() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let body = noise(3 << 20, 1);
    one.create_bucket("photos").await.unwrap();
    one.set_copies("photos", 2).await.unwrap();
    join(two, "photos").await;
    two.put("photos", "k", body.clone()).await.unwrap();
    let id = id_of(two, "photos").await;
    one.until("both hold it", || trim::holds_of(one, "photos", "k")).await;
    let says = || async { two.site().copies.life(id, one.id()).is_some() };
    two.until("it is known what the other one holds", says).await;
    two.cut(true).await;
    one.damage(&body[(1 << 20) + 5..(1 << 20) + 69]);
    let admin = one.services().admin.clone();
    let round = admin.set_scrub(ScrubRequest { pause: Some(false), begin: true }).await.unwrap().round;
    let found = || async {
        let report = admin.scrub().await.unwrap();
        report.round == round && !report.running && report.damaged_chunks == 1
    };
    one.until("it is found, and cannot be mended", found).await;
    two.cut(false).await;
    world.linked(two).await;
    two.until("it may leave", || async { leave(two, "photos").await.is_ok() }).await;
    gone(two, "photos").await;
    two.cut(true).await;
    assert_eq!(one.get("photos", "k").await.unwrap(), body);
    world.stop().await;
}

/// What only this site remembers of a write, that it is to be kept at more sites than its record says, the others know then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_a_version_that_was_answered_for_more_sites_is_told() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket(trim::BUCKET).await.unwrap();
    one.set_copies(trim::BUCKET, 2).await.unwrap();
    join(two, trim::BUCKET).await;
    two.put(trim::BUCKET, "k", noise(50_000, 1)).await.unwrap();
    one.until("two hold it", || async { trim::holds(one, "k").await || trim::holds(three, "k").await }).await;
    let id = id_of(two, trim::BUCKET).await;
    let answered = move |view: &dyn View| {
        let record = space::current(view, id, "k").map_err(unreadable)?;
        let promise = record.map(|record| book::promise(id, record.dot, 2));
        Ok(((), promise.iter().map(entry).collect()))
    };
    two.site().commit(id, (), answered).await.unwrap();
    two.until("it may leave", || async { leave(two, trim::BUCKET).await.is_ok() }).await;
    gone(two, trim::BUCKET).await;
    for site in [one, three] {
        assert!(trim::holds(site, "k").await);
        assert_eq!(trim::promised(site, "k").await, 2);
    }
    world.stop().await;
}

/// Whom nobody waits for is no other member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_member_of_a_bucket_does_not_leave_it() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    join(&world.sites[1], "photos").await;
    world.sites[1].put("photos", "k", noise(300_000, 1)).await.unwrap();
    world.sites[0].stop().await;
    let say = async |site: &TestSite, lost| {
        site.services().admin.declare_loss("site-1", LossRequest { lost }).await.unwrap();
    };
    {
        let two = &world.sites[1];
        let id = id_of(two, "photos").await;
        say(two, true).await;
        two.until("nobody else counts", || async { two.site().copies.lost().contains(&world.sites[0].id()) })
            .await;
        let refused = leave(two, "photos").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        assert!(refused.message().contains("only member of photos: 1 objects (300000 bytes)"), "{refused}");
        assert!(two.site().is_complete(id) && two.site().leaving.note(id).is_none(), "nothing has begun");
        assert_eq!(two.get("photos", "k").await.unwrap(), noise(300_000, 1));
        say(two, false).await;
    }
    world.sites[0].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    two.until("the other one is back", || async { leave(two, "photos").await.is_ok() }).await;
    gone(two, "photos").await;
    assert_eq!(one.get("photos", "k").await.unwrap(), noise(300_000, 1));
    world.stop().await;
}
