//! What is written down of copies in this node's own table: per bucket and site what it holds, per bucket how far
//! everything has its copies.
//!
//! Invariant: every value is versioned; one that cannot be read is forgotten and found again by asking.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};
use skerry_federation::placement::Spans;
use skerry_model::Entry;
use skerry_model::space::SpaceError;

use super::Rules;
use super::custody::Custodies;

/// First bytes of the names of what sites hold.
const HELD: &[u8] = b"copies/";
/// First bytes of the names of how far buckets are covered.
const COVERED: &[u8] = b"covered/";

/// First bytes of the names of what was promised of single versions.
const PROMISED: &[u8] = b"promised/";

/// At how many sites a version is to be kept because a write was answered so, though its record does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PromisedFile(u16);

impl Versioned for PromisedFile {
    const NAME: &'static str = "copies promised";
    const VERSION: u8 = 1;
}

fn promised_key(bucket: BucketId, dot: Dot) -> Bytes {
    [PROMISED, &bucket.0, &dot.to_bytes()].concat().into()
}

/// What is written down before a write is answered for so many sites.
pub(crate) fn promise(bucket: BucketId, dot: Dot, copies: u16) -> Entry {
    let value = codec::encode(&PromisedFile(copies));
    Entry::Local { key: promised_key(bucket, dot), value: Some(value.into()) }
}

/// The same, if less was promised so far.
pub(crate) fn promise_more(
    view: &dyn View,
    bucket: BucketId,
    dot: Dot,
    copies: u16,
) -> Result<Option<Entry>, SpaceError> {
    let is_more = usize::from(copies) > promised(view, bucket, dot)?;
    Ok(is_more.then(|| promise(bucket, dot, copies)))
}

/// For how many sites this one answered a write; 0 if its record tells.
pub(crate) fn promised(view: &dyn View, bucket: BucketId, dot: Dot) -> Result<usize, SpaceError> {
    let found = view.get(Table::Local, &promised_key(bucket, dot))?;
    let file = found.and_then(|bytes| codec::decode::<PromisedFile>(&bytes).ok());
    Ok(file.map_or(0, |PromisedFile(copies)| usize::from(copies)))
}

