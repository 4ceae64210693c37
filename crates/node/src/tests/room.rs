//! Bodies when the memory for them is all in use: downloads go on in small pieces, uploads wait, small ones do not.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use skerry_base::WallTime;
use skerry_base::limits::{CHUNK_BYTES, CHUNK_REST_MS};
use skerry_gateway::conformance::{Client, Credentials};
use skerry_gateway::service::{
    BucketPatch, Expected, GetObject, Md5Batch, Outcome, PutObject, ReadConditions, UploadBody,
    WriteCondition,
};

use super::world::{TestSite, TestWorld, asked, context, key, noise, put_of};
use crate::bulk::{Bulk, Grant};
use crate::incoming::Incoming;
use crate::server::{Core, Running};

type Sender = tokio::sync::mpsc::UnboundedSender<Outcome<Bytes>>;

/// Far from the minute for which uploads wait for room.
const PROMPT: Duration = Duration::from_secs(30);

/// Takes all of a room.
fn all(room: &Bulk) -> Grant {
    room.try_take(room.bytes()).unwrap()
}

/// Takes all that chunks of uploads begin in, but for so many bytes.
fn quick(room: &Incoming, but: usize) -> Grant {
    room.try_take(room.bytes() / 2 - but).unwrap()
}

/// One site on a machine with so many bytes.
async fn of_memory(memory: u64, md5: Option<Md5Batch>) -> TestWorld {
    let mut world = TestWorld::new(1).await;
    world.sites[0].stop().await;
    let (config, mut options) = world.sites[0].settings();
    (options.memory, options.md5) = (Some(memory), md5);
    world.sites[0].core = Some(Core::start(&config, options).await.unwrap());
    world
}

/// What a small machine is bounded by is what a site on it lets in, not only what a table says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_with_128_mib_lets_less_in_and_serves() {
    let world = of_memory(128 << 20, None).await;
    let site = &world.sites[0];
    let rooms = [&site.site().outgoing, &site.site().arriving, &site.site().holding];
    assert_eq!(
        (site.site().incoming.bytes(), rooms.map(Bulk::bytes)),
        (8 << 20, [4 << 20, 4 << 20, 2 << 20])
    );
    site.create_bucket("bulk").await.unwrap();
    let bodies: Vec<_> = (0..12).map(|n| noise(3 << 20, n)).collect();
    let put = bodies.iter().enumerate().map(|(n, body)| async move {
        site.put("bulk", &n.to_string(), body.clone()).await.unwrap();
    });
    futures::future::join_all(put).await;
    for (n, body) in bodies.iter().enumerate() {
        assert!(site.get("bulk", &n.to_string()).await.unwrap() == *body, "body {n}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_go_on_in_pieces_here_and_from_elsewhere() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("bulk").await.unwrap();
    let body = noise((3 << 20) + 77_777, 1);
    one.put("bulk", "k", body.clone()).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("bulk").await.unwrap().is_some() }).await;
    for site in [one, two] {
        // What lies in memory goes on in small pieces as well.
        let held = all(&site.site().outgoing);
        assert_eq!(site.get("bulk", "k").await.unwrap(), body);
        // As after a look-up that waited for the disk: nothing is read in place.
        site.site().quick.took(Duration::from_secs(1));
        assert_eq!(site.get("bulk", "k").await.unwrap(), body);
        drop(held);
    }
    assert_eq!(two.site().arriving.taken(), 0, "all of it was given back");
    let received = two.payload_received();
    let held = all(&two.site().outgoing);
    two.site().quick.took(Duration::from_secs(1));
    assert_eq!(two.get("bulk", "k").await.unwrap(), body);
    assert_eq!(two.payload_received(), received, "the pieces came from the copy that was kept");
    drop(held);
    world.stop().await;
}

