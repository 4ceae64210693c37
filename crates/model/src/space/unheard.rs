//! Whom a bucket that had lost entries did not wait for ([`super::anew`]): sites that an operator had declared lost.
//!
//! That it is whole again says that what is still missing is nowhere. Of a site that was not heard nobody knows that; where it
//! comes back after all, or its loss is taken back, the bucket begins anew once more, and hears it. Otherwise the vectors here
//! would say of what it alone holds that it is dead, to it as well.
//!
//! Invariants: who is passed over is written in the commit that says that the bucket is whole; that somebody came back stays
//! written until the bucket is whole the next time; all of it lies in `Local`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, SiteId};

use super::SpaceError;
use super::read::row;
use crate::entry::Entry;

/// Whom a bucket did not wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unheard {
    /// Who they are.
    pub sites: BTreeSet<SiteId>,
    /// Whether one of them came back: the bucket is to be begun anew.
    pub is_back: bool,
}

impl Versioned for Unheard {
    const NAME: &'static str = "sites that were not heard";
    const VERSION: u8 = 1;
}

const PREFIX: &[u8] = b"model/unheard/";

/// All buckets of which somebody was not heard.
pub fn all_unheard(view: &dyn View) -> Result<BTreeMap<BucketId, Unheard>, SpaceError> {
    let mut rows = Vec::new();
    view.scan_prefix(Table::Local, PREFIX, &mut |key, value| {
        let bucket = key.strip_prefix(PREFIX).and_then(|id| id.try_into().ok()).map(BucketId);
        rows.push((bucket, Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    let named = |(bucket, value): (Option<BucketId>, Bytes)| {
        let bucket = bucket.ok_or(SpaceError::Inconsistent("sites that were not heard have no bucket"))?;
        Ok((bucket, row::<Unheard>(&value)?))
    };
    rows.into_iter().map(named).collect()
}

/// The entry that says whom a bucket did not wait for; all are heard where there is none.
pub fn unheard(bucket: BucketId, of: Option<&Unheard>) -> Entry {
    let value = of.map(|of| Bytes::from(codec::encode(of)));
    Entry::Local { key: [PREFIX, &bucket.0].concat().into(), value }
}

/// The entries that remember that these sites came back: each bucket that did not wait for one of them is to be begun anew.
pub fn are_back(view: &dyn View, back: &BTreeSet<SiteId>) -> Result<Vec<Entry>, SpaceError> {
    let waits = all_unheard(view)?.into_iter().filter(|(_, of)| !of.is_back && !of.sites.is_disjoint(back));
    Ok(waits.map(|(bucket, of)| unheard(bucket, Some(&Unheard { is_back: true, ..of }))).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_base::kv::Tables;

    use super::super::tests::apply;
    use super::*;

    fn of(sites: &[u8], is_back: bool) -> Unheard {
        Unheard { sites: sites.iter().map(|n| SiteId([*n; 16])).collect(), is_back }
    }

    #[test]
    fn who_comes_back_is_remembered_with_each_bucket_that_did_not_wait_for_it() {
        let mut tables = Tables::default();
        let [one, two] = [BucketId([1; 16]), BucketId([2; 16])];
        for (bucket, sites) in [(one, &[4, 5][..]), (two, &[5])] {
            apply(&mut tables, &unheard(bucket, Some(&of(sites, false))));
        }
        for entry in are_back(&tables, &of(&[4, 6], false).sites).unwrap() {
            apply(&mut tables, &entry);
        }
        let expected = [(one, of(&[4, 5], true)), (two, of(&[5], false))];
        assert_eq!(all_unheard(&tables).unwrap(), expected.into());
        assert!(are_back(&tables, &of(&[4], false).sites).unwrap().is_empty(), "once");
        apply(&mut tables, &unheard(one, None));
        assert_eq!(all_unheard(&tables).unwrap().len(), 1);
    }

    /// Fixture of version 1: must decode for ever.
    #[test]
    fn v1_fixture() {
        let expected = of(&[2], true);
        let bytes = codec::encode(&expected);
        assert_eq!(bytes, [&[1, 1][..], &[2; 16], &[1]].concat());
        assert_eq!(codec::decode::<Unheard>(&bytes).unwrap(), expected);
    }
}
