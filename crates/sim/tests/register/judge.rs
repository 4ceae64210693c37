//! What must hold, whatever happens: a name is given to one, of one epoch there is one register. And once all is whole, and
//! everybody has heard of everything, a name that was given to nobody yet is given when it is asked for.

use skerry_base::SiteId;
use skerry_model::bucket::Turn;

use super::steps::{Step, is_under_way};
use super::world::{FAR, NAMES, NODES, State, What, Why, World, name_of};

/// What was broken.
pub(crate) type Wrong = (&'static str, String);

/// Steps until all is done, once nothing strikes.
const LONG: usize = 600;

/// Something was named.
pub(crate) fn names(world: &World, state: &State) -> Option<Wrong> {
    one(world, state, "names", |what| match what {
        What::Given(home) => Some((name_of(home.bucket) as u64, home.site)),
        _ => None,
    })
}

/// A register was named.
pub(crate) fn homes(world: &World, state: &State) -> Option<Wrong> {
    one(world, state, "homes", |what| match what {
        What::Home(home) => Some((home.epoch, home.site)),
        _ => None,
    })
}

fn one(
    world: &World,
    state: &State,
    checker: &'static str,
    of: impl Fn(&What) -> Option<(u64, SiteId)>,
) -> Option<Wrong> {
    let mut named = std::collections::BTreeMap::new();
    for record in state.places.iter().flat_map(|place| place.held.iter()) {
        let Some((number, site)) = of(&world.book[record].what) else { continue };
        let known = *named.entry(number).or_insert(site);
        if known != site {
            return Some((checker, format!("{number} was given to {known} and to {site}")));
        }
    }
    None
}

/// Nothing strikes any more: all nodes become live, everything travels. Then all names that are asked for are given.
pub(crate) fn recovery(world: &mut World, state: &State) -> Option<Wrong> {
    let known = world.book.len();
    let wrong = recovers(world, state);
    // What was written on the way is of no other.
    world.book.truncate(known);
    wrong
}

fn recovers(world: &mut World, state: &State) -> Option<Wrong> {
    let mut state = match healed(world, state.clone()) {
        Ok(state) => state,
        Err(wrong) => return Some(wrong),
    };
    let keeps = |world: &World, state: &State, node: &usize| {
        matches!(world.turn(state, *node), Some(Turn::Decide(_)))
    };
    let Some(node) = (0..=FAR).find(|node| keeps(world, &state, node)) else {
        let turns: Vec<_> = (0..=FAR).map(|node| world.turn(&state, node)).collect();
        return Some(("recovery", format!("nobody keeps the register: {turns:?}")));
    };
    // What a former register had begun comes first.
    for name in (0..NAMES).chain(0..NAMES) {
        let (asked, wrong) = world.take(&state, Step::Ask(node, name, 0));
        if wrong.is_some() {
            return wrong;
        }
        state = match healed(world, asked) {
            Ok(state) => state,
            Err(wrong) => return Some(wrong),
        };
    }
    let held = state.places[node].held;
    let lacks = (0..NAMES).find(|name| !world.is_taken(&held, *name));
    lacks.map(|name| ("recovery", format!("node {node} does not give name {name}")))
}

fn healed(world: &mut World, mut state: State) -> Result<State, Wrong> {
    state.left = Default::default();
    for _ in 0..LONG {
        let Some(step) = next(world, &state) else { break };
        let (after, wrong) = world.take(&state, step);
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        state = after;
    }
    Ok(state)
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
        Some(Turn::Pass(_)) if !is_under_way(&state.places[node], Why::Pass) => Some(Step::Turn(node)),
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
