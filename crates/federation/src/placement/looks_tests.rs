//! Which look is next, while records come and while none do.

#![expect(clippy::panic, reason = "tests")]

use super::*;
use skerry_base::NodeId;

fn origin(number: u8) -> Origin {
    Origin { node: NodeId([number; 16]), incarnation: 1 }
}

fn upto(all: &[(u8, u64)]) -> Vector {
    all.iter().map(|(number, seq)| (origin(*number), *seq)).collect()
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn found(lacking: &[(u8, u64)], count: usize, reached: &[(u8, u64)], more: bool) -> Found {
    let lacking = lacking.iter().map(|(number, seq)| (origin(*number), *seq)).collect();
    Found { lacking, count, upto: upto(reached), more }
}

/// A bucket of which versions 1 to 10 found nobody to hold them.
fn left_behind() -> Looks {
    let mut looks = Looks::new(Vector::new(), at(0));
    let first = looks.next(&upto(&[(1, 10)]), at(0));
    assert_eq!(first, Some(Look { from: Vector::new(), most: limits::QUEUE, anew: true }));
    looks.take(&found(&[(1, 1)], 10, &[(1, 10)], false), at(0), at(0));
    assert_eq!(looks.covered(), Vector::new());
    looks
}

#[test]
fn what_lacked_holders_has_its_turn_though_something_new_comes_each_second() {
    let mut looks = left_behind();
    let mut old = Vec::new();
    for second in 1..=20 {
        let own = upto(&[(1, 10 + second)]);
        let Some(look) = looks.next(&own, at(second)) else { panic!("something is new") };
        // Nobody can be asked.
        let first = look.from.get(origin(1)) + 1;
        if first == 1 {
            assert!(look.anew, "the oldest come first");
            old.push(second);
        }
        let count = (11 + second - first) as usize;
        looks.take(&found(&[(1, first)], count, &[(1, 10 + second)], false), at(second), at(second));
        assert_eq!(looks.covered(), Vector::new());
    }
    // It is repeated later and later, and the rest ends with a new link.
    assert_eq!(old, [2, 6, 14]);
    looks.hurry(at(21));
    assert_eq!(looks.next(&upto(&[(1, 31)]), at(21)).map(|look| look.from), Some(Vector::new()));
}

#[test]
fn a_long_way_through_the_old_keeps_nothing_new_waiting() {
    let mut looks = left_behind();
    let (mut new, mut reached) = (0, 0);
    for second in 2..=11 {
        let own = upto(&[(1, 1000), (2, second)]);
        let Some(look) = looks.next(&own, at(second)) else { panic!("something is new") };
        if look.most == limits::ASKS_AT_ONCE {
            assert!(!look.anew, "what is old and waits is not thrown out");
            new += 1;
            looks.take(&found(&[], 0, &[(2, second)], true), at(second), at(second));
        } else {
            assert_eq!(look.from.get(origin(1)), reached);
            assert_eq!(look.anew, reached == 0, "what comes behind the first is put behind them");
            reached += 100;
            let page = found(&[(1, reached - 99)], 100, &[(1, reached)], true);
            looks.take(&page, at(second), at(second));
        }
    }
    assert_eq!((new, reached), (5, 500));
}

#[test]
fn what_has_landed_is_covered_and_what_is_new_has_a_moment_to_land() {
    let mut looks = Looks::new(upto(&[(1, 5)]), at(0));
    let own = upto(&[(1, 7), (2, 3)]);
    assert_eq!(looks.next(&own, at(0)).map(|look| look.from), Some(upto(&[(1, 5)])));
    looks.take(&found(&[(1, 7), (2, 2)], 3, &[(1, 7), (2, 3)], false), at(0), at(0));
    assert_eq!(looks.covered(), upto(&[(1, 6), (2, 1)]));
    assert_eq!(looks.next(&own, at(1)), None);
    let again = Look { from: upto(&[(1, 6), (2, 1)]), most: limits::QUEUE, anew: true };
    assert_eq!(looks.next(&own, at(2)), Some(again));
    looks.take(&found(&[(2, 3)], 1, &[(1, 7), (2, 3)], false), at(2), at(2));
    assert_eq!(looks.covered(), upto(&[(1, 7), (2, 2)]));
    // A look that took a second is repeated twenty seconds later: a twentieth of the time at most.
    assert!(looks.next(&own, at(4)).is_some());
    looks.take(&found(&[(2, 3)], 1, &[(1, 7), (2, 3)], false), at(4), at(5));
    assert_eq!((looks.next(&own, at(24)), looks.next(&own, at(25)).is_some()), (None, true));
    looks.take(&found(&[], 0, &[(1, 7), (2, 3)], false), at(25), at(25));
    assert_eq!((looks.covered(), looks.next(&own, at(99))), (own.clone(), None));
}
