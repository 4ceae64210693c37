//! What a site holds for others at most: who is asked instead, what is said where nobody is left, and that nothing goes for it.

use std::time::Duration;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_federation::budget::Class;
use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CreateUpload, DutyRequest, ErrorKind, ObjectHeaders, OthersStatus,
    RequestContext, SpaceQuery, StatusReport, UploadTarget,
};
use skerry_model::{Entry, space};

use super::nodes::leased;
use super::world::{TestSite, TestWorld, context, noise};
use crate::config::{Cap, Size};
use crate::copies::others::OthersFile;
use crate::paths::scope;
use crate::peers::message::Hold;
use crate::peers::serve::Asker;
use crate::site::unreadable;

const BODY: usize = 60_000;

async fn status(site: &TestSite) -> StatusReport {
    site.services().admin.status().await.unwrap()
}

fn others(site: &TestSite) -> OthersStatus {
    site.site().others.status()
}

async fn at_risk(site: &TestSite, bytes: usize) {
    site.until("so much is at risk", || async { status(site).await.unprotected_bytes == bytes as u64 }).await;
}

async fn restart_with(site: &mut TestSite, cap: Cap) {
    site.others = cap;
    site.stop().await;
    site.start().await;
}

const fn bytes(count: usize) -> Cap {
    Cap::Bytes(Size(count as u64))
}

async fn create(site: &TestSite) {
    site.create_bucket("safe").await.unwrap();
    site.set_copies("safe", 2).await.unwrap();
}

fn at_two() -> RequestContext {
    RequestContext { scope: Some("sites=2".into()), ..context() }
}

/// The nearer site takes what it is to, at once and in whatever order, and the next one the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_site_at_its_cap_does_not_take_the_next_one_takes() {
    let mut world = TestWorld::new(3).await;
    restart_with(&mut world.sites[1], bytes(5 * BODY + BODY / 2)).await;
    world.introduce().await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.set_rtt(two, Duration::from_millis(1));
    one.set_rtt(three, Duration::from_millis(90));
    create(one).await;
    for n in 0..20 {
        one.put("safe", &format!("{n}"), noise(BODY, n)).await.unwrap();
    }
    // A count of nothing stands for a while: what is held is told by who holds it.
    let all_held =
        |count: u64| move || async move { others(two).bytes + others(three).bytes == count * BODY as u64 };
    one.until("all are held", all_held(20)).await;
    at_risk(one, 0).await;
    let (held, rest) = (others(two), others(three));
    assert_eq!((held.bytes, held.cap_bytes), (5 * BODY as u64, Some((5 * BODY + BODY / 2) as u64)));
    assert_eq!(rest.bytes, 15 * BODY as u64);
    assert!(two.site().store.usage().payload.live < 6 * BODY as u64, "what was refused was not fetched");
    assert!((1..=15).contains(&held.refused), "{held:?}");
    let said = status(one).await;
    assert_eq!((said.at_cap, said.others.bytes), (vec!["site-2".to_owned()], 0), "what it wrote is its own");
    // It is not asked again and again.
    for n in 20..25 {
        one.put("safe", &format!("{n}"), noise(BODY, n)).await.unwrap();
    }
    one.until("these are, too", all_held(25)).await;
    assert_eq!(others(two).refused, held.refused);
    // A write that waits asks it last, and is answered without it.
    one.put_in(&at_two(), "safe", "waits", noise(BODY, 30)).await.unwrap();
    assert_eq!(others(two).refused, held.refused);
    assert_eq!(others(two).bytes, 5 * BODY as u64);
    let space = two.services().admin.space(SpaceQuery::default()).await.unwrap();
    assert_eq!((space.others.bytes, space.others.cap_bytes), (held.bytes, held.cap_bytes));
    world.stop().await;
}

