//! Fingerprints add up; spans split without gap.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use skerry_base::{Dot, NodeId, Origin};

use super::{Fingerprint, Span};
use crate::limits::SPAN_CHILDREN;

const ORIGIN: Origin = Origin { node: NodeId([7; 16]), incarnation: 3 };

#[test]
fn fingerprints_add_up_in_any_order() {
    let dots: Vec<Dot> = (1..50).map(|seq| Dot { origin: ORIGIN, seq }).collect();
    let whole: Fingerprint = dots.iter().copied().collect();
    let mut parts: Fingerprint = dots.iter().rev().take(20).copied().collect();
    parts.merge(&dots.iter().rev().skip(20).copied().collect());
    assert_eq!(whole, parts);
    dots.iter().for_each(|dot| parts.remove(*dot));
    assert_eq!(parts, Fingerprint::default());
}

proptest! {
    #[test]
    fn children_tile_their_span(first in 1u64..u64::MAX, width in 0u64..1 << 40) {
        let span = Span { origin: ORIGIN, first, last: first.saturating_add(width) };
        let children = span.children();
        prop_assert!(children.len() <= SPAN_CHILDREN);
        prop_assert!(children.len() >= 2 || span.width() == 1);
        prop_assert_eq!(children.first().map(|child| child.first), Some(span.first));
        prop_assert_eq!(children.last().map(|child| child.last), Some(span.last));
        for pair in children.windows(2) {
            prop_assert_eq!(pair[0].last + 1, pair[1].first);
        }
    }
}
