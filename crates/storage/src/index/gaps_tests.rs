//! What is passed over holds nothing, whatever was found and put in between.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use super::{BYTES, Gaps, Known, SLOW_NS, STRETCHES, Span, behind};
use crate::disk::faulty::Chance;

fn span(from: &str, to: &str) -> Span {
    Span { from: from.as_bytes().to_vec(), to: to.as_bytes().to_vec() }
}

fn all() -> Span {
    span("", "~")
}

#[test]
fn a_stretch_is_watched_first_and_passed_over_by_readings_since_the_second() {
    let gaps = Gaps::default();
    gaps.found(&span("b", "y"), SLOW_NS, (7, 9));
    assert_eq!(gaps.next(&all(), 9), None, "something may have been put since 7");
    gaps.found(&span("b", "y"), SLOW_NS, (8, 10));
    assert_eq!(gaps.next(&all(), 10), None, "as before: it began before it was watched");
    gaps.found(&span("b", "y"), SLOW_NS, (10, 12));
    assert_eq!(gaps.next(&all(), 9), None, "what was there before?");
    assert_eq!(gaps.next(&all(), 10), Some(span("b", "y")));
    assert_eq!(gaps.next(&span("c", "d"), 10), Some(span("b", "y")), "from within");
    assert_eq!((gaps.next(&span("a", "b"), 10), gaps.next(&span("y", "~"), 10)), (None, None));
}

#[test]
fn where_nothing_was_applied_meanwhile_once_is_enough() {
    let gaps = Gaps::default();
    gaps.found(&span("b", "y"), SLOW_NS, (9, 9));
    assert_eq!(gaps.next(&all(), 9), Some(span("b", "y")));
}

#[test]
fn what_is_put_parts_it_and_is_never_passed_over() {
    let gaps = Gaps::default();
    gaps.found(&span("b", "y"), 8 * SLOW_NS, (9, 9));
    gaps.put(b"m");
    assert_eq!(gaps.next(&all(), 12), Some(span("b", "m")));
    assert_eq!(gaps.next(&span("m", "~"), 12), Some(span("m\0", "y")));
    // Each part counts for half: those that are not worth a seek are gone over again.
    for key in ["n", "o", "p"] {
        gaps.put(key.as_bytes());
    }
    assert_eq!(gaps.next(&span("m", "~"), 12), Some(span("m\0", "n")));
    assert_eq!(gaps.next(&span("n", "~"), 12), Some(span("n\0", "o")));
    assert_eq!(gaps.next(&span("o", "~"), 12), None);
    // Nothing was put there since: one that takes long is passed over at once.
    gaps.found(&span("p\0", "y"), 8 * SLOW_NS, (12, 13));
    assert_eq!(gaps.next(&span("o", "~"), 12), Some(span("p\0", "y")));
}

#[test]
fn stretches_that_meet_become_one() {
    let gaps = Gaps::default();
    for (from, to) in [("b", "d"), ("f", "h"), ("d", "f"), ("a", "b")] {
        gaps.found(&span(from, to), SLOW_NS, (9, 9));
    }
    assert_eq!(gaps.next(&all(), 9), Some(span("a", "h")));
    assert_eq!(gaps.lock().stretches.len(), 1);
}

/// What is kept is bounded and counted right.
fn check_memory(gaps: &Gaps) {
    let known = gaps.lock();
    assert!(known.bytes <= BYTES && known.stretches.len() <= STRETCHES, "{} bytes", known.bytes);
    let bytes = known.stretches.iter().map(|(from, stretch)| from.len() + stretch.to.len() + super::AROUND);
    assert_eq!(known.bytes, bytes.sum::<usize>());
}

#[test]
fn memory_is_bounded_and_what_is_used_stays() {
    for length in [8, 200] {
        let gaps = Gaps::default();
        gaps.found(&span("b", "c"), SLOW_NS, (9, 9));
        for number in 0..10_000 {
            let from = format!("d{number:0length$}");
            gaps.found(&span(&from, &format!("{from}x")), SLOW_NS, (9, 9));
            assert!(gaps.next(&all(), 9).is_some(), "{number}");
        }
        assert_eq!(gaps.next(&all(), 9), Some(span("b", "c")));
        let known = gaps.lock();
        assert!(known.bytes >= BYTES / 2 || known.stretches.len() >= STRETCHES / 2, "{}", known.bytes);
        drop(known);
        check_memory(&gaps);
    }
}

