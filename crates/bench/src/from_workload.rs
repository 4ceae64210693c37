//! A workload file, the same that the simulator reads, as phases on a real system.

use skerry_scenario::workload::{ACTS, Act, Spread, Workload};
use skerry_scenario::workload_size::ObjectSize;

use crate::plan::{Keys, Mix, Order, Phase, Shape, SizeRange};
use crate::target::Operation;

/// Seconds of a phase whose workload says no end.
const SECONDS: f64 = 10.0;

/// The measured phase of a workload, and what of it could not be taken over, for a person. `bucket` names its buckets:
/// itself if there is one, else with a number behind.
pub fn phase(workload: &Workload, bucket: &str) -> (Phase, Vec<String>) {
    let mut notes = Vec::new();
    let load = &workload.load;
    let once = workload.spread == Spread::Once;
    let endless = load.operations.is_none() && load.seconds.is_none() && !once;
    let millis = |index: usize| {
        let ends = [workload.think.start(), workload.think.end()];
        ends.get(index).map_or(0, |span| span.as_millis() as u64)
    };
    let range = |(bytes, weight): &(std::ops::RangeInclusive<u64>, u64)| SizeRange {
        bytes: ObjectSize(*bytes.start()),
        to: Some(ObjectSize(*bytes.end())),
        weight: *weight,
        shape: Shape::Uniform,
    };
    let fixed_rate = matches!(load.arrival, crate::plan::Arrival::Rate(_));
    let name = if workload.name.is_empty() { "mixed" } else { &workload.name };
    let phase = Phase {
        mix: mix(workload, &mut notes),
        workers: load.threads.unwrap_or(workload.clients),
        arrival: load.arrival,
        operations: load.operations,
        seconds: if endless { Some(SECONDS) } else { load.seconds },
        warm_up_seconds: load.warm_up_seconds,
        think_ms: if fixed_rate { [0, 0] } else { [millis(0), millis(1)] },
        buckets: match workload.buckets {
            1 => vec![bucket.to_owned()],
            buckets => (0..buckets).map(|number| format!("{bucket}-{number}")).collect(),
        },
        keys: Keys {
            count: workload.keys,
            folders: workload.folders,
            order: order(workload.spread),
            theta: load.theta.unwrap_or_else(|| Keys::default().theta),
            ..Keys::default()
        },
        sizes: workload.sizes.iter().map(range).collect(),
        ..Phase::new(name, Operation::Get)
    };
    if workload.versioned.0 > 0 {
        notes.push("versioned: set versioning on the buckets yourself; it is not switched here".into());
    }
    (phase, notes)
}

/// The phase that writes every key once, so that another can read them.
pub fn preparation(phase: &Phase) -> Phase {
    Phase {
        operations: Some(phase.keys.count),
        workers: phase.workers.min(phase.keys.count),
        buckets: phase.buckets.clone(),
        keys: Keys { order: Order::Sequential, ..phase.keys.clone() },
        sizes: phase.sizes.clone(),
        verify: phase.verify,
        timeout_seconds: phase.timeout_seconds,
        ..Phase::new("load", Operation::Put)
    }
}

const fn order(spread: Spread) -> Order {
    match spread {
        Spread::Uniform => Order::Uniform,
        Spread::Zipf => Order::Zipf,
        Spread::Hot => Order::Hot,
        Spread::Sequential => Order::Sequential,
        Spread::Once => Order::Once,
    }
}

fn mix(workload: &Workload, notes: &mut Vec<String>) -> Mix {
    let mut mix = Mix { head: workload.load.head, ..Mix::default() };
    for (act, weight) in ACTS.into_iter().zip(workload.mix) {
        match act {
            Act::Put => mix.put += weight,
            Act::Get => mix.get += weight,
            Act::List => mix.list += weight,
            Act::Delete | Act::Erase => mix.delete += weight,
            Act::Bucket => {}
        }
        if weight > 0 && act == Act::Erase {
            notes.push("erase: counted as delete; versions are not deleted one by one here".into());
        }
        if weight > 0 && act == Act::Bucket {
            notes.push("bucket: left out; buckets stay while they are measured".into());
        }
    }
    mix
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn the_simulators_example_runs_here_too() {
        let text = include_str!("../../scenario/examples/small-objects.toml");
        let workload = Workload::parse("small-objects.toml", text).unwrap();
        let (phase, notes) = phase(&workload, "bench");
        assert_eq!((phase.mix.put, phase.mix.get, phase.mix.delete), (40, 45, 10));
        assert_eq!(phase.workers, workload.clients);
        assert_eq!(phase.buckets.len() as u64, workload.buckets);
        assert_eq!(phase.seconds, Some(10.0));
        assert!(notes.iter().any(|note| note.starts_with("erase")), "{notes:?}");
        let phases = vec![preparation(&phase), phase];
        let plan = Plan { name: String::new(), seed: 1, client: 0, trials: 1, begin_wall_ms: None, phases };
        plan.check().unwrap();
        assert_eq!(plan.phases.first().unwrap().keys.order, Order::Sequential);
    }
}
