//! What a site does by itself goes on after a panic.

use skerry_gateway::service::{PinAct, PinRequest};

use super::world::{TestWorld, noise};

/// What a site of one node does by itself.
const WORKERS: [&str; 27] = [
    "circuits",
    "clones",
    "collector",
    "copies",
    "credential keys",
    "drain",
    "fellows",
    "followed prefixes",
    "giving",
    "gone",
    "homes",
    "leaving",
    "members",
    "metrics",
    "others",
    "pins",
    "questions",
    "recovery",
    "replaced",
    "revivals",
    "roster",
    "scrub",
    "spare claims",
    "tombstones",
    "trim",
    "undecided writes",
    "uplink",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_whose_workers_all_panicked_goes_on_without_a_restart() {
    let world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        one.put("photos", "menu/a", noise(200_000, 1)).await.unwrap();
        let known = || async { two.site().bucket("photos").await.unwrap().is_some() };
        two.until("the bucket is known", known).await;
        let tasks = two.core.as_ref().unwrap().tasks.clone();
        let all = || async { tasks.kept().await == WORKERS };
        two.until("all workers were begun", all).await;
        for name in WORKERS {
            tasks.trip(name).await;
        }
        let counted = || async { WORKERS.iter().all(|name| tasks.panics().of(name) == 1) };
        two.until("all panicked", counted).await;
        // Questions and the roster, pins and members, departures.
        let request = PinRequest { bucket: "photos".into(), prefix: "menu/".into(), act: PinAct::Pin };
        two.services().admin.set_pin(request).await.unwrap();
        let here = || async { two.site().store.kept_bytes() >= 200_000 };
        two.until("what is pinned is here", here).await;
        let id = two.site().bucket("photos").await.unwrap().unwrap().id;
        two.until("it is a complete member", || async { two.site().is_complete(id) }).await;
        let request = PinRequest { bucket: "photos".into(), prefix: "menu/".into(), act: PinAct::Unpin };
        two.services().admin.set_pin(request).await.unwrap();
        two.services().admin.leave_bucket("photos").await.unwrap();
        two.until("the bucket was left", || async { !two.site().is_member(id) }).await;
        let swept = || async { !two.site().leaving.sweeps(id) };
        two.until("its records are gone", swept).await;
    }
    world.stop().await;
}

/// Nothing it was told is heard any more: whoever watches it has to see that, and it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_whose_machine_panicked_is_not_ready_and_says_that_it_has_to_be_started_anew() {
    let world = TestWorld::new(1).await;
    {
        let site = &world.sites[0];
        let core = site.core.as_ref().unwrap();
        assert!(site.services().admin.ready().await.ready);
        assert!(futures::FutureExt::now_or_never(core.fell()).is_none());
        let asked = site.site().drive.ask(|_, _| -> () { panic!("as a bug would") }).await;
        assert!(asked.is_none());
        assert!(core.fell().await.contains("as a bug would"));
        let ready = site.services().admin.ready().await;
        assert!(!ready.ready && ready.reason.contains("as a bug would"), "{ready:?}");
        let counted = || async { core.tasks.panics().of("federation") == 1 };
        site.until("it is counted", counted).await;
    }
    world.stop().await;
}