/// A client that is slower than the time for which the collector lets things rest: 24 MiB in chunks, and 70 MiB in trees of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_goes_to_its_end_though_its_object_is_overwritten_and_deleted() {
    let world = TestWorld::new(1).await;
    let [one] = &world.sites[..] else { panic!("one site") };
    one.create_bucket("bulk").await.unwrap();
    let bodies = [noise(24 << 20, 1), noise(70 << 20, 2)];
    let mut reads = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        let key = format!("{n}");
        one.put("bulk", &key, body.clone()).await.unwrap();
        let request = GetObject {
            bucket: "bulk".into(),
            key: key.clone(),
            version: None,
            range: None,
            part: None,
            if_range: None,
            conditions: ReadConditions::default(),
        };
        reads.push(one.services().objects.get(&context(), request).await.unwrap().body.into_stream());
        one.put("bulk", &key, "another").await.unwrap();
    }
    one.delete("bulk", "0").await.unwrap();
    let (store, now) = (one.site().store.clone(), one.site().clock.wall().0);
    let collects = move || {
        // Noted as unwanted first, let go of when they have rested, given back after that.
        for turn in 1..=20 {
            store.collect(WallTime(now + turn * CHUNK_REST_MS)).unwrap();
        }
    };
    tokio::task::spawn_blocking(collects.clone()).await.unwrap();
    for (stream, body) in reads.into_iter().zip(bodies) {
        let pieces: Vec<Bytes> = stream.map(Result::unwrap).collect().await;
        assert!(pieces.concat() == body, "{} bytes", body.len());
    }
    tokio::task::spawn_blocking(collects).await.unwrap();
    let used = one.site().store.usage().payload.live;
    assert!(used < 1 << 20, "what nobody reads any more is given back: {used}");
    world.stop().await;
}

/// Nothing may be kept here, so what comes with the first piece of a chunk is all of it: it is sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_with_little_room_and_nothing_kept_is_the_object() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("bulk").await.unwrap();
    let bound = BucketPatch { residency: Some(vec!["site-1".into()]), ..BucketPatch::default() };
    one.services().admin.update_bucket("bulk", bound).await.unwrap();
    let body = noise((4 << 20) + 77_777, 1);
    one.put("bulk", "k", body.clone()).await.unwrap();
    let knows = || async {
        two.site().bucket("bulk").await.unwrap().is_some_and(|bucket| !bucket.may_lie_at(two.id()))
    };
    two.until("the binding is known", knows).await;
    for room in [1, 15, 16, 17, 31, 33] {
        let held = two.site().outgoing.try_take(two.site().outgoing.bytes() - room * (64 << 10)).unwrap();
        assert!(two.get("bulk", "k").await.unwrap() == body, "with room for {room} pieces");
        drop(held);
    }
    world.stop().await;
}

/// An upload of 4 MiB of which as much comes as is sent here.
fn silent<'a>(site: &'a TestSite, key: &'a str) -> (Sender, Pin<Box<dyn Future<Output = Outcome<()>> + 'a>>) {
    let (send, pieces) = tokio::sync::mpsc::unbounded_channel::<Outcome<Bytes>>();
    let pieces = futures::stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
    let expected = Expected { length: Some(4 << 20), ..Expected::default() };
    let body = UploadBody::new(pieces, expected);
    let request = PutObject { body, ..put_of("bulk", key, "", WriteCondition::default()) };
    let put = async move { site.services().objects.put(&context(), request).await.map(drop) };
    (send, Box::pin(put))
}

