//! Many seeds of one of the small worlds.

use std::collections::BTreeMap;

use skerry_sim::outcome::Outcome;

/// So many seeds that a test has, or as many as this variable says.
#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the product")]
fn seeds(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// No seed breaks a promise, and each of these things happened in some of them: a world in which nothing strikes proves
/// nothing.
pub(crate) fn hold(run: impl Fn(u64) -> Outcome, (variable, otherwise): (&str, u64), happened: &[&str]) {
    let (seeds, mut counts) = (seeds(variable, otherwise), BTreeMap::<&str, u64>::new());
    for seed in 0..seeds {
        let outcome = run(seed);
        assert_eq!(outcome.violations, [], "seed {seed}");
        outcome.counts.iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    println!("{seeds} seeds: {counts:?}");
    happened.iter().for_each(|what| assert!(counts.contains_key(what), "no seed had {what}"));
}
