//! Scopes `area` and `durable` under the loss of sites and areas: the places of LOCAL_QUORUM and EACH_QUORUM (F-20).

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_gateway::service::{
    AreaRequest, BucketPatch, DutyRequest, ErrorKind, LossRequest, Outcome, PutOutcome, RequestContext,
};

use super::trim::holds_of;
use super::uploads::{begin, completion, part};
use super::world::{TestSite, TestWorld, context, noise};
use crate::paths::scope;

pub(super) const BUCKET: &str = "safe";

pub(super) fn asking(scope: &str) -> RequestContext {
    RequestContext { scope: Some(scope.into()), ..context() }
}

/// Sites in these areas, the first of which makes the bucket.
pub(super) async fn founded(areas: &[&str], copies: &str) -> TestWorld {
    let world = TestWorld::new(areas.len()).await;
    for (at, area) in areas.iter().enumerate() {
        place(&world, at + 1, area).await;
    }
    world.sites[0].create_bucket(BUCKET).await.unwrap();
    set(&world.sites[0], BucketPatch { copies_in: Some(copies.into()), ..BucketPatch::default() }).await;
    for site in &world.sites {
        site.until("the bucket and the areas are known", || async {
            let known = site.site().bucket(BUCKET).await.unwrap();
            let said = site.site().peers.roster.all();
            let of = |other: &TestSite| said.get(&other.id()).map(|known| known.area.clone());
            let is_so = |(other, area): (&TestSite, &&str)| of(other).as_deref() == Some(*area);
            known.is_some() && world.sites.iter().zip(areas).all(is_so)
        })
        .await;
    }
    world
}

pub(super) async fn place(world: &TestWorld, number: usize, area: &str) {
    let admin = &world.sites[0].services().admin;
    admin.set_area(&format!("site-{number}"), AreaRequest { area: area.into() }).await.unwrap();
}

pub(super) async fn set(site: &TestSite, patch: BucketPatch) {
    site.services().admin.update_bucket(BUCKET, patch).await.unwrap();
}

/// The body of a key: another one for each, as equal chunks are one.
fn body(key: &str, length: usize) -> bytes::Bytes {
    noise(length, key.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into())))
}

pub(super) async fn put(site: &TestSite, scope: &str, key: &str, length: usize) -> Outcome<PutOutcome> {
    site.put_in(&asking(scope), BUCKET, key, body(key, length)).await
}

/// The scope that is answered.
pub(super) async fn answered(site: &TestSite, scope: &str, key: &str, length: usize) -> String {
    put(site, scope, key, length).await.unwrap().receipt.scope.unwrap()
}

/// The numbers of the sites that hold a key as a copy that counts.
pub(super) async fn holders(world: &TestWorld, key: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for (at, site) in world.sites.iter().enumerate().filter(|(_, site)| site.core.is_some()) {
        if holds_of(site, BUCKET, key).await {
            found.insert(at + 1);
        }
    }
    found
}

async fn refused(site: &TestSite, scope: &str, key: &str, words: &[&str]) {
    let refused = put(site, scope, key, 100).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "{}", refused.message());
    for word in words {
        assert!(refused.message().contains(word), "`{word}` in: {}", refused.message());
    }
}

async fn cut(world: &TestWorld, numbers: &[usize], cut: bool) {
    for number in numbers {
        world.sites[number - 1].cut(cut).await;
    }
    let one = &world.sites[0];
    let is_cut = |number: &usize| world.sites[number - 1].site().peers.net().is_cut();
    let there = (2..=world.sites.len()).filter(|number| !is_cut(number)).count();
    one.until("the links are as said", || async { one.site().boxes.linked().len() == there }).await;
}

