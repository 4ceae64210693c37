//! A new machine takes the place of a site that is gone for ever.

use std::time::Duration;

use skerry_gateway::service::{
    BucketPatch, DutyRequest, ErrorKind, Outcome, RecoveryStatus, ReplaceRequest, ReplacedSite,
    WriteCondition,
};

use super::world::{TestSite, TestWorld, noise};

/// More than two looks take that a member which is not whole takes for itself.
const LOOKS: Duration = Duration::from_secs(7);

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

async fn replace(at: &TestSite, gone: &str, by: &str, keep_name: bool) -> Outcome<ReplacedSite> {
    at.services().admin.replace(gone, ReplaceRequest { by: by.into(), keep_name }).await
}

async fn why_not(at: &TestSite, gone: &str, by: &str) -> String {
    replace(at, gone, by, true).await.unwrap_err().message().to_owned()
}

/// How far a site is with the place of another.
async fn recovery(at: &TestSite, gone: &TestSite) -> RecoveryStatus {
    let site = at.services().admin.site(&gone.id().to_string()).await.unwrap();
    site.recovery.unwrap_or_default()
}

async fn done(at: &TestSite, gone: &TestSite) -> RecoveryStatus {
    at.until("the place is taken", || async { recovery(at, gone).await.done }).await;
    recovery(at, gone).await
}

