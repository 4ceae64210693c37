//! Plans that make no sense are refused before anything is asked: which phase, which field, why.

use crate::plan::{Arrival, Order, Phase, Plan};

/// More requests at once than one thread can keep track of honestly.
const WORKERS: u64 = 10_000;
/// Keys of a phase: their shuffled order is kept in memory.
const KEYS: u64 = 10_000_000;
/// S3 takes no more in one PUT.
const OBJECT_BYTES: u64 = 5 << 30;
/// A day.
const SECONDS: f64 = 86_400.0;
/// Operations a second that one thread can begin.
const RATE: f64 = 1_000_000.0;

impl Plan {
    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<(), String> {
        if self.phases.is_empty() {
            return Err("the plan has no phases".into());
        }
        if !(1..=10_000).contains(&self.trials) {
            return Err(format!("trials is from 1 to 10000, not {}", self.trials));
        }
        self.phases.iter().try_for_each(|phase| {
            let found = phase.faults().into_iter().find(|(bad, _)| *bad);
            found.map_or(Ok(()), |(_, reason)| Err(format!("phase {:?}: {reason}", phase.name)))
        })
    }
}

/// Whether a number of seconds is one.
fn seconds(value: f64) -> bool {
    (0.0..=SECONDS).contains(&value)
}

impl Phase {
    /// What may be wrong, whether it is, and what to say.
    fn faults(&self) -> Vec<(bool, String)> {
        let rate = if let Arrival::Rate(rate) = self.arrival { rate } else { 1.0 };
        let spread = if let Arrival::Spread(spread) = self.arrival { spread } else { 0 };
        let [low, high] = self.think_ms;
        let once = self.keys.order == Order::Once;
        let sizes = &self.sizes;
        let weighs = sizes.iter().any(|size| size.weight > 0);
        let say = |text: &str| text.to_owned();
        vec![
            (self.mix.weights() == [0; 7], say("the mix asks for nothing")),
            (
                !(1..=WORKERS).contains(&self.workers),
                format!("workers is from 1 to {WORKERS}, not {}", self.workers),
            ),
            (
                self.operations.is_none() && self.seconds.is_none() && !once,
                say("give operations or seconds, or it never ends"),
            ),
            (self.operations == Some(0), say("operations is at least 1")),
            (
                self.seconds.is_some_and(|value| !seconds(value) || value == 0.0),
                say("seconds is above 0, a day at most"),
            ),
            (!seconds(self.warm_up_seconds), say("warm_up_seconds is from 0 to a day")),
            (!seconds(self.pause_seconds), say("pause_seconds is from 0 to a day")),
            (
                !seconds(self.timeout_seconds) || self.timeout_seconds == 0.0,
                say("timeout_seconds is above 0, a day at most"),
            ),
            (!(rate > 0.0 && rate <= RATE), format!("per_second is above 0 and {RATE} at most, not {rate}")),
            (spread > 3_600_000, say("spread_ms is an hour at most")),
            (low > high || high > 3_600_000, say("think_ms is [from, to], an hour at most")),
            (
                matches!(self.arrival, Arrival::Rate(_)) && high > 0,
                say("think_ms has no meaning at a fixed rate: leave one out"),
            ),
            (
                self.buckets.is_empty() || self.buckets.iter().any(String::is_empty),
                say("buckets names at least one, none of them empty"),
            ),
            (
                !(1..=KEYS).contains(&self.keys.count),
                format!("keys.count is from 1 to {KEYS}, not {}", self.keys.count),
            ),
            (
                !(self.keys.theta > 0.0 && self.keys.theta <= 10.0),
                say("keys.theta is above 0 and 10 at most"),
            ),
            (
                once && self.warm_up_seconds > 0.0,
                say("order \"once\" asks for each key once: a warm-up would use some up"),
            ),
            (!weighs, say("sizes names at least one with a weight")),
            (
                sizes.iter().any(|size| size.to.is_some_and(|to| to < size.bytes)),
                say("sizes: `to` is below `bytes`"),
            ),
            (
                sizes.iter().any(|size| size.to.unwrap_or(size.bytes).0 > OBJECT_BYTES),
                say("sizes: 5GiB at most, which is what S3 takes in one PUT"),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const GOOD: &str = r#"
[[phases]]
name = "write"
mix = { put = 1 }
workers = 100
operations = 100
arrival = { spread_ms = 1000 }
keys = { count = 100, order = "sequential" }
sizes = [{ bytes = "1MB" }]
"#;

    fn refused(from: &str, to: &str) -> String {
        let plan: Plan = toml::from_str(&GOOD.replace(from, to)).unwrap();
        plan.check().unwrap_err()
    }

    #[test]
    fn a_phase_in_a_file_is_a_few_lines() {
        let plan: Plan = toml::from_str(GOOD).unwrap();
        plan.check().unwrap();
        let phase = plan.phases.first().unwrap();
        assert_eq!((phase.workers, phase.arrival), (100, Arrival::Spread(1000)));
        assert_eq!(phase.sizes.first().unwrap().bytes.0, 1_000_000);
        let again: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again, plan);
        for (text, arrival) in
            [("\"at-once\"", Arrival::AtOnce), ("{ per_second = 20.5 }", Arrival::Rate(20.5))]
        {
            let plan: Plan = toml::from_str(&GOOD.replace("{ spread_ms = 1000 }", text)).unwrap();
            assert_eq!(plan.phases.first().unwrap().arrival, arrival);
        }
        assert!(toml::from_str::<Plan>(&GOOD.replace("workers", "threads")).is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (from, to, reason) in [
            ("put = 1", "put = 0", "phase \"write\": the mix"),
            ("workers = 100", "workers = 0", "workers is from 1"),
            ("operations = 100\n", "", "never ends"),
            ("operations = 100\n", "seconds = -1.0\n", "seconds is above 0"),
            ("operations = 100\n", "seconds = nan\n", "seconds is above 0"),
            ("spread_ms = 1000", "per_second = 0.0", "per_second"),
            ("count = 100", "count = 0", "keys.count"),
            ("\"1MB\"", "\"6GiB\"", "5GiB"),
            ("\"1MB\"", "\"1MB\", to = \"1kB\"", "below"),
            ("\"1MB\"", "\"1MB\", weight = 0", "weight"),
            ("\"sequential\" }", "\"once\" }\nwarm_up_seconds = 1", "warm-up"),
        ] {
            let found = refused(from, to);
            assert!(found.contains(reason), "{to}: {found}");
        }
    }
}
