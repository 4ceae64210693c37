//! Sites that follow only the keys below a prefix.

use skerry_base::kv::View;
use skerry_base::{BucketId, Vector};
use skerry_gateway::service::{
    BucketPatch, ErrorKind, FollowRequest, FollowedPrefix, JoinRequest, MembershipState, Outcome, PinAct,
    PinRequest,
};
use skerry_model::space::{self, Below};

use super::duties;
use super::world::{TestSite, TestWorld, noise};
use crate::site::unreadable;

pub(super) const PREFIX: &str = "oslo/";

pub(super) async fn id_of(site: &TestSite) -> BucketId {
    site.until("the bucket is known", || async { site.site().bucket("photos").await.unwrap().is_some() })
        .await;
    site.site().bucket("photos").await.unwrap().unwrap().id
}

pub(super) async fn say(
    site: &TestSite,
    prefix: &str,
    writes: Option<&str>,
    ends: bool,
) -> Outcome<MembershipState> {
    let request = FollowRequest { prefix: prefix.into(), writes: writes.map(Into::into), ends };
    site.services().admin.follow_prefix("photos", request).await
}

pub(super) async fn state(site: &TestSite) -> Vec<FollowedPrefix> {
    site.services().admin.membership("photos").await.unwrap().prefixes
}

pub(super) async fn current(site: &TestSite, prefix: &str) {
    site.until("what is followed is current", || async {
        state(site).await.iter().any(|followed| followed.prefix == prefix && followed.state == "current")
    })
    .await;
}

/// Follows the prefix and has what there is.
pub(super) async fn follow(site: &TestSite, writes: Option<&str>) -> BucketId {
    let id = id_of(site).await;
    say(site, PREFIX, writes, false).await.unwrap();
    current(site, PREFIX).await;
    id
}

pub(super) async fn list(site: &TestSite, prefix: &str) -> Outcome<Vec<String>> {
    site.list_prefix("photos", prefix).await
}

