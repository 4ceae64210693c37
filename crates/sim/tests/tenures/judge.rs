//! What must hold, whatever happens: of one epoch one home; whoever decides has seen all that clients were told; what they
//! were told is one chain. And once all is whole, and everybody has heard of everything, somebody decides.

use super::steps::{Step, is_passing};
use super::world::{FAR, NODES, State, What, World};
use skerry_model::bucket::Turn;

/// What was broken.
pub(crate) type Wrong = (&'static str, String);

/// Steps until all is done, once nothing strikes.
const LONG: usize = 400;

/// A node is about to decide.
pub(crate) fn deciding(world: &World, state: &State, node: usize) -> Option<Wrong> {
    let decides = |other: &usize| {
        let is_up = *other == FAR || state.is_leased(*other);
        is_up && matches!(world.turn(state, *other), Some(Turn::Decide(_)))
    };
    if let Some(other) = (0..=FAR).filter(|other| *other != node).find(decides) {
        return Some(("owners", format!("nodes {node} and {other} decide")));
    }
    let current = world.current(&state.places[node].held).map(|(_, value)| value);
    let missed = state.told.iter().find(|told| !world.descends(current, *told))?;
    Some(("undone", format!("node {node} decides on {current:?}, which has not seen {missed}")))
}

/// A client is told a value.
pub(crate) fn tell(world: &World, state: &mut State, value: usize) -> Option<Wrong> {
    let is_beside = |told: &usize| !world.descends(Some(*told), value) && !world.descends(Some(value), *told);
    let beside = state.told.iter().find(is_beside);
    state.told.put(value);
    beside.map(|beside| ("answers", format!("{value} was told, and {beside} beside it")))
}

/// A home was named.
pub(crate) fn homes(world: &World, state: &State) -> Option<Wrong> {
    let mut named = std::collections::BTreeMap::new();
    for record in state.places.iter().flat_map(|place| place.held.iter()) {
        if let What::Home { named: home, .. } = &world.book[record] {
            let known = *named.entry(home.epoch).or_insert(home.site);
            if known != home.site {
                return Some((
                    "homes",
                    format!("{known} and {} are homes of epoch {}", home.site, home.epoch),
                ));
            }
        }
    }
    None
}

/// Nothing strikes any more: all nodes become live, everything travels. Then a client is told that it has won.
pub(crate) fn recovery(world: &mut World, state: &State) -> Option<Wrong> {
    let known = world.book.len();
    let wrong = recovers(world, state);
    // What was written on the way is of no other.
    world.book.truncate(known);
    wrong
}

fn recovers(world: &mut World, state: &State) -> Option<Wrong> {
    let mut state = state.clone();
    state.left = Default::default();
    for _ in 0..LONG {
        let Some(step) = next(world, &state) else { break };
        let (after, wrong) = world.take(&state, step);
        if wrong.is_some() {
            return wrong;
        }
        state = after;
    }
    let mut deciders = (0..=FAR).filter(|node| matches!(world.turn(&state, *node), Some(Turn::Decide(_))));
    let Some(node) = deciders.next_back() else {
        let turns: Vec<_> = (0..=FAR).map(|node| world.turn(&state, node)).collect();
        return Some(("recovery", format!("nobody decides: {turns:?}")));
    };
    let before = state.told;
    let (mut state, wrong) = world.take(&state, Step::Decide(node));
    if wrong.is_some() {
        return wrong;
    }
    while let Some(step) = settling(&state) {
        let (after, wrong) = world.take(&state, step);
        if wrong.is_some() {
            return wrong;
        }
        state = after;
    }
    (state.told == before).then(|| ("recovery", format!("node {node} decides and answers nobody")))
}

fn next(world: &World, state: &State) -> Option<Step> {
    let all: u8 = (1 << NODES) - 1;
    let steps = world.steps(state);
    if let Some(step) =
        settling(state).or_else(|| steps.into_iter().find(|step| matches!(step, Step::Sync(..))))
    {
        return Some(step);
    }
    if state.live != all {
        let is_joined = state.holders() == all;
        return Some(if is_joined { Step::View(all, 0) } else { Step::View(state.live, all & !state.live) });
    }
    for (from, to) in (0..=FAR).flat_map(|from| (0..=FAR).map(move |to| (from, to))) {
        let lacking = state.places[from].held.minus(&state.places[to].held);
        if let Some(record) = lacking.iter().next() {
            return Some(Step::Loose(from, to, record));
        }
    }
    (0..NODES).find_map(|node| match world.turn(state, node) {
        Some(Turn::Open(_)) => Some(Step::Turn(node)),
        Some(Turn::Pass(_)) if !is_passing(&state.places[node]) => Some(Step::Turn(node)),
        _ => None,
    })
}

/// What is under way goes on, if it can.
fn settling(state: &State) -> Option<Step> {
    for (node, place) in state.places.iter().enumerate() {
        for (number, job) in place.jobs.iter().enumerate() {
            let lacks = |to: &usize| job.holders & !job.held & (1 << to) != 0;
            if job.holders & !job.held == 0 {
                return Some(Step::Finish(node, number));
            }
            let can = |to: &usize| lacks(to) && state.places[*to].view == job.view;
            if let Some(to) = (0..NODES).find(can) {
                return Some(Step::Deliver(node, number, to));
            }
        }
    }
    None
}
