//! Whether the answers of one bucket are those of one register with compare-and-set.
//!
//! Every decision writes a value of its own and names the one it replaces, so the values that ever counted are one chain.
//! Who was told that its condition does not hold was told the current value. A decision that was not answered may be on
//! the chain, at any time after it was asked for. The chain is walked once, each value at the earliest moment that its
//! predecessors, its request and the answers that still named its predecessor allow.

use std::collections::BTreeMap;

use skerry_base::Instant;

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing: it may have happened.
    None,
    /// It happened; this is the new value.
    Won(u64, Instant),
    /// The condition did not hold: this value is current.
    Current(Option<u64>, Instant),
}

/// One conditional operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) bucket: usize,
    pub(super) expected: Option<u64>,
    pub(super) by: usize,
    pub(super) begun: Instant,
    pub(super) answer: Answer,
}

/// When a value was current.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// It was by then.
    last: Instant,
    /// The next value may not have come before.
    until: Instant,
}

/// Of each decision ever made in a bucket: what it replaced, and when it was asked for.
pub(super) type Made = BTreeMap<u64, (Option<u64>, Instant)>;

/// What is wrong, if something is.
pub(super) fn judge(made: &Made, asked: &[Asked]) -> Option<String> {
    let mut spans = BTreeMap::new();
    let whole = Span { last: Instant(u64::MAX), until: Instant(0) };
    let mut named =
        |value: Option<u64>, change: &dyn Fn(&mut Span)| change(spans.entry(value).or_insert(whole));
    for of in asked {
        match of.answer {
            Answer::None => {}
            Answer::Won(value, at) => named(Some(value), &|span| span.last = span.last.min(at)),
            Answer::Current(value, at) => named(value, &|span| {
                span.last = span.last.min(at);
                span.until = span.until.max(of.begun);
            }),
        }
    }
    let depth = |value: &Option<u64>| chain(made, *value).len();
    let deepest = spans.keys().copied().max_by_key(depth)?;
    let chain = chain(made, deepest);
    if let Some(aside) = spans.keys().find(|value| !chain.contains(value)) {
        return Some(format!("{aside:?} was answered and is not before {deepest:?}"));
    }
    let mut now = Instant(0);
    for value in chain.iter().rev() {
        let begun = value.and_then(|value| made.get(&value)).map_or(Instant(0), |(_, begun)| *begun);
        let span = spans.get(value).copied().unwrap_or(whole);
        now = now.max(begun);
        if now > span.last {
            return Some(format!(
                "{value:?} was current by {:?} and cannot have been before {now:?}",
                span.last
            ));
        }
        now = now.max(span.until);
    }
    None
}

/// A value and all before it.
fn chain(made: &Made, value: Option<u64>) -> Vec<Option<u64>> {
    let before =
        |value: &Option<u64>| value.and_then(|value| made.get(&value)).map(|(expected, _)| *expected);
    std::iter::successors(Some(value), before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(begun: u64, expected: Option<u64>, answer: Answer) -> Asked {
        Asked { bucket: 0, expected, by: 0, begun: Instant(begun), answer }
    }

    #[test]
    fn answers_of_one_register_and_others() {
        let made =
            Made::from([(1, (None, Instant(0))), (2, (Some(1), Instant(10))), (3, (Some(1), Instant(10)))]);
        let won = |value, begun, at| asked(begun, None, Answer::Won(value, Instant(at)));
        let not = |value, begun, at| asked(begun, None, Answer::Current(value, Instant(at)));
        assert_eq!(judge(&made, &[won(1, 0, 5), won(2, 10, 20)]), None);
        assert!(judge(&made, &[won(1, 0, 5), won(2, 10, 20), won(3, 10, 30)]).is_some(), "two winners");
        assert!(judge(&made, &[won(2, 10, 20), not(Some(3), 30, 40)]).is_some(), "aside");
        assert_eq!(
            judge(&made, &[won(1, 0, 5), not(Some(2), 30, 40)]),
            None,
            "nobody was told, and it happened"
        );
        assert_eq!(judge(&made, &[not(None, 1, 5), won(1, 0, 9)]), None);
        assert!(judge(&made, &[not(None, 6, 8), won(1, 0, 5)]).is_some(), "it was there before");
        assert!(judge(&made, &[not(Some(2), 12, 14), not(Some(1), 15, 16)]).is_some(), "and gone after");
        assert_eq!(judge(&made, &[not(Some(2), 12, 16), not(Some(1), 15, 16)]), None, "at the same time");
        assert!(judge(&made, &[not(Some(2), 1, 9)]).is_some(), "before it was asked for");
    }
}
