//! Of which buckets a node may lack what its site has acknowledged: those it does not read for the site.
//!
//! A node that does not keep a bucket answers for what is written there all the same, so that the others go on. To have
//! fetched everything from such a node is to have nothing of that bucket; and who joins a view fetches from whichever live
//! node answers first. Waiting for all of them instead would leave a site of three that has lost one without a majority for
//! good: the lost one may be live in the view, have no memory any more, and be taken in only by the view that waits for it.
//! So each says what it lacks, and who fetches lacks what all that it fetched from lack.
//!
//! Before: `site_view`, which says when a node counts, for all buckets alike. Invariants: a bucket that is none of the gaps has
//! all that was acknowledged in scope `site` up to the view; what is not kept here is a gap; a gap is closed by somebody who
//! has none there, or by all machines of the site at once: nobody has more than they.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::BucketId;

use super::{Seat, Seats, View};

/// The gaps of one node; what is in them outlives the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gaps {
    /// With the turn in which something was answered for last that is not kept here.
    lacking: BTreeMap<BucketId, u64>,
    turn: u64,
    /// From whom all was fetched, in the latest view.
    fetched: Option<(u64, Seats)>,
}

/// Everything that a node has was fetched from it, record by record.
#[derive(Debug, Clone, Copy)]
pub struct Fetched<'a> {
    /// The view in which it was asked.
    pub view: &'a View,
    /// Who asked.
    pub me: Seat,
    /// The seats that somebody fills.
    pub filled: Seats,
    /// Who was asked.
    pub from: Seat,
    /// [`Gaps::turn`] when it was.
    pub since: u64,
    /// Its gaps, as it said before it said what it has.
    pub theirs: &'a BTreeSet<BucketId>,
    /// What is not kept here.
    pub unkept: &'a BTreeSet<BucketId>,
}

impl Gaps {
    /// What this node's disk says.
    pub fn new(lacking: BTreeSet<BucketId>) -> Self {
        Self { lacking: lacking.into_iter().map(|bucket| (bucket, 0)).collect(), turn: 0, fetched: None }
    }

    /// Whether a bucket is one.
    pub fn contain(&self, bucket: BucketId) -> bool {
        self.lacking.contains_key(&bucket)
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<BucketId> {
        self.lacking.keys().copied().collect()
    }

    /// To be asked for before another node is: what is answered for since then stays a gap.
    pub const fn turn(&self) -> u64 {
        self.turn
    }

    /// This node answers for what it does not keep. Whether that is new.
    pub fn open(&mut self, bucket: BucketId) -> bool {
        self.turn += 1;
        self.lacking.insert(bucket, self.turn).is_none()
    }

    /// Everything that another one has is durable here.
    pub fn fetch(&mut self, of: Fetched<'_>) {
        let before = self.fetched.filter(|(epoch, _)| *epoch == of.view.epoch);
        let fetched = before.map_or(Seats::NONE, |(_, fetched)| fetched).with(of.from);
        self.fetched = Some((of.view.epoch, fetched));
        let others = of.filled.without(of.me);
        let has_all = others.is_within(of.view.live) && others.is_within(fetched);
        // Who joins was away: what it had all of then it lacks now.
        if of.view.joining.contains(of.me) && before.is_none() {
            self.lack(of.theirs);
        }
        let stays = |bucket: &BucketId, turn: u64| {
            let is_there = !has_all && of.theirs.contains(bucket);
            turn > of.since || is_there || of.unkept.contains(bucket)
        };
        self.lacking.retain(|bucket, turn| stays(bucket, *turn));
        self.lack(of.unkept);
    }

    fn lack(&mut self, buckets: &BTreeSet<BucketId>) {
        for bucket in buckets {
            self.lacking.entry(*bucket).or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: BucketId = BucketId([1; 16]);
    const OTHER: BucketId = BucketId([2; 16]);

    fn seat(number: usize) -> Seat {
        Seat::new(number).unwrap_or_default()
    }

    fn view(epoch: u64, live: &[usize], joining: &[usize]) -> View {
        let seats = |numbers: &[usize]| numbers.iter().map(|number| seat(*number)).collect();
        View { epoch, live: seats(live), joining: seats(joining), ..View::genesis() }
    }

    fn fetch(gaps: &mut Gaps, view: &View, from: usize, theirs: &[BucketId]) {
        let (theirs, unkept) = (theirs.iter().copied().collect(), BTreeSet::new());
        let (me, filled, since) = (seat(2), Seats::first(3), gaps.turn());
        gaps.fetch(Fetched { view, me, filled, from: seat(from), since, theirs: &theirs, unkept: &unkept });
    }

    #[test]
    fn who_joins_lacks_what_all_lack_that_it_asked() {
        let mut gaps = Gaps::new(BTreeSet::from([OTHER]));
        let joins = view(5, &[0, 1], &[2]);
        fetch(&mut gaps, &joins, 1, &[KEPT]);
        assert!(gaps.contain(KEPT) && !gaps.contain(OTHER), "what it lacked before is there now");
        let without = view(6, &[1, 2], &[]);
        fetch(&mut gaps, &without, 1, &[KEPT]);
        assert!(gaps.contain(KEPT), "the one that keeps it is gone");
        fetch(&mut gaps, &view(7, &[0, 1, 2], &[]), 0, &[]);
        assert!(gaps.all().is_empty());
        fetch(&mut gaps, &view(9, &[0, 1], &[2]), 1, &[KEPT]);
        assert!(gaps.contain(KEPT), "it was away, and was told of nothing");
        fetch(&mut gaps, &view(9, &[0, 1], &[2]), 0, &[]);
        assert!(gaps.all().is_empty());
    }

    #[test]
    fn what_nobody_has_any_more_is_no_gap() {
        let mut gaps = Gaps::new(BTreeSet::from([KEPT]));
        let whole = view(5, &[0, 1, 2], &[]);
        fetch(&mut gaps, &whole, 0, &[KEPT]);
        assert!(gaps.contain(KEPT));
        fetch(&mut gaps, &whole, 1, &[KEPT]);
        assert!(!gaps.contain(KEPT), "all machines there are were asked");
    }

    #[test]
    fn what_is_not_kept_stays_a_gap() {
        let mut gaps = Gaps::default();
        let (since, whole) = (gaps.turn(), view(5, &[0, 1, 2], &[]));
        assert!(gaps.open(KEPT) && !gaps.open(KEPT));
        let (theirs, unkept) = (BTreeSet::new(), BTreeSet::new());
        let (me, filled, from) = (seat(2), Seats::first(3), seat(0));
        let of = Fetched { view: &whole, me, filled, from, since, theirs: &theirs, unkept: &unkept };
        gaps.fetch(of);
        assert!(gaps.contain(KEPT), "it became one after the other was asked");
        let unkept = BTreeSet::from([OTHER]);
        gaps.fetch(Fetched { since: gaps.turn(), unkept: &unkept, ..of });
        assert_eq!(gaps.all(), unkept);
    }
}
