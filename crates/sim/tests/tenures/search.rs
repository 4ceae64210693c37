//! All ways through a few steps, each state once; and long ways at random.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use skerry_scenario::draw::Draw;

use super::judge::{self, Wrong};
use super::steps::{KINDS, Step, kind};
use super::world::{State, World};

/// Of so many states one is followed until all is whole again.
const HEALED: u64 = 32;
/// Steps of a way at random.
const LENGTH: usize = 90;

/// What a search saw.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) wrong: Option<(Wrong, Vec<Step>)>,
}

fn hash(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Breadth first from here, until something is wrong, nothing is left, or so many states are known.
pub(crate) fn all(world: &mut World, first: &State, most: usize) -> Found {
    let mut from = BTreeMap::from([(hash(first), None)]);
    let mut waiting = VecDeque::from([first.clone()]);
    while let Some(state) = waiting.pop_front() {
        let before = hash(&state);
        if before.is_multiple_of(HEALED)
            && let Some(wrong) = judge::recovery(world, &state)
        {
            return Found { states: from.len(), wrong: Some((wrong, way(&from, before))) };
        }
        for step in world.steps(&state) {
            let (next, wrong) = world.take(&state, step);
            if let Some(wrong) = wrong {
                let mut way = way(&from, before);
                way.push(step);
                return Found { states: from.len(), wrong: Some((wrong, way)) };
            }
            let number = hash(&next);
            if from.len() < most && !from.contains_key(&number) {
                from.insert(number, Some((before, step)));
                waiting.push_back(next);
            }
        }
    }
    Found { states: from.len(), wrong: None }
}

/// How a state was reached.
fn way(from: &BTreeMap<u64, Option<(u64, Step)>>, to: u64) -> Vec<Step> {
    let before = |state: &u64| from.get(state).copied().flatten().map(|(before, _)| before);
    let states = std::iter::successors(Some(to), before);
    let steps = states.filter_map(|state| from.get(&state).copied().flatten().map(|(_, step)| step));
    let mut way: Vec<Step> = steps.collect();
    way.reverse();
    way
}

/// One way at random, and then until all is whole again: what is wrong, and the way there.
pub(crate) fn walk(world: &mut World, first: &State, seed: u64) -> Option<(Wrong, Vec<Step>)> {
    let mut draw = Draw::from_seed(seed);
    // What is rare on one way is frequent on another.
    let weights: [u64; KINDS] = std::array::from_fn(|_| [0, 1, 2, 4, 8][draw.below(5) as usize]);
    let (mut state, mut way) = (first.clone(), Vec::new());
    for _ in 0..LENGTH {
        let steps = world.steps(&state);
        let Some(step) = pick(&steps, &weights, &mut draw) else { break };
        way.push(step);
        let (next, wrong) = world.take(&state, step);
        if let Some(wrong) = wrong {
            return Some((wrong, way));
        }
        state = next;
    }
    judge::recovery(world, &state).map(|wrong| (wrong, way))
}

/// A kind of step first: there are many ways to lose a record, and one to be answered.
fn pick(steps: &[Step], weights: &[u64; KINDS], draw: &mut Draw) -> Option<Step> {
    let mut of_now = [0; KINDS];
    for step in steps {
        // What the nodes do by themselves always goes on at last.
        let is_own = matches!(step, Step::Turn(_) | Step::Deliver(..) | Step::Finish(..) | Step::Sync(..));
        of_now[kind(step)] = weights[kind(step)].max(u64::from(is_own));
    }
    if of_now.iter().sum::<u64>() == 0 {
        return None;
    }
    let drawn = draw.weighted(&of_now);
    let of_kind: Vec<Step> = steps.iter().filter(|step| kind(step) == drawn).copied().collect();
    draw.pick(&of_kind).copied()
}
