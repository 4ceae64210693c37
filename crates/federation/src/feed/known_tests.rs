//! What is known of others, against plain vectors; and how much of it is kept.

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use skerry_base::{NodeId, Origin, Vector};

use super::{Floor, Known, Most, STALE};

fn origin(number: u16) -> Origin {
    let mut node = [0; 16];
    node[..2].copy_from_slice(&number.to_be_bytes());
    Origin { node: NodeId(node), incarnation: 1 }
}

fn vector(entries: &[(u8, u8)]) -> Vector {
    entries.iter().map(|(number, seq)| (origin(u16::from(*number % 6)), u64::from(*seq % 8))).collect()
}

fn beyond(one: &Vector, other: &Vector) -> Vector {
    one.iter().filter(|(origin, seq)| *seq > other.get(*origin)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn what_is_known_is_what_was_said_wherever_the_floor_is(
        steps in proptest::collection::vec((0u8..7, any::<[(u8, u8); 3]>()), 0..24),
    ) {
        let (mut floor, mut mine, mut most) = (Floor::default(), Vector::new(), Most::default());
        let (mut known, mut plain) = ([Known::default(), Known::default()], [Vector::new(), Vector::new()]);
        for (kind, entries) in steps {
            let said = vector(&entries);
            match kind {
                0 => mine.merge(&said),
                // A life's entry may go: what is here of it is loose from then on.
                1 => mine = mine.iter().filter(|(origin, _)| said.get(*origin) == 0).collect(),
                2 => {
                    known[0].merge(&floor, &said);
                    most.raise(&said);
                    plain[0].merge(&said);
                }
                3 => {
                    let other = known[1].clone();
                    known[0].merge_known(&floor, &other);
                    let other = plain[1].clone();
                    plain[0].merge(&other);
                }
                4 => {
                    known[1] = Known::all(&floor.mine(&mine));
                    most.raise(&mine);
                    plain[1] = mine.clone();
                }
                // It says that it is no member: nothing is known of it any more.
                5 => (known[0], plain[0]) = (Known::default(), Vector::new()),
                _ => {
                    // As if much had changed.
                    let grown = floor.mine(&mine).grown;
                    floor.raise(&mine, grown, known.iter_mut());
                }
            }
            let (standing, open) = (floor.mine(&mine), most.open(&mine));
            prop_assert_eq!(standing.is_above, mine.includes(&floor.0));
            for (known, plain) in known.iter().zip(&plain) {
                prop_assert_eq!(&known.whole(&floor), plain);
                prop_assert_eq!(known.beyond(&standing), beyond(plain, &mine));
                prop_assert_eq!(known.is_within(&standing), mine.includes(plain));
                prop_assert_eq!(known.is_ahead(&floor, &open, &mine), !mine.includes(plain));
                prop_assert_eq!(known.lacks(&standing), beyond(&mine, plain));
                prop_assert_eq!(known.is_empty() && !plain.is_empty(), false);
            }
            if plain.iter().all(|plain| mine.includes(plain)) {
                // As a bucket does when it has looked at all of them: what was said above must hold on.
                most.lower(&mine);
                prop_assert!(most.open(&mine).is_empty());
            }
        }
    }
}

#[test]
fn a_thousand_sites_that_have_nearly_the_same_are_kept_as_what_differs() {
    let (sites, lives) = (1000, 1000u16);
    let mut mine: Vector = (0..lives).map(|number| (origin(number), 5)).collect();
    let (mut floor, mut known) = (Floor::default(), vec![Known::default(); sites]);
    floor.settle(&mine, STALE, known.iter_mut());
    let kept = |known: &[Known]| known.iter().map(Known::len).sum::<usize>();
    for (number, known) in known.iter_mut().enumerate() {
        match number % 2 {
            // Said by a digest that is equal, or in full.
            0 => known.merge_known(&floor, &Known::all(&floor.mine(&mine))),
            _ => known.merge(&floor, &mine),
        }
    }
    assert_eq!(kept(&known), 0, "a vector of each would be a million entries");
    // Half of the sites hear of what comes, the others are away.
    for round in 0..200u16 {
        mine.advance(origin(round % lives), 6);
        floor.settle(&mine, STALE, known.iter_mut());
        let all = Known::all(&floor.mine(&mine));
        known.iter_mut().step_by(2).for_each(|known| known.merge_known(&floor, &all));
    }
    assert!(kept(&known) <= sites / 2 * 200 + sites * STALE, "{}", kept(&known));
    assert!(known.iter().step_by(2).all(|known| known.len() <= STALE && known.is_within(&floor.mine(&mine))));
    let away = known[1].lacks(&floor.mine(&mine));
    assert_eq!(away.len(), 200);
    // At rest nothing is kept of those that have it all.
    floor.settle(&mine, 0, known.iter_mut());
    assert_eq!(known.iter().step_by(2).map(Known::len).sum::<usize>(), 0);
}

/// As news come of one site's record after another's: in whatever order, and by way of what another is known to have.
#[test]
fn who_tells_bit_by_bit_is_kept_as_what_differs_too() {
    let lives = 500u16;
    let mine: Vector = (0..lives).map(|number| (origin(number), 5)).collect();
    let (mut floor, mut known) = (Floor::default(), [Known::default(), Known::default(), Known::default()]);
    floor.settle(&mine, STALE, known.iter_mut());
    for number in 0..lives {
        let word = Vector::from_iter([(origin(number * 7 % lives), 5)]);
        known[usize::from(number % 2)].merge(&floor, &word);
        known[2].merge(&floor, &word);
    }
    assert_eq!((known[0].len(), known[1].len()), (250, 250), "half of it each");
    assert_eq!(known[2].len(), 0);
    let [one, other, _] = &mut known;
    one.merge_known(&floor, other);
    assert_eq!((one.len(), one.whole(&floor)), (0, mine));
}

/// Many at once come to the same as one by one.
#[test]
fn the_most_of_many_origins_is_what_any_had() {
    let entries =
        |step: usize, seq: u64| (0..500u16).step_by(step).map(move |n| (origin(n), seq + u64::from(n) % 3));
    let said: [Vector; 3] = [entries(7, 4).collect(), entries(2, 3).collect(), entries(1, 1).collect()];
    let mut together = Most::default();
    let mut single = Most::default();
    let mut plain = Vector::new();
    for vector in &said {
        together.raise(vector);
        vector.iter().for_each(|entry| single.raise(&Vector::from_iter([entry])));
        plain.merge(vector);
    }
    assert_eq!(together.0, single.0);
    assert_eq!(together.0, plain.iter().collect::<Vec<_>>());
}
