//! Sites that are frozen, emptied and taken into service again.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::SiteId;
use skerry_base::kv::View;
use skerry_federation::budget::Class;
use skerry_gateway::service::{
    AddressRequest, BucketPatch, ChecksumKind, ChecksumShape, CreateUpload, DutyRequest, ErrorKind,
    ExpelRequest, ObjectHeaders, RenameRequest, SiteStatus, UploadTarget, WriteCondition,
};
use skerry_model::bucket::{Duty, OnDuty};
use skerry_model::{Record, space};

use super::world::{TestSite, TestWorld, context, noise};
use crate::config::{Cap, Size};
use crate::paths::scope;
use crate::peers::message::Hold;
use crate::peers::serve::Asker;
use crate::site::{Site, unreadable};

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

pub(super) async fn say(at: &TestSite, about: &str, duty: &str) -> SiteStatus {
    let request = DutyRequest { duty: duty.into(), abandon_uploads: false };
    at.services().admin.set_duty(about, request).await.unwrap()
}

pub(super) async fn shown(at: &TestSite, about: &str) -> SiteStatus {
    at.services().admin.site(about).await.unwrap()
}

pub(super) async fn until_duty(at: &TestSite, about: &str, duty: &str) {
    at.until("the duty is as it should be", || async { shown(at, about).await.duty == duty }).await;
}

