//! A site whose links are metered.

use skerry_gateway::service::{ErrorKind, UplinkBudget, UplinkRequest, WriteCondition};

use skerry_federation::budget::Class;
use skerry_federation::placement::Failure;
use skerry_model::bucket::{metered, say_metered};
use skerry_model::{Entry, space};

use super::duties::{say, shown, until_duty};
use super::world::{TestSite, TestWorld, noise};
use crate::paths::bucket::Declared;
use crate::site::{entry, unreadable};
use crate::workers::copies::have_held;

type Change = fn(&mut UplinkBudget);

fn budget(bytes: u64) -> UplinkRequest {
    let budget = UplinkBudget { bytes, period: "month".into(), reset_day: 1, hours: None, zone_minutes: 60 };
    UplinkRequest { budget: Some(budget) }
}

async fn used(site: &TestSite) -> u64 {
    site.services().admin.uplink().await.unwrap().used_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_stop_at_their_share_of_a_budget_and_say_when_it_returns() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        for n in 0..3 {
            one.put("photos", &format!("{n}"), noise(3 << 20, n)).await.unwrap();
        }
        two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() })
            .await;
        let state = two.services().admin.set_uplink(budget(6_000_000)).await.unwrap();
        assert!(state.classes.iter().all(|class| class.goes), "{state:?}");
        assert_eq!(two.get("photos", "0").await.unwrap(), noise(3 << 20, 0));
        let after = used(two).await;
        assert!(after > 3 << 20 && after < 4_500_000, "{after}");
        let refused = two.get("photos", "1").await.unwrap_err();
        assert!(
            refused.message().contains("it returns 20") && refused.message().contains("00:00 +01:00"),
            "{refused}"
        );
        let refused = two.get("photos", "2").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
        assert_eq!(two.get("photos", "0").await.unwrap(), noise(3 << 20, 0), "what is here costs nothing");
        let state = two.services().admin.uplink().await.unwrap();
        let goes: Vec<bool> = state.classes.iter().map(|class| class.goes).collect();
        assert!(goes[0] && goes[1] && !goes[3], "{state:?}");
        assert!(state.used_bytes < 6_000_000, "{state:?}");
        // The other end of the link is not metered, and yet nothing is taken from this one.
        two.put("photos", "mine", noise(100_000, 9)).await.unwrap();
        one.until("the record came", || async { one.list("photos").await.is_ok_and(|keys| keys.len() == 4) })
            .await;
        let refused = one.get("photos", "mine").await.unwrap_err();
        assert!(refused.message().contains("metered link is used up for reads"), "{refused}");
    }
    let before = used(&world.sites[1]).await;
    world.sites[1].stop().await;
    world.sites[1].start().await;
    world.linked(&world.sites[1]).await;
    let two = &world.sites[1];
    assert!(used(two).await >= before, "a restart forgets nothing");
    two.get("photos", "2").await.unwrap_err();
    two.services().admin.set_uplink(UplinkRequest { budget: None }).await.unwrap();
    assert_eq!(two.get("photos", "2").await.unwrap(), noise(3 << 20, 2));
    world.stop().await;
}

/// Reads at another site until this one's budget is used up for them.
async fn spend_on_reads(spent: &TestSite, other: &TestSite) {
    let bucket = format!("spent-by-{}", spent.site().called());
    spent.create_bucket(&bucket).await.unwrap();
    other.until("it is known", || async { other.site().bucket(&bucket).await.unwrap().is_some() }).await;
    for n in 0..100 {
        let key = format!("{n}");
        spent.put(&bucket, &key, noise(30_000, n)).await.unwrap();
        if let Err(refused) = other.get(&bucket, &key).await {
            assert!(refused.message().contains("used up for reads"), "{refused}");
            return;
        }
    }
    panic!("it is not used up");
}

/// Whichever of two members is asked first: the other one has it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_refuses_is_no_reason_not_to_ask_the_next() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    for (spent, other, buckets) in [(one, two, ["a-1", "a-2"]), (two, one, ["b-1", "b-2"])] {
        for bucket in buckets {
            spent.create_bucket(bucket).await.unwrap();
            for n in 0..20 {
                spent.put(bucket, &format!("{n:02}"), noise(2_000, n)).await.unwrap();
            }
            let lists =
                |at| async move { TestSite::list(at, bucket).await.is_ok_and(|keys| keys.len() == 20) };
            other.until("it is known", || lists(other)).await;
            for n in 0..20 {
                assert_eq!(other.get(bucket, &format!("{n:02}")).await.unwrap(), noise(2_000, n));
            }
            let id = other.site().bucket(bucket).await.unwrap().unwrap().id;
            other.until("it is a member", || async { other.site().is_complete(id) }).await;
            let members =
                || async { three.site().drive.ask(move |machine, _| machine.members(id).len()).await };
            three.until("it knows both", || async { members().await == Some(2) }).await;
        }
        spent.services().admin.set_uplink(budget(1_000_000)).await.unwrap();
        spend_on_reads(spent, other).await;
        assert_eq!(three.get(buckets[0], "00").await.unwrap(), noise(2_000, 0));
        assert_eq!(three.list(buckets[1]).await.unwrap().len(), 20);
        spent.services().admin.set_uplink(UplinkRequest { budget: None }).await.unwrap();
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_that_cannot_be_is_refused_with_what_would_do() {
    let world = TestWorld::new(1).await;
    let admin = &world.sites[0].services().admin;
    let mut wrong = budget(2_000_000_000);
    let changes: [(Change, &str); 5] = [
        (|budget| budget.reset_day = 31, "1 to 28"),
        (|budget| budget.hours = Some((22, 22)), "as 22-6"),
        (|budget| budget.period = "week".into(), "month or day"),
        (|budget| budget.bytes = 10, "cut the link"),
        (|budget| budget.zone_minutes = 10_000, "14 hours"),
    ];
    for (change, words) in changes {
        let sound = wrong.clone();
        change(wrong.budget.as_mut().unwrap());
        let error = admin.set_uplink(std::mem::replace(&mut wrong, sound)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(words), "{error}");
    }
    assert!(admin.uplink().await.unwrap().budget.is_none());
    world.stop().await;
}

