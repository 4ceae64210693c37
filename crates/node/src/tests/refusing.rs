//! Nodes that cannot hold what the others of their site write (frozen, full): they leave the view by themselves, and come back
//! when they can.

use std::time::Duration;

use skerry_base::WallTime;
use skerry_base::kv::View;
use skerry_base::limits::CHUNK_REST_MS;
use skerry_gateway::service::{
    DeleteObject, DeleteTarget, DutyRequest, ErrorKind, NodesReport, RequestContext, WriteCondition,
};

use skerry_model::space;

use super::nodes::leased;
use super::tenures::ready;
use super::within::{get, list, put, sees, site_of};
use super::world::{TestSite, TestWorld, context, noise};
use crate::copies::look::is_here;
use crate::peers::Waits;
use crate::server::Core;

const NAMES: [&str; 3] = ["site-1", "site-1-1", "site-1-2"];

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

pub(super) async fn say(at: &TestSite, about: &str, duty: &str) {
    let request = DutyRequest { duty: duty.into(), abandon_uploads: false };
    at.services().admin.set_duty(about, request).await.unwrap();
}

async fn view(node: &TestSite) -> NodesReport {
    node.services().admin.status().await.unwrap().nodes.unwrap()
}

/// Waits until a node has these in its view, and knows who cannot hold.
pub(super) async fn settles(node: &TestSite, live: &[u32], unable: &[u32]) {
    node.until("the view is as it should be", || async {
        let nodes = view(node).await.nodes;
        let of = |is: fn(&skerry_gateway::service::NodeStatus) -> bool| -> Vec<u32> {
            nodes.iter().filter(|of| is(of)).map(|of| of.seat).collect()
        };
        of(|of| of.role == "live") == live && of(|of| of.unable.is_some()) == unable
    })
    .await;
}