async fn knows(site: &TestSite, bucket: &str) {
    site.until("the bucket is known", || async { site.site().bucket(bucket).await.unwrap().is_some() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_site_reads_and_refuses_every_write_until_it_is_called_back() {
    let mut world = TestWorld::new(3).await;
    world.sites[1].create_bucket("still").await.unwrap();
    world.sites[1].put("still", "before", noise(50_000, 1)).await.unwrap();
    for site in &world.sites {
        knows(site, "still").await;
        site.until("the home is named", || async {
            site.services().admin.bucket("still").await.is_ok_and(|found| found.home == "site-2")
        })
        .await;
    }
    // Said elsewhere.
    assert_eq!(say(&world.sites[0], "site-2", "freeze").await.duty, "frozen");
    for site in &world.sites {
        site.until("it has answered", || async { shown(site, "site-2").await.duty_heard }).await;
        assert_eq!(shown(site, "site-2").await.duty, "frozen");
    }
    for round in 0..2 {
        let [one, two, _] = &world.sites[..] else { panic!("three sites") };
        assert_eq!(two.get("still", "before").await.unwrap(), noise(50_000, 1), "round {round}");
        for refused in [
            two.put("still", "k", "x").await.err(),
            two.delete("still", "before").await.err(),
            two.create_bucket("another").await.err(),
            two.set_copies("still", 2).await.err(),
            // Its home decides nothing.
            one.put_if("still", "lock", "x", absent()).await.err(),
        ] {
            let error = refused.unwrap();
            assert_eq!(error.kind(), ErrorKind::NotServing, "{error}");
            assert!(error.message().contains("skerry site resume site-2"), "{error}");
        }
        one.put("still", &format!("elsewhere-{round}"), "x").await.unwrap();
        assert_eq!(one.services().admin.status().await.unwrap().peers[0].duty, "frozen");
        assert_eq!(two.services().admin.status().await.unwrap().duty, "frozen");
        if round == 0 {
            world.sites[1].stop().await;
            world.sites[1].start().await;
            world.linked(&world.sites[1]).await;
            world.until_linked(&world.sites[0], &world.sites[1]).await;
        }
    }
    say(&world.sites[2], "site-2", "serve").await;
    until_duty(&world.sites[1], "site-2", "serves").await;
    world.sites[1].put("still", "after", "x").await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_site_may_be_switched_off_and_nothing_is_lost() {
    let mut world = TestWorld::new(3).await;
    let bodies = [noise(0, 1), noise(100, 2), noise(20_000, 3), noise(700_000, 4), noise((3 << 20) + 3, 5)];
    {
        let [one, two, _] = &world.sites[..] else { panic!("three sites") };
        one.create_bucket("alone").await.unwrap();
        for (n, body) in bodies.iter().enumerate() {
            one.put("alone", &format!("{n}"), body.clone()).await.unwrap();
        }
        one.put_if("alone", "lock", "one", absent()).await.unwrap();
        knows(two, "alone").await;
        say(one, "site-1", "drain").await;
        // Taken on its way out: written at another site.
        one.put("alone", "forwarded", noise(40_000, 9)).await.unwrap();
        let refused = one.delete("alone", "0").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotServing, "{refused}");
        until_duty(two, "site-1", "empty").await;
        assert_eq!(one.services().admin.status().await.unwrap().duty, "empty");
        let homes = shown(two, "site-1").await.homes;
        assert!(homes.is_empty(), "{homes:?}");
    }
    world.sites[0].stop().await;
    for site in &world.sites[1..] {
        for (n, body) in bodies.iter().enumerate() {
            assert_eq!(site.get("alone", &format!("{n}")).await.unwrap(), *body, "{n}");
        }
        assert_eq!(site.get("alone", "forwarded").await.unwrap(), noise(40_000, 9));
        let lost = site.put_if("alone", "lock", "again", absent()).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{lost}");
    }
    world.sites[1].put_if("alone", "new", "two", absent()).await.unwrap();
    world.stop().await;
}

/// What may lie at nobody else is said: nothing else would tell why a drain does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_names_the_bucket_that_may_lie_nowhere_else() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.create_bucket("here-only").await.unwrap();
    let at = |sites: &[&str]| {
        let residency = Some(sites.iter().map(|site| (*site).to_owned()).collect());
        BucketPatch { residency, ..BucketPatch::default() }
    };
    let admin = &two.services().admin;
    admin.update_bucket("here-only", at(&["site-2"])).await.unwrap();
    two.put("here-only", "k", noise(40_000, 1)).await.unwrap();
    say(two, "site-2", "drain").await;
    let told = || async {
        let drain = shown(two, "site-2").await.drain;
        drain.is_some_and(|drain| drain.waits_for.contains("payload of here-only may lie at no other site"))
    };
    two.until("it says why it does not end", told).await;
    knows(one, "here-only").await;
    let elsewhere = &one.services().admin;
    elsewhere.update_bucket("here-only", at(&["site-1", "site-2"])).await.unwrap();
    until_duty(two, "site-2", "empty").await;
    assert_eq!(one.get("here-only", "k").await.unwrap(), noise(40_000, 1));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_is_cut_off_and_restarted_is_not_done_and_goes_on() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        // What it wrote into a bucket that is no more keeps nobody.
        one.create_bucket("gone").await.unwrap();
        one.put("gone", "k", "x").await.unwrap();
        one.delete("gone", "k").await.unwrap();
        one.services().buckets.delete(&context(), "gone").await.unwrap();
        one.create_bucket("cut").await.unwrap();
        knows(two, "cut").await;
        two.cut(true).await;
        for n in 0..20 {
            one.put("cut", &format!("{n}"), noise(40_000, n)).await.unwrap();
        }
        say(one, "site-1", "drain").await;
        one.until("it says what holds it up", || async {
            let drain = shown(one, "site-1").await.drain;
            drain.is_some_and(|drain| drain.waits_for.contains("linked") && drain.bytes == 20 * 40_000)
        })
        .await;
    }
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert_eq!(shown(one, "site-1").await.duty, "draining");
    assert!(one.put("cut", "late", "x").await.is_err(), "it takes nothing, also before it has any link");
    two.cut(false).await;
    until_duty(two, "site-1", "empty").await;
    for n in 0..20 {
        let held = two.site().store.usage().payload.live;
        assert!(held >= 20 * 40_000, "{held}");
        assert_eq!(two.get("cut", &format!("{n}")).await.unwrap(), noise(40_000, n));
    }
    // Called back it serves as before.
    say(two, "site-1", "serve").await;
    until_duty(one, "site-1", "serves").await;
    one.put("cut", "back", "x").await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_in_parts_keeps_a_site_until_it_ends_or_is_abandoned() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("parts").await.unwrap();
    knows(two, "parts").await;
    let begin = |key: &str| CreateUpload {
        bucket: "parts".into(),
        key: key.into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        checksum: ChecksumKind::Crc64Nvme,
        shape: ChecksumShape::Full,
        declared: false,
    };
    let objects = &one.services().objects;
    let upload = objects.create_upload(&context(), begin("k")).await.unwrap().upload;
    say(one, "site-1", "drain").await;
    let refused = objects.create_upload(&context(), begin("other")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing);
    one.until("it waits for the upload", || async {
        let drain = shown(one, "site-1").await.drain;
        drain.is_some_and(|drain| drain.uploads == 1 && drain.waits_for.contains("--abandon-uploads"))
    })
    .await;
    let abandon = DutyRequest { duty: "drain".into(), abandon_uploads: true };
    two.services().admin.set_duty("site-1", abandon).await.unwrap();
    until_duty(two, "site-1", "empty").await;
    // What was abandoned is not completed behind the word that nothing is here.
    let target = || UploadTarget { bucket: "parts".into(), key: "k".into(), upload: upload.clone() };
    assert_eq!(objects.abort_upload(&context(), target()).await.unwrap_err().kind(), ErrorKind::NotServing);
    // Who did not abandon it may still end it.
    say(one, "site-1", "drain").await;
    until_duty(one, "site-1", "draining").await;
    objects.abort_upload(&context(), target()).await.unwrap();
    until_duty(two, "site-1", "empty").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renamed_site_is_called_so_everywhere_and_after_a_restart() {
    let mut world = TestWorld::new(3).await;
    let id = shown(&world.sites[0], "site-3").await.site;
    let rename = |name: &str| RenameRequest { name: name.into() };
    let refused = world.sites[1].services().admin.rename_site("site-3", rename("bergen")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
    let (taken, malformed) = (ErrorKind::Refused, ErrorKind::InvalidArgument);
    for (wrong, kind) in [("site-2", taken), ("Bergen", malformed), ("a--b", malformed)] {
        let refused = world.sites[0].services().admin.rename_site("site-3", rename(wrong)).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    world.sites[2].cut(true).await;
    let renamed = world.sites[0].services().admin.rename_site("site-3", rename("bergen")).await.unwrap();
    assert_eq!((&*renamed.name, &renamed.site), ("bergen", &id));
    // It is started again before it hears: what it says of itself then is made right when it does.
    world.sites[2].stop().await;
    world.sites[2].start().await;
    for restarted in [false, true] {
        if restarted {
            world.sites[2].stop().await;
            world.sites[2].start().await;
        }
        for site in &world.sites {
            site.until("it is called by its new name", || async {
                site.services().admin.site("bergen").await.is_ok_and(|found| found.site == id)
            })
            .await;
        }
        let three = &world.sites[2];
        let calls_itself = || async { three.services().admin.status().await.unwrap().site_name == "bergen" };
        three.until("it calls itself so", calls_itself).await;
        world.linked(three).await;
    }
    world.sites[2].create_bucket("own--bergen").await.unwrap();
    let taken = world.sites[1].create_bucket("other--bergen").await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::InvalidBucketName, "{taken}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_word_about_an_address_reaches_all_and_is_taken_back() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let own = shown(one, "site-2").await.addresses;
    let say = |addresses: &[&str]| AddressRequest {
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
    };
    let refused = one.services().admin.set_address("site-2", say(&["nowhere"])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    one.services().admin.set_address("site-2", say(&["bergen.example:7700"])).await.unwrap();
    let both: Vec<String> = ["bergen.example:7700".to_owned()].into_iter().chain(own.clone()).collect();
    for site in [one, two] {
        site.until("the word is known", || async { shown(site, "site-2").await.addresses == both }).await;
    }
    one.services().admin.set_address("site-2", say(&[])).await.unwrap();
    two.until("it is taken back", || async { shown(two, "site-2").await.addresses == own }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expelled_site_is_refused_by_all_who_hear_of_it() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    three.create_bucket("theirs").await.unwrap();
    three.put("theirs", "kept", "x").await.unwrap();
    knows(two, "theirs").await;
    let own = two.services().admin.expel("site-2", ExpelRequest {}).await.unwrap_err();
    assert_eq!(own.kind(), ErrorKind::Refused, "{own}");
    let done = two.services().admin.expel("site-3", ExpelRequest {}).await.unwrap();
    assert_eq!((&*done.site.state, &*done.site.link), ("expelled", "refused"));
    assert_eq!(done.exposed_keys, [super::world::key().id]);
    for site in [one, two] {
        site.until("it is no site any more", || async { site.site().peers.roster.all().len() == 2 }).await;
        site.until("there is no link to it", || async { site.site().boxes.linked().len() == 1 }).await;
        assert_eq!(shown(site, "site-3").await.state, "expelled");
        site.until("it counts as gone, and as nothing that somebody waits for", || async {
            crate::copies::loss::counts(&site.site().copies.losses()) == [0, 1]
        })
        .await;
    }
    let again = one.services().admin.expel("site-3", ExpelRequest {}).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NoSuchSite, "{again}");
    let refused = DutyRequest { duty: "freeze".into(), abandon_uploads: false };
    let refused = one.services().admin.set_duty("site-3", refused).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSuchSite, "{refused}");
    // What it would write from now on would reach nobody.
    refuses_as_gone(three).await;
    one.put("theirs", "elsewhere", "x").await.unwrap();
    world.stop().await;
}

/// A site that knows that it belongs no more: reads, no writes, not ready.
async fn refuses_as_gone(site: &TestSite) {
    let admin = &site.services().admin;
    site.until("it knows", || async { !admin.ready().await.ready }).await;
    let refused = [
        site.put("theirs", "late", "x").await.unwrap_err(),
        site.delete("theirs", "kept").await.unwrap_err(),
        site.create_bucket("late").await.unwrap_err(),
        admin.leave_bucket("theirs").await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::NotServing, "{error}");
        assert!(error.message().contains("was expelled from the federation, or replaced"), "{error}");
    }
    assert_eq!(site.get("theirs", "kept").await.unwrap(), "x", "it reads what it has");
    assert!(admin.ready().await.reason.contains("was expelled"));
    assert!(admin.status().await.unwrap().gone);
}

/// What it was told outlives its process; who is merely silent, or has never heard of it, tells it nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_word_makes_a_site_gone_and_it_is_kept() {
    let mut world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.create_bucket("theirs").await.unwrap();
    two.put("theirs", "kept", "x").await.unwrap();
    knows(one, "theirs").await;
    two.cut(true).await;
    crate::gone::look(two.site()).await.unwrap();
    two.put("theirs", "silence", "x").await.unwrap();
    one.site().peers.net().set_peers(Vec::new());
    two.site().peers.net().set_cut(false);
    crate::gone::look(two.site()).await.unwrap();
    two.put("theirs", "never heard of it", "x").await.unwrap();
    assert!(two.services().admin.ready().await.ready);
    one.services().admin.expel("site-2", ExpelRequest {}).await.unwrap();
    refuses_as_gone(two).await;
    world.sites[1].stop().await;
    world.sites[0].stop().await;
    world.sites[1].start().await;
    refuses_as_gone(&world.sites[1]).await;
    world.sites[1].stop().await;
}

/// Its operator would look at firewalls else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expelled_site_is_told_that_it_is_refused() {
    let world = TestWorld::over_tcp(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.services().admin.expel("site-3", ExpelRequest {}).await.unwrap();
    two.until("all have heard", || async { two.site().peers.roster.all().len() == 2 }).await;
    let peers = || async { three.services().admin.status().await.unwrap().peers };
    three
        .until("it is refused by both", || async { peers().await.iter().all(|peer| peer.state == "refuses") })
        .await;
    assert!(peers().await.iter().all(|peer| peer.lag_ms.is_none()), "who does not answer may have written");
    three.until("it knows why", || async { three.services().admin.status().await.unwrap().gone }).await;
    let both = [one.node(), two.node()].into();
    three.until("both said why", || async { three.site().peers.net().gone_by() == both }).await;
    assert!(one.services().admin.status().await.unwrap().peers.iter().all(|peer| peer.state == "alive"));
    world.stop().await;
}

/// One site asks another, which it is not linked with any more, to hold a body of more than the journal takes.
async fn cut_off_question(world: &TestWorld) -> (Record, Hold) {
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("held").await.unwrap();
    knows(two, "held").await;
    two.cut(true).await;
    one.put("held", "k", noise(50_000, 1)).await.unwrap();
    let bucket = one.site().bucket("held").await.unwrap().unwrap();
    let id = bucket.id;
    let read = move |view: &dyn View| space::current(view, id, "k").map_err(unreadable);
    let record = one.site().read(read).await.unwrap().unwrap();
    let hold = scope::question(one.site(), &bucket, &record).await.unwrap();
    (record, hold)
}

fn has(view: &dyn View, of: &Record) -> bool {
    space::record(view, of.bucket, "k", of.dot).unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_came_while_its_holder_began_to_be_emptied_is_not_answered_as_held() {
    let world = TestWorld::new(2).await;
    let (record, hold) = cut_off_question(&world).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let site = two.site();
    // It is let in, and then waits for memory.
    let memory = site.holding.take(site.holding.bytes()).await.unwrap();
    let (holder, from) = (site.clone(), Asker::plain(one.id(), Class::Read));
    let held = tokio::spawn(async move { scope::hold(&holder, from, hold).await });
    two.until("it was let in", || async { site.is_member(record.bucket) }).await;
    say(two, "site-2", "drain").await;
    two.until("it has heard", || async { site.duties.own().leaves() }).await;
    drop(memory);
    let refused = held.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing, "{refused}");
    let known = record.clone();
    assert!(!site.read(move |view| Ok(has(view, &known))).await.unwrap(), "nor is it taken in");
    world.stop().await;
}

/// Takes a duty up on the commit thread as soon as a record is there, be it of the same group.
fn drain_behind(site: Arc<Site>, record: Record, duty: BTreeMap<SiteId, OnDuty>) {
    let (store, duties, of) = (site.store.clone(), site.duties.clone(), record.clone());
    let set = duty.clone();
    let look = move |view: &dyn View| {
        let is_there = has(view, &of);
        if is_there {
            duties.set(set);
        }
        Ok::<_, ()>((is_there, Vec::new()))
    };
    store.submit(look, move |seen| {
        if matches!(seen, Ok(false)) {
            drain_behind(site, record, duty);
        }
    });
}

/// A drain looks at what is there when it begins: what becomes durable behind that is not handed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_becomes_durable_while_a_drain_begins_is_not_answered_as_held() {
    let world = TestWorld::new(2).await;
    let (record, hold) = cut_off_question(&world).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    // The records say otherwise, and are not read meanwhile.
    let turn = two.site().duties.turn.lock().await;
    let drains = OnDuty { duty: Duty::Drain, epoch: 1, ..OnDuty::default() };
    drain_behind(two.site().clone(), record.clone(), [(two.id(), drains)].into());
    let refused = scope::hold(two.site(), Asker::plain(one.id(), Class::Read), hold).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing, "{refused}");
    assert!(two.site().read(move |view| Ok(has(view, &record))).await.unwrap(), "it was decided before");
    drop(turn);
    world.stop().await;
}

