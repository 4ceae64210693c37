//! Copies that count: made in the background, remembered, found lacking and made again.

use std::ops::ControlFlow;

use skerry_base::kv::{Table, View};
use skerry_gateway::service::{BucketCreate, BucketPatch, ExpelRequest, LossRequest};

use super::world::{TestSite, TestWorld, noise};
use crate::config::Copies;

/// What dies of a bucket if this site burns.
async fn unprotected(site: &TestSite, bucket: &str) -> u64 {
    site.services().admin.bucket(bucket).await.unwrap().unprotected_bytes
}

async fn protected(site: &TestSite, bucket: &str) {
    site.until("others hold everything", || async { unprotected(site, bucket).await == 0 }).await;
}

fn is_written_down(site: &TestSite) -> bool {
    let mut found = false;
    let visit = &mut |_: &[u8], _: &[u8]| {
        found = true;
        ControlFlow::Break(())
    };
    site.site().store.view().scan_prefix(Table::Local, b"copies/", visit).unwrap();
    found
}

async fn create(site: &TestSite, bucket: &str) {
    site.create_bucket(bucket).await.unwrap();
    site.set_copies(bucket, 2).await.unwrap();
}

/// At how many sites what is in a bucket is to be that is made now.
async fn copies_of_new(site: &TestSite, bucket: &str) -> u32 {
    site.create_bucket(bucket).await.unwrap();
    site.services().admin.bucket(bucket).await.unwrap().copies
}

async fn restart_with(site: &mut TestSite, copies: Copies) {
    site.new_copies = copies;
    site.stop().await;
    site.start().await;
}