/// Where nobody is left it is at risk, with the reason; what is small enough still goes. Raised, it is taken; lowered, nothing
/// goes, nor is it taken for less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_are_at_their_cap_it_is_at_risk_and_a_lower_one_drops_nothing() {
    let mut world = TestWorld::new(2).await;
    restart_with(&mut world.sites[1], bytes(BODY / 2)).await;
    world.introduce().await;
    let one = &world.sites[0];
    create(one).await;
    one.put("safe", "large", noise(BODY, 1)).await.unwrap();
    one.until("the other said why", || async { status(one).await.at_cap == ["site-2"] }).await;
    at_risk(one, BODY).await;
    let refused = one.put_in(&at_two(), "safe", "waits", noise(BODY, 2)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
    assert!(refused.message().contains("storage.others"), "{}", refused.message());
    one.put("safe", "small", noise(BODY / 4, 3)).await.unwrap();
    one.put("safe", "smallest", noise(200, 4)).await.unwrap();
    at_risk(one, 2 * BODY).await;
    assert_eq!(others(&world.sites[1]).bytes, (BODY / 4) as u64, "200 bytes came with their record");
    restart_with(&mut world.sites[1], Cap::Auto).await;
    world.linked(&world.sites[1]).await;
    at_risk(&world.sites[0], 0).await;
    let held = (2 * BODY + BODY / 4) as u64;
    assert_eq!(others(&world.sites[1]).bytes, held);
    assert!(status(&world.sites[0]).await.at_cap.is_empty());
    restart_with(&mut world.sites[1], bytes(0)).await;
    world.linked(&world.sites[1]).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.put("safe", "later", noise(BODY, 5)).await.unwrap();
    one.until("the other said why", || async { status(one).await.at_cap == ["site-2"] }).await;
    at_risk(one, BODY).await;
    two.until("it counted", || async { others(two).bytes == held }).await;
    assert!(two.site().store.usage().payload.live >= 2 * BODY as u64);
    // As custodian it takes nothing either; what a client of its own waits for it does.
    let id = one.site().bucket("safe").await.unwrap().unwrap().id;
    let read = move |view: &dyn View| space::current(view, id, "later").map_err(unreadable);
    let record = one.site().read(read).await.unwrap().unwrap();
    let hold = Hold { bucket: id, record: record.encode().into(), payload: vec![noise(BODY, 5)] };
    let copy = Asker::plain(two.id(), Class::Copy);
    let refused = scope::hold(two.site(), copy, hold.clone()).await.err();
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::QuotaFull));
    scope::hold(two.site(), Asker::plain(two.id(), Class::Read), hold.clone()).await.unwrap();
    scope::hold(two.site(), copy, hold).await.unwrap();
    assert_eq!(others(two).bytes, held + BODY as u64, "once");
    world.sites[0].stop().await;
    assert_eq!(world.sites[1].get("safe", "large").await.unwrap(), noise(BODY, 1));
    world.stop().await;
}

/// What is deleted makes room, and a write that waited for the site says that there is some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_makes_room() {
    let mut world = TestWorld::new(2).await;
    restart_with(&mut world.sites[1], bytes(2 * BODY)).await;
    world.introduce().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    create(one).await;
    one.put_in(&at_two(), "safe", "first", noise(3 * BODY / 2, 1)).await.unwrap();
    one.put("safe", "second", noise(BODY, 2)).await.unwrap();
    one.until("the other said why", || async { status(one).await.at_cap == ["site-2"] }).await;
    assert_eq!(others(two).bytes, (3 * BODY / 2) as u64);
    one.delete("safe", "first").await.unwrap();
    two.until("it counted", || async { others(two).bytes == 0 }).await;
    at_risk(one, BODY).await;
    one.put_in(&at_two(), "safe", "third", noise(BODY, 3)).await.unwrap();
    at_risk(one, 0).await;
    assert_eq!(others(two).bytes, 2 * BODY as u64);
    world.stop().await;
}

