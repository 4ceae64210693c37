//! A first read of a bucket that a site knows nothing of: record and bytes come with the answer that there is a member.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skerry_base::{BucketId, Vector, codec};
use skerry_federation::message::{Message, Said};
use skerry_federation::{Input, limits};
use skerry_gateway::service::{BucketPatch, ByteRange, ErrorKind};
use tokio::io::AsyncWriteExt;

use super::landmarks::{SITES, settled};
use super::world::{TestSite, TestWorld, context, noise};
use crate::net::{Net, PeerAddress, Stream, frame};
use crate::peers::message::{Part, Read, Request, Response, Sought, Which};
use crate::peers::{mark, packed};

/// Objects that a site has asked others for.
fn asked(site: &TestSite) -> u64 {
    site.site().peers.reads.load(Ordering::Relaxed)
}

async fn knows_name(site: &TestSite, name: &str) -> BucketId {
    site.until("the name is known", || async { site.site().bucket(name).await.unwrap().is_some() }).await;
    site.site().bucket(name).await.unwrap().unwrap().id
}

/// The bucket is not followed by who reads it.
async fn manual(site: &TestSite, bucket: &str) {
    let patch = BucketPatch { join: Some("manual".into()), ..BucketPatch::default() };
    site.services().admin.update_bucket(bucket, patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_landmarks_a_first_read_asks_nobody_once_more() {
    let world = TestWorld::new(SITES).await;
    let top = settled(&world).await;
    let mut low = (0..SITES).filter(|site| !top.contains(site));
    let home = &world.sites[low.next().unwrap()];
    home.create_bucket("tide").await.unwrap();
    manual(home, "tide").await;
    let bodies = [noise(200, 1), noise(200_000, 2), noise((3 << 20) + 5, 3)];
    for (n, body) in bodies.iter().enumerate() {
        home.put("tide", &format!("{n}"), body.clone()).await.unwrap();
    }
    let id = knows_name(home, "tide").await;
    settled(&world).await;
    let mut seen = 0;
    for reader in low {
        let reader = &world.sites[reader];
        knows_name(reader, "tide").await;
        // Who happens to be a landmark of the home asks it at once.
        let known = reader.site().drive.ask(move |machine, _| machine.members(id)).await.unwrap();
        if !known.is_empty() {
            continue;
        }
        let (n, body) = (seen % 3, &bodies[seen % 3]);
        assert_eq!(reader.get("tide", &format!("{n}")).await.unwrap(), *body);
        assert_eq!(asked(reader), 0, "it was given, and not asked for");
        assert!(!reader.site().peers.awaits_gifts(), "nothing is waited for any more");
        seen += 1;
    }
    assert!(seen >= 3, "{seen} sites knew nothing");
    world.stop().await;
}

/// Two sites and a third, which has forgotten who follows the bucket.
async fn forgetful() -> (TestWorld, BucketId) {
    let world = TestWorld::new(3).await;
    let home = &world.sites[0];
    home.create_bucket("tide").await.unwrap();
    manual(home, "tide").await;
    home.put("tide", "log", noise(40_000, 1)).await.unwrap();
    let id = knows_name(home, "tide").await;
    let reader = &world.sites[2];
    knows_name(reader, "tide").await;
    let speaks = || async {
        world.sites.iter().all(|site| reader.id() == site.id() || reader.site().peers.has_marks(site.node()))
    };
    reader.until("it is known what all speak", speaks).await;
    (world, id)
}

async fn forget(reader: &TestSite, home: &TestSite, id: BucketId) {
    let known = || async {
        let members = reader.site().drive.ask(move |machine, _| machine.members(id)).await.unwrap();
        !members.is_empty()
    };
    reader.until("the member is known", known).await;
    reader.site().drive.tell(Input::Refuted { bucket: id, site: home.id() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_are_landmarks_it_is_given_too_and_so_is_the_word_that_there_is_nothing() {
    let (world, id) = forgetful().await;
    let (home, reader) = (&world.sites[0], &world.sites[2]);
    forget(reader, home, id).await;
    let range = Some(ByteRange::Between { first: 10, last: 19 });
    let part = reader.get_with("tide", "log", range, &context()).await.unwrap();
    assert_eq!(part, noise(40_000, 1).slice(10..20));
    assert_eq!(asked(reader), 0);
    // Somebody may say who follows it in between: then that one is asked, as ever.
    let is_given = || async {
        forget(reader, home, id).await;
        let before = asked(reader);
        let missing = reader.get("tide", "nothing").await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NoSuchKey);
        asked(reader) == before
    };
    reader.until("the word that there is nothing is given", is_given).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_bucket_that_is_bound_to_sites_are_told_to_no_landmark() {
    let (world, id) = forgetful().await;
    let (home, reader) = (&world.sites[0], &world.sites[2]);
    let residency = Some(vec!["site-1".into()]);
    let patch = BucketPatch { residency, ..BucketPatch::default() };
    home.services().admin.update_bucket("tide", patch).await.unwrap();
    let bound =
        || async { !reader.site().bucket("tide").await.unwrap().unwrap().config.residency.is_empty() };
    reader.until("the setting is known", bound).await;
    forget(reader, home, id).await;
    assert_eq!(reader.get("tide", "log").await.unwrap(), noise(40_000, 1));
    assert!(asked(reader) > 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_is_dropped() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let net = two.bare();
    net.set_peers(vec![PeerAddress { key: one.key(), addresses: Vec::new() }]);
    one.until("it is linked", || async { one.site().linked(two.id()) }).await;
    let mut stream = net.open(one.node()).await.unwrap();
    frame::write(&mut stream, &codec::encode(&Request::Give { token: 7 })).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), frame::read(&mut stream)).await.unwrap();
    assert!(!matches!(answer, Ok(Some(_))), "its stream ends without a word");
    let body = vec![0; 1 << 20];
    assert!(stream.write_all(&body).await.is_err(), "and takes nothing");
    world.stop().await;
}

/// A site of this release that says that it gives, and answers only who asks.
async fn promises(stream: &mut Stream, one: &TestSite, net: &Arc<crate::net::memory::MemoryNet>) {
    let Ok(Some(first)) = frame::read(stream).await else { return };
    match codec::decode(mark::read(&first).1) {
        Ok(Request::Words { .. }) => {
            let words = codec::encode(&Response::Words { dialect: mark::DIALECT });
            frame::write(stream, &words).await.unwrap();
        }
        Ok(Request::Read(_)) => {
            let nothing = Response::NoObject { marker: None, vector: Vector::new() };
            frame::write(stream, &codec::encode(&nothing)).await.unwrap();
        }
        Ok(Request::Control) => {
            while let Ok(Some(frame)) = frame::read(stream).await {
                let message = Message::decode(&packed::open(frame).unwrap());
                let Ok(Message::Seek(seek)) = message else { continue };
                let sought: Sought = codec::decode(&seek.wanted).unwrap();
                assert_eq!((sought.read.key.as_str(), sought.most), ("log", 1 << 20));
                let said = Message::Said { ticket: seek.ticket, bucket: seek.bucket, said: Said::Giving };
                let mut control = net.open(one.node()).await.unwrap();
                frame::write(&mut control, &codec::encode(&Request::Control)).await.unwrap();
                frame::write(&mut control, &said.encode()).await.unwrap();
                // Open as long as the other one is.
                tokio::spawn(async move { frame::read(&mut control).await.ok() });
            }
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_that_it_gives_and_does_not_is_asked() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].create_bucket("tide").await.unwrap();
    knows_name(&world.sites[0], "tide").await;
    world.sites[1].stop().await;
    let world = Arc::new(world);
    let net = world.sites[1].bare();
    net.set_peers(vec![PeerAddress { key: world.sites[0].key(), addresses: Vec::new() }]);
    let (accepting, sites) = (net.clone(), world.clone());
    let served = tokio::spawn(async move {
        while let Some((_, mut stream)) = accepting.accept().await {
            let (net, sites) = (accepting.clone(), sites.clone());
            tokio::spawn(async move { promises(&mut stream, &sites.sites[0], &net).await });
        }
    });
    let (one, two) = (&world.sites[0], &world.sites[1]);
    let id = knows_name(one, "tide").await;
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    one.site().drive.tell(Input::Refuted { bucket: id, site: two.id() });
    let missing = one.get("tide", "log").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoSuchKey, "{missing}");
    assert_eq!(asked(one), 1);
    served.abort();
    served.await.ok();
    one.site().peers.net().close().await;
}

#[test]
fn what_is_wanted_is_bounded() {
    let read = |length| Read {
        bucket: BucketId([1; 16]),
        key: "k".repeat(length),
        which: Which::Current,
        part: Part::Between(u64::MAX, u64::MAX),
    };
    let longest = Sought { token: u64::MAX, read: read(1024), most: u32::MAX };
    assert!(codec::encode(&longest).len() <= limits::WANTED_BYTES);
}
