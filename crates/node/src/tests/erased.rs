//! Versions that died elsewhere, at a site that keeps a copy of what it read: it is told of a death by nobody but those
//! whom it asks.

use std::collections::BTreeSet;

use skerry_base::{BucketId, SiteId};
use skerry_federation::Input;
use skerry_gateway::service::{
    BucketPatch, DeleteObject, DeleteTarget, ErrorKind, GetObject, ReadConditions, ReadMode, RequestContext,
    VersionId, WriteCondition,
};
use skerry_model::bucket::Joins;
use skerry_model::space;

use super::refusing::{say, settles};
use super::within::{get, site_of};
use super::world::{TestSite, TestWorld, context};
use crate::paths::answer;
use crate::peers::message::{Part, Read, Response, Which};
use crate::site::unreadable;

/// Two sites: the second reads what the first keeps, and becomes no member.
async fn apart(versioning: Option<&str>, join: &str) -> (TestWorld, BucketId) {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let versioning = versioning.map(Into::into);
    let patch = BucketPatch { join: Some(join.into()), versioning, ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    let knows = || async {
        let found = two.site().bucket("photos").await.unwrap();
        found.is_some_and(|bucket| matches!(two.site().joins(&bucket), Joins::Manual | Joins::Never))
    };
    two.until("the bucket is known", knows).await;
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    (world, id)
}

async fn erase(site: &TestSite, key: &str, version: VersionId) -> String {
    let target =
        DeleteTarget { key: key.into(), version: Some(version), condition: WriteCondition::default() };
    let request = DeleteObject { bucket: "photos".into(), target };
    site.services().objects.delete(&context(), request).await.unwrap().receipt.token.unwrap()
}

/// Deletes the key; the version of the marker.
async fn mark(site: &TestSite, key: &str) -> VersionId {
    let target = DeleteTarget { key: key.into(), version: None, condition: WriteCondition::default() };
    let request = DeleteObject { bucket: "photos".into(), target };
    site.services().objects.delete(&context(), request).await.unwrap().version.unwrap()
}

async fn put(site: &TestSite, key: &str, body: &'static str) -> VersionId {
    site.put("photos", key, body).await.unwrap().version.unwrap()
}

/// Why a key is not served.
async fn why_not(site: &TestSite, key: &str) -> ErrorKind {
    site.get("photos", key).await.unwrap_err().kind()
}

/// How many records of the bucket lie here.
async fn records(site: &TestSite, id: BucketId) -> u64 {
    site.site().read(move |view| space::sums(view, id).map_err(unreadable)).await.unwrap().records
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_was_rolled_back_is_not_served_where_it_was_read() {
    let (world, id) = apart(Some("enabled"), "manual").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    put(one, "k", "u").await;
    let mut later = Vec::new();
    for body in ["v", "w", "x"] {
        later.push(put(one, "k", body).await);
        assert_eq!(two.get("photos", "k").await.unwrap(), body);
    }
    // Three at once, and none is served again.
    for version in later {
        erase(one, "k", version).await;
    }
    assert_eq!(one.get("photos", "k").await.unwrap(), "u");
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    assert!(!two.site().is_member(id));
    assert_eq!(records(two, id).await, 1, "what is dead was let go of");
    two.cut(true).await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_marker_that_was_erased_hides_nothing_where_it_was_written() {
    let (world, _) = apart(Some("enabled"), "never").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    put(one, "k", "u").await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    let marker = mark(two, "k").await;
    assert_eq!(why_not(two, "k").await, ErrorKind::NoSuchKey);
    erase(one, "k", marker).await;
    assert_eq!(one.get("photos", "k").await.unwrap(), "u");
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    world.stop().await;
}

/// That a version is a marker is known where it lies, and said where it is erased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_marker_that_is_erased_at_a_site_without_it_is_named_as_one() {
    for join in ["manual", "never"] {
        let (world, _) = apart(Some("enabled"), join).await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let version = put(one, "k", "u").await;
        let (older, marker) = (mark(one, "k").await, mark(one, "k").await);
        let many = put(one, "many", "v").await;
        let hidden = mark(one, "many").await;
        let deep = mark(one, "deep").await;
        for _ in 0..9 {
            mark(one, "deep").await;
        }
        let target = |key: &str, version: &VersionId| DeleteTarget {
            key: key.into(),
            version: Some(version.clone()),
            condition: WriteCondition::default(),
        };
        let named = mark(one, "named").await;
        let request = GetObject {
            bucket: "photos".into(),
            key: "named".into(),
            version: Some(named),
            range: None,
            part: None,
            if_range: None,
            conditions: ReadConditions::default(),
        };
        let read = two.services().objects.get(&context(), request).await.map(drop).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::MethodNotAllowed, "{join}");
        for (key, erased) in [("k", &older), ("k", &marker), ("deep", &deep)] {
            let request = DeleteObject { bucket: "photos".into(), target: target(key, erased) };
            let outcome = two.services().objects.delete(&context(), request).await.unwrap();
            assert!(outcome.delete_marker, "{join}, {key}");
            assert_eq!(outcome.version.as_ref(), Some(erased));
        }
        let targets = vec![target("many", &hidden), target("many", &many)];
        let outcomes = two.services().objects.delete_many(&context(), "photos", targets).await.unwrap();
        let markers: Vec<bool> = outcomes.into_iter().map(|outcome| outcome.unwrap().delete_marker).collect();
        assert_eq!(markers, [true, false], "{join}");
        let shows = || async { one.get("photos", "k").await.is_ok_and(|read| read == "u") };
        one.until("it is shown again", shows).await;
        let request = DeleteObject { bucket: "photos".into(), target: target("k", &version) };
        assert!(!two.services().objects.delete(&context(), request).await.unwrap().delete_marker, "{join}");
        world.stop().await;
    }
}

/// What was answered with 404 is not served from the copy when the link is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_to_be_gone_stays_gone_on_an_island() {
    for versioning in [None, Some("enabled")] {
        let (world, id) = apart(versioning, "manual").await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.put("photos", "k", "u").await.unwrap();
        one.put("photos", "other", "o").await.unwrap();
        for key in ["k", "other"] {
            two.get("photos", key).await.unwrap();
        }
        one.delete("photos", "k").await.unwrap();
        for _ in 0..2 {
            assert_eq!(why_not(two, "k").await, ErrorKind::NoSuchKey, "{versioning:?}");
        }
        two.cut(true).await;
        assert_eq!(why_not(two, "k").await, ErrorKind::Unreachable, "{versioning:?}");
        assert_eq!(two.get("photos", "other").await.unwrap(), "o", "a stale copy is better than none");
        two.cut(false).await;
        world.linked(two).await;
        one.put("photos", "k", "again").await.unwrap();
        assert_eq!(two.get("photos", "k").await.unwrap(), "again");
        assert!(!two.site().is_member(id));
        world.stop().await;
    }
}