/// How long writes through a node take, each as the site's; the longest.
async fn writes(node: &TestSite, count: usize, prefix: &str) -> Duration {
    let mut longest = Duration::ZERO;
    for n in 0..count {
        let begun = node.site().clock.now();
        put(node, &format!("{prefix}-{n}"), noise(20_000, n as u64)).await.unwrap();
        longest = longest.max(node.site().clock.now().since(begun));
    }
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_leaves_the_view_and_its_homes_pass_and_it_comes_back() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(two, "before", "body").await.unwrap();
    // A home that was frozen before it had said so to the others could be followed by nobody.
    ready(&world.sites).await;
    say(three, NAMES[0], "freeze").await;
    let longest = writes(two, 40, "a").await;
    println!("{longest:?} was the longest write while a node left");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    for node in [one, two, three] {
        settles(node, &[1, 2], &[0]).await;
    }
    let (epoch, standing) = (view(two).await.epoch, view(one).await.standing);
    assert_eq!(standing, "apart");
    // It answers reads, with what the others have.
    sees(one, "a-39", &noise(20_000, 39)).await;
    let refused = one.put("photos", "k", "x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing, "{refused}");
    // Conditions are decided by another node.
    two.until("a condition is decided", || async {
        match two.put_if("photos", "lock", "x", absent()).await {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::PreconditionFailed,
        }
    })
    .await;
    let lost = three.put_if("photos", "lock", "y", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{lost}");
    let began = two.site().clock.now();
    while two.site().clock.now().since(began) < Duration::from_secs(4) {
        assert!(writes(two, 1, "b").await < Duration::from_secs(2));
    }
    assert_eq!(view(two).await.epoch, epoch, "nothing changes while it is frozen");
    say(two, NAMES[0], "serve").await;
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
        settles(node, &[0, 1, 2], &[]).await;
    }
    put(one, "after", "body").await.unwrap();
    assert_eq!(get(one, "b-0").await.unwrap(), (noise(20_000, 0), "site".into()));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_most_nodes_are_frozen_writes_are_answered_at_once_and_reads_go_on() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "before", "body").await.unwrap();
    // The first leaves the view; the second cannot, as the one that is left is no majority. Said at once they might
    // both stay or one go, a moment later.
    say(one, NAMES[1], "freeze").await;
    settles(one, &[0, 2], &[1]).await;
    say(one, NAMES[2], "freeze").await;
    one.until("two cannot hold", || async {
        view(one).await.nodes.iter().filter(|of| of.unable.is_some()).count() == 2
    })
    .await;
    let epoch = view(one).await.epoch;
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    for n in 0..5 {
        let begun = one.site().clock.now();
        let refused = one.put_in(&asks, "photos", &format!("asked-{n}"), "x").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "{refused}");
        assert!(refused.message().contains("frozen"), "{refused}");
        let kept = one.put("photos", &format!("plain-{n}"), "x").await.unwrap();
        assert_eq!(kept.receipt.scope.as_deref(), Some("node"));
        let refused = one.put_if("photos", &format!("lock-{n}"), "x", absent()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{refused}");
        assert!(refused.message().contains("frozen"), "{refused}");
        let took = one.site().clock.now().since(begun);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert_eq!(get(one, "before").await.unwrap(), ("body".into(), "site".into()));
    assert_eq!(view(one).await.epoch, epoch, "the view stays");
    say(one, NAMES[1], "serve").await;
    for node in [one, two] {
        settles(node, &[0, 1], &[2]).await;
    }
    put(two, "after", "body").await.unwrap();
    say(one, NAMES[2], "serve").await;
    leased(three, &[0, 1, 2]).await;
    assert_eq!(get(three, "after").await.unwrap(), ("body".into(), "site".into()));
    // What was answered for one node is the others' as well by now, or soon.
    three.until("it has it", || async { three.get("photos", "plain-4").await.is_ok() }).await;
    world.stop().await;
}

async fn remove(node: &TestSite, key: String) {
    let target = DeleteTarget { key, version: None, condition: WriteCondition::default() };
    let request = DeleteObject { bucket: "photos".into(), target };
    node.services().objects.delete(&context(), request).await.unwrap();
}

/// Keeps the commits of a node from going on, as a disk that hangs does, until it is dropped.
pub(super) struct Hung {
    _gate: std::sync::mpsc::Sender<()>,
}

impl Hung {
    pub(super) fn of(node: &TestSite) -> Self {
        let (gate, opens) = std::sync::mpsc::channel::<()>();
        let waits = move |_: &dyn View| {
            opens.recv().ok();
            Ok::<_, std::convert::Infallible>(((), Vec::new()))
        };
        node.site().store.submit(waits, |_| ());
        Self { _gate: gate }
    }
}

/// Its node goes on beating, and nobody makes a plain write by which the others would find it late.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_whose_disk_hangs_passes_on_by_itself_and_its_node_comes_back() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    ready(&world.sites).await;
    one.put_if("photos", "first", "body", absent()).await.unwrap();
    let hung = Hung::of(one);
    settles(two, &[1, 2], &[0]).await;
    let decides = || async {
        let won = two.put_if("photos", "second", "body", absent()).await;
        won.is_ok() || matches!(&won, Err(error) if error.kind() == ErrorKind::PreconditionFailed)
    };
    two.until("another node decides", decides).await;
    loses(three, "first").await;
    drop(hung);
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
    }
    loses(one, "second").await;
    world.stop().await;
}

/// The others read for the site, and have not what was written here alone.
#[tokio::test(flavor = "multi_thread")]
async fn who_writes_through_a_node_outside_of_the_view_lists_what_it_wrote() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "first", "body").await.unwrap();
    sees(three, "first", &"body".into()).await;
    three.site().nodes.stand_aside(true);
    settles(one, &[0, 1], &[2]).await;
    leased(two, &[0, 1]).await;
    // Records of three come to them, and are stored by neither.
    let hung = [Hung::of(one), Hung::of(two)];
    let alone = RequestContext { scope: Some("node".into()), ..context() };
    let done = three.put_in(&alone, "photos", "second", "body").await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("node"));
    let (names, scope) = list(three).await;
    assert_eq!((names, scope.as_str()), (vec!["first".to_owned(), "second".to_owned()], "node"));
    drop(hung);
    three
        .until("it is the site's list", || async {
            list(three).await == (vec!["first".to_owned(), "second".to_owned()], "site".to_owned())
        })
        .await;
    three.site().nodes.stand_aside(false);
    world.stop().await;
}