/// The metered site is asked to hold a copy by one that is not metered, and asks that for its payload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_wait_for_their_hours_whoever_asks_for_them_while_reads_go_on() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", noise(300_000, 1)).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    two.services().admin.set_uplink(closed_for_copies(one)).await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    let read = move |view: &dyn skerry_base::kv::View| space::current(view, id, "a").map_err(unreadable);
    let dot = one.site().read(read).await.unwrap().unwrap().dot;
    // Over a link whose other end has said that it knows marks.
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    let asked = || have_held(one.site(), id, ("a".into(), dot), two.id());
    let refused = asked().await.unwrap_err();
    assert_eq!(refused.failure, Failure::Site, "it is left alone for a while");
    assert_eq!(two.get("photos", "a").await.unwrap().len(), 300_000, "somebody waits for it");
    two.services().admin.set_uplink(UplinkRequest { budget: None }).await.unwrap();
    assert!(asked().await.is_ok());
    world.stop().await;
}

/// A budget that lets no copies go is not a link that is gone: all that is no body is handed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_may_send_no_copies_hands_over_what_is_no_body() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "a", noise(300_000, 1)).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    one.services().admin.set_uplink(closed_for_copies(one)).await.unwrap();
    say(one, "site-1", "drain").await;
    one.until("only its body is left", || async {
        let drain = shown(one, "site-1").await.drain;
        drain.is_some_and(|drain| {
            let rest = (drain.records, drain.homes, drain.bytes);
            rest == (0, 0, 300_000) && drain.waits_for.contains("metered link at its hours")
        })
    })
    .await;
    two.put_if("photos", "decided", "there", WriteCondition { absent: true, matches: None }).await.unwrap();
    assert_eq!(two.services().admin.bucket("photos").await.unwrap().home, "site-2");
    one.services().admin.set_uplink(UplinkRequest { budget: None }).await.unwrap();
    until_duty(two, "site-1", "empty").await;
    assert_eq!(two.get("photos", "a").await.unwrap(), noise(300_000, 1));
    world.stop().await;
}

/// Copies may go in some hours.
fn closed_for_copies(site: &TestSite) -> UplinkRequest {
    let hour = u8::try_from(site.site().clock.wall().0 / 3_600_000 % 24).unwrap();
    let mut closed = budget(1_000_000_000);
    if let Some(budget) = &mut closed.budget {
        (budget.zone_minutes, budget.hours) = (0, Some(((hour + 4) % 24, (hour + 6) % 24)));
    }
    closed
}

fn pays(at: &TestSite, of: &TestSite) -> bool {
    at.site().peers.roster.all().get(&of.id()).is_some_and(|known| known.pays)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_a_site_pays_is_known_to_all_as_long_as_it_does() {
    let mut world = TestWorld::new(3).await;
    let all_say = async |world: &TestWorld, wanted: bool| {
        for site in &world.sites {
            site.until("it is known who pays", || async { pays(site, &world.sites[1]) == wanted }).await;
            assert!(!pays(site, &world.sites[0]) && !pays(site, &world.sites[2]));
        }
    };
    world.sites[1].services().admin.set_uplink(budget(2_000_000_000)).await.unwrap();
    all_say(&world, true).await;
    // It says otherwise than it should, as after a backup that was put back: it says it again.
    let two = world.sites[1].site();
    let (system, id) = (two.system, two.id);
    let wrong = move |view: &dyn skerry_base::kv::View, wall| {
        let word = say_metered(view, system, (id, false), wall).map_err(unreadable)?;
        Ok(((), word.map(|(key, object)| Declared::document(key, object))))
    };
    two.declare("", wrong).await.unwrap();
    world.sites[1]
        .until("it says it again", || async {
            let read = move |view: &dyn skerry_base::kv::View| metered(view, system).map_err(unreadable);
            two.read(read).await.is_ok_and(|pay| pay.contains(&id))
        })
        .await;
    all_say(&world, true).await;
    world.sites[1].stop().await;
    world.sites[1].start().await;
    world.linked(&world.sites[1]).await;
    all_say(&world, true).await;
    world.sites[1].services().admin.set_uplink(UplinkRequest { budget: None }).await.unwrap();
    all_say(&world, false).await;
    world.stop().await;
}

/// What a later release wrote, or damage: whoever pays for a link does not find out by the bill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_that_does_not_read_is_not_taken_for_none() {
    let mut world = TestWorld::new(1).await;
    {
        let site = world.sites[0].site();
        let key = bytes::Bytes::from_static(crate::peers::uplink::PLAN);
        let plan = entry(&Entry::Local { key, value: Some(bytes::Bytes::from_static(&[9])) });
        site.commit(site.system, (), move |_| Ok(((), vec![plan]))).await.unwrap();
        assert!(!site.peers.uplink.is_metered());
    }
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let site = &world.sites[0];
    assert!(site.site().peers.uplink.is_metered());
    assert!(site.site().peers.uplink.may(Class::Copy).is_ok(), "a little may cross");
    let state = site.services().admin.uplink().await.unwrap();
    assert_eq!(state.budget.unwrap().bytes, 1_000_000);
    // It is said anew, or lifted, as any other.
    let request = UplinkRequest::default();
    assert_eq!(site.services().admin.set_uplink(request).await.unwrap().budget, None);
    world.stop().await;
}
