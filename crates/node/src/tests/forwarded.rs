//! Writes that another site makes in this one's place (PUTs that it cannot keep, the ends of uploads, conditions): what their
//! client had seen goes along, and of a lost answer it is said that it is lost.

use std::collections::BTreeSet;

use skerry_base::{SiteId, WallTime, codec};
use skerry_federation::Input;
use skerry_gateway::service::{
    BucketPatch, DeleteObject, DeleteTarget, DutyRequest, ErrorKind, GetObject, ReadConditions,
    RequestContext, UploadTarget, VersionId, WriteCondition,
};
use skerry_model::multipart::UploadId;

use super::dialects::Release;
use super::uploads;
use super::world::{TestSite, TestWorld, context};
use crate::peers::mark;
use crate::peers::message::{Request, UploadAct};

/// No feed brings anything, though links stand.
async fn spent(world: &TestWorld, is_spent: bool) {
    let all: BTreeSet<SiteId> = world.sites.iter().map(TestSite::id).collect();
    for site in &world.sites {
        site.site().drive.tell(Input::Spent(if is_spent { all.clone() } else { BTreeSet::new() }));
        site.site().drive.ask(|_, _| ()).await;
    }
}

async fn follows(site: &TestSite) {
    site.until("the bucket is known", || async { site.site().bucket("photos").await.unwrap().is_some() })
        .await;
    site.list("photos").await.unwrap();
    let id = site.site().bucket("photos").await.unwrap().unwrap().id;
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

async fn drain(site: &TestSite, name: &str) {
    let request = DutyRequest { duty: "drain".into(), abandon_uploads: false };
    site.services().admin.set_duty(name, request).await.unwrap();
}

/// Everything arrives everywhere, is this and no conflict.
async fn ends_as(world: &TestWorld, body: &str) {
    spent(world, false).await;
    for site in &world.sites {
        site.until("it is read", || async { site.get("photos", "k").await.is_ok_and(|read| read == body) })
            .await;
        let shown = site.services().admin.bucket("photos").await.unwrap();
        assert_eq!(shown.conflicts, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_write_replaces_what_its_site_had() {
    for ahead_ms in [0, 600_000] {
        let world = TestWorld::new(2).await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        two.create_bucket("photos").await.unwrap();
        follows(one).await;
        world.converged("photos").await;
        spent(&world, true).await;
        let ahead = WallTime(one.site().clock.wall().0 + ahead_ms);
        one.site().stamps.with(|clock| clock.stamp(ahead, None));
        one.put("photos", "k", "0").await.unwrap();
        drain(one, "site-1").await;
        one.put("photos", "k", "1").await.unwrap();
        assert_eq!(one.get("photos", "k").await.unwrap(), "1", "{ahead_ms}");
        assert_eq!(two.get("photos", "k").await.unwrap(), "1");
        ends_as(&world, "1").await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_condition_knows_of_the_delete_before_it() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.create_bucket("photos").await.unwrap();
    follows(one).await;
    let named =
        || async { two.services().admin.bucket("photos").await.is_ok_and(|found| found.home == "site-2") };
    two.until("the home is named", named).await;
    two.put("photos", "k", "0").await.unwrap();
    world.converged("photos").await;
    spent(&world, true).await;
    one.delete("photos", "k").await.unwrap();
    drain(one, "site-1").await;
    let absent = WriteCondition { absent: true, matches: None };
    one.put_if("photos", "k", "1", absent).await.unwrap();
    assert_eq!(two.get("photos", "k").await.unwrap(), "1");
    ends_as(&world, "1").await;
    world.stop().await;
}

/// The first site, where nothing of the bucket may lie, has had the second keep its write; then it is linked to the third
/// only, which has not heard of it.
async fn written_at_the_second_only(world: &TestWorld, [one, two, three]: [&TestSite; 3]) {
    two.create_bucket("photos").await.unwrap();
    follows(three).await;
    let there = Some(vec!["site-2".into(), "site-3".into()]);
    let bound = BucketPatch { residency: there, join: Some("manual".into()), ..BucketPatch::default() };
    two.services().admin.update_bucket("photos", bound).await.unwrap();
    let knows = || async {
        one.site().bucket("photos").await.unwrap().is_some_and(|bucket| !bucket.may_lie_at(one.id()))
    };
    one.until("the binding is known", knows).await;
    spent(world, true).await;
    three.cut(true).await;
    one.until("the cut is seen", || async { !one.site().linked(three.id()) }).await;
    one.put("photos", "k", "1").await.unwrap();
    two.cut(true).await;
    three.cut(false).await;
    world.until_linked(one, three).await;
    one.until("the cut is seen", || async { !one.site().linked(two.id()) }).await;
}

/// A client that writes where nothing may lie, one write after the other: the first goes to one site, the second to another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_client_that_go_to_several_sites_are_no_conflict() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    written_at_the_second_only(&world, [one, two, three]).await;
    one.put("photos", "k", "2").await.unwrap();
    two.cut(false).await;
    for site in &world.sites {
        world.linked(site).await;
    }
    ends_as(&world, "2").await;
    world.stop().await;
}

/// Who wrote where nothing may lie reads it: that a member which is behind has nothing says nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_write_is_not_denied_by_a_member_that_has_not_heard_of_it() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    written_at_the_second_only(&world, [one, two, three]).await;
    assert_eq!(three.get("photos", "k").await.unwrap_err().kind(), ErrorKind::NoSuchKey, "it has not heard");
    let request = GetObject {
        bucket: "photos".into(),
        key: "k".into(),
        version: None,
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    };
    one.services().objects.head(&context(), request).await.unwrap();
    two.cut(false).await;
    for site in &world.sites {
        world.linked(site).await;
    }
    ends_as(&world, "1").await;
    world.stop().await;
}

/// A condition of a site whose client has erased what its home still shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_is_told_of_what_the_asker_has_erased() {
    for (versioning, name) in [("enabled", None), ("suspended", Some("null"))] {
        let world = TestWorld::new(2).await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        two.create_bucket("photos").await.unwrap();
        let patch = BucketPatch { versioning: Some(versioning.into()), ..BucketPatch::default() };
        two.services().admin.update_bucket("photos", patch).await.unwrap();
        follows(one).await;
        let named = || async {
            two.services().admin.bucket("photos").await.is_ok_and(|found| found.home == "site-2")
        };
        two.until("the home is named", named).await;
        let first = two.put("photos", "k", "0").await.unwrap().version.unwrap();
        world.converged("photos").await;
        spent(&world, true).await;
        let version = name.map_or(first, |name| VersionId(name.into()));
        let target =
            DeleteTarget { key: "k".into(), version: Some(version), condition: WriteCondition::default() };
        let request = DeleteObject { bucket: "photos".into(), target };
        one.services().objects.delete(&context(), request).await.unwrap();
        assert_eq!(two.get("photos", "k").await.unwrap(), "0", "it has not heard");
        let absent = WriteCondition { absent: true, matches: None };
        one.put_if("photos", "k", "1", absent).await.unwrap();
        assert_eq!(two.get("photos", "k").await.unwrap(), "1");
        ends_as(&world, "1").await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_completed_elsewhere_replaces_what_was_known_there() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.create_bucket("photos").await.unwrap();
    follows(one).await;
    world.converged("photos").await;
    spent(&world, true).await;
    let target = uploads::begin(two, "photos", "k").await;
    let parts = vec![uploads::part(two, &target, 1, &"1".into()).await];
    let ahead = WallTime(one.site().clock.wall().0 + 600_000);
    one.site().stamps.with(|clock| clock.stamp(ahead, None));
    one.put("photos", "k", "0").await.unwrap();
    let ask = uploads::completion(&target, parts);
    one.services().objects.complete_upload(&context(), ask).await.unwrap();
    assert_eq!(one.get("photos", "k").await.unwrap(), "1");
    ends_as(&world, "1").await;
    world.stop().await;
}

/// What becomes of an upload is known where it lives: of a lost answer it is not said that nothing happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_answer_was_lost_elsewhere_is_in_doubt_and_answered_when_repeated() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    follows(two).await;
    let target = uploads::begin(one, "photos", "k").await;
    let parts = vec![uploads::part(one, &target, 1, &"1".into()).await];
    // An answer takes seconds to arrive, so that a cut comes before its end.
    one.set_rate(two, 200);
    let ask = uploads::completion(&target, parts);
    let asked = context();
    let complete = two.services().objects.complete_upload(&asked, ask.clone());
    let cut = async {
        one.until("it is made", || async { one.get("photos", "k").await.is_ok() }).await;
        two.cut(true).await;
    };
    let (refused, ()) = tokio::join!(complete, cut);
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    let says = |part: &str| refused.message().contains(part);
    assert!(says("may have been made") && says("site-1") && !says("cannot be reached"), "{refused}");
    let unsent = two.services().objects.complete_upload(&context(), ask.clone()).await.unwrap_err();
    assert!(unsent.message().contains("cannot be reached"), "nobody was asked: {unsent}");
    one.set_rate(two, 1 << 30);
    two.cut(false).await;
    world.until_linked(one, two).await;
    let again = two.services().objects.complete_upload(&context(), ask).await.unwrap();
    let head = one.put("photos", "other", "1").await.unwrap();
    assert_ne!(again.etag, head.etag, "the etag of an upload");
    assert!(again.etag.ends_with("-1"), "{}", again.etag);
    ends_as(&world, "1").await;
    world.stop().await;
}

/// A site of a release before is told of the end of an upload in the words that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_hear_of_the_end_of_an_upload_what_they_always_heard() {
    for dialect in [mark::COMPLETES, mark::COMPLETES - 1] {
        let mut world = TestWorld::new(2).await;
        world.sites[0].create_bucket("photos").await.unwrap();
        world.sites[0].put("photos", "k", "0").await.unwrap();
        world.sites[1].stop().await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let release = Release::start(one, two, Some(dialect));
        one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
        let upload = UploadId { site: two.id(), draw: [7; 16] }.to_string();
        for key in ["k", "new"] {
            let target = UploadTarget { bucket: "photos".into(), key: key.into(), upload: upload.clone() };
            // It answers nothing.
            let ask = uploads::completion(&target, Vec::new());
            one.services().objects.complete_upload(&context(), ask).await.unwrap_err();
            let heard = release.heard.lock().unwrap();
            let asked = heard.iter().find_map(|frame| match codec::decode(mark::read(frame).1) {
                Ok(Request::Upload(call)) if call.key == key => match call.act {
                    UploadAct::Complete(_) => Some(0),
                    UploadAct::Replace(asked) => Some(asked.heads.len()),
                    _ => None,
                },
                _ => None,
            });
            let tells = key == "k" && dialect == mark::COMPLETES;
            assert_eq!(asked, Some(usize::from(tells)), "{key}, {dialect}");
        }
        world.stop().await;
    }
}

/// A site of a release before is asked to hold a version in the words that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_are_not_told_at_how_many_sites_a_version_is_to_be_kept() {
    for dialect in [mark::PROMISES, mark::PROMISES - 1] {
        let mut world = TestWorld::new(2).await;
        world.sites[0].create_bucket("photos").await.unwrap();
        world.sites[0].put("photos", "k", "0").await.unwrap();
        world.sites[1].stop().await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let release = Release::start(one, two, Some(dialect));
        one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
        let asks = RequestContext { scope: Some("sites=2".into()), ..context() };
        // It answers nothing.
        one.put_in(&asks, "photos", "k", "0").await.unwrap_err();
        let copies_of = |frame: &Vec<u8>| {
            let request = codec::decode::<Request>(mark::read(frame).1).ok()?;
            request.held().map(|(_, copies)| copies)
        };
        let asked = release.heard.lock().unwrap().iter().find_map(copies_of);
        assert_eq!(asked, Some(if dialect == mark::PROMISES { 2 } else { 0 }), "{dialect}");
        world.stop().await;
    }
}

