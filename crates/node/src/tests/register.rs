//! The register of names at a site of three nodes: new buckets have homes, and names that are asked for are given once, with
//! any of them gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use skerry_base::SiteId;
use skerry_gateway::service::{BucketCreate, ErrorKind, HomeRequest, JoinRequest, Outcome, WriteCondition};
use skerry_model::bucket::{
    self as model, HomeDocument, Known, Naming, NamingDocument, NewBucket, SystemKey,
};
use skerry_model::space;

use super::nodes::leased;
use super::world::{TestSite, TestWorld};
use crate::nodes::{Load, settle};
use crate::paths::bucket::Declared;
use crate::paths::{buckets, register};
use crate::site::unreadable;

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

async fn unique(node: &TestSite, name: &str, owner: &str) -> Outcome<()> {
    let (name, owner) = (name.into(), Some(owner.into()));
    let request = BucketCreate { name, owner, unique: true, copies: None, copies_in: None };
    node.services().admin.create_bucket(request).await.map(drop)
}

/// Tries until a name is given, or was given by a try before.
async fn given(node: &TestSite, name: &str, owner: &str) {
    node.until("a name is given", || async {
        match unique(node, name, owner).await {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::BucketAlreadyOwnedByYou => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HomeUnreachable, "{error}");
                false
            }
        }
    })
    .await;
}

/// Tries until it is said that a name is somebody else's, and is never given it: who decides may have no lease for a moment.
async fn is_taken(node: &TestSite, name: &str, owner: &str) {
    node.until("a name is taken", || async {
        let taken = unique(node, name, owner).await.unwrap_err();
        let kinds = [ErrorKind::BucketAlreadyExists, ErrorKind::HomeUnreachable];
        assert!(kinds.contains(&taken.kind()), "{taken}");
        taken.kind() == ErrorKind::BucketAlreadyExists
    })
    .await;
}

/// Tries until a condition is decided.
async fn win(node: &TestSite, bucket: &str, key: &str) {
    node.until("a condition is decided", || async {
        match node.put_if(bucket, key, "body", absent()).await {
            Ok(_) => true,
            // A try before was decided.
            Err(error) if error.kind() == ErrorKind::PreconditionFailed => true,
            Err(error) => {
                let kinds = [ErrorKind::HomeNotNamed, ErrorKind::HomeUnreachable];
                assert!(kinds.contains(&error.kind()), "{error}");
                false
            }
        }
    })
    .await;
}

async fn known(node: &TestSite) -> Option<Known> {
    let system = node.site().system;
    node.site().read(move |view| Known::load(view, system, system).map_err(unreadable)).await.unwrap()
}

/// Waits until all of them know that the register is kept among them.
async fn kept(nodes: &[TestSite]) {
    for node in nodes {
        node.until("the register is kept by all", || async {
            known(node).await.is_some_and(|known| known.tenure().is_some())
        })
        .await;
    }
}

async fn site_and_other() -> TestWorld {
    let world = TestWorld::of_nodes(3, 1).await;
    for node in &world.sites[..3] {
        leased(node, &[0, 1, 2]).await;
    }
    kept(&world.sites[..3]).await;
    world
}

