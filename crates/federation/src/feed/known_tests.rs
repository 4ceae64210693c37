//! What is known of others, against plain vectors; and how much of it is kept.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use skerry_base::{NodeId, Origin, Vector};

use super::{Floor, Known, STALE};

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
        steps in proptest::collection::vec((0u8..6, any::<[(u8, u8); 3]>()), 0..24),
    ) {
        let (mut floor, mut mine) = (Floor::default(), Vector::new());
        let (mut known, mut plain) = ([Known::default(), Known::default()], [Vector::new(), Vector::new()]);
        for (kind, entries) in steps {
            let said = vector(&entries);
            match kind {
                0 => mine.merge(&said),
                // A life's entry may go: what is here of it is loose from then on.
                1 => mine = mine.iter().filter(|(origin, _)| said.get(*origin) == 0).collect(),
                2 => {
                    known[0].merge(&floor, &said);
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
                    plain[1] = mine.clone();
                }
                _ => {
                    // As if much had changed.
                    let grown = floor.mine(&mine).grown;
                    floor.raise(&mine, grown, known.iter_mut());
                }
            }
            let standing = floor.mine(&mine);
            for (known, plain) in known.iter().zip(&plain) {
                prop_assert_eq!(&known.whole(&floor), plain);
                prop_assert_eq!(known.beyond(&standing), beyond(plain, &mine));
                prop_assert_eq!(known.is_within(&standing), mine.includes(plain));
                prop_assert_eq!(known.lacks(&standing), beyond(&mine, plain));
                prop_assert_eq!(known.is_empty() && !plain.is_empty(), false);
            }
        }
    }
}

#[test]
fn a_thousand_sites_that_have_nearly_the_same_are_kept_as_what_differs() {
    let (sites, lives) = (1000, 1000u16);
    let mut mine: Vector = (0..lives).map(|number| (origin(number), 5)).collect();
    let (mut floor, mut known) = (Floor::default(), vec![Known::default(); sites]);
    floor.settle(&mine, known.iter_mut());
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
        floor.settle(&mine, known.iter_mut());
        let all = Known::all(&floor.mine(&mine));
        known.iter_mut().step_by(2).for_each(|known| known.merge_known(&floor, &all));
    }
    assert!(kept(&known) <= sites / 2 * 200 + sites * STALE, "{}", kept(&known));
    assert!(known.iter().step_by(2).all(|known| known.len() <= STALE && known.is_within(&floor.mine(&mine))));
    let away = known[1].lacks(&floor.mine(&mine));
    assert_eq!(away.len(), 200);
}
