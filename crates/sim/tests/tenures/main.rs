//! Tenures alone: the production machine at three nodes of a site and one of another, without clocks, disks and wires. What a
//! view gives is taken for granted here (`crates/sim/src/nodes.rs` judges that); in between everything may happen in any
//! order: all ways through few steps, and long ways at random. A mistake that many seeds of the world of nodes do not show is
//! found here, because nothing has to wait for its time.
//!
//! Invariants: one thread, no time; every draw from the seed; a bound that could not be searched whole fails.

mod judge;
mod search;
mod steps;
mod world;

use skerry_model::bucket::{HomeCause, HomeDocument, Seen, TenureDocument};
use skerry_sim::nodes::{Mistake, RARE};

use steps::Step;
use world::{BUCKET, FAR, Left, NODES, Place, Set, State, What, World, site};

/// Who is the home at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// A node of the site, which has said so.
    Opened,
    /// The node of the other site.
    Far,
    /// A node of the site that decided alone before there were others.
    Grown,
}

fn begin(mistake: Option<Mistake>, first: First, left: Left) -> (World, State) {
    let owners = if first == First::Grown { [2, 0, 1] } else { [1, 2, 0] };
    let mut world = World { book: Vec::new(), mistake, owners };
    let home = if first == First::Far { FAR } else { 0 };
    let (seen, context) = (Seen::default(), Set::default());
    let (site, epoch, view) = (site(home), 1, 1);
    let named = HomeDocument {
        bucket: BUCKET,
        site,
        epoch,
        unique: false,
        seen: seen.clone(),
        cause: HomeCause::Named,
    };
    let mut held = Set::default();
    held.put(world.number(What::Home { named, context }));
    if first == First::Opened {
        let said = TenureDocument { bucket: BUCKET, site, epoch, view, seen, heir: None };
        held.put(world.number(What::Tenure { said, context }));
    }
    let place = Place { held, view, is_synced: true, jobs: Vec::new() };
    let places = std::array::from_fn(|_| place.clone());
    let all = (1 << NODES) - 1;
    let mut state = State { view, live: all, joining: 0, places, told: Set::default(), left };
    if first == First::Grown {
        let alone = world.number(What::Decision { origin: 0, seq: 1, expected: None, order: (1, 1) });
        state.places[0].held.put(alone);
        state.told.put(alone);
        // The others have come to it since.
        (state.live, state.joining) = (1, all & !1);
        state.places[1..NODES].iter_mut().for_each(|place| place.is_synced = false);
    }
    (world, state)
}

/// Bounds within which every way is gone: from where, after which steps, and what may happen then.
const BOUNDS: [(First, &[Step], Left); 9] = [
    // A move within the site while two clients ask.
    (First::Opened, &[], Left { decisions: 2, moves: 1, loose: 1, ..NONE }),
    // The home is lost while clients ask.
    (First::Opened, &[], Left { decisions: 2, refusals: 1, views: 1, ..NONE }),
    // It is lost as it proposes an heir, and comes back when who followed it is lost.
    (First::Opened, &[Step::Give(0, 2), Step::View(0b110, 0)], Left { views: 2, ..NONE }),
    // It is lost with something that only it had, and moved to the other site.
    (First::Opened, LOST, Left { decisions: 1, moves: 1, loose: 1, ..NONE }),
    // It is moved from the other site, and lost.
    (
        First::Far,
        &[Step::Give(FAR, 0), Step::Feed(FAR, 0)],
        Left { decisions: 2, views: 1, feeds: 1, ..NONE },
    ),
    // It comes back from the other site while only who gave and took it has heard.
    (First::Opened, AWAY, Left { decisions: 2, views: 1, feeds: 1, ..NONE }),
    // It decided alone before there were others.
    (First::Grown, &[], Left { decisions: 1, refusals: 1, views: 2, ..NONE }),
    // It is lost while it is moved to the other site.
    (First::Opened, &[Step::Give(0, FAR)], Left { decisions: 1, views: 1, ..NONE }),
    // The other site decided, and gave it to a node that gives it to another at once.
    (
        First::Far,
        &[Step::Decide(FAR), Step::Give(FAR, 0), Step::Feed(FAR, 0)],
        Left { decisions: 1, moves: 1, loose: 1, ..NONE },
    ),
];