/// Chunks wait for the MD5 of others as long as there is room: who finds none has it computed, though their clients say nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_that_waits_for_company_gives_its_room_to_who_has_none() {
    let world = of_memory(256 << 20, Some(Md5Batch::with_company(7))).await;
    let site = &world.sites[0];
    let room = &site.site().incoming;
    site.create_bucket("bulk").await.unwrap();
    let silent = |key| silent(site, key);
    let ((one, first), (two, second)) = (silent("one"), silent("two"));
    let uploads = futures::future::join(first, second);
    let rest = async {
        let send = |bytes: usize| [&one, &two].map(|to| to.send(Ok(noise(bytes, 1))).unwrap());
        send(1);
        site.until("both have begun", || async { room.taken() == 2 * CHUNK_BYTES }).await;
        // Each has a chunk that is whole, and one that is begun.
        send(CHUNK_BYTES);
        site.until("both have begun another", || async { room.taken() == 4 * CHUNK_BYTES }).await;
        // What is begun makes way; all but what is whole is taken by others.
        let all_else = room.bytes() / 2 - 2 * CHUNK_BYTES;
        site.until("what is begun has made way", || async { room.try_take(all_else).is_some() }).await;
        let held = quick(room, 2 * CHUNK_BYTES);
        let third = site.put("bulk", "three", noise(2 << 20, 3));
        tokio::time::timeout(PROMPT, third).await.unwrap().unwrap();
        drop((held, one, two));
    };
    let (ended, ()) = tokio::join!(uploads, rest);
    assert!(ended.0.is_err() && ended.1.is_err(), "they were not whole");
    world.stop().await;
}

/// Clients that say nothing more and one whose bytes trickle have as many chunks as begin at once: who is quick goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_come_slowly_make_way_for_those_that_do_not() {
    let world = of_memory(128 << 20, None).await;
    let site = &world.sites[0];
    let room = &site.site().incoming;
    site.create_bucket("bulk").await.unwrap();
    let (sends, puts): (Vec<_>, Vec<_>) =
        ["1", "2", "3", "4"].map(|key| silent(site, key)).into_iter().unzip();
    let quick_one = async {
        sends.iter().for_each(|send| send.send(Ok(Bytes::from_static(b"-"))).unwrap());
        site.until("all have begun", || async { room.taken() == 4 * CHUNK_BYTES }).await;
        let trickles = async || {
            sends[3].send(Ok(Bytes::from_static(b"-"))).unwrap();
            room.try_take(room.bytes() / 2).is_some()
        };
        site.until("they make way", trickles).await;
        assert_eq!(room.taken(), 4 * CHUNK_BYTES, "they have room all the same");
        let body = noise(6 << 20, 5);
        tokio::time::timeout(PROMPT, site.put("bulk", "k", body.clone())).await.unwrap().unwrap();
        assert!(site.get("bulk", "k").await.unwrap() == body);
        drop(sends);
    };
    let (ended, ()) = tokio::join!(futures::future::join_all(puts), quick_one);
    assert!(ended.iter().all(Outcome::is_err), "they were not whole");
    assert_eq!(room.taken(), 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_uploads_wait_for_room_and_small_ones_do_not() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("bulk").await.unwrap();
    let held = quick(&site.site().incoming, 0);
    let mut large = Box::pin(site.put("bulk", "large", noise(2 << 20, 2)));
    let small = async {
        site.put("bulk", "small", noise(4 << 10, 3)).await.unwrap();
        assert_eq!(site.get("bulk", "small").await.unwrap(), noise(4 << 10, 3));
    };
    tokio::select! {
        biased;
        done = &mut large => panic!("there was no room: {done:?}"),
        () = small => {}
    }
    drop(held);
    large.await.unwrap();
    assert_eq!(site.get("bulk", "large").await.unwrap(), noise(2 << 20, 2));
    let all_of_it = || async { site.site().incoming.taken() == 0 };
    site.until("all of it is given back", all_of_it).await;
    world.stop().await;
}