/// What was decided stays so; who decides may be on its way to another node when it is asked.
async fn loses(node: &TestSite, key: &str) {
    node.until("it is decided", || async {
        let lost = node.put_if("photos", key, "other", absent()).await.unwrap_err();
        lost.kind() == ErrorKind::PreconditionFailed
    })
    .await;
}

/// Two cannot do without each other: nobody waits for the one that hangs, and it is named.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_one_of_two_whose_disk_hangs() {
    let world = site_of(2).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    let hung = Hung::of(two);
    one.until("it is known", || async { crate::nodes::hindrance(one.site()).is_some() }).await;
    let asks = RequestContext { scope: Some("site".into()), ..context() };
    one.until("it says so", || async {
        let error = one.put_in(&asks, "photos", "key", "body").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ScopeNotReached);
        error.message().contains("its disk does not answer")
    })
    .await;
    drop(hung);
    one.until("it answers again", || async { crate::nodes::hindrance(one.site()).is_none() }).await;
    put(one, "key", "body").await.unwrap();
    world.stop().await;
}

/// What one of two nodes answered for alone, while the other one's disk hung, comes to that one by itself: else its loss would
/// take the body along though both had been well for weeks.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_missed_comes_to_it_though_it_never_left_the_view() {
    let world = site_of(2).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    let hung = Hung::of(two);
    one.until("it is known", || async { crate::nodes::hindrance(one.site()).is_some() }).await;
    for (key, bytes) in [("small", 2_000), ("large", 3 << 20)] {
        let put = one.put("photos", key, noise(bytes, 1)).await.unwrap();
        assert_eq!(put.receipt.scope.as_deref(), Some("node"));
    }
    two.site().peers.set_waits(Waits { levelled: Duration::from_millis(200), ..Waits::default() });
    drop(hung);
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    for key in ["small", "large"] {
        two.until("it has the body", || async {
            let current = move |view: &dyn View| Ok(space::current(view, id, key).unwrap());
            let record = two.site().read(current).await.unwrap();
            record.is_some_and(|record| is_here(&two.site().store, id, record.object().unwrap()))
        })
        .await;
    }
    world.stop().await;
}

/// Who is known to be ahead is asked, also by a node that answers for the site by way of another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_miss_by_way_of_another_node_is_asked_of_who_is_ahead() {
    let world = TestWorld::of_nodes(3, 1).await;
    let [one, two, three, far] = &world.sites[..] else { panic!("three nodes and a site") };
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
    }
    one.create_bucket("photos").await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    for node in [two, three, far] {
        node.until("it knows the bucket", || async { node.site().bucket("photos").await.unwrap().is_some() })
            .await;
        node.site().join(id).await.unwrap();
        node.until("it follows it", || async { node.site().is_complete(id) }).await;
    }
    say(one, NAMES[2], "freeze").await;
    settles(one, &[0, 1], &[2]).await;
    // Its news cross, and its records do not.
    let all = world.sites.iter().map(TestSite::id).collect();
    far.site().drive.tell(skerry_federation::Input::Spent(all));
    far.put("photos", "key", "of far").await.unwrap();
    for node in [three, one] {
        node.until("it is known to be ahead", || async {
            node.site().drive.ask(move |machine, replica| machine.ahead(id, replica)).await.unwrap()
                == [far.id()]
        })
        .await;
        // Its records never come by themselves; on a busy machine a link is gone for a moment.
        let found = ("of far".into(), "site".into());
        node.until("it is asked for", || async { get(node, "key").await.is_ok_and(|read| read == found) })
            .await;
    }
    world.stop().await;
}

