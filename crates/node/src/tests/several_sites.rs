//! Several sites with links between them.

use skerry_gateway::service::{
    ConflictQuery, ErrorKind, ReadMode, RequestContext, ScrubRequest, SpaceQuery, WriteCondition,
};

use skerry_base::kv::View;
use skerry_model::space;

use super::world::{TestWorld, context, noise};
use crate::paths::far;
use crate::site::unreadable;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_at_one_is_read_at_another_and_moves_once() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    let bodies = [noise(100, 1), noise(20_000, 2), noise((3 << 20) + 5, 3), noise(12 << 20, 4)];
    for (n, body) in bodies.iter().enumerate() {
        one.put("photos", &format!("{n}"), body.clone()).await.unwrap();
    }
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(two.get("photos", &format!("{n}")).await.unwrap(), *body, "{n}");
    }
    let moved = two.payload_received();
    let total: usize = bodies.iter().map(|body| body.len()).sum();
    assert!(moved >= (total - 100) as u64 && moved < (total + (64 << 10)) as u64, "{moved} of {total}");
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(two.get("photos", &format!("{n}")).await.unwrap(), *body, "{n}");
    }
    assert_eq!(two.payload_received(), moved, "the second read is local");
    three
        .until("the bucket is known", || async { three.site().bucket("photos").await.unwrap().is_some() })
        .await;
    assert_eq!(three.list("photos").await.unwrap(), ["0", "1", "2", "3"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_leaves_a_member_that_follows() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", noise(10, 1)).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    assert_eq!(two.get("photos", "a").await.unwrap(), noise(10, 1));
    one.put("photos", "b", noise(10, 2)).await.unwrap();
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    two.until("the bucket is followed whole", || async { two.site().is_complete(id) }).await;
    world.converged("photos").await;
    one.cut(true).await;
    assert_eq!(two.get("photos", "b").await.unwrap(), noise(10, 2), "small bodies travel with their record");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_are_decided_at_the_home_wherever_they_are_asked() {
    let world = TestWorld::new(3).await;
    world.sites[0].create_bucket("locks").await.unwrap();
    for site in &world.sites {
        site.until("the bucket is known", || async { site.site().bucket("locks").await.unwrap().is_some() })
            .await;
    }
    let absent = WriteCondition { absent: true, matches: None };
    for round in 0..5u64 {
        let key = format!("lock-{round}");
        let tries = (0..12usize).map(|n| {
            let site = &world.sites[n % 3];
            site.put_if("locks", &key, noise(40, n as u64), absent.clone())
        });
        let answers = futures::future::join_all(tries).await;
        let won: Vec<usize> = (0..12).filter(|n| answers[*n].is_ok()).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let winner = won[0] as u64;
        world.converged("locks").await;
        for site in &world.sites {
            assert_eq!(site.get("locks", &key).await.unwrap(), noise(40, winner));
        }
    }
    world.sites[2].cut(true).await;
    let refused = world.sites[2].put_if("locks", "x", "x", absent.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable);
    assert!(refused.message().contains("site-1"), "{}", refused.message());
    world.sites[2].put("locks", "x", "plain").await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overwrite_from_a_site_that_never_saw_the_bucket_is_no_conflict() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "old").await.unwrap();
    one.put("photos", "b", "old").await.unwrap();
    // The claim may still be on its way: the name is asked for.
    two.put("photos", "a", "new").await.unwrap();
    two.delete("photos", "b").await.unwrap();
    world.converged("photos").await;
    for site in &world.sites {
        assert_eq!(site.get("photos", "a").await.unwrap(), "new");
        assert_eq!(site.list("photos").await.unwrap(), ["a"]);
        let page = site.services().admin.conflicts(ConflictQuery::default()).await.unwrap();
        assert!(page.conflicts.is_empty(), "{:?}", page.conflicts);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_member_is_still_one_and_catches_up() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    world.sites[0].put("photos", "a", "1").await.unwrap();
    assert_eq!(world.sites[1].get("photos", "a").await.unwrap(), "1");
    let id = world.sites[1].site().bucket("photos").await.unwrap().unwrap().id;
    world.sites[1]
        .until("the bucket is followed whole", || async { world.sites[1].site().is_complete(id) })
        .await;
    world.sites[1].stop().await;
    world.sites[0].put("photos", "b", "2").await.unwrap();
    world.sites[0].delete("photos", "a").await.unwrap();
    world.sites[1].start().await;
    assert!(world.sites[1].site().is_complete(id), "membership survives a restart");
    world.linked(&world.sites[1]).await;
    world.converged("photos").await;
    assert_eq!(world.sites[1].list("photos").await.unwrap(), ["b"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_with_a_token_sees_the_write() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", "0").await.unwrap();
    assert_eq!(two.get("photos", "a").await.unwrap(), "0");
    for n in 1..30 {
        let put = one.put("photos", "a", format!("{n}")).await.unwrap();
        let after = RequestContext { read: ReadMode::After(put.receipt.token.unwrap()), ..context() };
        assert_eq!(two.get_with("photos", "a", None, &after).await.unwrap(), format!("{n}"));
    }
    let latest = RequestContext { read: ReadMode::Latest, ..context() };
    one.put("photos", "a", "last").await.unwrap();
    assert_eq!(two.get_with("photos", "a", None, &latest).await.unwrap(), "last");
    two.cut(true).await;
    let refused = two.get_with("photos", "a", None, &latest).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_chunk_is_mended_from_a_copy_elsewhere() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let body = noise(3 << 20, 7);
    world.sites[0].put("photos", "a", body.clone()).await.unwrap();
    assert_eq!(world.sites[1].get("photos", "a").await.unwrap(), body);
    world.sites[0].stop().await;
    world.sites[0].damage(&body[(1 << 20) + 100..(1 << 20) + 164]);
    world.sites[0].start().await;
    world.linked(&world.sites[0]).await;
    let members = || async {
        let id = world.sites[0].site().bucket("photos").await.unwrap().unwrap().id;
        let asked = world.sites[0].site().drive.ask(move |machine, _| machine.members(id).len());
        asked.await == Some(1)
    };
    world.sites[0].until("the other member is known", members).await;
    assert_eq!(world.sites[0].get("photos", "a").await.unwrap(), body);
    assert_eq!(world.sites[0].payload_received(), 1 << 20, "one chunk came from the copy");
    let one = &world.sites[0];
    one.site().scrub.notify_one();
    let counted = || async {
        let report = one.services().admin.scrub().await.unwrap();
        (report.found, report.mended, report.damaged_chunks) == (1, 1, 0)
    };
    one.until("the scrub counts what the read mended", counted).await;
    assert_eq!(one.services().admin.status().await.unwrap().storage.mended_chunks, 1);
    assert_eq!(one.payload_received(), 1 << 20, "counting fetches nothing");
    world.sites[1].cut(true).await;
    assert_eq!(world.sites[0].get("photos", "a").await.unwrap(), body, "it is mended, not only passed on");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_mends_what_nobody_asked_for_and_tells_what_it_cannot() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let (copied, lonely) = (noise(3 << 20, 7), noise(1 << 20, 8));
    world.sites[0].put("photos", "copied", copied.clone()).await.unwrap();
    world.sites[0].put("photos", "lonely", lonely.clone()).await.unwrap();
    assert_eq!(world.sites[1].get("photos", "copied").await.unwrap(), copied);
    world.sites[0].stop().await;
    world.sites[0].damage(&copied[(1 << 20) + 100..(1 << 20) + 164]);
    world.sites[0].damage(&lonely[100..164]);
    world.sites[0].start().await;
    world.linked(&world.sites[0]).await;
    let members = || async {
        let id = world.sites[0].site().bucket("photos").await.unwrap().unwrap().id;
        let asked = world.sites[0].site().drive.ask(move |machine, _| machine.members(id).len());
        asked.await == Some(1)
    };
    world.sites[0].until("the other member is known", members).await;
    let admin = world.sites[0].services().admin.clone();
    let begun = ScrubRequest { pause: Some(false), begin: true };
    let round = admin.set_scrub(begun).await.unwrap().round;
    let ended = || async {
        let report = admin.scrub().await.unwrap();
        report.round == round && !report.running && report.mended == 1
    };
    world.sites[0].until("the round ended", ended).await;
    let report = admin.scrub().await.unwrap();
    assert_eq!((report.found, report.damaged_chunks, report.damaged_segments.len()), (2, 1, 0));
    assert_eq!(admin.status().await.unwrap().storage.damaged_chunks, 1);
    assert_eq!(world.sites[0].payload_received(), 1 << 20, "only what was damaged was fetched");
    world.sites[1].cut(true).await;
    assert_eq!(
        world.sites[0].get("photos", "copied").await.unwrap(),
        copied,
        "mended before it was asked for"
    );
    world.sites[0].get("photos", "lonely").await.unwrap_err();
    world.stop().await;
}

/// A reader has the last copy of a record; its writer's disk is gone. Every member gets it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_writer_burned_reaches_all_from_its_reader() {
    let mut world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", noise(10, 1)).await.unwrap();
    for reader in [two, three] {
        let known = || async { reader.site().bucket("photos").await.unwrap().is_some() };
        reader.until("the bucket is known", known).await;
        assert_eq!(reader.get("photos", "a").await.unwrap(), noise(10, 1));
    }
    world.converged("photos").await;
    one.cut(true).await;
    one.put("photos", "b", noise(10, 2)).await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    let read = move |view: &dyn View| space::current(view, id, "b").map_err(unreadable);
    let record = one.site().read(read).await.unwrap().unwrap();
    // As a read of this object does, just before the disk goes.
    far::keep(two.site(), id, (), vec![record.clone()]).await.unwrap();
    world.sites[0].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    let vector = move |view: &dyn View| space::vector(view, id).map_err(unreadable);
    let before = three.site().read(vector).await.unwrap();
    // A link that comes back is when members look for what differs.
    two.cut(true).await;
    two.cut(false).await;
    three
        .until("the record came", || async { three.site().read(read).await.unwrap() == Some(record.clone()) })
        .await;
    assert_eq!(three.list("photos").await.unwrap(), ["a", "b"]);
    assert_eq!(three.site().read(vector).await.unwrap(), before, "what lies before it may be somewhere");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_disk_went_is_told_by_class_and_origin_and_adds_up() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    world.sites[0].put("photos", "a", noise(100_000, 1)).await.unwrap();
    assert_eq!(world.sites[1].get("photos", "a").await.unwrap().len(), 100_000);
    world.converged("photos").await;
    for site in &world.sites {
        site.cut(true).await;
    }
    world.sites[0].put("photos", "b", noise(30, 2)).await.unwrap();
    world.sites[1].put("photos", "b", noise(50, 3)).await.unwrap();
    for site in &world.sites {
        site.cut(false).await;
    }
    world.converged("photos").await;
    let admin = world.sites[0].services().admin.clone();
    let scanned = admin.space(SpaceQuery { scan: true }).await.unwrap();
    let photos: Vec<_> = scanned.rows.iter().filter(|row| row.bucket == "photos").collect();
    let bytes =
        |class: &str| photos.iter().filter(|row| row.class == class).map(|row| row.bytes).sum::<u64>();
    assert_eq!(bytes("live") + bytes("conflicts") + bytes("noncurrent"), 100_080);
    assert!(matches!(bytes("conflicts"), 30 | 50), "{photos:?}");
    let mut origins: Vec<&str> = photos.iter().map(|row| row.origin.as_str()).collect();
    origins.sort_unstable();
    origins.dedup();
    assert_eq!(origins.len(), 2, "{origins:?}");
    assert!(!scanned.partial && scanned.scanned > 0 && scanned.unsent_bytes.is_some());
    let counted = admin.space(SpaceQuery { scan: false }).await.unwrap();
    let sum = |rows: &[skerry_gateway::service::SpaceRow]| {
        rows.iter().filter(|row| row.bucket == "photos").map(|row| row.bytes).sum::<u64>()
    };
    assert_eq!((counted.scanned, sum(&counted.rows)), (0, sum(&scanned.rows)), "counters and records agree");
    let copies = world.sites[1].services().admin.space(SpaceQuery { scan: false }).await.unwrap();
    assert!(copies.cached_bytes >= 100_000, "what was read is a cached copy");
    let (config, _) = world.sites[0].settings();
    assert!(matches!(crate::space_used::offline(&config, true), Err(crate::check::CheckError::InUse(_))));
    drop(admin);
    world.sites[0].stop().await;
    let offline = crate::space_used::offline(&config, true).unwrap();
    assert_eq!((sum(&offline.rows), offline.unsent_bytes), (sum(&scanned.rows), None));
    world.stop().await;
}