/// All that this site promised of a bucket's versions though their records do not say it.
pub(crate) fn promises(view: &dyn View, bucket: BucketId) -> Result<BTreeMap<Dot, usize>, SpaceError> {
    let (mut all, prefix) = (BTreeMap::new(), [PROMISED, &bucket.0].concat());
    view.scan_prefix(Table::Local, &prefix, &mut |key, value| {
        let dot = key.strip_prefix(&prefix[..]).and_then(|dot| dot.try_into().ok()).map(Dot::from_bytes);
        let file = codec::decode::<PromisedFile>(value).ok();
        all.extend(dot.zip(file).map(|(dot, PromisedFile(copies))| (dot, usize::from(copies))));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// What a site holds of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldFile {
    /// The life in which it said so of all of it.
    pub(crate) life: Option<Origin>,
    /// As [`Spans::encode`] has it.
    pub(crate) spans: Vec<u8>,
}

impl Versioned for HeldFile {
    const NAME: &'static str = "copies held at another site";
    const VERSION: u8 = 1;
}

/// Up to where every version has its copies, and under which rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Covered {
    copies: u16,
    lost: Vec<SiteId>,
    /// What areas asked for, which sites were in them, and which of these took nothing.
    areas: Vec<(u16, Vec<SiteId>, Vec<SiteId>)>,
    /// The vector.
    pub(crate) upto: Vector,
    /// Who wrote what was passed over because another site looked after it.
    pub(super) passed: Vec<SiteId>,
}

/// Of versions 1 and 2 it is not known what was passed over: they are not read, and all is looked through once.
impl Versioned for Covered {
    const NAME: &'static str = "covered vector";
    const VERSION: u8 = 3;
}

fn small(copies: usize) -> u16 {
    u16::try_from(copies).unwrap_or(u16::MAX)
}

impl Covered {
    pub(super) fn new(rules: &Rules, upto: Vector, passed: &BTreeSet<SiteId>) -> Self {
        let areas = rules.demand.areas().iter();
        let listed = |sites: &BTreeSet<SiteId>| sites.iter().copied().collect();
        Self {
            copies: small(rules.copies()),
            lost: listed(&rules.lost),
            areas: areas
                .map(|area| (small(area.copies), listed(&area.sites), listed(&area.closed)))
                .collect(),
            upto,
            passed: listed(passed),
        }
    }

    /// Whether it was found under these rules. Which sites there are matters only through them.
    pub(super) fn is_by(&self, rules: &Rules) -> bool {
        let now = Self::new(rules, Vector::new(), &BTreeSet::new());
        (self.copies, &self.lost, &self.areas) == (now.copies, &now.lost, &now.areas)
    }

    /// Whether what was passed over is still another site's to look after.
    pub(super) fn stands(&self, custodies: &Custodies) -> bool {
        !self.passed.iter().any(|writer| custodies.is_mine(*writer))
    }
}

impl HeldFile {
    pub(super) fn entry(&self, bucket: BucketId, site: SiteId) -> Entry {
        let key = Bytes::from([HELD, &bucket.0, &site.0].concat());
        Entry::Local { key, value: Some(codec::encode(self).into()) }
    }
}

pub(crate) fn covered_entry(bucket: BucketId, file: Option<&Covered>) -> Entry {
    let key = Bytes::from([COVERED, &bucket.0].concat());
    Entry::Local { key, value: file.map(|file| codec::encode(file).into()) }
}

/// The entries that forget all that was written down of a bucket.
pub(crate) fn forgotten(view: &dyn View, bucket: BucketId) -> Result<Vec<Entry>, SpaceError> {
    let mut entries = vec![covered_entry(bucket, None)];
    for rows in [HELD, PROMISED] {
        view.scan_prefix(Table::Local, &[rows, &bucket.0].concat(), &mut |key, _| {
            entries.push(Entry::Local { key: Bytes::copy_from_slice(key), value: None });
            ControlFlow::Continue(())
        })?;
    }
    Ok(entries)
}

/// What was written down.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(super) held: BTreeMap<(BucketId, SiteId), (Option<Origin>, Spans)>,
    pub(super) covered: BTreeMap<BucketId, Covered>,
}