/// Nobody has to ask for the second copy where there is a second site, and none is missed where there is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_made_beside_another_site_is_at_two() {
    let mut world = TestWorld::new(2).await;
    restart_with(&mut world.sites[0], Copies::Auto).await;
    world.introduce().await;
    let one = &world.sites[0];
    assert_eq!(copies_of_new(one, "safe").await, 2);
    let made = async |name: &str, unique, copies| {
        let request = BucketCreate { name: name.into(), owner: None, unique, copies, copies_in: None };
        one.services().admin.create_bucket(request).await.unwrap().copies
    };
    assert_eq!(made("unique", true, None).await, 2);
    assert_eq!(made("asked", false, Some(1)).await, 1, "what is asked for counts");
    one.put("safe", "key", noise(50_000, 1)).await.unwrap();
    protected(one, "safe").await;
    let name = one.site().peers.roster.name(world.sites[1].id());
    one.services().admin.declare_loss(&name, LossRequest { lost: true }).await.unwrap();
    assert_eq!(copies_of_new(one, "alone").await, 1, "the only other site is lost");
    restart_with(&mut world.sites[0], Copies::Number(3)).await;
    assert_eq!(copies_of_new(&world.sites[0], "three").await, 3, "as configured");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_of_a_lone_site_is_at_one() {
    let mut world = TestWorld::of_nodes(2, 0).await;
    restart_with(&mut world.sites[0], Copies::Auto).await;
    world.introduce().await;
    assert_eq!(copies_of_new(&world.sites[0], "here").await, 1, "nodes of one site burn together");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burnt_site_loses_nothing_once_nothing_is_unprotected() {
    let mut world = TestWorld::new(3).await;
    create(&world.sites[0], "safe").await;
    let bodies = [noise(0, 1), noise(100, 2), noise(20_000, 3), noise(700_000, 4), noise((5 << 20) + 3, 5)];
    for (n, body) in bodies.iter().enumerate() {
        world.sites[0].put("safe", &format!("{n}"), body.clone()).await.unwrap();
    }
    protected(&world.sites[0], "safe").await;
    world.sites[0].stop().await;
    for site in &world.sites[1..] {
        for (n, body) in bodies.iter().enumerate() {
            assert_eq!(site.get("safe", &format!("{n}")).await.unwrap(), *body, "{n}");
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_during_a_cut_and_before_a_restart_is_copied_after_it() {
    let mut world = TestWorld::new(2).await;
    create(&world.sites[0], "safe").await;
    world.sites[0].put("safe", "before", noise(50_000, 1)).await.unwrap();
    protected(&world.sites[0], "safe").await;
    // Words of others are written down a moment later; a stop before that only has them asked again.
    world.sites[0].until("it is written down", || async { is_written_down(&world.sites[0]) }).await;
    world.sites[0].cut(true).await;
    world.sites[0].put("safe", "during", noise(60_000, 2)).await.unwrap();
    // A count stands for twenty times as long as it took: what is held elsewhere does not count.
    let counted = || async { unprotected(&world.sites[0], "safe").await == 60_000 };
    world.sites[0].until("the new one is counted", counted).await;
    world.sites[0].stop().await;
    world.sites[0].start().await;
    assert_eq!(unprotected(&world.sites[0], "safe").await, 60_000, "nothing is forgotten by a restart");
    world.sites[0].site().peers.net().set_cut(false);
    world.linked(&world.sites[0]).await;
    protected(&world.sites[0], "safe").await;
    world.sites[0].stop().await;
    assert_eq!(world.sites[1].get("safe", "during").await.unwrap(), noise(60_000, 2));
    assert_eq!(world.sites[1].site().store.usage().cache.live, 0, "a copy that counts is no cached one");
    world.stop().await;
}

/// A site that is written to without a pause looks at what could not be placed during a cut as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_during_a_cut_is_copied_though_writes_go_on() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    create(one, "safe").await;
    one.put("safe", "before", noise(50_000, 1)).await.unwrap();
    protected(one, "safe").await;
    // Once it has said what it holds it says so again over the next link, and nothing comes into doubt.
    let id = one.site().bucket("safe").await.unwrap().unwrap().id;
    let has_said = || async { one.site().copies.life(id, two.id()).is_some() };
    one.until("the other site has said what it holds", has_said).await;
    one.cut(true).await;
    for n in 0..10 {
        one.put("safe", &format!("during-{n}"), noise(60_000, 10 + n)).await.unwrap();
    }
    let mut beats = tokio::time::interval(std::time::Duration::from_millis(200));
    let mut write = async || {
        beats.tick().await;
        one.put("safe", "often", "a small one").await.unwrap();
    };
    // Several looks see that nobody can be asked.
    for _ in 0..15 {
        write().await;
    }
    one.site().peers.net().set_cut(false);
    let held = two.until("the other site holds them", || async {
        two.site().store.usage().payload.live >= 50_000 + 10 * 60_000
    });
    tokio::select! {
        () = held => {}
        () = async { loop { write().await } } => {}
    }
    world.stop().await;
}

/// A holder whose disk is gone says so in its next life, whoever believed in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_comes_back_empty_is_no_holder_and_gets_it_again() {
    let mut world = TestWorld::new(2).await;
    create(&world.sites[0], "safe").await;
    for n in 0..20 {
        world.sites[0].put("safe", &format!("{n}"), noise(40_000, n)).await.unwrap();
    }
    protected(&world.sites[0], "safe").await;
    world.sites[1].stop().await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.introduce().await;
    let (one, two) = (&world.sites[0], &world.sites[1]);
    two.until("it has all payload again", || async { two.site().store.usage().payload.live >= 20 * 40_000 })
        .await;
    protected(one, "safe").await;
    world.sites[0].stop().await;
    for n in 0..20 {
        assert_eq!(world.sites[1].get("safe", &format!("{n}")).await.unwrap(), noise(40_000, n));
    }
    world.stop().await;
}

/// The last other holder is thrown out: what is here only dies with this site, and the number must say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_nowhere_to_go_is_at_risk() {
    let mut world = TestWorld::new(2).await;
    create(&world.sites[0], "safe").await;
    world.sites[0].put("safe", "k", noise(70_000, 1)).await.unwrap();
    protected(&world.sites[0], "safe").await;
    world.sites[1].stop().await;
    let one = &world.sites[0];
    one.services().admin.expel("site-2", ExpelRequest {}).await.unwrap();
    one.until("nobody else counts", || async { unprotected(one, "safe").await == 70_000 }).await;
    let status = one.services().admin.status().await.unwrap();
    assert_eq!((status.unprotected_bytes, status.single_copy_buckets), (70_000, 0));
    world.stop().await;
    let alone = TestWorld::new(1).await;
    create(&alone.sites[0], "two").await;
    let only = &alone.sites[0];
    only.put("two", "k", noise(80_000, 2)).await.unwrap();
    // A count stands for twenty times as long as it took.
    only.until("nobody ever joined", || async { unprotected(only, "two").await == 80_000 }).await;
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_copy_is_one_copy_and_a_reader_makes_it_two_without_a_second_transfer() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("loose").await.unwrap();
    one.put("loose", "k", noise(300_000, 1)).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("loose").await.unwrap().is_some() }).await;
    assert_eq!(two.get("loose", "k").await.unwrap(), noise(300_000, 1));
    assert_eq!((two.site().store.usage().payload.live, unprotected(one, "loose").await), (0, 0));
    let before = two.payload_received();
    one.set_copies("loose", 2).await.unwrap();
    two.until("it holds the body for good", || async { two.site().store.usage().payload.live > 0 }).await;
    protected(one, "loose").await;
    assert_eq!(two.payload_received(), before, "what was read is kept, not sent again");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_a_scope_count_as_copies() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    create(one, "safe").await;
    let patch = BucketPatch { ack_scope: Some("sites=2".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("safe", patch).await.unwrap();
    one.put("safe", "k", noise(200_000, 1)).await.unwrap();
    assert_eq!(unprotected(one, "safe").await, 0, "nobody has to be asked");
    let received = two.payload_received();
    protected(one, "safe").await;
    assert_eq!(two.payload_received(), received);
    world.stop().await;
}

/// The only copy that can be reached rots: nobody is known to have it whole, and somebody may. What it was when it was counted
/// last does not hide it, nor that another one has it who is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rots_while_the_other_site_is_away_is_at_risk() {
    const BYTES: u64 = 3 << 20;
    for (held, restarted) in [(false, true), (true, true), (true, false)] {
        let mut world = TestWorld::new(2).await;
        let body = noise(BYTES as usize, 1);
        {
            let [one, two] = &world.sites[..] else { panic!("two sites") };
            create(one, "safe").await;
            two.until("it is known", || async { two.site().bucket("safe").await.unwrap().is_some() }).await;
            if !held {
                two.cut(true).await;
            }
            one.put("safe", "k", body.clone()).await.unwrap();
            if held {
                protected(one, "safe").await;
                one.until("it is written down", || async { is_written_down(one) }).await;
                two.cut(true).await;
            }
        }
        if restarted {
            world.sites[0].stop().await;
        }
        // Nothing is written just now.
        world.sites[0].damage(&body[(1 << 20) + 5..(1 << 20) + 69]);
        if restarted {
            world.sites[0].start().await;
        }
        let one = &world.sites[0];
        one.until("it is counted", || async {
            unprotected(one, "safe").await == if held { 0 } else { BYTES }
        })
        .await;
        assert!(one.get("safe", "k").await.is_err());
        one.until("what rotted is at risk", || async {
            let status = one.services().admin.status().await.unwrap();
            assert!(held || status.unprotected_bytes == BYTES, "it is not less at risk than before");
            let nowhere = if held { 0 } else { BYTES };
            (status.unprotected_bytes, status.nowhere_bytes) == (BYTES, nowhere)
        })
        .await;
        // Given up.
        one.delete("safe", "k").await.unwrap();
        protected(one, "safe").await;
        world.stop().await;
    }
}

/// A bucket of which records do not read keeps no other one from its copies, and from being counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_does_not_read_costs_no_other_its_copies() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    create(one, "broken").await;
    let id = one.site().bucket("broken").await.unwrap().unwrap().id;
    one.site().copies.unreadable.lock().unwrap().insert(id);
    one.put("broken", "k", noise(40_000, 1)).await.unwrap();
    create(one, "well").await;
    one.put("well", "before", noise(50_000, 2)).await.unwrap();
    protected(one, "well").await;
    // Over a new link everybody who shares a bucket is asked first what it holds of that.
    two.cut(true).await;
    one.put("well", "during", noise(60_000, 3)).await.unwrap();
    one.until("it is counted", || async { unprotected(one, "well").await == 60_000 }).await;
    two.cut(false).await;
    world.linked(two).await;
    protected(one, "well").await;
    let status = one.services().admin.status().await.unwrap();
    assert_eq!(status.unread_buckets, ["broken"]);
    assert_eq!(status.unprotected_bytes, 40_000, "all that it stores, as far as anybody can say");
    world.stop().await;
}
