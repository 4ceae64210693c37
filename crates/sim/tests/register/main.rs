//! The register of names alone: the production machines of tenures and namings at three nodes of a site and one of another,
//! without clocks, disks and wires, as `tests/tenures` has them for homes: all ways through few steps, and long ways at
//! random.
//!
//! Invariants: one thread, no time; every draw from the seed; a bound that could not be searched whole fails.

mod judge;
#[path = "../tenures/search.rs"]
mod search;
mod steps;
mod world;

use skerry_model::bucket::{FIRST_EPOCH, HomeCause, HomeDocument, Seen, TenureDocument};
use skerry_sim::nodes::{Mistake, OF_NAMES};

use steps::Step;
use world::{FAR, Left, NODES, Place, Record, SYSTEM, Set, State, What, World, naming, site};

/// Who keeps the register at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// A node of the site, which has opened its tenure.
    Opened,
    /// The node of the other site.
    Far,
    /// A node of the site that named alone before there were others.
    Grown,
}

fn begin(mistake: Option<Mistake>, first: First, left: Left) -> (World, State) {
    let owners = if first == First::Grown { [2, 0, 1] } else { [1, 2, 0] };
    let mut world = World { book: Vec::new(), mistake, owners };
    let keeper = if first == First::Far { FAR } else { 0 };
    let (seen, context) = (Seen::default(), Set::default());
    let (site, epoch, view) = (site(keeper), FIRST_EPOCH, 1);
    let (unique, cause) = (false, HomeCause::Named);
    let named = HomeDocument { bucket: SYSTEM, site, epoch, unique, seen: seen.clone(), cause };
    let mut held = Set::default();
    held.put(world.number(Record { origin: keeper, seq: 1, context, what: What::Home(named) }));
    if first == First::Opened {
        let said = TenureDocument { bucket: SYSTEM, site, epoch, view, seen, heir: None };
        held.put(world.number(Record { origin: keeper, seq: 2, context, what: What::Tenure(said) }));
    }
    let settled = Set::default();
    let place = Place { held, view, is_synced: true, jobs: Vec::new(), settled };
    let places = std::array::from_fn(|_| place.clone());
    let all = (1 << NODES) - 1;
    let mut state = State { view, live: all, joining: 0, places, left };
    if first == First::Grown {
        let what = What::Given(naming(0, 0).home);
        state.places[0].held.put(world.number(Record { origin: 0, seq: 2, context, what }));
        // The others have come to it since.
        (state.live, state.joining) = (1, all & !1);
        state.places[1..NODES].iter_mut().for_each(|place| place.is_synced = false);
    }
    (world, state)
}

const NONE: Left = Left { asks: 0, moves: 0, plains: 0, views: 0, feeds: 0, loose: 0 };

/// For the steps before a search.
const WIDE: Left = Left { asks: 9, moves: 9, plains: 9, views: 9, feeds: 9, loose: 9 };

/// Bounds of ways at random.
const LONG: Left = Left { asks: 7, moves: 4, plains: 2, views: 7, feeds: 7, loose: 4 };

/// Bounds within which every way is gone: from where, after which steps, and what may happen then.
const BOUNDS: [(First, &[Step], Left); 9] = [
    // The register moves within the site while somebody asks for a name.
    (First::Opened, &[], Left { asks: 2, moves: 1, feeds: 1, ..NONE }),
    // It is lost meanwhile.
    (First::Opened, &[Step::Ask(0, 0, 0)], Left { asks: 1, views: 2, ..NONE }),
    // It is lost after it named one, and began another.
    (First::Opened, NAMED, Left { asks: 2, views: 1, ..NONE }),
    // It began a name that nobody heard of, and was lost; the other site had the register meanwhile.
    (First::Opened, AWAY, Left { asks: 2, moves: 1, feeds: 1, ..NONE }),
    // It named ahead of something that nobody else has, was lost, and the next one gives the register to the other site.
    (First::Opened, AHEAD, Left { asks: 1, moves: 1, feeds: 1, ..NONE }),
    // The other site has what was named ahead of what it waits for.
    (First::Opened, LOOSE, Left { asks: 2, moves: 1, feeds: 1, ..NONE }),
    // The other site named one, and gave the register to a node of the site.
    (
        First::Far,
        &[Step::Ask(FAR, 0, 0), Step::Give(FAR, 0), Step::Feed(FAR, 0)],
        Left { asks: 1, moves: 1, loose: 1, ..NONE },
    ),
    // It named alone before there were others.
    (First::Grown, &[], Left { asks: 1, views: 2, ..NONE }),
    // It began a name, and is moved to another node, which hears of that before it hears of the name.
    (First::Opened, &[Step::Ask(0, 0, 0), Step::Give(0, 1)], Left { asks: 1, loose: 1, ..NONE }),
];