/// What is kept here and does not read whole is at no other site: no reason to say that the disk may go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_read_whole_keeps_a_site_that_is_emptied() {
    let mut world = TestWorld::new(2).await;
    let (body, well) = (noise(6 << 20, 1), noise(700_000, 2));
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("alone").await.unwrap();
        one.put("alone", "rotten", body.clone()).await.unwrap();
        one.put("alone", "well", well.clone()).await.unwrap();
        knows(two, "alone").await;
    }
    world.sites[0].stop().await;
    world.sites[0].damage(&body[(1 << 20) + 5..(1 << 20) + 69]);
    world.sites[0].start().await;
    world.linked(&world.sites[0]).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert!(one.get("alone", "rotten").await.is_err());
    say(one, "site-1", "drain").await;
    one.until("it says what does not read", || async {
        let now = shown(one, "site-1").await;
        assert_ne!(now.duty, "empty", "a body of which all but one block is here would be gone with it");
        now.drain.is_some_and(|drain| {
            drain.bodies == 1 && drain.waits_for.contains("alone/rotten") && drain.waits_for.contains("scrub")
        })
    })
    .await;
    // What is lost for good is given up by who owns it.
    two.delete("alone", "rotten").await.unwrap();
    until_duty(two, "site-1", "empty").await;
    world.sites[0].stop().await;
    assert_eq!(world.sites[1].get("alone", "well").await.unwrap(), well);
    world.stop().await;
}