/// A bucket that was listed while it was empty, and is filled: in order, backwards and as it comes.
#[test]
fn what_is_filled_key_by_key_is_bounded_and_pushes_no_other_out() {
    let orders: [fn(u64) -> u64; 3] = [|at| at, |at| 99_999 - at, |at| at * 48_271 % 100_000];
    for order in orders {
        let gaps = Gaps::default();
        gaps.found(&span("b", "c"), SLOW_NS, (9, 9));
        gaps.found(&span("d", "e"), 1000 * SLOW_NS, (9, 9));
        for at in 0..100_000 {
            gaps.put(format!("d{:08}", order(at)).as_bytes());
            assert!(gaps.lock().stretches.len() <= STRETCHES, "{at}");
        }
        check_memory(&gaps);
        assert_eq!(gaps.next(&all(), 9), Some(span("b", "c")));
    }
}

#[test]
fn what_was_merged_is_passed_over_once_it_was_slow_again() {
    let gaps = Gaps::default();
    gaps.found(&span("b", "y"), SLOW_NS, (7, 7));
    gaps.merged();
    assert_eq!(gaps.next(&all(), 9), None);
    // Nothing was put there since, whatever was applied elsewhere.
    gaps.found(&span("b", "y"), SLOW_NS, (9, 12));
    assert_eq!(gaps.next(&all(), 9), Some(span("b", "y")));
}

/// What lives at each number.
struct History(Vec<BTreeSet<Vec<u8>>>);

impl History {
    fn now(&self) -> u64 {
        self.0.len() as u64
    }

    /// What a reading of this number sees in a span: all groups before it.
    fn seen(&self, seq: u64, span: &Span) -> Option<&Vec<u8>> {
        self.0[usize::try_from(seq).unwrap() - 1].range(span.from.clone()..span.to.clone()).next()
    }

    fn check(&self, known: &Known) {
        let mut end: &[u8] = &[];
        for (from, stretch) in &known.stretches {
            assert!(end <= &from[..] && *from < stretch.to, "they overlap");
            end = &stretch.to;
            let over = Span { from: from.clone(), to: stretch.to.clone() };
            for seq in stretch.since..=self.now() {
                let living = self.seen(seq, &over);
                assert!(stretch.cost_ns.is_none() || living.is_none(), "{living:?} at {seq} in {over:?}");
            }
        }
    }
}

#[test]
fn whatever_is_put_deleted_and_found_nothing_that_lives_is_passed_over() {
    let mut jumped = 0;
    for seed in 1..=60 {
        let (mut chance, gaps) = (Chance(seed), Gaps::default());
        let mut draw = move |below: u64| chance.next() % below;
        let mut history = History(vec![BTreeSet::new()]);
        for _ in 0..300 {
            let key = |number: u64| vec![(number / 8) as u8, (number % 8) as u8];
            if draw(3) == 0 {
                let mut now = history.0.last().unwrap().clone();
                for _ in 0..=draw(4) {
                    let row = key(draw(200));
                    if draw(3) == 0 {
                        gaps.put(&row);
                        now.insert(row);
                    } else {
                        let at = now.range(row..).next().cloned();
                        at.map(|row| now.remove(&row));
                    }
                }
                history.0.push(now);
            } else {
                let seq = history.now() - draw(4).min(history.now() - 1);
                let (one, other) = (key(draw(200)), key(draw(200)));
                let mut over = Span { from: one.clone().min(other.clone()), to: one.max(other) };
                while over.from < over.to {
                    if let Some(gap) = gaps.next(&Span { to: behind(&over.from), ..over.clone() }, seq) {
                        over.from = gap.to;
                        jumped += 1;
                        continue;
                    }
                    let living = history.seen(seq, &over).cloned();
                    let to = living.clone().unwrap_or_else(|| over.to.clone());
                    if over.from < to {
                        let found = Span { from: over.from.clone(), to: to.clone() };
                        gaps.found(&found, draw(20) * SLOW_NS, (seq, history.now()));
                    }
                    over.from = living.map_or(to, |key| behind(&key));
                }
            }
            if draw(40) == 0 {
                gaps.merged();
            }
            history.check(&gaps.lock());
        }
    }
    assert!(jumped > 1000, "{jumped}");
}