/// A site of a release before is told of a forwarded write in the words that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_hear_of_a_forwarded_write_what_they_always_heard() {
    for dialect in [mark::REPLACES, mark::REPLACES - 1] {
        let mut world = TestWorld::new(2).await;
        world.sites[0].create_bucket("photos").await.unwrap();
        world.sites[0].put("photos", "k", "0").await.unwrap();
        world.sites[1].stop().await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let release = Release::start(one, two, Some(dialect));
        one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
        drain(one, "site-1").await;
        for key in ["k", "new"] {
            // It answers nothing.
            one.put("photos", key, "1").await.unwrap_err();
            let heard = release.heard.lock().unwrap();
            let asked = heard.iter().find_map(|frame| match codec::decode(frame) {
                Ok(Request::Forward(put)) if put.key == key => Some(0),
                Ok(Request::Replace(replace)) if replace.put.key == key => Some(replace.heads.len()),
                _ => None,
            });
            let tells = key == "k" && dialect == mark::REPLACES;
            assert_eq!(asked, Some(usize::from(tells)), "{key}, {dialect}");
        }
        world.stop().await;
    }
}

/// Bodies that one site forwards, however slowly they come, leave room for those of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_one_site_do_not_take_all_room_for_forwarded_ones() {
    use crate::net::frame;
    use crate::paths::forward::TAKEN_AT_ONCE;
    use crate::peers::message::{Condition, Forward, Response};

    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    for site in [two, three] {
        follows(site).await;
    }
    world.until_linked(two, one).await;
    world.until_linked(three, one).await;
    drain(two, "site-2").await;
    drain(three, "site-3").await;
    three.put("photos", "before", "1").await.unwrap();
    let bucket = one.site().bucket("photos").await.unwrap().unwrap().id;
    let mut slow = Vec::new();
    for number in 0..=TAKEN_AT_ONCE / 2 {
        let mut stream = two.site().peers.net().open(one.node()).await.unwrap();
        let forward = Forward {
            bucket,
            key: format!("slow-{number}"),
            object: Box::default(),
            condition: Condition::default(),
            writer: "AKIA".into(),
            length: Some(1 << 20),
        };
        let asked = codec::encode(&Request::Forward(Box::new(forward)));
        frame::write(&mut stream, &asked).await.unwrap();
        let answer = frame::read(&mut stream).await.unwrap().unwrap();
        let answer = codec::decode::<Response>(&answer).unwrap();
        if number == TAKEN_AT_ONCE / 2 {
            assert!(matches!(answer, Response::Refused { .. }), "{answer:?}");
            continue;
        }
        assert_eq!(answer, Response::Done);
        // A byte a minute is enough to go on.
        frame::write(&mut stream, b"x").await.unwrap();
        slow.push(stream);
    }
    let put = three.put("photos", "k", "1").await.map(drop);
    assert!(put.is_ok(), "{put:?}");
    world.stop().await;
}