/// The version that a marker hides lives: it is named, and served again when the marker goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_marker_hides_is_not_taken_for_dead() {
    let (world, _) = apart(Some("enabled"), "manual").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let version = put(one, "k", "u").await;
    two.get("photos", "k").await.unwrap();
    let marker = mark(one, "k").await;
    assert_eq!(why_not(two, "k").await, ErrorKind::NoSuchKey);
    two.cut(true).await;
    let request = GetObject {
        bucket: "photos".into(),
        key: "k".into(),
        version: Some(version),
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    };
    assert!(two.services().objects.get(&context(), request).await.is_ok());
    two.cut(false).await;
    world.linked(two).await;
    erase(one, "k", marker).await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    world.stop().await;
}

/// A null version dies by whatever overwrites it, too: that is no reason to serve one that was erased by its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_version_that_was_erased_is_not_served_where_it_was_read() {
    let (world, id) = apart(Some("enabled"), "manual").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let null = || VersionId("null".into());
    put(one, "k", "u").await;
    let patch = BucketPatch { versioning: Some("suspended".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    for body in ["n", "m"] {
        one.put("photos", "k", body).await.unwrap();
        assert_eq!(two.get("photos", "k").await.unwrap(), body, "what overwrote it is in the answer");
    }
    erase(one, "k", null()).await;
    assert_eq!(one.get("photos", "k").await.unwrap(), "u");
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    assert!(!two.site().is_member(id));
    two.cut(true).await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    two.cut(false).await;
    world.linked(two).await;
    // A delete marker of that name.
    let marker = mark(one, "k").await;
    assert_eq!(why_not(two, "k").await, ErrorKind::NoSuchKey);
    erase(one, "k", marker).await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    world.stop().await;
}

/// Of two writes that had not seen each other the later is current; it was read, and goes by its own id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_a_conflict_that_was_erased_is_not_served_where_it_was_read() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    let patch = BucketPatch { join: Some("manual".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    for site in [two, three] {
        let knows = || async {
            let found = site.site().bucket("photos").await.unwrap();
            found.is_some_and(|bucket| site.site().joins(&bucket) == Joins::Manual)
        };
        site.until("the bucket is known", knows).await;
    }
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    two.put("photos", "other", "x").await.unwrap();
    two.until("it is a member", || async { two.site().is_complete(id) }).await;
    spent(&world, true).await;
    one.put("photos", "k", "earlier").await.unwrap();
    let ahead = skerry_base::WallTime(two.site().clock.wall().0 + 60_000);
    two.site().stamps.with(|clock| clock.stamp(ahead, None));
    let token = two.put("photos", "k", "later").await.unwrap().receipt.token.unwrap();
    spent(&world, false).await;
    let current = |site: &TestSite| {
        let site = site.site().clone();
        async move { site.read(move |view| space::current(view, id, "k").map_err(unreadable)).await.unwrap() }
    };
    for site in [one, two] {
        site.until("both are there", || async {
            site.services().admin.bucket("photos").await.unwrap().conflicts == 1
        })
        .await;
    }
    assert_eq!(three.get("photos", "k").await.unwrap(), "later");
    let (_, dot) = crate::paths::write::parse_token(&token).unwrap();
    assert_eq!(current(three).await.unwrap().dot, dot);
    erase(one, "k", VersionId(space::VersionId::Dot(dot).to_string())).await;
    two.until("it is gone", || async { current(two).await.is_some_and(|record| record.dot != dot) }).await;
    assert_eq!(three.get("photos", "k").await.unwrap(), "earlier");
    assert!(!three.site().is_member(id));
    three.cut(true).await;
    assert_eq!(three.get("photos", "k").await.unwrap(), "earlier");
    world.stop().await;
}