/// Records of the bucket here: those below the prefix, and all.
pub(super) async fn held(site: &TestSite, id: BucketId) -> (u64, u64, Vector) {
    let read = move |view: &dyn View| {
        let below = Below { bucket: id, prefix: PREFIX.into() };
        let all = space::sums(view, id).map_err(unreadable)?.records;
        let vector = space::vector(view, id).map_err(unreadable)?;
        Ok((space::held_below(view, &below, u64::MAX).map_err(unreadable)?.0, all, vector))
    };
    site.site().read(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_below_a_followed_prefix_is_here_on_an_island_and_nothing_else_is() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        for number in 0..40 {
            one.put("photos", &format!("bergen/{number:02}"), "far").await.unwrap();
        }
        one.put("photos", "oslo/a", "abc").await.unwrap();
        one.put("photos", "oslo/gone", "x").await.unwrap();
        let id = follow(two, None).await;
        // Changes come by themselves: new ones, overwrites, deletes.
        one.put("photos", "oslo/b", "def").await.unwrap();
        one.put("photos", "oslo/a", "new").await.unwrap();
        one.delete("photos", "oslo/gone").await.unwrap();
        one.put("photos", "bergen/late", "far").await.unwrap();
        let seen = || async { list(two, PREFIX).await.unwrap() == ["oslo/a", "oslo/b"] };
        two.until("the changes have come", seen).await;
        assert_eq!(two.get("photos", "oslo/a").await.unwrap(), "new");
        // The whole is listed where it is, and makes no member.
        assert_eq!(list(two, "").await.unwrap().len(), 43);
        let (below, all, vector) = held(two, id).await;
        assert_eq!((below, all, vector), (3, 3, Vector::new()), "two objects and a tombstone");
        let shown = two.services().admin.bucket("photos").await.unwrap();
        assert_eq!((shown.standing.as_str(), shown.members), ("none", vec!["site-1".to_owned()]));
        assert_eq!(one.services().admin.bucket("photos").await.unwrap().members, ["site-1"]);
        two.get("photos", "oslo/b").await.unwrap();
        two.cut(true).await;
        assert_eq!(list(two, PREFIX).await.unwrap(), ["oslo/a", "oslo/b"]);
        assert_eq!(two.get("photos", "oslo/b").await.unwrap(), "def");
        assert_eq!(two.get("photos", "oslo/gone").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
        assert_eq!(two.get("photos", "bergen/01").await.unwrap_err().kind(), ErrorKind::Unreachable);
        assert_eq!(list(two, "").await.unwrap_err().kind(), ErrorKind::Unreachable);
        two.until("it says so", || async {
            state(two).await.iter().any(|followed| followed.state == "behind")
        })
        .await;
        one.put("photos", "oslo/c", "meanwhile").await.unwrap();
    }
    // It is followed after a restart, and goes on where it was.
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let two = &world.sites[1];
    assert_eq!(list(two, PREFIX).await.unwrap(), ["oslo/a", "oslo/b"]);
    two.cut(false).await;
    world.linked(two).await;
    two.until("what came meanwhile is here", || async { list(two, PREFIX).await.unwrap().len() == 3 }).await;
    // Until it is followed no more: then nothing is left.
    assert!(say(two, "bergen/", None, true).await.is_err(), "that is not followed");
    say(two, PREFIX, None, true).await.unwrap();
    two.until("it is over", || async { state(two).await.is_empty() }).await;
    let id = id_of(two).await;
    assert_eq!(held(two, id).await.1, 0);
    assert_eq!(list(two, PREFIX).await.unwrap().len(), 3, "asked for elsewhere");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_makes_a_member_or_goes_to_one_as_was_said() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "abc").await.unwrap();
    one.put("photos", "bergen/a", "far").await.unwrap();
    let id = follow(two, Some("through")).await;
    two.put("photos", "oslo/b", "def").await.unwrap();
    assert_eq!(two.get("photos", "oslo/b").await.unwrap(), "def");
    assert_eq!(one.get("photos", "oslo/b").await.unwrap(), "def");
    two.delete("photos", "oslo/a").await.unwrap();
    assert_eq!(two.get("photos", "oslo/a").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    assert!(!two.site().is_member(id));
    two.cut(true).await;
    let refused = two.put("photos", "oslo/c", "x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotResident);
    assert!(refused.message().contains("--writes join"), "{refused}");
    // Said otherwise, an island accepts it, and is a member from then on.
    say(two, PREFIX, Some("join"), false).await.unwrap();
    two.put("photos", "oslo/c", "island").await.unwrap();
    assert_eq!(two.get("photos", "oslo/c").await.unwrap(), "island");
    assert_eq!(state(two).await[0].state, "member");
    two.cut(false).await;
    world.linked(two).await;
    world.converged("photos").await;
    assert_eq!(one.get("photos", "oslo/c").await.unwrap(), "island");
    assert_eq!(one.services().admin.bucket("photos").await.unwrap().conflicts, 0);
    two.until("it is whole", || async { two.site().is_complete(id) }).await;
    let refused = say(two, "bergen/", None, false).await.unwrap_err();
    assert!(refused.message().contains("leave"), "{refused}");
    // Back to the prefix alone.
    two.services().admin.leave_bucket("photos").await.unwrap();
    two.until("it has left", || async { !two.site().is_member(id) }).await;
    current(two, PREFIX).await;
    assert_eq!(list(two, PREFIX).await.unwrap(), ["oslo/b", "oslo/c"]);
    let (below, all, _) = held(two, id).await;
    assert_eq!(below, all);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_below_a_followed_prefix_makes_no_member() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", noise(2_500_000, 1)).await.unwrap();
    let id = follow(two, None).await;
    let pin = |prefix: &str, act| {
        let request = PinRequest { bucket: "photos".into(), prefix: prefix.into(), act };
        two.services().admin.set_pin(request)
    };
    let refused = pin("bergen/", PinAct::Pin).await.unwrap_err();
    assert!(refused.message().contains("--prefix"), "{refused}");
    pin("oslo/", PinAct::Pin).await.unwrap();
    let complete = |objects| async move {
        let pins = two.services().admin.pins().await.unwrap().pins;
        pins.iter().any(|pin| pin.complete && pin.objects == objects)
    };
    two.until("it is here", || complete(1)).await;
    one.put("photos", "oslo/b", noise(1_200_000, 2)).await.unwrap();
    two.until("what comes is fetched", || complete(2)).await;
    let refused = say(two, PREFIX, None, true).await.unwrap_err();
    assert!(refused.message().contains("unpin"), "{refused}");
    two.cut(true).await;
    assert_eq!(two.get("photos", "oslo/b").await.unwrap(), noise(1_200_000, 2));
    assert!(!two.site().is_member(id));
    pin("oslo/", PinAct::Unpin).await.unwrap();
    say(two, PREFIX, None, true).await.unwrap();
    two.until("it is over", || async { state(two).await.is_empty() }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_followed_is_refused_with_what_to_do() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let id = follow(two, None).await;
    for (prefix, writes, what) in [
        ("", None, "1 to 1024 bytes"),
        ("oslo/2026/", None, "overlap"),
        ("os", None, "overlap"),
        ("bergen/", Some("never"), "join or through"),
    ] {
        let refused = say(two, prefix, writes, false).await.unwrap_err();
        assert!(refused.message().contains(what), "{refused}");
    }
    assert!(say(one, PREFIX, None, false).await.unwrap_err().message().contains("is a member"));
    // Copies and other sites' farewells do not make it a member.
    let bucket = two.site().bucket("photos").await.unwrap().unwrap();
    assert_eq!(two.site().check_takes(&bucket).unwrap_err().kind(), ErrorKind::NotResident);
    let patch = BucketPatch { join: Some("never".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    two.until("it is heard", || async {
        two.site().bucket("photos").await.unwrap().unwrap().config.joins().name() == "never"
    })
    .await;
    assert_eq!(say(two, "bergen/", None, false).await.unwrap_err().kind(), ErrorKind::NotResident);
    assert!(!two.site().is_member(id));
    world.stop().await;
}

/// By hand: what a site that follows one key in a hundred takes over the link and keeps, beside a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, some minutes"]
async fn what_a_prefix_costs() {
    const KEYS: usize = 20_000;
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    for number in 0..KEYS {
        one.put("photos", &format!("{:02}/{number:06}.jpg", number % 100), noise(300, number as u64))
            .await
            .unwrap();
    }
    let id = id_of(two).await;
    let crossed = |site: &TestSite| site.received_from(one);
    let sums = |site: &TestSite| {
        let site = site.site().clone();
        async move { site.read(move |view: &dyn View| space::sums(view, id).map_err(unreadable)).await.unwrap() }
    };
    let before = crossed(two);
    say(two, "07/", None, false).await.unwrap();
    current(two, "07/").await;
    let sum = sums(two).await;
    println!(
        "subscriber: {} bytes came, {} records, {} bytes",
        crossed(two) - before,
        sum.records,
        sum.record_bytes
    );
    let change = crossed(two);
    for number in 0..1000 {
        one.put("photos", &format!("{:02}/{number:06}.new", number % 100), noise(300, number as u64))
            .await
            .unwrap();
    }
    two.until("changes have come", || async { sums(two).await.records == 210 }).await;
    println!("1000 changes, 10 below: {} bytes came", crossed(two) - change);
    id_of(three).await;
    let before = crossed(three);
    three.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    three.until("it is whole", || async { three.site().is_complete(id) }).await;
    let sum = sums(three).await;
    println!(
        "member: {} bytes came, {} records, {} bytes",
        crossed(three) - before,
        sum.records,
        sum.record_bytes
    );
    world.stop().await;
}

/// None of what it has is covered by a feed, however much that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_a_prefix_can_be_emptied() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    for n in 0..20 {
        one.put("photos", &format!("{PREFIX}{n}"), "x").await.unwrap();
    }
    follow(two, None).await;
    duties::say(two, "site-2", "drain").await;
    duties::until_duty(one, "site-2", "empty").await;
    world.stop().await;
}