/// Bodies that share a connection of HTTP/2 share its window: those that wait for room leave some to those that have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_one_connection_do_not_hold_each_other_up() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].stop().await;
    let (config, options) = world.sites[0].settings();
    let running = Running::start(&config, options).await.unwrap();
    let incoming = &running.core().site.incoming;
    // Room for two chunks.
    let _held = quick(incoming, 2 * CHUNK_BYTES);
    let credentials = Credentials { access_key: key().id, secret: key().secret };
    let client = Client::new(&format!("http://{}", running.endpoints.s3), credentials);
    client.put_together(vec![("/bulk".into(), Bytes::new())]).await.unwrap();
    // As many as may wait; then more than that.
    for bodies in [3, 12] {
        let puts = (0..bodies).map(|n| (format!("/bulk/{n}"), noise(4 * CHUNK_BYTES, n))).collect();
        let answered = tokio::time::timeout(PROMPT, client.put_together(puts)).await;
        let Ok(answers) = answered else { panic!("they hold each other up") };
        let answers = answers.unwrap();
        let stored = answers.iter().filter(|answer| answer.status == 200).count();
        let told = answers.iter().filter(|answer| answer.element("Code") == "SlowDown").count();
        assert!(stored >= 3 && stored + told == answers.len(), "{stored} stored, {told} refused");
    }
    running.shutdown().await;
}

/// What metrics have of a series.
fn value(metrics: &str, series: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} in {metrics}")).parse().unwrap()
}

/// Who sees 503 finds out which bound it was, and how full each is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_that_is_full_is_told_by_its_name_and_so_is_who_was_refused_for_it() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].stop().await;
    let (mut config, mut options) = world.sites[0].settings();
    // Links of TCP have a bound of their own.
    (options.net, config.peer.listen) = (None, "127.0.0.1:0".into());
    let running = Running::start(&config, options).await.unwrap();
    let address = running.endpoints.s3.to_string();
    let metrics = async || asked(&address, "/_skerry/metrics").await;
    let told = metrics().await;
    for (kind, names) in [
        (
            "room",
            "incoming outgoing arriving holding bringing memtables index_cache dirty documents http2_windows backlog outbox",
        ),
        (
            "places",
            "commits commits_behind writing forwards parts parts_resting outbox_messages connections http2_requests long_requests abandoned",
        ),
    ] {
        let unit = if kind == "room" { "_bytes" } else { "" };
        for name in names.split(' ') {
            let most = value(&told, &format!("skerry_{kind}{unit}{{of=\"{name}\"}}"));
            let taken = value(&told, &format!("skerry_{kind}_taken{unit}{{of=\"{name}\"}}"));
            assert!(most > 0 && taken <= most, "{name}: {taken} of {most}");
        }
    }
    let refused = |told: &str, reason: &str| {
        value(told, &format!("skerry_refused_requests_total{{reason=\"{reason}\"}}"))
    };
    assert_eq!((refused(&told, "http2_bodies"), refused(&told, "incoming")), (0, 0));
    let incoming = &running.core().site.incoming;
    let held = [incoming.make_way(quick(incoming, 0)), quick(incoming, 0)];
    let credentials = Credentials { access_key: key().id, secret: key().secret };
    let client = Client::new(&format!("http://{address}"), credentials);
    client.put_together(vec![("/bulk".into(), Bytes::new())]).await.unwrap();
    let puts = (0..12).map(|n| (format!("/bulk/{n}"), noise(CHUNK_BYTES, n))).collect();
    let put = tokio::spawn(async move { client.put_together(puts).await.unwrap() });
    // Three may wait for room beside each other; the others are told at once.
    let full = async {
        loop {
            let told = metrics().await;
            if refused(&told, "http2_bodies") == 9 {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(PROMPT, full).await.unwrap();
    let of_incoming =
        |told: &str, of: &str| value(told, &format!("skerry_room{of}_bytes{{of=\"incoming\"}}"));
    assert_eq!(of_incoming(&told, "_taken"), of_incoming(&told, ""));
    assert!(value(&told, "skerry_places_taken{of=\"http2_requests\"}") >= 2);
    assert!(value(&told, "skerry_places_taken{of=\"connections\"}") >= 1);
    drop(held);
    let answers = put.await.unwrap();
    assert_eq!(answers.iter().filter(|answer| answer.element("Code") == "SlowDown").count(), 9);
    assert_eq!(of_incoming(&metrics().await, "_taken"), 0);
    running.shutdown().await;
}