/// Which sites are lost, and whether LOCAL_QUORUM and EACH_QUORUM go on.
type Loss = (&'static [usize], bool, bool);

/// What scopes `area` and `durable` of the first site do, with so many copies in oslo, its area, and in bergen.
async fn under_losses(areas: &[&str], copies: (&str, [usize; 2]), losses: &[Loss]) {
    let (world, wanted) = (founded(areas, copies.0).await, copies.1);
    let one = &world.sites[0];
    for (number, &(lost, local, each)) in losses.iter().enumerate() {
        cut(&world, lost, true).await;
        for (scope, goes_on) in [("area", local), ("durable", each)] {
            let key = format!("{scope} {number}");
            let done = put(one, scope, &key, 5_000).await;
            let at = holders(&world, &key).await;
            let of = |area: &str| at.iter().filter(|number| areas[**number - 1] == area).count();
            match done {
                Ok(done) => {
                    assert!(goes_on, "{scope} without {lost:?}");
                    assert_eq!(done.receipt.scope.as_deref(), Some(scope));
                    assert!(at.is_disjoint(&lost.iter().copied().collect()), "{at:?}");
                    assert!(of("oslo") >= wanted[0], "{at:?}");
                    assert!(scope == "area" || of("bergen") >= wanted[1], "{at:?}");
                }
                Err(refused) => {
                    assert!(!goes_on, "{scope} without {lost:?}: {}", refused.message());
                    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
                    let area = areas[lost[0] - 1];
                    let lacks = refused.message().contains(&format!(" in {area} (no link to site-"));
                    assert!(lacks, "{}", refused.message());
                    assert!(at.contains(&1), "it is kept");
                }
            }
        }
        cut(&world, lost, false).await;
    }
    // What could not be is tried again by the same PUT.
    let last = format!("durable {}", losses.len() - 1);
    assert_eq!(answered(one, "durable", &last, 5_000).await, "durable");
    world.stop().await;
}

/// Three replicas in each of two data centres, as Cassandra has it: LOCAL_QUORUM needs two of the writer's, EACH_QUORUM two
/// of each. Here two copies are asked for in each area, which any two of its three sites may hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_of_the_own_area_and_one_of_each_area_under_the_loss_of_sites() {
    let areas = ["oslo", "oslo", "oslo", "bergen", "bergen", "bergen"];
    let losses: [Loss; 7] = [
        (&[], true, true),
        (&[2], true, true),
        (&[4], true, true),
        (&[2, 4], true, true),
        (&[2, 3], false, false),
        (&[4, 5], true, false),
        (&[4, 5, 6], true, false),
    ];
    under_losses(&areas, ("2 in each area", [2, 2]), &losses).await;
}

