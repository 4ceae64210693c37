//! What a node has to do about the homes of its site: at first it looks at all of them, later at those of which something was
//! said, at those that waited, and when the site's view turns at those of its own site.
//!
//! Before: `workers/tenures.rs`. After: [`super::step`]. Why not all of them each time: a site of three nodes in a federation
//! of ten thousand buckets read some fifty thousand rows whenever anybody anywhere made a bucket or said a word about a site.
//!
//! Invariants: what was said is taken from the records themselves, so that nothing depends on who was woken by what; records
//! that are here before their feed brought what lies before them are among those; a memory that is in doubt is begun anew,
//! by a look at everything; what a look finds is what one at everything would find, but for what only its sight tells (the
//! roster, the view), which the worker follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId, Vector};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{self as model, SystemKey, Turn, list_buckets};
use skerry_model::space::{self, Item, Loose};

use super::known;
use crate::site::{Site, unreadable};

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;

/// What is known of the homes from one look to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Homes {
    /// What of the system bucket was looked through; none before the first look.
    seen: Option<Vector>,
    /// What of it was here ahead of that.
    ahead: Vec<Loose>,
    /// Homes that nodes of this site are.
    ours: BTreeSet<BucketId>,
    /// Those that wait for a lease, for records, or for a step that failed.
    waiting: BTreeSet<BucketId>,
}

/// What is looked at besides what was said and what waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Nothing.
    Said,
    /// The homes of this site: who of its nodes count has changed.
    Ours,
    /// All.
    All,
}

/// See [`look`].
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// By bucket.
    pub(crate) steps: Vec<(BucketId, Turn)>,
    /// At how many homes it looked.
    pub(crate) looks: u64,
    pub(crate) homes: Homes,
}

impl Homes {
    /// Whether something waits.
    pub(crate) fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A step was not taken, or did not come to its end: its home is looked at again.
    pub(crate) fn waits(&mut self, bucket: BucketId) {
        self.waiting.insert(bucket);
    }
}

/// What this node has to do about the homes of its site now: in which order does not matter.
pub(crate) async fn look(site: &Arc<Site>, homes: Homes, sight: Sight) -> Outcome<Due> {
    let of = site.clone();
    let due = site.read(move |view| Look::new(view, &of, homes).look(sight)).await?;
    let looked = site.nodes.note_looks(due.looks);
    tracing::trace!(looks = due.looks, looked, ?sight, "homes were looked at");
    Ok(due)
}

/// One look, at one moment of the index.
struct Look<'a> {
    view: &'a dyn View,
    site: &'a Site,
    due: Due,
}

impl<'a> Look<'a> {
    fn new(view: &'a dyn View, site: &'a Site, homes: Homes) -> Self {
        Self { view, site, due: Due { homes, ..Due::default() } }
    }

    fn look(mut self, sight: Sight) -> Outcome<Due> {
        let system = self.site.system;
        let mut at = std::mem::take(&mut self.due.homes.waiting);
        match self.due.homes.seen.clone().filter(|_| sight != Sight::All) {
            Some(seen) => at.extend(self.said(seen)?),
            None => {
                let all = list_buckets(self.view, system, None).map_err(unreadable)?;
                at = all.into_iter().map(|found| found.claim.bucket).collect();
                self.due.homes.ours.clear();
                self.due.homes.seen = Some(space::vector(self.view, system).map_err(unreadable)?);
                self.due.homes.ahead = space::loose(self.view, system).map_err(unreadable)?;
            }
        }
        if sight == Sight::Ours {
            at.extend(&self.due.homes.ours);
        }
        for bucket in at {
            self.home(bucket)?;
        }
        self.keep_living()?;
        Ok(self.due)
    }

    /// Buckets of which something was said that was not looked at yet.
    fn said(&mut self, mut seen: Vector) -> Outcome<BTreeSet<BucketId>> {
        let (view, system) = (self.view, self.site.system);
        let mut buckets = BTreeSet::new();
        loop {
            let page = space::records_after(view, system, &seen, PAGE).map_err(unreadable)?;
            buckets.extend(page.items.iter().filter_map(about));
            seen.merge(&page.upto);
            if !page.more {
                break;
            }
        }
        let ahead = space::loose(view, system).map_err(unreadable)?;
        for loose in ahead.iter().filter(|loose| !self.due.homes.ahead.contains(loose)) {
            let mut next = loose.covered.checked_add(1);
            while let Some(seq) = next {
                let first = Dot { origin: loose.origin, seq };
                let found = space::records_in(view, system, (first, u64::MAX), &BTreeSet::new(), PAGE);
                let (items, upto) = found.map_err(unreadable)?;
                buckets.extend(items.iter().filter_map(about));
                next = upto.checked_add(1);
            }
        }
        (self.due.homes.seen, self.due.homes.ahead) = (Some(seen), ahead);
        Ok(buckets)
    }

    /// One home.
    fn home(&mut self, bucket: BucketId) -> Outcome<()> {
        let Due { steps, looks, homes } = &mut self.due;
        *looks += 1;
        let within = self.site.within(bucket);
        let Some(known) = known(self.view, self.site, bucket)? else {
            homes.ours.remove(&bucket);
            return Ok(());
        };
        match within.nodes.contains(&known.home.site) {
            true => homes.ours.insert(bucket),
            false => homes.ours.remove(&bucket),
        };
        match known.turn(&within) {
            turn @ (Turn::Open(_) | Turn::Pass(_)) => steps.push((bucket, turn)),
            Turn::Unready | Turn::Behind => homes.waits(bucket),
            Turn::Decide(_) | Turn::Elsewhere(_) | Turn::Unopened(_) => {}
        }
        Ok(())
    }

    /// Nothing is done for a bucket that is no more, nor is a home opened where one of the nodes may not keep what is decided:
    /// nothing can be, and nobody could take the home over. Read only if there is something to be done, or waits.
    fn keep_living(&mut self) -> Outcome<()> {
        let Due { steps, homes, .. } = &mut self.due;
        if steps.is_empty() && homes.waiting.is_empty() {
            return Ok(());
        }
        let fellows = self.site.peers.roster.others(self.site.id);
        let all = list_buckets(self.view, self.site.system, None).map_err(unreadable)?;
        let is_kept = |found: &model::Resolved| {
            let residency: &[SiteId] = &found.claim.config.residency;
            residency.is_empty() || fellows.iter().all(|fellow| residency.contains(fellow))
        };
        let (mut alive, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for found in &all {
            alive.insert(found.claim.bucket);
            kept.extend(Some(found.claim.bucket).filter(|_| is_kept(found)));
        }
        steps.retain(|(bucket, turn)| {
            alive.contains(bucket) && (kept.contains(bucket) || !matches!(turn, Turn::Open(_)))
        });
        homes.waiting.retain(|bucket| alive.contains(bucket));
        Ok(())
    }
}

/// The bucket of whose home, tenure or name a record speaks.
fn about(item: &Item) -> Option<BucketId> {
    match SystemKey::parse(&item.record.key)? {
        SystemKey::Home(bucket) | SystemKey::Tenure(bucket) | SystemKey::Claim { bucket, .. } => Some(bucket),
        _ => None,
    }
}