/// Others are heard that hold less, though somebody is off who held nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_is_taken_back_though_somebody_is_silent() {
    let mut world = TestWorld::new(4).await;
    // Whoever is left takes nothing, so that it stays as it is.
    for number in [0, 2] {
        world.sites[number].others = Cap::Bytes(Size(0));
        world.sites[number].stop().await;
        world.sites[number].start().await;
        world.linked(&world.sites[number]).await;
    }
    let body = noise(700_000, 1);
    {
        let [one, two, _, four] = &world.sites[..] else { panic!("four sites") };
        four.create_bucket("alone").await.unwrap();
        four.put("alone", "k", body.clone()).await.unwrap();
        knows(one, "alone").await;
        say(one, "site-4", "drain").await;
        until_duty(one, "site-4", "empty").await;
        assert!(two.site().store.usage().payload.live >= 700_000);
    }
    world.sites[2].stop().await;
    let [one, _, three, four] = &world.sites[..] else { panic!("four sites") };
    four.until("one is silent", || async { !four.site().linked(three.id()) }).await;
    one.services().admin.expel("site-2", ExpelRequest {}).await.unwrap();
    until_duty(one, "site-4", "draining").await;
    assert_eq!(four.get("alone", "k").await.unwrap(), body);
    world.stop().await;
}
