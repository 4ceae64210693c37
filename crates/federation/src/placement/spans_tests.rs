//! Sets of dots against plain sets, and their stored form.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use skerry_base::NodeId;

use super::*;

fn origin(number: u8) -> Origin {
    Origin { node: NodeId([number; 16]), incarnation: 7 }
}

fn dot(number: u8, seq: u64) -> Dot {
    Dot { origin: origin(number), seq }
}

proptest! {
    #[test]
    fn says_what_a_plain_set_says(
        steps in prop::collection::vec((any::<bool>(), 1u8..3, 1u64..24, 0u64..6), 0..60),
        others in prop::collection::vec((1u8..3, 1u64..24), 0..20),
    ) {
        let (mut spans, mut plain) = (Spans::default(), BTreeSet::new());
        for (add, number, first, more) in steps {
            if add {
                spans.insert_range(origin(number), first, first + more);
                plain.extend((first..=first + more).map(|seq| dot(number, seq)));
            } else {
                spans.remove(dot(number, first));
                plain.remove(&dot(number, first));
            }
        }
        let other: Spans = others.iter().map(|(number, seq)| dot(*number, *seq)).collect();
        let (mut one, mut two) = (spans.clone(), other.clone());
        one.merge(&other);
        two.merge(&spans);
        prop_assert_eq!(&one, &two);
        prop_assert!(one.includes(&spans) && one.includes(&other));
        prop_assert_eq!(spans.includes(&other), one == spans);
        for number in 1..3 {
            for seq in 0..32 {
                prop_assert_eq!(spans.contains(dot(number, seq)), plain.contains(&dot(number, seq)));
            }
        }
        prop_assert_eq!(&spans, &plain.iter().copied().collect::<Spans>(), "equal sets are equal values");
        prop_assert_eq!(Spans::decode(&spans.encode()).unwrap(), spans);
    }

    #[test]
    fn hostile_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(spans) = Spans::decode(&bytes) {
            prop_assert_eq!(spans.encode(), bytes);
        }
    }
}

/// Fixture of version 1: must decode for ever.
#[test]
fn v1_fixture() {
    let mut spans = Spans::default();
    spans.insert_range(origin(1), 1, 300);
    spans.insert_range(origin(1), 400, 400);
    let hex = skerry_base::hex::text(&spans.encode());
    assert_eq!(hex, format!("01{:02x}{}0702{}", 1, "01".repeat(16), "01ab026400"));
}

/// What ten million versions cost that were copied in order, and with every thousandth elsewhere.
#[test]
fn few_bytes_for_many_versions() {
    let mut spans = Spans::default();
    spans.insert_range(origin(1), 1, 10_000_000);
    assert!(spans.encode().len() < 32, "{}", spans.encode().len());
    for seq in (1000..=10_000_000).step_by(1000) {
        spans.remove(dot(1, seq));
    }
    assert_eq!(spans.ranges(), 10_000);
    assert!(spans.encode().len() < 32_000, "{}", spans.encode().len());
    let between = Spans::between(
        &Vector::from_iter([(origin(1), 4)]),
        &Vector::from_iter([(origin(1), 9)]),
        &[dot(1, 6)],
    );
    assert_eq!(between, [5, 7, 8, 9].map(|seq| dot(1, seq)).into_iter().collect());
}