async fn follows(site: &TestSite, bucket: &str) {
    site.until("the bucket is known", || async { site.site().bucket(bucket).await.unwrap().is_some() }).await;
    let id = site.site().bucket(bucket).await.unwrap().unwrap().id;
    site.site().join(id).await.unwrap();
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

async fn gone(world: &mut TestWorld, number: usize) {
    world.sites[number].stop().await;
    let id = world.sites[number].id();
    for site in world.sites.iter().filter(|site| site.core.is_some()) {
        site.until("the link is gone", || async { !site.site().linked(id) }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn homes_buckets_name_and_copies_go_to_the_new_one() {
    let mut world = TestWorld::new(4).await;
    world.sites[3].cut(true).await;
    let three = &world.sites[2];
    for bucket in ["photos", "locks"] {
        three.create_bucket(bucket).await.unwrap();
    }
    three.set_copies("photos", 2).await.unwrap();
    for n in 0..20 {
        three.put("photos", &format!("{n}"), noise(50_000, n)).await.unwrap();
    }
    three.put_if("locks", "first", "three", absent()).await.unwrap();
    for site in &world.sites[..2] {
        follows(site, "photos").await;
        follows(site, "locks").await;
    }
    let unprotected = async || three.services().admin.bucket("photos").await.unwrap().unprotected_bytes;
    three.until("others hold everything", || async { unprotected().await == 0 }).await;
    let held = world.sites[..2].iter().map(|site| site.site().store.usage().payload.live).sum::<u64>();
    assert!(held >= 20 * 50_000, "they hold {held}");
    world.sites[3].site().peers.net().set_cut(false);
    world.linked(&world.sites[3]).await;
    let one = &world.sites[0];
    assert!(why_not(one, "site-3", "site-4").await.contains("it answers"));
    assert!(why_not(one, "site-1", "site-4").await.contains("not gone"));
    assert!(why_not(one, "site-2", "site-2").await.contains("its own place"));
    assert!(why_not(one, "site-3", "site-9").await.contains("no site named site-9"));
    gone(&mut world, 2).await;
    let (one, two, three, four) = (&world.sites[0], &world.sites[1], &world.sites[2], &world.sites[3]);
    let said = replace(one, "site-3", "site-4", false).await.unwrap();
    assert_eq!((&*said.site.state, &*said.site.replaced_by, &*said.name_kept), ("replaced", "site-3", ""));
    assert_eq!((&*said.by.name, said.exposed_keys.len()), ("site-3", 1));
    let shown = done(four, three).await;
    assert_eq!((shown.buckets, shown.buckets_complete, shown.missing_records), (2, 2, 0), "{shown:?}");
    four.until("homes", || async { recovery(four, three).await.homes_moved == 2 }).await;
    assert!(recovery(two, three).await == RecoveryStatus::default(), "only the new one says how far it is");
    for n in 0..20 {
        assert_eq!(four.get("photos", &format!("{n}")).await.unwrap(), noise(50_000, n));
    }
    let found = four.services().admin.bucket("locks").await.unwrap();
    assert_eq!((&*found.home, found.home_epoch), ("site-3", 2));
    let refused = four.put_if("locks", "first", "four", absent()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PreconditionFailed, "{}", refused.message());
    four.put_if("locks", "second", "four", absent()).await.unwrap();
    // Of three copies one can only be at the new one.
    one.set_copies("photos", 3).await.unwrap();
    four.until("it holds copies", || async { four.site().store.usage().payload.live >= 20 * 50_000 }).await;
    // Said once more, by the former name; and otherwise.
    let again = replace(one, "site-3", "site-4", false).await.unwrap();
    assert_eq!((&again.site, &*again.by.name), (&again.site, "site-3"));
    assert!(why_not(one, &three.id().to_string(), "site-2").await.contains("already"));
    // A former name means nobody but who took that very place.
    assert!(why_not(one, "site-2", "site-4").await.contains("no site named site-4"));
    world.sites[2].start().await;
    let back = &world.sites[2];
    back.until("it is told", || async { back.site().duties.is_gone() }).await;
    let late = back.put("photos", "late", "x").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotServing, "{late}");
    world.stop().await;
}

/// Who has not answered is named, and nothing is done before; a start goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_everybody_and_goes_on_after_a_start() {
    let mut world = TestWorld::new(4).await;
    world.sites[3].cut(true).await;
    world.sites[2].create_bucket("photos").await.unwrap();
    for n in 0..20 {
        world.sites[2].put("photos", &format!("{n}"), noise(200, n)).await.unwrap();
    }
    follows(&world.sites[1], "photos").await;
    gone(&mut world, 2).await;
    world.sites[1].cut(true).await;
    world.sites[3].site().peers.net().set_cut(false);
    world.until_linked(&world.sites[0], &world.sites[3]).await;
    let said = replace(&world.sites[0], "site-3", "site-4", true).await.unwrap();
    let is_silent = |why: &str| why.contains("photos: site-2 did not answer");
    let is_begun = said.homes_wait.contains("is about to give them") || is_silent(&said.homes_wait);
    assert!(is_begun, "{}", said.homes_wait);
    let one = &world.sites[0];
    let gone = &world.sites[2].id();
    let why = || one.site().replacing.homes_wait().get(gone).cloned().unwrap_or_default();
    one.until("the home waits", || async { is_silent(&why()) }).await;
    assert_eq!(said.by.name, "site-4");
    let waits = async |four: &TestSite, three: &TestSite| recovery(four, three).await.waits_for;
    for _ in 0..2 {
        let (three, four) = (&world.sites[2], &world.sites[3]);
        four.until("it waits", || async { waits(four, three).await == ["site-2 has not answered"] }).await;
        assert!(!recovery(four, three).await.done);
        world.sites[3].stop().await;
        world.sites[3].start().await;
        world.until_linked(&world.sites[0], &world.sites[3]).await;
    }
    world.sites[1].site().peers.net().set_cut(false);
    let (three, four) = (&world.sites[2], &world.sites[3]);
    let shown = done(four, three).await;
    assert_eq!((shown.buckets, shown.lost.len(), shown.refused.len()), (1, 0, 0), "{shown:?}");
    for n in 0..20 {
        assert_eq!(four.get("photos", &format!("{n}")).await.unwrap(), noise(200, n));
    }
    four.until("the home", || async { recovery(four, three).await.homes_moved == 1 }).await;
    world.sites[3].stop().await;
    world.sites[3].start().await;
    assert!(done(&world.sites[3], &world.sites[2]).await.done_ms == shown.done_ms, "what is done stays done");
    world.stop().await;
}

/// Who joins a bucket that nobody has any more holds what there is, by itself; but not while it takes the place of who had it, which
/// says what is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_joining_already_says_what_is_lost_once_it_takes_the_place() {
    let mut world = TestWorld::new(3).await;
    world.sites[1].create_bucket("alone").await.unwrap();
    world.sites[1].put("alone", "k", "nobody read it").await.unwrap();
    for site in [&world.sites[0], &world.sites[2]] {
        site.until("the bucket is known", || async { site.site().bucket("alone").await.unwrap().is_some() })
            .await;
    }
    gone(&mut world, 1).await;
    let (one, three) = (&world.sites[0], &world.sites[2]);
    let id = three.site().bucket("alone").await.unwrap().unwrap().id;
    three.site().join(id).await.unwrap();
    // It finds out what is lacking, and takes nothing yet.
    let duty = |word: &str| DutyRequest { duty: word.into(), abandon_uploads: false };
    three.services().admin.set_duty("site-3", duty("freeze")).await.unwrap();
    replace(one, "site-2", "site-3", true).await.unwrap();
    let holds = || async { !recovery(three, &world.sites[1]).await.waits_for.is_empty() };
    three.until("it has begun, and holds nothing", holds).await;
    let says = || async {
        let state = three.services().admin.membership("alone").await.unwrap();
        state.standing == "joining" && state.reason.contains("takes the place of one that is gone")
    };
    three.until("it says for what it waits", says).await;
    // More than two looks for who might have the bucket.
    let begun = three.site().clock.now();
    let looked = || async { three.site().clock.now().since(begun) > LOOKS || three.site().is_complete(id) };
    three.until("it has looked", looked).await;
    assert!(!three.site().is_complete(id), "what is lost would be said by nobody");
    three.services().admin.set_duty("site-3", duty("serve")).await.unwrap();
    let shown = done(three, &world.sites[1]).await;
    assert_eq!(shown.lost, ["alone"], "{shown:?}");
    assert!(three.site().is_complete(id));
    world.stop().await;
}

/// Two at once; what nobody else has, and what may not be followed, is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_takes_the_places_of_two_and_says_what_is_lost() {
    let mut world = TestWorld::new(5).await;
    world.sites[4].cut(true).await;
    world.sites[2].create_bucket("alone").await.unwrap();
    world.sites[2].put("alone", "k", "nobody read it").await.unwrap();
    world.sites[3].create_bucket("closed").await.unwrap();
    world.sites[3].create_bucket("open").await.unwrap();
    let never = BucketPatch { join: Some("never".into()), ..BucketPatch::default() };
    world.sites[3].services().admin.update_bucket("closed", never).await.unwrap();
    let one = &world.sites[0];
    for bucket in ["alone", "open"] {
        one.until("the bucket is known", || async { one.site().bucket(bucket).await.unwrap().is_some() })
            .await;
    }
    let is_closed = async || {
        let found = one.site().bucket("closed").await.unwrap();
        found.is_some_and(|bucket| bucket.config.joins() == skerry_model::bucket::Joins::Never)
    };
    one.until("the bucket is closed", || async { is_closed().await }).await;
    world.sites[1].get("open", "k").await.unwrap_err();
    follows(&world.sites[1], "open").await;
    gone(&mut world, 2).await;
    gone(&mut world, 3).await;
    world.sites[4].site().peers.net().set_cut(false);
    world.linked(&world.sites[4]).await;
    let (one, five) = (&world.sites[0], &world.sites[4]);
    for name in ["site-3", "site-4"] {
        replace(one, name, "site-5", true).await.unwrap();
    }
    let shown = done(five, &world.sites[2]).await;
    assert_eq!((&shown.lost[..], shown.refused.len()), (&["alone".to_owned()][..], 0), "{shown:?}");
    let shown = done(five, &world.sites[3]).await;
    assert_eq!((shown.lost.len(), &shown.refused[..]), (0, &["closed".to_owned()][..]), "{shown:?}");
    let register = one.services().admin.site("site-4").await.unwrap();
    assert_eq!(register.homes, ["closed"], "who may not follow it decides nothing of it");
    assert_eq!(five.get("alone", "k").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    five.put("alone", "k", "again").await.unwrap();
    assert_eq!(five.get("alone", "k").await.unwrap(), "again");
    world.stop().await;
}
