//! Copies too many: fewer asked for, a lost site that is back, a cut; let go of by who stands last, and never below what is
//! asked for.

use skerry_gateway::service::{BucketPatch, JoinRequest, LossRequest, RequestContext, SurplusStatus};
use skerry_model::space;

use super::world::{TestSite, TestWorld, context, noise};
use crate::copies::book;
use crate::copies::look::is_here;
use crate::site::unreadable;

pub(super) const BUCKET: &str = "safe";

pub(super) fn body(number: u64) -> bytes::Bytes {
    noise([40_000, 700_000, 3 << 20][number as usize % 3], number)
}

async fn write(site: &TestSite, keys: std::ops::Range<u64>) {
    for number in keys {
        site.put(BUCKET, &format!("{number}"), body(number)).await.unwrap();
    }
}

/// Whether a site holds the body of a key as a copy that counts.
pub(super) async fn holds(site: &TestSite, key: &str) -> bool {
    holds_of(site, BUCKET, key).await
}

pub(super) async fn holds_of(site: &TestSite, bucket: &str, key: &str) -> bool {
    let Some(bucket) = site.site().bucket(bucket).await.unwrap() else { return false };
    let (key, id, store) = (key.to_owned(), bucket.id, site.site().store.clone());
    let look = move |view: &dyn skerry_base::kv::View| {
        let record = space::current(view, id, &key).map_err(unreadable)?;
        Ok(record
            .and_then(|record| record.object().map(|object| is_here(&store, id, object)))
            .unwrap_or(false))
    };
    site.site().read(look).await.unwrap()
}

/// How many of these sites hold each of these keys, if that is the same of all.
async fn holders(sites: &[TestSite], keys: std::ops::Range<u64>) -> Option<usize> {
    let mut all = None;
    for number in keys {
        let mut count = 0;
        for site in sites.iter().filter(|site| site.core.is_some()) {
            count += usize::from(holds(site, &number.to_string()).await);
        }
        if all.is_some_and(|all| all != count) {
            return None;
        }
        all = Some(count);
    }
    all
}

async fn until_held(world: &TestWorld, keys: std::ops::Range<u64>, count: usize) {
    let what = format!("each is held {count} times");
    let first = world.sites.iter().find(|site| site.core.is_some()).unwrap();
    first.until(&what, || async { holders(&world.sites, keys.clone()).await == Some(count) }).await;
}

async fn surplus(site: &TestSite) -> SurplusStatus {
    site.services().admin.status().await.unwrap().surplus
}