/// The home of a bucket, and its epoch, once it is known at a site.
async fn home_at(node: &TestSite, bucket: &str) -> (String, u64) {
    let found = Mutex::new(None);
    node.until("the home is known", || async {
        let status = node.services().admin.bucket(bucket).await.ok().filter(|status| !status.home.is_empty());
        *found.lock().unwrap() = status.map(|status| (status.home, status.home_epoch));
        found.lock().unwrap().is_some()
    })
    .await;
    found.into_inner().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_buckets_have_homes_while_the_registers_node_is_gone() {
    let mut world = site_and_other().await;
    // Made where the register is: its home is named at once, though not by the same commit.
    world.sites[0].create_bucket("first").await.unwrap();
    win(&world.sites[0], "first", "key").await;
    assert_eq!(home_at(&world.sites[0], "first").await, ("site-1".into(), 1));
    given(&world.sites[1], "mine", "ann").await;
    let begun = world.sites[1].site().clock.now();
    world.sites[0].stop().await;
    let [_, two, three, far] = &world.sites[..] else { panic!("three nodes and a site") };
    two.create_bucket("second").await.unwrap();
    win(two, "second", "key").await;
    println!("{:?} until a new bucket had a home", two.site().clock.now().since(begun));
    given(three, "ours", "bob").await;
    println!("{:?} until a name was given", two.site().clock.now().since(begun));
    for (node, name) in [(two, "ours"), (three, "mine"), (far, "ours")] {
        is_taken(node, name, "carl").await;
    }
    given(far, "theirs", "dora").await;
    for node in [two, three, far] {
        let register = known(node).await.unwrap().home;
        assert!([two.id(), three.id()].contains(&register.site) && register.epoch == 2, "{register:?}");
        assert_eq!(home_at(node, "second").await, ("site-1-1".into(), 1));
        assert_eq!(home_at(node, "theirs").await, ("site-2".into(), 1));
    }
    // The former one comes back, and is none: it asks.
    world.sites[0].start().await;
    leased(&world.sites[0], &[0, 1, 2]).await;
    let one = &world.sites[0];
    is_taken(one, "ours", "carl").await;
    given(one, "again", "ann").await;
    one.create_bucket("third").await.unwrap();
    win(one, "third", "key").await;
    world.stop().await;
}

/// What the register would say of this name, at whatever node.
fn naming(view: &dyn skerry_base::kv::View, node: &TestSite, name: &str, owner: &str) -> Naming {
    let (system, site) = (node.site().system, node.id());
    let config = model::BucketConfig::default();
    let new = NewBucket { name, owner, site, site_name: "site-1-1", config };
    let claim = model::new_claim(view, system, new, node.site().clock.wall()).unwrap();
    Naming { home: HomeDocument::first(claim.bucket, site, true), claim: Some(claim) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_register_had_begun_is_carried_out_by_the_next() {
    let mut world = site_and_other().await;
    let (one, two) = (&world.sites[0], &world.sites[1]);
    let view = one.site().nodes.epoch();
    // Said, at all nodes, and not carried out: as much as can be.
    let mut said = NamingDocument { epoch: 1, namings: Vec::new() };
    let mut names = Vec::new();
    while said.fits() {
        let name = format!("begun-{}", names.len());
        said.namings.push(naming(&one.site().store.view(), two, &name, "ann"));
        names.push(name);
    }
    said.namings.pop();
    names.pop();
    // As whoever asks for one does first.
    for name in &names {
        buckets::note_asked(two.site(), name).await.unwrap();
    }
    println!("{} names were begun", names.len());
    let (key, object) = said.written(one.site().clock.wall());
    let decide = move |_: &dyn skerry_base::kv::View, _| Ok(((), Some(Declared::document(key, object))));
    let held = one.site().clone();
    let turn = held.nodes.naming().await;
    one.site().declare("", decide).await.unwrap();
    let system = one.site().system;
    let heads = move |view: &dyn skerry_base::kv::View| {
        space::heads(view, system, &SystemKey::Namings.to_string()).map_err(unreadable)
    };
    let heads = one.site().read(heads).await.unwrap();
    let load = Load::Records(system, heads.iter().map(|head| head.encode().into()).collect());
    settle(one.site(), load, view).await.unwrap();
    assert!(one.site().bucket("begun-0").await.unwrap().is_none());
    world.sites[0].stop().await;
    drop(turn);
    drop(held);
    let [_, two, three, _] = &world.sites[..] else { panic!("three nodes and a site") };
    for (node, name) in [two, three].into_iter().flat_map(|node| names.iter().map(move |name| (node, name))) {
        assert_eq!(home_at(node, name).await, ("site-1-1".into(), 1));
    }
    is_taken(three, "begun-0", "bob").await;
    given(three, "another", "bob").await;
    win(three, "begun-0", "key").await;
    world.stop().await;
}

fn to(site: &str) -> HomeRequest {
    HomeRequest { site: site.into(), destroyed: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_register_moves_to_another_site_and_back() {
    let mut world = site_and_other().await;
    let [one, two, three, far] = &world.sites[..] else { panic!("three nodes and a site") };
    given(three, "first", "ann").await;
    let refused = two.services().admin.move_register(to("site-2")).await.unwrap_err();
    assert!(refused.message().contains("only site-1 may"), "{refused}");
    // Records of the other nodes that came ahead of their feeds hold it back for a moment.
    one.gives_register(to("site-2")).await;
    given(three, "second", "bob").await;
    given(far, "third", "bob").await;
    for name in ["first", "second", "third"] {
        is_taken(far, name, "carl").await;
    }
    let system = far.site().system;
    let said = far.site().read(move |view| model::namings(view, system).map_err(unreadable)).await.unwrap();
    assert_eq!(said.map(|said| said.epoch), Some(2), "it has said that it is the one by now");
    far.gives_register(to("site-1-1")).await;
    given(three, "fourth", "bob").await;
    world.sites[1].stop().await;
    let [one, _, three, far] = &world.sites[..] else { panic!("three nodes and a site") };
    for name in ["first", "second", "third", "fourth"] {
        is_taken(one, name, "carl").await;
    }
    given(three, "fifth", "ann").await;
    let register = known(one).await.unwrap().home;
    assert!([one.id(), three.id()].contains(&register.site) && register.epoch == 4, "{register:?}");
    given(far, "sixth", "ann").await;
    world.stop().await;
}

/// Who was told that a name is theirs.
#[derive(Default)]
struct Told(Mutex<BTreeMap<String, BTreeSet<String>>>);

/// Asks for one name after the other, through one node, for an owner of its own.
async fn ask(world: &TestWorld, node: usize, told: &Told, ends: &AtomicBool) -> u64 {
    let (mut won, owner) = (0, format!("owner-{node}"));
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        ticks.tick().await;
        let name = format!("name-{number}");
        match unique(&world.sites[node], &name, &owner).await {
            Ok(()) => {
                won += 1;
                told.0.lock().unwrap().entry(name).or_default().insert(owner.clone());
                number += 1;
            }
            Err(error) if error.kind() == ErrorKind::BucketAlreadyExists => number += 1,
            Err(error) if error.kind() == ErrorKind::BucketAlreadyOwnedByYou => number += 1,
            // The next one is asked for as well: a name that nobody was told may be anybody's.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HomeUnreachable, "{error}");
                number += u64::from(error.message().contains("begun"));
            }
        }
    }
    won
}

/// Whichever node is cut off: no name is given to two.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_given_once_through_cuts() {
    let world = TestWorld::of_nodes(3, 0).await;
    for node in &world.sites {
        leased(node, &[0, 1, 2]).await;
    }
    kept(&world.sites).await;
    let (told, ends) = (Told::default(), AtomicBool::new(false));
    let count = || told.0.lock().unwrap().len();
    let faults = async {
        for cut in [0, 1, 2, 0] {
            let node = &world.sites[cut];
            let other = &world.sites[(cut + 1) % 3];
            let before = count();
            node.cut(true).await;
            other
                .until("others are given names", || async {
                    let register: Option<SiteId> = register::keeper(other.site()).await.unwrap();
                    register != Some(node.id()) && count() > before + 3
                })
                .await;
            node.cut(false).await;
            leased(node, &[0, 1, 2]).await;
        }
        ends.store(true, Ordering::Relaxed);
    };
    let clients = futures::future::join_all((0..3).map(|node| ask(&world, node, &told, &ends)));
    let (_, won) = tokio::join!(faults, clients);
    println!("given {won:?}");
    let told = told.0.into_inner().unwrap();
    for (name, owners) in &told {
        assert_eq!(owners.len(), 1, "{name} was given to {owners:?}");
        for node in &world.sites {
            node.until("all know whose it is", || async {
                let found = node.site().bucket(name).await.unwrap();
                found.is_some_and(|found| owners.contains(&found.owner))
            })
            .await;
        }
    }
    assert!(told.len() > 15, "{}", told.len());
    world.stop().await;
}

/// It was given the name, in a former life: what it had then is at another site, of which it has not heard that it is a member,
/// and it is no whole member without that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_begun_anew_takes_none_of_its_unique_buckets_for_empty() {
    let mut world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    unique(two, "mine", "owner").await.unwrap();
    two.put("mine", "k", "body").await.unwrap();
    let id = two.site().bucket("mine").await.unwrap().unwrap().id;
    // The third as well: it is the only one that the site begun anew can hear of the bucket from.
    for site in [one, three] {
        let known = || async { site.site().bucket("mine").await.unwrap().is_some() };
        site.until("the bucket is known", known).await;
    }
    one.services().admin.join_bucket("mine", JoinRequest::default()).await.unwrap();
    one.until("it is followed whole", || async { one.site().is_complete(id) }).await;
    world.sites[0].cut(true).await;
    world.sites[1].stop().await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.acquaint().await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    two.until("the bucket is known again", || async { two.site().bucket("mine").await.unwrap().is_some() })
        .await;
    two.put("mine", "new", "another").await.unwrap();
    assert!(two.site().is_member(id) && !two.site().is_complete(id));
    let missed = two.get("mine", "k").await.unwrap_err();
    assert_eq!(missed.kind(), ErrorKind::Unreachable, "{missed}");
    assert!(missed.message().contains("site-1"), "{missed}");
    one.cut(false).await;
    two.until("it is followed whole again", || async { two.site().is_complete(id) }).await;
    assert_eq!(two.get("mine", "k").await.unwrap(), "body");
    world.stop().await;
}

/// Nobody else follows it, and all say so: what there is, is what it holds since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_begun_anew_lists_what_it_holds_where_nobody_else_is_a_member() {
    let mut world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    unique(two, "mine", "owner").await.unwrap();
    one.until("the bucket is known", || async { one.site().bucket("mine").await.unwrap().is_some() }).await;
    world.sites[1].stop().await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.introduce().await;
    let two = &world.sites[1];
    two.until("the bucket is known again", || async { two.site().bucket("mine").await.unwrap().is_some() })
        .await;
    two.put("mine", "new", "body").await.unwrap();
    let missing = || async { two.get("mine", "k").await.unwrap_err().kind() == ErrorKind::NoSuchKey };
    two.until("the other has said that it is no member", missing).await;
    assert_eq!(two.list("mine").await.unwrap(), ["new"]);
    assert_eq!(two.get("mine", "new").await.unwrap(), "body");
    world.stop().await;
}