/// Node 0 gives the first name; that it did so nobody else has heard yet.
const NAMED: &[Step] =
    &[Step::Ask(0, 0, 0), Step::Deliver(0, 0, 1), Step::Deliver(0, 0, 2), Step::Finish(0, 0)];

/// Node 0 begins to give the first name and is lost; node 1 takes the register over and gives it to the other site; node 0 is
/// back.
const AWAY: &[Step] = &[
    Step::Ask(0, 0, 0),
    Step::View(0b110, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
    Step::Turn(1),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Turn(1),
    Step::Give(1, FAR),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Feed(1, FAR),
    Step::View(0b110, 0b001),
    Step::Sync(0, 1),
    Step::View(0b111, 0),
    Step::Sync(0, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
];

/// Node 0 writes something that nobody else gets, gives the first name, which the others have, and is lost; node 1 takes over.
const AHEAD: &[Step] = &[
    Step::Plain(0),
    Step::Ask(0, 0, 0),
    Step::Deliver(0, 0, 1),
    Step::Deliver(0, 0, 2),
    Step::Finish(0, 0),
    Step::View(0b110, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
    Step::Turn(1),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Turn(1),
];

/// The home document of the first name in [`LOOSE`]: after the first two records what was said, and something else.
const GIVEN: usize = 4;

/// Node 0 says that it will give the first name, writes something else, gives it, and is lost; node 1 takes over and gives the
/// register to the other site, which hears of what was given, and not of what lies before.
const LOOSE: &[Step] = &[
    Step::Ask(0, 0, 0),
    Step::Plain(0),
    Step::Deliver(0, 0, 1),
    Step::Deliver(0, 0, 2),
    Step::Finish(0, 0),
    Step::View(0b110, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
    Step::Turn(1),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Turn(1),
    Step::Give(1, FAR),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Feed(1, FAR),
    Step::Loose(0, FAR, GIVEN),
];

/// What there is after some steps, and what may happen then.
fn after(mistake: Option<Mistake>, first: First, steps: &[Step], left: Left) -> (World, State) {
    let (mut world, mut state) = begin(mistake, first, WIDE);
    for step in steps {
        state = world.take(&state, *step).0;
    }
    (world, State { left, ..state })
}

/// States of one search; none comes near it.
const MOST: usize = 200_000;

#[test]
fn every_way_through_few_steps_is_sound() {
    for (bound, (first, steps, left)) in BOUNDS.into_iter().enumerate() {
        let (mut world, state) = after(None, first, steps, left);
        let found = search::all(&mut world, &state, MOST);
        assert_eq!(found.wrong, None, "bound {bound}");
        assert!(found.states < MOST, "bound {bound} is too wide to be searched whole");
        println!("bound {bound}, {first:?}: {} states", found.states);
    }
}

/// `SKERRY_REGISTER_SEEDS` goes more of them.
#[test]
#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the product")]
fn long_ways_are_sound() {
    let seeds = std::env::var("SKERRY_REGISTER_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(2000) {
        let first = [First::Opened, First::Opened, First::Far, First::Grown][seed as usize % 4];
        let (mut world, state) = begin(None, first, LONG);
        assert_eq!(search::walk(&mut world, &state, seed), None, "seed {seed}");
    }
}

/// Within which bound each is found.
const FOUND: [(Mistake, usize); 8] = [
    (Mistake::EarlyNaming, 1),
    (Mistake::LateNaming, 8),
    (Mistake::ForgottenNaming, 1),
    (Mistake::EarlyDone, 2),
    (Mistake::SilentRegister, 3),
    (Mistake::NamesAhead, 4),
    (Mistake::LooseDone, 5),
    (Mistake::BareOpening, 6),
];

#[test]
fn every_mistake_is_found() {
    assert!(OF_NAMES.iter().all(|of| FOUND.iter().any(|(mistake, _)| mistake == of)));
    for (mistake, bound) in FOUND {
        let (first, steps, left) = BOUNDS[bound];
        let (mut world, state) = after(Some(mistake), first, steps, left);
        let found = search::all(&mut world, &state, MOST);
        println!("{mistake:?}: {found:?}");
        let by = found.wrong.map(|((by, _), _)| by);
        assert_eq!(by, Some("names"), "{mistake:?}");
    }
}