/// Each look of a drain places anew what the others lack; who said that it takes no more is not asked for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_emptied_leaves_alone_who_is_at_its_cap_and_says_so() {
    let mut world = TestWorld::new(2).await;
    restart_with(&mut world.sites[1], bytes(BODY / 2)).await;
    world.introduce().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("alone").await.unwrap();
    one.set_copies("alone", 1).await.unwrap();
    one.put("alone", "k", noise(BODY, 1)).await.unwrap();
    // Each that ends is seen by a look that began after it.
    let begin = |key: &str| CreateUpload {
        bucket: "alone".into(),
        key: key.into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        checksum: ChecksumKind::Crc64Nvme,
        shape: ChecksumShape::Full,
        declared: false,
    };
    let (objects, mut uploads) = (&one.services().objects, Vec::new());
    for key in ["0", "1", "2", "3"] {
        uploads.push((key, objects.create_upload(&context(), begin(key)).await.unwrap().upload));
    }
    let drain = DutyRequest { duty: "drain".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-1", drain).await.unwrap();
    one.until("the other said why", || async { status(one).await.at_cap == ["site-2"] }).await;
    let refused = others(two).refused;
    let left =
        || async { one.services().admin.site("site-1").await.unwrap().drain.map(|drain| drain.uploads) };
    for (key, upload) in uploads {
        let target = UploadTarget { bucket: "alone".into(), key: key.into(), upload };
        objects.abort_upload(&context(), target).await.unwrap();
        let expected = Some(3 - key.parse::<u64>().unwrap());
        one.until("it has looked again", || async { left().await == expected }).await;
    }
    // Four looks, the last of which may ask still. The other one tries by itself each half a minute.
    assert!(others(two).refused < refused + 3, "{} and {refused}", others(two).refused);
    assert_eq!(status(one).await.at_cap, ["site-2"]);
    world.stop().await;
}

/// What came is known after a start though nothing was counted since, and nobody reads the roster anew for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_since_the_last_count_is_remembered() {
    let mut world = TestWorld::new(2).await;
    restart_with(&mut world.sites[1], bytes(100 * BODY)).await;
    world.introduce().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let written = |site: &TestSite| OthersFile::remembered(&site.site().store.view()).unwrap();
    two.until("it counted", || async { written(two).is_some() }).await;
    create(one).await;
    for n in 0..2 {
        one.put_in(&at_two(), "safe", &format!("{n}"), noise(BODY, n)).await.unwrap();
    }
    let held = 2 * BODY as u64;
    two.until("it is written down", || async { written(two) == Some(OthersFile { bytes: held }) }).await;
    let heard = two.site().changes.system_count();
    two.site().note_down(vec![Entry::Local { key: Bytes::from_static(b"odd"), value: None }]).await.unwrap();
    assert_eq!(two.site().changes.system_count(), heard);
    // Less than what is written down at once.
    one.put_in(&at_two(), "safe", "2", noise(BODY / 2, 2)).await.unwrap();
    let held = held + BODY as u64 / 2;
    assert_eq!(others(two).bytes, held);
    world.sites[1].stop().await;
    world.sites[1].start().await;
    assert_eq!(written(&world.sites[1]), Some(OthersFile { bytes: held }));
    world.stop().await;
}

/// What one node of a site answers the others hold, whatever they hold for other sites; these are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_one_site_are_no_others() {
    let mut world = TestWorld::of_nodes(2, 1).await;
    for node in 0..2 {
        restart_with(&mut world.sites[node], bytes(0)).await;
    }
    world.introduce().await;
    let [one, two, other] = &world.sites[..] else { panic!("two nodes and a site") };
    for node in [one, two] {
        leased(node, &[0, 1]).await;
    }
    create(one).await;
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    let put = one.put_in(&asks, "safe", "own", noise(BODY, 1)).await.unwrap();
    assert_eq!(put.receipt.scope.as_deref(), Some("site"));
    assert!(two.site().store.usage().payload.live >= BODY as u64);
    assert_eq!((others(one).bytes, others(two).bytes), (0, 0));
    other
        .until("the bucket is known", || async { other.site().bucket("safe").await.unwrap().is_some() })
        .await;
    let refused = other.put_in(&at_two(), "safe", "foreign", noise(BODY, 2)).await.unwrap_err();
    assert!(refused.message().contains("storage.others"), "{}", refused.message());
    assert_eq!((others(one).bytes, others(two).bytes), (0, 0));
    at_risk(one, 0).await;
    assert_eq!(others(other).bytes, BODY as u64);
    world.stop().await;
}