/// No feed brings anything, though links stand.
async fn spent(world: &TestWorld, is_spent: bool) {
    let all: BTreeSet<SiteId> = world.sites.iter().map(TestSite::id).collect();
    for site in &world.sites {
        site.site().drive.tell(Input::Spent(if is_spent { all.clone() } else { BTreeSet::new() }));
        site.site().drive.ask(|_, _| ()).await;
    }
}

/// A member that is behind, asked for more than it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_an_erasure_and_the_latest_show_no_erased_version() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let patch = BucketPatch { versioning: Some("enabled".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    put(one, "k", "u").await;
    let gone = put(one, "k", "v").await;
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    two.list("photos").await.unwrap();
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    two.until("the bucket is followed whole", || async { two.site().is_complete(id) }).await;
    world.converged("photos").await;
    spent(&world, true).await;
    let token = erase(one, "k", gone).await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "v", "it cannot know");
    let after = RequestContext { read: ReadMode::After(token), ..context() };
    assert_eq!(two.get_with("photos", "k", None, &after).await.unwrap(), "u");
    let latest = RequestContext { read: ReadMode::Latest, ..context() };
    assert_eq!(two.get_with("photos", "k", None, &latest).await.unwrap(), "u");
    spent(&world, false).await;
    world.converged("photos").await;
    assert_eq!(two.get("photos", "k").await.unwrap(), "u");
    world.stop().await;
}

