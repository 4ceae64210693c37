//! What of a key may be dropped, and in which order.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::Vector;
use skerry_base::kv::Tables;

use super::tests::{BUCKET, origin, put, store};
use crate::record::{Record, Statement, Versioning};
use crate::retire::{self, Settled, Sweep};

/// A version that is spent lies in feeds, which say nothing of what killed it.
#[test]
fn what_killed_a_spent_version_is_dropped_with_it_and_not_before() {
    let mut tables = Tables::default();
    let of = |seqs: &[(u8, u64)]| seqs.iter().map(|(n, seq)| (origin(*n), *seq)).collect::<Vector>();
    let off = |record: Record, context| Record { versioning: Versioning::Off, context, ..record };
    // The delete covers it by its origin, and nothing of what it had seen: it was written where that was forgotten.
    let spent = off(put(1, 5, "key"), of(&[(3, 1)]));
    let delete = Record { statement: Statement::Delete, ..off(put(2, 1, "key"), of(&[(1, 5)])) };
    for record in [&spent, &delete] {
        store(&mut tables, record.clone());
    }
    let droppable = |covered: &Vector| {
        let settled = Settled { covered_by_all: covered };
        let (mut dots, _) = retire::droppable(&tables, BUCKET, settled, &Sweep::START, 99).unwrap();
        dots.sort_unstable();
        dots
    };
    assert_eq!(
        droppable(&of(&[(1, 5), (2, 1)])),
        [],
        "what the spent one had seen is on its way to somebody"
    );
    assert_eq!(droppable(&of(&[(1, 5), (3, 1)])), [spent.dot], "it kills nothing that is still to come");
    assert_eq!(droppable(&of(&[(1, 5), (2, 1), (3, 1)])), [spent.dot, delete.dot]);
}