/// Node 0 writes something that nobody else gets, decides, and is lost.
const LOST: &[Step] = &[
    Step::Plain(0),
    Step::Decide(0),
    Step::Deliver(0, 0, 1),
    Step::Deliver(0, 0, 2),
    Step::Finish(0, 0),
    Step::View(0b110, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
];

/// The tenure that node 1 opens in [`AWAY`]: after the first two records two proposals and two home documents.
const OPENED: usize = 6;

/// Node 0 gives its home to the other site and is lost; node 1 names the heir, and is given the home. It opens its tenure,
/// of which node 2 hears without hearing of that home; node 0 comes back by way of that one.
const AWAY: &[Step] = &[
    Step::Give(0, FAR),
    Step::Deliver(0, 0, 1),
    Step::View(0b110, 0),
    Step::Sync(1, 1),
    Step::Sync(2, 2),
    Step::Turn(1),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Feed(1, FAR),
    Step::Give(FAR, 1),
    Step::Feed(FAR, 1),
    Step::Turn(1),
    Step::Decide(1),
    Step::Deliver(1, 0, 2),
    Step::Finish(1, 0),
    Step::Loose(1, 2, OPENED),
    Step::View(0b110, 0b001),
    Step::Sync(0, 2),
];

const NONE: Left = Left { decisions: 0, refusals: 0, moves: 0, plains: 0, views: 0, feeds: 0, loose: 0 };

/// Bounds of ways at random.
const LONG: Left = Left { decisions: 6, refusals: 2, moves: 4, plains: 2, views: 7, feeds: 6, loose: 4 };

/// For the steps before a search.
const WIDE: Left = Left { decisions: 9, refusals: 9, moves: 9, plains: 9, views: 9, feeds: 9, loose: 9 };

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

/// `SKERRY_TENURES_SEEDS` goes more of them.
#[test]
#[expect(clippy::disallowed_methods, reason = "the size of a test is no setting of the product")]
fn long_ways_are_sound() {
    let seeds = std::env::var("SKERRY_TENURES_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(3000) {
        let first = [First::Opened, First::Opened, First::Far, First::Grown][seed as usize % 4];
        let (mut world, state) = begin(None, first, LONG);
        assert_eq!(search::walk(&mut world, &state, seed), None, "seed {seed}");
    }
}

/// Within which bound each is found, and by what.
const FOUND: [(Mistake, usize, &str); 12] = [
    (Mistake::EarlyDecision, 1, "undone"),
    (Mistake::EarlyHeir, 2, "homes"),
    (Mistake::OtherHeir, 7, "homes"),
    (Mistake::HastyTakeover, 0, "homes"),
    (Mistake::HeirAhead, 3, "undone"),
    (Mistake::UnsettledNo, 1, "undone"),
    (Mistake::OldHome, 2, "recovery"),
    (Mistake::LowestView, 2, "homes"),
    (Mistake::UnheardHome, 5, "undone"),
    (Mistake::NoWait, 0, "undone"),
    (Mistake::LateAnswer, 0, "answers"),
    (Mistake::BareOpening, 8, "undone"),
];

#[test]
fn every_mistake_is_found() {
    assert!(RARE.iter().all(|rare| FOUND.iter().any(|(mistake, ..)| mistake == rare)));
    for (mistake, bound, checker) in FOUND {
        let (first, steps, left) = BOUNDS[bound];
        let (mut world, state) = after(Some(mistake), first, steps, left);
        let found = search::all(&mut world, &state, MOST);
        println!("{mistake:?}: {found:?}");
        let by = found.wrong.map(|((by, _), _)| by);
        assert_eq!(by, Some(checker), "{mistake:?}");
    }
}
