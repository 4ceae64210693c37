//! Conditions at a site of three nodes: decided with any of them gone, and never twice.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use skerry_base::kv::View;
use skerry_gateway::service::{
    BucketPatch, ErrorKind, EtagTest, GetObject, HomeRequest, JoinRequest, Outcome, PutOutcome,
    ReadConditions, ServiceError, WriteCondition,
};
use skerry_model::bucket::{Known, SiteDocument, SiteState, TenureDocument, site};

use super::nodes::leased;
use super::within::site_of;
use super::world::{TestSite, TestWorld, context, noise};
use crate::site::unreadable;
use crate::welcome::declare;

const BUCKET: &str = "photos";

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

fn matches(etag: &str) -> WriteCondition {
    WriteCondition { absent: false, matches: Some(EtagTest::OneOf(vec![etag.into()])) }
}

/// What may come of a condition while nodes come and go, but for a win.
fn is_no_win(error: &ServiceError) -> bool {
    let kinds = [
        ErrorKind::PreconditionFailed,
        ErrorKind::HomeUnreachable,
        ErrorKind::HomeNotNamed,
        ErrorKind::NoSuchKey,
    ];
    kinds.contains(&error.kind())
}

/// Tries until it is decided.
async fn win(node: &TestSite, key: &str, condition: WriteCondition) -> PutOutcome {
    let won = Mutex::new(None);
    node.until("a condition is decided", || async {
        match node.put_if(BUCKET, key, key.to_owned(), condition.clone()).await {
            Ok(done) => *won.lock().unwrap() = Some(done),
            // An attempt before may have been decided.
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => {
                assert_eq!(node.get(BUCKET, key).await.unwrap(), key, "{error}");
                *won.lock().unwrap() = Some(PutOutcome::default());
            }
            Err(error) => assert!(is_no_win(&error), "{error}"),
        }
        won.lock().unwrap().is_some()
    })
    .await;
    won.into_inner().unwrap().unwrap()
}

async fn named(node: &TestSite) -> Option<Known> {
    let (system, id) = (node.site().system, node.site().bucket(BUCKET).await.unwrap()?.id);
    node.site().read(move |view| Known::load(view, system, id).map_err(unreadable)).await.unwrap()
}

async fn known(node: &TestSite) -> Known {
    named(node).await.unwrap()
}

/// None either before the register has named the home, which is a moment after the bucket is made.
async fn tenure(node: &TestSite) -> Option<TenureDocument> {
    named(node).await?.tenure().cloned()
}

/// Waits until each of them can take the home over: it has all of a bucket that was just made.
pub(super) async fn ready(nodes: &[TestSite]) {
    for node in nodes {
        node.until("the tenure is open, and it has all", || async {
            let found = node.site().bucket(BUCKET).await.unwrap();
            found.is_some_and(|found| node.site().is_complete(found.id)) && tenure(node).await.is_some()
        })
        .await;
    }
}

async fn home_is(node: &TestSite, home: &str) {
    node.until("the home is known", || async {
        node.services().admin.bucket(BUCKET).await.is_ok_and(|found| found.home == home)
    })
    .await;
}

