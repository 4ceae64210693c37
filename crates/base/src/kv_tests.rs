//! The overlay must read exactly like the tables it will become.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn list(
    view: &dyn View,
    table: Table,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    most: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    view.scan(table, from, to, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    found
}

type Step = (bool, u8, Option<u8>);

fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::default();
    for &(other, key, value) in steps {
        let table = if other { Table::Heads } else { Table::Current };
        match value {
            Some(value) => batch.put(table, [key], vec![value]),
            None => batch.delete(table, [key]),
        }
    }
    batch
}

proptest! {
    #[test]
    fn overlay_reads_like_the_applied_batch(
        below in proptest::collection::vec(any::<Step>(), 0..20),
        above in proptest::collection::vec(any::<Step>(), 0..20),
        from in any::<u8>(), to in any::<u8>(), most in 1usize..9, inclusive in any::<bool>(),
    ) {
        let (below, above) = (batch(&below), batch(&above));
        let mut tables = Tables::default();
        tables.apply(&below);
        let overlay = Overlay::new(&tables, &above);
        let mut applied = tables.clone();
        applied.apply(&above);
        let (low, high) = ([from.min(to)], [from.max(to)]);
        let from = if inclusive { Bound::Included(&low[..]) } else { Bound::Excluded(&low[..]) };
        let to = if inclusive { Bound::Included(&high[..]) } else { Bound::Unbounded };
        for table in [Table::Current, Table::Heads] {
            prop_assert_eq!(list(&overlay, table, from, to, most), list(&applied, table, from, to, most));
            for key in 0..=255u8 {
                prop_assert_eq!(overlay.get(table, &[key]).unwrap(), applied.get(table, &[key]).unwrap());
            }
        }
    }
}

#[test]
fn prefixes_end_where_the_next_begins() {
    assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
    assert_eq!(prefix_end(b"\xff\xff"), None);
    assert_eq!(prefix_end(b""), None);
}

/// A table that is in neither list would be missing from the bases of journals, and lost with what they take the place of.
#[test]
fn every_table_is_storages_own_or_made_of_entries() {
    let is_own = |table| match table {
        Table::Storage | Table::Chunks => true,
        Table::Current
        | Table::Heads
        | Table::Versions
        | Table::Dots
        | Table::Vectors
        | Table::Uploads
        | Table::Parts
        | Table::Conflicts
        | Table::Local
        | Table::Sums => false,
    };
    assert!(Table::OWN.into_iter().all(is_own) && !Table::REDUCED.into_iter().any(is_own));
    let all: std::collections::BTreeSet<u8> =
        Table::OWN.into_iter().chain(Table::REDUCED).map(|table| table as u8).collect();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [0, 1, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]);
}
