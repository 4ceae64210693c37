//! Sites that do not hold all of a bucket yet: whom they wait for, their writes too, and for how long.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skerry_base::limits::MESSAGE_BYTES;
use skerry_base::{BucketId, NodeId, SiteId, WallTime};
use skerry_model::Record;
use skerry_model::bucket::{NodeEntry, SiteDocument, SiteState, SystemKey, document_object};

use super::world::{TestSite, TestWorld};
use crate::paths::bucket::Declared;
use crate::welcome::roster;

/// Objects that a site has asked others for.
fn asked(site: &TestSite) -> u64 {
    site.site().peers.reads.load(Ordering::Relaxed)
}

/// Two sites that hold a bucket, of which the second thinks that it does not have all of it.
async fn half_joined() -> (TestWorld, BucketId) {
    let world = TestWorld::new(2).await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    home.create_bucket("tide").await.unwrap();
    home.put("tide", "old", "first").await.unwrap();
    other.until("the name is known", || async { other.site().bucket("tide").await.unwrap().is_some() }).await;
    let id = other.site().bucket("tide").await.unwrap().unwrap().id;
    other.site().join(id).await.unwrap();
    other.until("the site has it all", || async { other.site().is_complete(id) }).await;
    other.site().members.write().unwrap_or_else(PoisonError::into_inner).insert(id, false);
    (world, id)
}

/// What is said of sites that went is kept for ever. All of it would be more than a message may have: nobody could join any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_where_thousands_have_been_is_told_of_as_many_sites_as_go_into_a_message() {
    let world = TestWorld::new(1).await;
    let one = world.sites[0].site();
    let (system, me) = (one.system, one.id);
    let said = |number: u16| {
        let site = SiteId([[7; 14].as_slice(), &number.to_be_bytes()].concat().try_into().unwrap());
        let address = |n: u16| format!("{n}.{}:7480", "a".repeat(290));
        let node = NodeEntry { node: NodeId(site.0), key: [7; 32], addresses: (0..6).map(address).collect() };
        let document = SiteDocument {
            name: format!("far-{number}"),
            nodes: vec![node],
            admissions: Vec::new(),
            state: if number.is_multiple_of(2) { SiteState::Expelled } else { SiteState::Member },
            joined: WallTime(2),
        };
        (SystemKey::Site(site).to_string(), document_object(&document, WallTime(3)))
    };
    for begin in (0..3200_u16).step_by(200) {
        let documents = (begin..begin + 200)
            .filter(|number| number.is_multiple_of(2) || *number < 1600)
            .map(said)
            .collect();
        let declared = Declared { documents, join: None, ends: Vec::new() };
        one.declare("", move |_, _| Ok(((), Some(declared)))).await.unwrap();
    }
    let told = one.read(move |view| roster(view, system, me)).await.unwrap();
    let bytes: usize = told.iter().map(Vec::len).sum();
    let keys: Vec<String> = told.iter().map(|record| Record::decode(record).unwrap().key).collect();
    assert!(bytes < MESSAGE_BYTES && told.len() > 1500, "{} records of {bytes} bytes", told.len());
    assert_eq!(keys[0], SystemKey::Site(me).to_string(), "who lets it in is among them");
    let belong = (0..800).map(|n| said(2 * n + 1).0);
    assert_eq!(belong.filter(|key| keys.contains(key)).count(), 800, "and all who belong");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_asks_a_member_before_it_overwrites() {
    let (world, _) = half_joined().await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    for _ in 0..2 {
        let before = asked(other);
        other.put("tide", "old", "second").await.unwrap();
        assert!(asked(other) > before, "it is heard what the home has of the key");
    }
    home.until("the overwrite is known", || async { home.get("tide", "old").await.unwrap() == "second" })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_behind_one_that_nobody_answered_do_not_wait_for_the_same_silence() {
    let (world, _) = half_joined().await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    // The member is there and does not answer.
    home.set_delay(other, Duration::from_secs(600));
    other.put("tide", "new", "goes on").await.unwrap();
    let more = async {
        for n in 0..20 {
            other.put("tide", &format!("new-{n}"), "goes on").await.unwrap();
        }
    };
    // Each would wait for two seconds.
    let in_time = tokio::time::timeout(Duration::from_secs(20), more).await;
    assert!(in_time.is_ok(), "they wait for nobody");
    // What deletes must know what there is: it asks, and says so when nobody answers.
    assert!(other.delete("tide", "never-seen").await.is_err());
    world.stop().await;
}

/// Of a bucket in which nothing differs no feed says anything: who joins asks, and the nearest that it knows may be joining too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_join_do_not_wait_for_each_other_where_the_whole_member_is_farther() {
    let mut world = TestWorld::new(3).await;
    world.sites[0].create_bucket("tide").await.unwrap();
    {
        let [home, two, three] = &world.sites[..] else { unreachable!() };
        for site in [two, three] {
            home.set_rtt(site, Duration::from_millis(300));
            site.until("the name is known", || async { site.site().bucket("tide").await.unwrap().is_some() })
                .await;
        }
        two.set_rtt(three, Duration::from_millis(1));
    }
    world.sites[0].stop().await;
    let id = {
        let [_, two, three] = &world.sites[..] else { unreachable!() };
        let id = two.site().bucket("tide").await.unwrap().unwrap().id;
        for site in [two, three] {
            site.site().join(id).await.unwrap();
        }
        for (site, other) in [(two, three), (three, two)] {
            let members = || site.site().drive.ask(move |machine, _| machine.members(id));
            let knows = || async { members().await.is_some_and(|members| members.contains(&other.id())) };
            site.until("it knows who else joins", knows).await;
        }
        id
    };
    world.sites[0].start().await;
    for site in &world.sites[1..] {
        site.until("it has all of the bucket", || async { site.site().is_complete(id) }).await;
    }
    world.stop().await;
}