fn to(site: &str, destroyed: Option<&str>) -> HomeRequest {
    HomeRequest { site: site.into(), destroyed: destroyed.map(Into::into) }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_decided_while_the_homes_node_is_gone() {
    let mut world = site_of(3).await;
    // Before anybody had asked for a decision the home said that it is kept by all.
    ready(&world.sites).await;
    let first = won_for_the_site(&world.sites[1], "first".into()).await;
    for body in [noise(20, 1), noise(200_000, 2)] {
        let key = won_for_the_site(&world.sites[0], body).await;
        loses(&world.sites[2], &key).await;
    }
    let begun = world.sites[1].site().clock.now();
    world.sites[0].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three nodes") };
    win(two, "second", absent()).await;
    println!("{:?} without decisions", two.site().clock.now().since(begun));
    win(three, "third", absent()).await;
    for node in [two, three] {
        for key in [&first, "second", "third"] {
            loses(node, key).await;
        }
    }
    let home = known(two).await.home;
    // Once for the node that is gone; again where the next is silent for too long, as on a busy machine.
    let taken: u64 = [two, three].iter().map(|node| node.site().nodes.taken_over()).sum();
    assert!(
        [two.id(), three.id()].contains(&home.site) && taken >= 1 && home.epoch == 1 + taken,
        "{home:?} {taken}"
    );
    // The former home comes back, and is none: it asks.
    world.sites[0].start().await;
    leased(&world.sites[0], &[0, 1, 2]).await;
    win(&world.sites[0], "fourth", absent()).await;
    assert_eq!(known(&world.sites[0]).await.home.site, home.site);
    world.stop().await;
}

/// Wins a key with a body in scope `site`; which key that was. Of a try that is not answered nobody knows, so each has its own.
async fn won_for_the_site(node: &TestSite, body: Bytes) -> String {
    for attempt in 0..20 {
        let key = format!("{}-{attempt}", body.len());
        match node.put_if(BUCKET, &key, body.clone(), absent()).await {
            Ok(done) if done.receipt.scope.as_deref() == Some("site") => return key,
            // A node was silent for too long, and the view went on without it.
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::HomeUnreachable, "{error}"),
        }
    }
    panic!("none of twenty conditions was decided for the site")
}

/// What was won stays so; who decides may have no lease for a moment.
async fn loses(node: &TestSite, key: &str) {
    node.until("it is lost", || async {
        let lost = node.put_if(BUCKET, key, "other", absent()).await.unwrap_err();
        let kinds = [ErrorKind::PreconditionFailed, ErrorKind::HomeUnreachable];
        assert!(kinds.contains(&lost.kind()), "{lost}");
        lost.kind() == ErrorKind::PreconditionFailed
    })
    .await;
}

/// The body and ETag of the counter at a node.
async fn counter(node: &TestSite) -> Outcome<(String, String)> {
    let request = GetObject {
        bucket: BUCKET.into(),
        key: "counter".into(),
        version: None,
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    };
    let read = node.services().objects.get(&context(), request).await?;
    let mut stream = read.body.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(next) = stream.next().await {
        bytes.extend_from_slice(&next?);
    }
    Ok((String::from_utf8(bytes.to_vec()).unwrap(), read.info.etag))
}

/// Who won which number.
#[derive(Default)]
struct Wins(Mutex<BTreeMap<usize, String>>);

/// Appends its name to the counter through whichever node, by what it last read, until told to stop.
async fn count(world: &TestWorld, name: u64, wins: &Wins, ends: &AtomicBool) -> u64 {
    let (mut done, mut seed) = (0, name);
    let mut ticks = tokio::time::interval(Duration::from_millis(15));
    while !ends.load(Ordering::Relaxed) {
        ticks.tick().await;
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let node = |shift: u64| &world.sites[(seed >> shift) as usize % world.sites.len()];
        let Ok((body, etag)) = counter(node(33)).await else { continue };
        let (number, next) = (body.split(' ').count(), format!("{body} {name}-{done}-{}", seed % 1000));
        match node(40).put_if(BUCKET, "counter", next.clone(), matches(&etag)).await {
            Ok(_) => {
                done += 1;
                let twice = wins.0.lock().unwrap().insert(number, next.clone());
                assert_eq!(twice, None, "{number} was won twice; the other is {next}");
            }
            Err(error) => assert!(is_no_win(&error) || error.kind() == ErrorKind::Unreachable, "{error}"),
        }
    }
    done
}