/// A node that asks another of its site shows nothing that the site has erased, be it what it wrote itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_lease_shows_no_version_that_its_site_has_erased() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    let patch = BucketPatch { versioning: Some("enabled".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("photos", patch).await.unwrap();
    for node in &world.sites {
        let knows = || async { node.site().bucket("photos").await.unwrap().unwrap().versioned() };
        node.until("it is versioned", knows).await;
    }
    put(one, "k", "u").await;
    world.converged("photos").await;
    let gone = [("k", put(three, "k", "v").await), ("alone", put(three, "alone", "v").await)];
    world.converged("photos").await;
    say(one, "site-1-2", "freeze").await;
    for node in [one, two] {
        settles(node, &[0, 1], &[2]).await;
    }
    spent(&world, true).await;
    for (key, version) in gone {
        erase(one, key, version).await;
    }
    three
        .until("it answers for the site", || async {
            let (body, scope) = get(three, "k").await.unwrap();
            assert!(scope != "site" || body == "u", "{body:?}");
            scope == "site"
        })
        .await;
    assert_eq!(get(three, "alone").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    spent(&world, false).await;
    world.converged("photos").await;
    assert_eq!(get(three, "k").await.unwrap().0, "u");
    world.stop().await;
}

/// A write makes a member, which takes all records from then on: what it read before is asked for as before until it has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_still_joining_serves_nothing_that_it_read_long_ago() {
    for deletes in [false, true] {
        let (world, id) = apart(None, "manual").await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.put("photos", "k", "v1").await.unwrap();
        assert_eq!(two.get("photos", "k").await.unwrap(), "v1");
        match deletes {
            true => one.delete("photos", "k").await.unwrap(),
            false => drop(one.put("photos", "k", "v2").await.unwrap()),
        }
        // Nothing of what it has to take comes meanwhile.
        two.cut(true).await;
        two.put("photos", "other", "o").await.unwrap();
        let asked =
            |key: &str| Read { bucket: id, key: key.into(), which: Which::Current, part: Part::Nothing };
        let old = answer::object(two.site(), asked("k"), 0).await.0;
        let own = answer::object(two.site(), asked("other"), 0).await.0;
        assert!(two.site().is_member(id) && !two.site().is_complete(id));
        assert!(matches!(old, Response::Joining), "others are sent on: {old:?}");
        assert!(matches!(own, Response::Object(_)), "what it wrote itself it gives: {own:?}");
        two.cut(false).await;
        world.linked(two).await;
        match deletes {
            true => assert_eq!(why_not(two, "k").await, ErrorKind::NoSuchKey),
            false => assert_eq!(two.get("photos", "k").await.unwrap(), "v2"),
        }
        assert_eq!(two.get("photos", "other").await.unwrap(), "o");
        world.stop().await;
    }
}

/// What it read, or wrote, before it was a member may have been overwritten in place since, and is not given by its name either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_still_joining_gives_others_no_null_version_that_it_read_long_ago() {
    let (world, id) = apart(None, "manual").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.put("photos", "k", "v1").await.unwrap();
    assert_eq!(two.get("photos", "k").await.unwrap(), "v1");
    let current = two.site().read(move |view| space::current(view, id, "k").map_err(unreadable));
    let dot = current.await.unwrap().unwrap().dot;
    one.put("photos", "k", "v2").await.unwrap();
    two.cut(true).await;
    two.put("photos", "other", "o").await.unwrap();
    assert!(two.site().is_member(id) && !two.site().is_complete(id));
    for (key, which) in [("k", Which::Null), ("k", Which::Dot(dot)), ("k", Which::Current)] {
        let old = Read { bucket: id, key: key.into(), which, part: Part::Nothing };
        let old = answer::object(two.site(), old, 0).await.0;
        assert!(matches!(old, Response::Joining), "{which:?}: {old:?}");
    }
    // Whoever hears of nobody else gets what is named, for it is no other version anywhere; what is current it cannot say.
    for (which, is_given) in [(Which::Null, true), (Which::Dot(dot), true), (Which::Current, false)] {
        let old = Read { bucket: id, key: "k".into(), which, part: Part::Nothing };
        let old = answer::kept(two.site(), old).await.0;
        let is_as_said =
            if is_given { matches!(old, Response::Object(_)) } else { matches!(old, Response::Joining) };
        assert!(is_as_said, "{which:?}: {old:?}");
    }
    let own = Read { bucket: id, key: "other".into(), which: Which::Null, part: Part::Nothing };
    let own = answer::object(two.site(), own, 0).await.0;
    assert!(matches!(own, Response::Object(_)), "{own:?}");
    world.stop().await;
}
