//! The first test of the simulator: two runs of a seed tell the same story, to the byte.
//!
//! Everything else rests on it: a failure that cannot be repeated cannot be mended. The hash covers the text
//! of every event, messages and records with their hashes included.

use skerry_sim::swarm::run_seed;

#[test]
fn two_runs_of_a_seed_are_byte_identical() {
    for seed in 1..=6 {
        let (first, second) = (run_seed(seed), run_seed(seed));
        assert!(first.lines > 500, "seed {seed} tells only {} lines", first.lines);
        assert_eq!(first.hash, second.hash, "seed {seed} is not repeatable");
    }
}

#[test]
fn two_seeds_are_two_stories() {
    assert_ne!(run_seed(1).hash, run_seed(2).hash);
}