/// Whichever node is cut off: no number is won twice, and no acknowledged win is undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_won_once_through_cuts() {
    let world = site_of(3).await;
    win(&world.sites[0], "counter", absent()).await;
    ready(&world.sites).await;
    let (wins, ends, longest) = (Wins::default(), AtomicBool::new(false), AtomicU64::new(0));
    let faults = async {
        for cut in [0, 1, 2, 0, 1] {
            let node = &world.sites[cut];
            let others: Vec<u32> = (0..3).filter(|seat| *seat != cut as u32).collect();
            let (begun, before) = (node.site().clock.now(), wins.0.lock().unwrap().len());
            node.cut(true).await;
            // Somebody wins without it.
            world.sites[others[0] as usize]
                .until("others win", || async {
                    let homes = known(&world.sites[others[0] as usize]).await.home.site;
                    homes != node.id() && wins.0.lock().unwrap().len() > before + 5
                })
                .await;
            longest.fetch_max(node.site().clock.now().since(begun).as_millis() as u64, Ordering::Relaxed);
            node.cut(false).await;
            leased(node, &[0, 1, 2]).await;
        }
        ends.store(true, Ordering::Relaxed);
    };
    let clients = futures::future::join_all((0..4).map(|name| count(&world, name, &wins, &ends)));
    let (_, won) = tokio::join!(faults, clients);
    println!("wins {won:?}; {} ms until five others won", longest.load(Ordering::Relaxed));
    let wins = wins.0.into_inner().unwrap();
    assert!(wins.len() > 30 && won.iter().all(|won| *won > 0), "{won:?}");
    // Of what was not answered some was decided; what was answered is there, each on what was there before.
    let last = format!("{} ", counter(&world.sites[0]).await.unwrap().0);
    for (number, body) in &wins {
        assert!(last.starts_with(&format!("{body} ")), "{number} was undone: {body} is not in {last}");
    }
    for node in &world.sites[1..] {
        node.until("all have the same", || async {
            counter(node).await.is_ok_and(|found| format!("{} ", found.0) == last)
        })
        .await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_moves_to_another_site_and_back_while_nodes_are_cut_off() {
    let world = TestWorld::of_nodes(3, 1).await;
    let [one, _, three, far] = &world.sites[..] else { panic!("three nodes and a site") };
    for node in &world.sites[..3] {
        leased(node, &[0, 1, 2]).await;
    }
    one.create_bucket(BUCKET).await.unwrap();
    win(one, "first", absent()).await;
    ready(&world.sites[..3]).await;
    let id = one.site().bucket(BUCKET).await.unwrap().unwrap().id;
    far.until("the bucket is known", || async { far.site().bucket(BUCKET).await.unwrap().is_some() }).await;
    far.site().join(id).await.unwrap();
    far.until("it has all", || async { far.site().is_complete(id) }).await;
    let refused = three.services().admin.move_home(BUCKET, to("site-2", None)).await.unwrap_err();
    assert!(refused.message().contains("only site-1 may"), "{refused}");
    // The home is cut off while it is on its way, again and again.
    let admin = one.services().admin.clone();
    let moving = async {
        one.until("it moved", || async {
            let moved = admin.move_home(BUCKET, to("site-2", None)).await;
            moved.is_ok_and(|moved| moved.site == "site-2") || known(one).await.home.site != one.id()
        })
        .await;
    };
    let faults = async {
        for _ in 0..2 {
            one.cut(true).await;
            one.cut(false).await;
            world.linked(one).await;
        }
    };
    tokio::join!(moving, faults);
    // Wherever it is now, there is one, and it decides.
    let home = known(one).await.home;
    let name = one.site().peers.roster.name(home.site);
    for site in &world.sites {
        home_is(site, &name).await;
    }
    win(three, "second", absent()).await;
    let lost = far.put_if(BUCKET, "second", "again", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{lost}");
    if home.site == far.id() {
        far.gives_home(BUCKET, to("site-1-2", None)).await;
        home_is(three, "site-1-2").await;
        win(one, "third", absent()).await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_is_replaced_only_when_all_nodes_of_its_site_are_gone() {
    let mut world = TestWorld::of_nodes(3, 1).await;
    for node in &world.sites[..3] {
        leased(node, &[0, 1, 2]).await;
    }
    world.sites[1].create_bucket(BUCKET).await.unwrap();
    win(&world.sites[1], "first", absent()).await;
    home_is(&world.sites[0], "site-1-1").await;
    ready(&world.sites[..3]).await;
    world.sites[1].stop().await;
    let ask = |node: &TestSite| {
        let admin = node.services().admin.clone();
        async move { admin.move_home(BUCKET, to("site-2", Some("site-1-1"))).await }
    };
    let refused = ask(&world.sites[0]).await.unwrap_err();
    let is_kept = refused.message().contains("take its homes over by themselves");
    let is_taken = refused.message().contains("is not the home");
    assert!(is_kept || is_taken, "{refused}");
    win(&world.sites[2], "second", absent()).await;
    let refused = ask(&world.sites[0]).await.unwrap_err();
    assert!(refused.message().contains("is not the home, site-1"), "{refused}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_where_a_live_node_does_not_keep_the_bucket() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    win(one, "first", absent()).await;
    let patch =
        BucketPatch { residency: Some(vec!["site-1".into(), "site-1-1".into()]), ..BucketPatch::default() };
    one.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    for node in [one, two] {
        let refused = node.put_if(BUCKET, "second", "body", absent()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{refused}");
        assert!(refused.message().contains("photos may not lie at site-1-2"), "{refused}");
    }
    let patch = BucketPatch { residency: Some(Vec::new()), ..BucketPatch::default() };
    one.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    win(two, "second", absent()).await;
    assert_eq!(one.get(BUCKET, "second").await.unwrap(), "second");
    // By an operator's word of one node: that is heard when it is asked.
    three.services().admin.leave_bucket(BUCKET).await.unwrap();
    let id = three.site().bucket(BUCKET).await.unwrap().unwrap().id;
    three.until("it has left", || async { !three.site().is_member(id) }).await;
    let refused = one.put_if(BUCKET, "third", "body", absent()).await.unwrap_err();
    assert!(refused.message().contains("site-1-2: site-1-2 keeps no copies of photos"), "{refused}");
    assert!(refused.message().contains("may have been decided"), "{refused}");
    let refused = one.put_if(BUCKET, "fourth", "body", absent()).await.unwrap_err();
    assert!(refused.message().contains("only if all live nodes of the site keep it"), "{refused}");
    assert_eq!(one.get(BUCKET, "fourth").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    leased(one, &[0, 1, 2]).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_does_not_keep_it_does_not_read_for_the_site_before_it_has_fetched_it() {
    let mut world = site_of(3).await;
    win(&world.sites[0], "first", absent()).await;
    let id = world.sites[0].site().bucket(BUCKET).await.unwrap().unwrap().id;
    let gap = |node: &TestSite| node.site().nodes.has_gap(id);
    let three = &world.sites[2];
    // Who could not renew its lease in time is written without, and follows it a moment later.
    three.until("it keeps it", || async { three.site().is_complete(id) }).await;
    three.services().admin.leave_bucket(BUCKET).await.unwrap();
    three.until("it has left", || async { !three.site().is_member(id) }).await;
    assert_eq!([0, 1, 2].map(|node| gap(&world.sites[node])), [false, false, true]);
    world.sites[2].stop().await;
    world.sites[2].start().await;
    let three = &world.sites[2];
    leased(three, &[0, 1, 2]).await;
    assert!(gap(three), "it is remembered, and it does not keep it");
    three.services().admin.join_bucket(BUCKET, JoinRequest::default()).await.unwrap();
    three.until("it follows it whole", || async { three.site().is_complete(id) }).await;
    assert!(!three.site().reads_for_site(id), "the feeds bring no records ahead of vectors");
    world.sites[2].stop().await;
    world.sites[2].start().await;
    let three = &world.sites[2];
    leased(three, &[0, 1, 2]).await;
    three.until("it reads it for the site", || async { three.site().reads_for_site(id) }).await;
    assert!(!gap(three));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_home_decides_alone_at_a_site_of_two_nodes() {
    let mut world = site_of(2).await;
    win(&world.sites[0], "first", absent()).await;
    world.sites[1].stop().await;
    world.sites[0].put_if(BUCKET, "second", "second", absent()).await.unwrap();
    assert_eq!(tenure(&world.sites[0]).await, None);
    world.stop().await;
}

/// What a condition costs: run with `--ignored` and `--nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_a_condition_costs() {
    let world = site_of(3).await;
    win(&world.sites[0], "warm", absent()).await;
    for (name, node) in [("the home", &world.sites[0]), ("another node", &world.sites[1])] {
        for condition in [absent(), WriteCondition::default()] {
            let mut times: Vec<Duration> = Vec::new();
            for n in 0..200 {
                let (key, body) = (format!("{name}-{n}-{}", condition.absent), noise(4096, n));
                let begun = node.site().clock.now();
                node.put_if(BUCKET, &key, body, condition.clone()).await.unwrap();
                times.push(node.site().clock.now().since(begun));
            }
            times.sort();
            let of = (condition.absent, times[100], times[198]);
            println!("through {name}: (a condition, median, 99 of 100 below) {of:?}");
        }
    }
    world.stop().await;
}

/// Keeps a site from pulling anything until it is dropped; questions between sites and nodes go on.
fn hold(node: &TestSite) -> std::sync::mpsc::Sender<()> {
    let (resume, held) = std::sync::mpsc::channel::<()>();
    let drive = node.site().drive.clone();
    tokio::spawn(async move { drive.ask(move |_, _| held.recv().is_err()).await });
    resume
}

/// What another site decided before it gave the home to one of several nodes burns with that node only where nobody else has it.
#[tokio::test(flavor = "multi_thread")]
async fn who_follows_a_home_that_is_gone_for_good_hears_first_what_other_sites_had_decided() {
    let mut world = TestWorld::of_nodes(3, 1).await;
    for node in &world.sites[..3] {
        leased(node, &[0, 1, 2]).await;
    }
    world.sites[3].create_bucket(BUCKET).await.unwrap();
    home_is(&world.sites[3], "site-2").await;
    for node in &world.sites[..3] {
        node.until("the bucket is known", || async { node.site().bucket(BUCKET).await.unwrap().is_some() })
            .await;
        let id = node.site().bucket(BUCKET).await.unwrap().unwrap().id;
        node.site().join(id).await.unwrap();
        node.until("it has all of it", || async { node.site().is_complete(id) }).await;
        world.until_linked(node, &world.sites[3]).await;
    }
    let held = [0, 2].map(|n| hold(&world.sites[n]));
    world.sites[3].put_if(BUCKET, "lock", "far", absent()).await.unwrap();
    world.sites[3].gives_home(BUCKET, to("site-1-1", None)).await;
    let gone = world.sites[1].id();
    for node in &world.sites[..3] {
        node.until("it knows that the home is kept among the nodes", || async {
            named(node).await.is_some_and(|known| known.home.site == gone && known.tenure().is_some())
        })
        .await;
    }
    world.sites[1].stop().await;
    for node in [0, 2].map(|n| &world.sites[n]) {
        assert!(!known(node).await.is_ready, "what was decided is not here");
        let id = node.site().bucket(BUCKET).await.unwrap().unwrap().id;
        node.until("the others go on without it", || async {
            let within = node.site().within(id);
            within.reads && !within.live.contains(&gone)
        })
        .await;
        let system = node.site().system;
        let document = move |view: &dyn View| site(view, system, gone).map_err(unreadable);
        let document = node.site().read(document).await.unwrap().unwrap();
        let document = SiteDocument { state: SiteState::Expelled, ..document };
        declare(node.site(), "", gone, document).await.unwrap();
    }
    for node in [0, 2, 0, 2].map(|n| &world.sites[n]) {
        // It waits for what it has heard of.
        let tried =
            tokio::time::timeout(Duration::from_secs(5), node.put_if(BUCKET, "lock", "again", absent()));
        let won = tried.await.is_ok_and(|decided| decided.is_ok());
        assert!(!won, "it was decided elsewhere, and won once more");
    }
    drop(held);
    for node in [0, 2].map(|n| &world.sites[n]) {
        loses(node, "lock").await;
        assert_eq!(node.get(BUCKET, "lock").await.unwrap(), "far");
    }
    world.stop().await;
}