impl Book {
    /// Reads it at the start.
    pub(crate) fn read(view: &dyn View) -> Result<Self, SpaceError> {
        let (mut book, mut unread) = (Self::default(), BTreeSet::new());
        view.scan_prefix(Table::Local, HELD, &mut |key, value| {
            let names = key.strip_prefix(HELD).and_then(<[u8]>::split_first_chunk::<16>);
            let names =
                names.and_then(|(bucket, site)| Some((BucketId(*bucket), SiteId(site.try_into().ok()?))));
            let file = codec::decode::<HeldFile>(value).ok();
            let spans = file.and_then(|file| Some((file.life, Spans::decode(&file.spans).ok()?)));
            match (names, spans) {
                (Some((bucket, _)), None) => drop(unread.insert(bucket)),
                (names, spans) => book.held.extend(names.zip(spans)),
            }
            ControlFlow::Continue(())
        })?;
        view.scan_prefix(Table::Local, COVERED, &mut |key, value| {
            let bucket = key.strip_prefix(COVERED).and_then(|id| id.try_into().ok()).map(BucketId);
            book.covered.extend(bucket.zip(codec::decode(value).ok()));
            ControlFlow::Continue(())
        })?;
        // Of whom it cannot be read what they hold, it is asked again, from the first record on.
        book.covered.retain(|bucket, _| !unread.contains(bucket));
        Ok(book)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_federation::placement::Demand;

    use super::*;

    /// What docs/decisions/2026-11-22-copies.md compares with: a placement record per version.
    #[test]
    fn a_record_per_version_would_cost_about_as_much_as_the_object_s_own() {
        use skerry_base::{Hlc, NodeId};
        use skerry_model::record::{Record, Scope, Statement, Versioning};
        let dot = |seq| Dot { origin: Origin { node: NodeId([3; 16]), incarnation: u64::MAX / 3 }, seq };
        let record = Record {
            bucket: BucketId([1; 16]),
            dot: dot(1_000_001),
            key: "k".repeat(20),
            clock: Hlc(u64::MAX / 2),
            context: Vector::new(),
            versioning: Versioning::Off,
            keeps: Vec::new(),
            scope: Scope::Site,
            home: None,
            placement: None,
            writer: "W".repeat(20),
            site: SiteId([2; 16]),
            statement: Statement::Note {
                target: dot(1_000_000),
                topic: 1,
                // An epoch, the custodian, two holders.
                content: vec![0; 1 + 16 + 1 + 2 * 16].into(),
            },
        };
        let bytes = record.encode().len();
        println!("a placement record per version: {bytes} bytes");
        assert!((190..230).contains(&bytes), "{bytes}");
    }

    /// Fixtures of version 1: must decode for ever.
    #[test]
    fn v1_fixtures() {
        let held = HeldFile { life: None, spans: vec![1, 0] };
        assert_eq!(skerry_base::hex::text(&codec::encode(&held)), "0100020100");
        assert_eq!(skerry_base::hex::text(&codec::encode(&PromisedFile(300))), "01ac02");
    }

    fn covered_by(rules: &Rules, passed: &[u8]) -> Covered {
        let passed = passed.iter().map(|number| SiteId([*number; 16])).collect();
        Covered::new(rules, Vector::new(), &passed)
    }

    /// Fixture of version 3: must decode for ever.
    #[test]
    fn covered_v3_fixture() {
        let demand = Demand::anywhere(2).and_in(1, [SiteId([9; 16])].into());
        let rules = Rules { demand, lost: [SiteId([7; 16])].into(), ..Rules::default() };
        let covered = covered_by(&rules, &[5, 6]);
        let (lost, area) = ("07".repeat(16), "09".repeat(16));
        let passed = format!("02{}{}", "05".repeat(16), "06".repeat(16));
        assert_eq!(
            skerry_base::hex::text(&codec::encode(&covered)),
            format!("030201{lost}010101{area}0000{passed}")
        );
        assert_eq!(codec::decode::<Covered>(&codec::encode(&covered)).unwrap(), covered);
    }

    /// What releases before wrote, with areas and without: it does not say what was passed over.
    #[test]
    fn covered_v1_and_v2_are_begun_anew() {
        let v1 = [&[1, 2, 1], &[7; 16][..], &[0]].concat();
        let v2 = [&[2, 2, 0, 1, 1, 1], &[9; 16][..], &[0, 0]].concat();
        for before in [v1, v2] {
            assert!(codec::decode::<Covered>(&before).is_err());
        }
    }

    #[test]
    fn what_was_covered_stands_under_the_rules_it_was_found_with() {
        let plain = Rules { demand: Demand::anywhere(2), ..Rules::default() };
        let three = Rules { demand: Demand::anywhere(3), ..Rules::default() };
        let lost = Rules { lost: [SiteId([7; 16])].into(), ..plain.clone() };
        let area = |number: u8| Demand::anywhere(2).and_in(1, [SiteId([number; 16])].into());
        let rules = |number| Rules { demand: area(number), ..Rules::default() };
        let frozen = Rules { demand: area(9).closed(&[SiteId([9; 16])].into()), ..Rules::default() };
        let all = [plain, three, lost, rules(8), rules(9), frozen];
        for (n, found) in all.iter().enumerate() {
            let covered = covered_by(found, &[]);
            let by: Vec<usize> = (0..all.len()).filter(|other| covered.is_by(&all[*other])).collect();
            assert_eq!(by, [n], "{found:?}");
        }
    }
}