async fn founded(sites: usize, copies: u32) -> TestWorld {
    let world = TestWorld::new(sites).await;
    world.sites[0].create_bucket(BUCKET).await.unwrap();
    world.sites[0].set_copies(BUCKET, copies).await.unwrap();
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_fewer_copies_are_asked_for_the_last_holder_lets_go_of_its_own() {
    let mut world = founded(3, 3).await;
    write(&world.sites[0], 0..6).await;
    until_held(&world, 0..6, 3).await;
    // Who writes keeps its copy, whoever stands last in the ring.
    world.sites[1].put(BUCKET, "6", body(6)).await.unwrap();
    until_held(&world, 0..7, 3).await;
    world.sites[0].set_copies(BUCKET, 2).await.unwrap();
    until_held(&world, 0..7, 2).await;
    assert!(holds(&world.sites[0], "0").await && holds(&world.sites[1], "6").await);
    let mut released = 0;
    for site in &world.sites {
        let told = surplus(site).await;
        released += told.released_bytes;
        assert_eq!((told.versions, told.bytes), (0, 0), "{told:?}");
        for number in 0..7 {
            assert_eq!(site.get(BUCKET, &number.to_string()).await.unwrap(), body(number));
        }
        let info = site.services().admin.bucket(BUCKET).await.unwrap();
        assert_eq!(info.unprotected_bytes, 0);
    }
    assert_eq!(released, (0..7).map(|number| body(number).len() as u64).sum::<u64>());
    // What is left is on two disks: one of them may go.
    world.sites[0].stop().await;
    for number in 0..7 {
        assert_eq!(world.sites[1].get(BUCKET, &number.to_string()).await.unwrap(), body(number));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_site_that_is_back_makes_one_too_many_and_it_goes() {
    let mut world = founded(3, 2).await;
    write(&world.sites[0], 0..4).await;
    until_held(&world, 0..4, 2).await;
    let mut holder = 1;
    if holds(&world.sites[2], "0").await {
        holder = 2;
    }
    world.sites[holder].stop().await;
    let name = format!("site-{}", holder + 1);
    world.sites[0].services().admin.declare_loss(&name, LossRequest { lost: true }).await.unwrap();
    until_held(&world, 0..4, 2).await;
    world.sites[holder].start().await;
    world.linked(&world.sites[0]).await;
    until_held(&world, 0..4, 3).await;
    until_held(&world, 0..4, 2).await;
    assert!(holds(&world.sites[0], "0").await, "who wrote it keeps it");
    for site in &world.sites {
        for number in 0..4 {
            assert_eq!(site.get(BUCKET, &number.to_string()).await.unwrap(), body(number));
        }
    }
    world.stop().await;
}

/// Of whom nobody could ask what it holds when copies too many were looked for: it is asked when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_could_not_be_asked_is_asked_once_it_is_back() {
    let mut world = founded(3, 3).await;
    write(&world.sites[0], 0..2).await;
    until_held(&world, 0..2, 3).await;
    let writer = world.sites[0].id();
    let mut ring = [1, 2];
    ring.sort_by_key(|number| (world.sites[*number].id() < writer, world.sites[*number].id()));
    let [away, last] = ring;
    // Another bucket, which the one that will be away does not follow, shows that the last holder has looked at both.
    let (one, name) = (&world.sites[0], "tidy");
    one.create_bucket(name).await.unwrap();
    one.set_copies(name, 2).await.unwrap();
    let known = &world.sites[away];
    known.until("it is known", || async { known.site().bucket(name).await.unwrap().is_some() }).await;
    let never = JoinRequest { when: Some("never".into()), ..JoinRequest::default() };
    known.services().admin.join_bucket(name, never).await.unwrap();
    one.put(name, "0", body(0)).await.unwrap();
    let gone = world.sites[away].id();
    let tidy = one.site().known(name).await.unwrap().id;
    let holder = &world.sites[last];
    holder.until("the last one holds it", || holds_of(holder, name, "0")).await;
    let strangers = || holder.site().drive.ask(move |machine, _| machine.strangers(tidy));
    holder.until("it follows nothing there", || async { strangers().await.unwrap().contains(&gone) }).await;
    world.sites[away].stop().await;
    let (one, holder) = (&world.sites[0], &world.sites[last]);
    let id = holder.site().known(BUCKET).await.unwrap().id;
    holder.until("its link is gone", || async { !holder.site().linked(gone) }).await;
    // As if it had never said what it holds.
    holder.site().copies.left(id, gone);
    one.set_copies(BUCKET, 2).await.unwrap();
    let heard = || async { holder.site().known(BUCKET).await.unwrap().config.copies == 2 };
    holder.until("it has heard", heard).await;
    one.set_copies(name, 1).await.unwrap();
    holder.until("it has looked", || async { surplus(holder).await.released_versions == 1 }).await;
    assert_eq!(surplus(holder).await.versions, 0, "as far as it knows nothing is too many");
    world.sites[away].start().await;
    until_held(&world, 0..2, 2).await;
    assert!(!holds(&world.sites[last], "0").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_site_is_silent_everything_stays_and_status_says_why() {
    let mut world = founded(4, 3).await;
    write(&world.sites[0], 0..3).await;
    until_held(&world, 0..3, 3).await;
    // It follows the bucket, so that it keeps a book; it may hold nothing.
    let mut quiet = 1;
    for number in 1..4 {
        if !holds(&world.sites[number], "0").await {
            quiet = number;
        }
    }
    let silent = &world.sites[quiet];
    silent
        .until("the bucket is known", || async { silent.site().bucket(BUCKET).await.unwrap().is_some() })
        .await;
    silent.services().admin.join_bucket(BUCKET, JoinRequest::default()).await.unwrap();
    world.converged(BUCKET).await;
    let (id, follower) = (silent.site().bucket(BUCKET).await.unwrap().unwrap().id, silent.id());
    for site in &world.sites {
        let strangers = || site.site().drive.ask(move |machine, _| machine.strangers(id));
        site.until("it is known to follow", || async { !strangers().await.unwrap().contains(&follower) })
            .await;
    }
    world.sites[quiet].stop().await;
    let before = holders(&world.sites, 0..3).await.unwrap();
    world.sites[0].set_copies(BUCKET, 1).await.unwrap();
    let told = || async {
        let mut all = Vec::new();
        for site in world.sites.iter().filter(|site| site.core.is_some()) {
            all.push(surplus(site).await);
        }
        all.into_iter().find(|told| told.versions > 0)
    };
    world.sites[0].until("somebody has too many", || async { told().await.is_some() }).await;
    let said = told().await.unwrap();
    assert!(said.reason.contains(&format!("site-{} did not answer", quiet + 1)), "{said:?}");
    assert_eq!((said.versions, holders(&world.sites, 0..3).await), (3, Some(before)), "nothing went");
    world.sites[quiet].start().await;
    world.linked(&world.sites[0]).await;
    until_held(&world, 0..3, 1).await;
    assert!(holds(&world.sites[0], "0").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_answered_for_more_sites_keeps_them() {
    let world = founded(3, 3).await;
    write(&world.sites[0], 0..2).await;
    let asks = RequestContext { scope: Some("sites=3".into()), ..context() };
    world.sites[0].put_in(&asks, BUCKET, "2", body(2)).await.unwrap();
    // The record of one that was there before does not say it.
    world.sites[0].put(BUCKET, "4", body(4)).await.unwrap();
    world.sites[0].put_in(&asks, BUCKET, "4", body(4)).await.unwrap();
    // Nor does a later answer for fewer.
    let fewer = RequestContext { scope: Some("sites=2".into()), ..context() };
    world.sites[0].put_in(&fewer, BUCKET, "4", body(4)).await.unwrap();
    until_held(&world, 0..3, 3).await;
    world.sites[0].set_copies(BUCKET, 1).await.unwrap();
    until_held(&world, 0..2, 1).await;
    for key in [2..3, 4..5] {
        until_held(&world, key, 3).await;
    }
    // So does a bucket whose writes are.
    world.sites[0].set_copies(BUCKET, 3).await.unwrap();
    until_held(&world, 0..3, 3).await;
    let patch = BucketPatch { copies: Some(1), ack_scope: Some("sites=2".into()), ..BucketPatch::default() };
    world.sites[0].services().admin.update_bucket(BUCKET, patch).await.unwrap();
    until_held(&world, 0..2, 2).await;
    world.sites[0].put(BUCKET, "3", body(3)).await.unwrap();
    until_held(&world, 3..4, 2).await;
    world.stop().await;
}

/// At a site that is no member, and keeps no book of the bucket, what a write was answered for is known to those who hold it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_no_member_answered_for_more_sites_is_kept_there() {
    let world = TestWorld::new(3).await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    two.create_bucket(BUCKET).await.unwrap();
    let residency = Some(vec!["site-2".into(), "site-3".into()]);
    let bound = BucketPatch { residency, copies: Some(2), ..BucketPatch::default() };
    two.services().admin.update_bucket(BUCKET, bound).await.unwrap();
    let knows =
        || async { one.site().bucket(BUCKET).await.unwrap().is_some_and(|of| !of.may_lie_at(one.id())) };
    one.until("it is known where it may lie", knows).await;
    write(two, 0..2).await;
    let asks = RequestContext { scope: Some("sites=2".into()), ..context() };
    let done = one.put_in(&asks, BUCKET, "2", body(2)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=2"));
    until_held(&world, 0..3, 2).await;
    two.set_copies(BUCKET, 1).await.unwrap();
    until_held(&world, 0..2, 1).await;
    until_held(&world, 2..3, 2).await;
    for site in &world.sites[1..] {
        assert_eq!(promised(site, "2").await, 2);
    }
    world.stop().await;
}

/// At how many sites a site is to see a version kept, beside what its record says.
pub(super) async fn promised(site: &TestSite, key: &str) -> usize {
    let (id, key) = (site.site().bucket(BUCKET).await.unwrap().unwrap().id, key.to_owned());
    let look = move |view: &dyn skerry_base::kv::View| {
        let record = space::current(view, id, &key).map_err(unreadable)?;
        record.map_or(Ok(0), |record| book::promised(view, id, record.dot).map_err(unreadable))
    };
    site.site().read(look).await.unwrap()
}
