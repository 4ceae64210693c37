//! The scale proof in small: the machine that ships stays within the law of its figures, and the models beside it do what their papers
//! say. The figures themselves: `skerry-sim scale`, docs/simulation.

use std::time::Duration;

use skerry_sim::scale::Setting;
use skerry_sim::scale::bill::{Bill, System};
use skerry_sim::scale::fit;

fn short(sites: usize) -> Setting {
    let seconds = Duration::from_secs;
    Setting {
        settle: seconds(700),
        rest: seconds(300),
        load: seconds(300),
        cut: Duration::ZERO,
        ..Setting::of(sites)
    }
}

fn run(system: System, setting: Setting) -> Bill {
    system.measure(setting, &|| 0)
}

#[test]
fn rest_grows_no_faster_than_the_law_of_the_figures() {
    // At 1500 s the pauses of all checks have grown to what they are at rest.
    let setting =
        |sites| Setting { settle: Duration::from_secs(1500), rest: Duration::from_secs(900), ..short(sites) };
    let bills = [10, 20, 30].map(|sites| run(System::Skerry, setting(sites)));
    let points = bills.each_ref().map(|bill| (bill.setting.sites as f64, bill.traffic[0].mean));
    let slope = fit::power(&points).map_or(1.0, |fit| fit.b);
    assert!(slope < 0.15, "{points:?} grow as n^{slope:.2}");
    for bill in &bills {
        assert!(bill.traffic[0].mean < 15.0 && bill.traffic[0].most < 40.0, "{:?}", bill.traffic);
        assert!(bill.traffic[0].carried < 60.0, "{:?}", bill.traffic);
        let [calm, stormy] = bill.finding;
        assert!(calm.found > 10 && (calm.missed, stormy.missed) == (0, 0), "{:?}", bill.finding);
        // Within 1.5·K·d, and then one round trip to whom was found.
        assert!(calm.stretch[1] <= 4.0 && calm.hops <= 3.0, "{calm:?}");
    }
}

#[test]
fn halves_that_were_cut_agree_when_their_links_stand() {
    let setting = Setting { cut: Duration::from_secs(600), ..short(12) };
    let bill = run(System::Skerry, setting);
    for healed in bill.healed {
        // Links are dialled within half a minute; then news and liveness go round.
        assert!(healed.is_some_and(|seconds| seconds < 90.0), "{:?}", bill.healed);
    }
    assert_eq!(run(System::Skerry, setting), bill, "the same seed, the same story");
}

#[test]
fn a_hash_table_finds_every_key_in_steps_that_grow_with_the_logarithm() {
    let bills =
        [30, 90].map(|sites| run(System::Kademlia, Setting { churn: 0.0, writes: 6.0, ..short(sites) }));
    for bill in &bills {
        assert!(bill.finding[0].found > 100 && bill.finding[0].missed == 0, "{:?}", bill.finding);
        // A question and its answer a step, log₂(n/k) steps and one.
        let steps = (bill.setting.sites as f64 / 20.0).log2() + 1.0;
        assert!(bill.finding[0].hops <= 2.0 * steps, "{:?}", bill.finding);
    }
    assert!(bills[0].finding[0].hops < bills[1].finding[0].hops);
}

#[test]
fn a_tree_is_silent_at_rest_and_climbs_to_the_common_ancestor() {
    let bill = run(System::Tree, Setting { churn: 0.0, ..short(30) });
    assert_eq!((bill.traffic[0].most, bill.finding[0].missed), (0.0, 0));
    assert!(bill.finding[0].found > 50 && bill.finding[0].hops <= 2.0 * 30f64.log2(), "{:?}", bill.finding);
    // Its root knows everybody, and most know few.
    let [mean, most] = bill.counted.unwrap_or_default();
    assert!(most >= 30 * 50 && most > 2 * mean, "{mean} {most}");
}

#[test]
fn pools_reach_every_fog_within_two_hops() {
    // Nothing new: all filters have been told.
    let bill = run(System::Pools, Setting { churn: 0.0, writes: 0.0, ..short(30) });
    assert!(bill.finding[0].found > 50 && bill.finding[0].missed == 0, "{:?}", bill.finding);
    // Asked, passed on, answered; one more where it was a false positive.
    assert!(bill.finding[0].hops <= 3.0, "{:?}", bill.finding);
}

#[test]
fn copies_of_everything_cost_as_much_as_there_are_sites_and_find_at_once() {
    let bills = [10, 30].map(|sites| run(System::Replicas, Setting { churn: 0.0, ..short(sites) }));
    for bill in &bills {
        assert_eq!((bill.finding[0].hops, bill.finding[0].missed), (0.0, 0));
        assert!((bill.finding[0].stretch[1] - 1.0).abs() < 1e-9, "{:?}", bill.finding);
    }
    let grown = bills[1].traffic[2].mean / bills[0].traffic[2].mean;
    assert!((2.0..4.5).contains(&grown), "{grown}");
    let healed = run(System::Replicas, Setting { cut: Duration::from_secs(300), ..short(12) }).healed;
    assert!(healed[1].is_some_and(|seconds| seconds < 120.0), "{healed:?}");
}