/// What another node says of a key is answered, and not written down each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_by_way_of_another_node_writes_nothing() {
    let world = site_of(3).await;
    let [one, _, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "key", noise(20_000, 1)).await.unwrap();
    say(one, NAMES[2], "freeze").await;
    settles(three, &[0, 1], &[2]).await;
    sees(three, "key", &noise(20_000, 1)).await;
    // A read that writes something does not end before this does.
    let hung = Hung::of(three);
    for _ in 0..3 {
        sees(three, "key", &noise(20_000, 1)).await;
    }
    drop(hung);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_leaves_the_view_and_comes_back_when_there_is_room_again() {
    let mut world = TestWorld::of_nodes(3, 0).await;
    world.sites[2].stop().await;
    let (mut config, options) = world.sites[2].settings();
    config.storage.capacity.0 = 100 << 20;
    world.sites[2].core = Some(Core::start(&config, options).await.unwrap());
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
    }
    one.create_bucket("photos").await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    three.until("it follows the bucket", || async { three.site().is_complete(id) }).await;
    let (mut count, mut longest) = (0, Duration::ZERO);
    while view(one).await.nodes[2].role == "live" {
        let begun = one.site().clock.now();
        put(one, &format!("{count}"), noise(4 << 20, count)).await.unwrap();
        longest = longest.max(one.site().clock.now().since(begun));
        count += 1;
        assert!(count < 100, "never full");
    }
    println!("{count} bodies, {longest:?} was the longest write");
    assert!(count > 5);
    for node in [one, two, three] {
        settles(node, &[0, 1], &[2]).await;
    }
    let epoch = view(one).await.epoch;
    for n in 0..4 {
        put(two, &format!("more-{n}"), noise(4 << 20, 500 + n)).await.unwrap();
    }
    // What is put there is written at another node, and read there.
    three.put("photos", "put", noise(1 << 20, 900)).await.unwrap();
    sees(three, "more-3", &noise(4 << 20, 503)).await;
    assert_eq!(view(one).await.epoch, epoch, "nothing changes while it is full");
    for n in 0..count {
        remove(one, format!("{n}")).await;
    }
    let store = three.site().store.clone();
    let mut later = 0;
    three
        .until("the deletes are heard, and the space is back", || {
            later += CHUNK_REST_MS;
            let at = WallTime(three.site().clock.wall().0 + later);
            let store = store.clone();
            async move {
                tokio::task::spawn_blocking(move || store.collect(at)).await.unwrap().unwrap();
                view(three).await.nodes.iter().all(|of| of.role == "live" && of.unable.is_none())
            }
        })
        .await;
    leased(three, &[0, 1, 2]).await;
    assert_eq!(get(three, "more-0").await.unwrap(), (noise(4 << 20, 500), "site".into()));
    put(three, "after", noise(1 << 20, 901)).await.unwrap();
    world.stop().await;
}

/// A delete that one node alone has is not the site's because it is asked for once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_is_repeated_is_not_the_site_s() {
    let world = site_of(3).await;
    let [one, ..] = &world.sites[..] else { panic!("three nodes") };
    put(one, "before", "body").await.unwrap();
    say(one, NAMES[1], "freeze").await;
    settles(one, &[0, 2], &[1]).await;
    say(one, NAMES[2], "freeze").await;
    one.until("two cannot hold", || async {
        view(one).await.nodes.iter().filter(|of| of.unable.is_some()).count() == 2
    })
    .await;
    let delete = async || {
        let target =
            DeleteTarget { key: "before".into(), version: None, condition: WriteCondition::default() };
        let request = DeleteObject { bucket: "photos".into(), target };
        let done = one.services().objects.delete(&context(), request).await.unwrap();
        done.receipt.scope.unwrap()
    };
    assert_eq!(delete().await, "node", "two of three cannot hold it");
    assert_ne!(delete().await, "site", "no other node need have it");
    world.stop().await;
}