/// Replicas {oslo: 2, bergen: 1} and {oslo: 1}: a quorum of two is both, of one is that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_replicas_in_an_area_are_all_needed() {
    let areas = ["oslo", "oslo", "bergen"];
    let losses: [Loss; 4] =
        [(&[], true, true), (&[2], false, false), (&[3], true, false), (&[2, 3], false, false)];
    under_losses(&areas, ("2 in oslo, 1 in bergen", [2, 1]), &losses).await;
    let losses: [Loss; 4] =
        [(&[], true, true), (&[2], true, true), (&[3], true, true), (&[2, 3], true, true)];
    under_losses(&areas, ("1 in oslo", [1, 0]), &losses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_in_its_area_sends_nothing_beyond_it_and_outlives_its_site() {
    let mut world = founded(&["oslo", "oslo", "bergen"], "1").await;
    let lengths = [0, 100, 20_000, 700_000, (5 << 20) + 3];
    {
        let [one, _, three] = &world.sites[..] else { panic!("three sites") };
        for length in lengths {
            assert_eq!(answered(one, "area", &length.to_string(), length).await, "area");
            assert_eq!(holders(&world, &length.to_string()).await, [1, 2].into());
        }
        assert_eq!(three.payload_received(), 0);
        cut(&world, &[3], true).await;
        assert_eq!(answered(one, "area", "alone", 90_000).await, "area", "whatever is cut off");
        // In bergen there is nobody else.
        refused(three, "area", "k", &["bergen has 1 site", "--copies '1 in bergen'", "nothing was written"])
            .await;
        assert_eq!(holders(&world, "k").await, [].into());
    }
    world.sites[0].stop().await;
    let two = &mut world.sites[1];
    two.stop().await;
    two.start().await;
    two.cut(true).await;
    for length in lengths {
        let key = length.to_string();
        assert_eq!(two.get(BUCKET, &key).await.unwrap(), body(&key, length), "{key}");
    }
    assert_eq!((two.payload_received(), two.site().store.usage().cache.live), (0, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_an_area_cannot_meet_is_refused_before_anything_is_written() {
    let world = founded(&["oslo", "oslo", ""], "1").await;
    let [one, _, three] = &world.sites[..] else { panic!("three sites") };
    refused(three, "area", "k", &["site-3 is in no area", "site.area", "skerry site area site-3"]).await;
    let ask = async |copies: &str| {
        set(one, BucketPatch { copies_in: Some(copies.into()), ..BucketPatch::default() }).await;
    };
    ask("3 in oslo").await;
    refused(one, "area", "k", &["oslo has 2 sites", "3 are asked for"]).await;
    refused(one, "durable", "k", &["3 copies in oslo, where 2 sites"]).await;
    ask("4").await;
    refused(one, "durable", "k", &["4 copies, and 3 sites"]).await;
    ask("1 in ship").await;
    refused(one, "durable", "k", &["1 copies in ship, where 0 sites"]).await;
    assert_eq!(holders(&world, "k").await, [].into(), "nothing was written");
    // One is enough where the bucket says so, and who is lost counts no more.
    ask("1 in oslo").await;
    assert_eq!(answered(one, "area", "one", 100).await, "area");
    ask("2").await;
    cut(&world, &[2], true).await;
    one.services().admin.declare_loss("site-2", LossRequest { lost: true }).await.unwrap();
    one.until("it is heard", || async { !one.site().copies.lost().is_empty() }).await;
    refused(one, "area", "k", &["oslo has 1 site "]).await;
    assert_eq!(answered(one, "durable", "two", 50_000).await, "durable");
    assert_eq!(holders(&world, "two").await, [1, 3].into());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_counts_where_it_stands_now() {
    let world = founded(&["oslo", "oslo", "bergen", "bergen"], "1").await;
    let one = &world.sites[0];
    assert_eq!(answered(one, "area", "before", 60_000).await, "area");
    assert_eq!(holders(&world, "before").await, [1, 2].into());
    place(&world, 2, "bergen").await;
    refused(one, "area", "k", &["oslo has 1 site "]).await;
    place(&world, 4, "oslo").await;
    assert_eq!(answered(one, "area", "after", 60_000).await, "area");
    assert_eq!(holders(&world, "after").await, [1, 4].into());
    // Who asks stands elsewhere as well, from the next answer on.
    place(&world, 1, "bergen").await;
    cut(&world, &[4], true).await;
    assert_eq!(answered(one, "area", "bergen", 60_000).await, "area");
    let at = holders(&world, "bergen").await;
    assert!(at.len() == 2 && at.is_subset(&[1, 2, 3].into()), "{at:?}");
    world.stop().await;
}

/// Who is about to go counts itself no more than others do; an upload that it has is still completed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_being_emptied_is_none_of_its_area() {
    let world = founded(&["oslo", "oslo", "bergen"], "1").await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    let target = begin(one, BUCKET, "film").await;
    let uploaded = vec![part(one, &target, 1, &noise(40_000, 1)).await];
    let drain = DutyRequest { duty: "drain".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-1", drain).await.unwrap();
    one.until("it goes", || async { one.site().duties.own().leaves() }).await;
    let done = completion(&target, uploaded);
    let refused = one.services().objects.complete_upload(&asking("area"), done.clone()).await.unwrap_err();
    assert!(refused.message().contains("oslo has 1 site "), "{}", refused.message());
    // It takes no settings either.
    set(two, BucketPatch { ack_scope: Some("area or less".into()), ..BucketPatch::default() }).await;
    one.until("the setting is known", || async {
        let found = one.site().bucket(BUCKET).await.unwrap();
        found.is_some_and(|found| scope::shown(&found.config) == "area or less")
    })
    .await;
    let done = one.services().objects.complete_upload(&context(), done).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("site"), "what it says counts: one that stays");
    assert!(holds_of(two, BUCKET, "film").await);
    world.stop().await;
}

/// The quickest PUT of 4 KiB in each scope: two sites of oslo 2 ms apart, bergen a quarter of a second away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_waits_for_its_scope_and_no_further() {
    const NEAR: Duration = Duration::from_millis(2);
    const FAR: Duration = Duration::from_millis(250);
    let world = founded(&["oslo", "oslo", "bergen"], "2, 1 in each area").await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.set_delay(two, NEAR);
    one.set_delay(three, FAR);
    two.set_delay(three, FAR);
    set(one, BucketPatch { copies_in: Some("1".into()), ..BucketPatch::default() }).await;
    let clock = &one.site().clock;
    for (scope, copies, least, less_than) in [
        ("site", "1", Duration::ZERO, Some(FAR)),
        ("area", "1", NEAR, Some(FAR)),
        ("sites=2", "1", NEAR, Some(FAR)),
        ("durable", "1", Duration::ZERO, Some(FAR)),
        ("durable", "2", NEAR, Some(FAR)),
        ("durable", "1 in each area", FAR, None),
        ("sites=3", "1", FAR, None),
    ] {
        set(one, BucketPatch { copies_in: Some(copies.into()), ..BucketPatch::default() }).await;
        let mut quickest = Duration::MAX;
        // One that is quick is enough: what else the machine has to do is nobody's fault.
        for number in 0..21 {
            let begun = clock.now();
            answered(one, scope, &format!("{scope} {copies} {number}"), 4096).await;
            quickest = quickest.min(clock.now().since(begun));
            assert!(quickest >= least, "{scope} with {copies}: {quickest:?}");
            if less_than.map_or(number == 4, |most| quickest < most) {
                break;
            }
        }
        assert!(less_than.is_none_or(|most| quickest < most), "{scope} with {copies}: {quickest:?}");
    }
    world.stop().await;
}
