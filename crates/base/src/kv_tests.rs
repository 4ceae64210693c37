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
