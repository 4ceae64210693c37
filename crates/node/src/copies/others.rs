//! What is held here for other sites, as copies that count, and how much of that the owner allows (`storage.others`).
//!
//! Before: `paths/scope.rs`, which sets aside what is to come; `workers/others.rs`, which counts what is there. After: the
//! refusal, `skerry status`, `skerry du`, metrics. Why not counted in storage: docs/decisions/2026-11-23-caps.md.
//!
//! Invariants: nothing is taken beyond the cap, however many are on their way at once; what is on its way is counted once,
//! whoever asks for it; a version that came is counted until the next count at the least; nothing is ever let go of here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::limits::FEED_BODY_BYTES;
use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::Together;
use skerry_federation::budget::Class;
use skerry_gateway::service::{ErrorKind, OthersStatus, Outcome, ServiceError};
use skerry_model::{Entry, Object, Record, space};

use super::look;
use crate::config::Size;
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::peers::serve::Asker;
use crate::site::{Site, unreadable};

/// Where the sum is remembered, in the node's own table.
const OTHERS: &[u8] = b"others";
/// What came is written down when it is one part of the cap in so many: so much is taken too much after a process was killed.
const PART: u64 = 100;

/// The sum as it was written down last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OthersFile {
    /// Bytes.
    pub(crate) bytes: u64,
}

impl Versioned for OthersFile {
    const NAME: &'static str = "bytes held for other sites";
    const VERSION: u8 = 1;
}

impl OthersFile {
    /// What was remembered; none if it was never counted or does not read.
    pub(crate) fn remembered(view: &dyn View) -> Outcome<Option<Self>> {
        let found = space::local(view, OTHERS).map_err(unreadable)?;
        Ok(found.and_then(|bytes| codec::decode(&bytes).ok()))
    }
}

/// A version that is on its way here.
#[derive(Debug, Default)]
struct Coming {
    bytes: u64,
    /// How many questions it comes for.
    questions: usize,
}

#[derive(Debug, Default)]
struct State {
    /// As counted last, and what came since.
    held: u64,
    /// What came since the count under way began, seen by it or not.
    since: u64,
    /// Whether it was ever counted.
    is_counted: bool,
    written: Option<OthersFile>,
    coming: BTreeMap<(BucketId, Dot), Coming>,
    refused: u64,
    /// Sites whose place this one took: what they wrote is its own.
    taken_over: BTreeSet<SiteId>,
}

impl State {
    fn taken(&self) -> u64 {
        self.held + self.coming.values().map(|coming| coming.bytes).sum::<u64>()
    }
}

/// The account.
#[derive(Debug)]
pub(crate) struct Others {
    cap: Option<u64>,
    state: Mutex<State>,
}

/// Room for a version on its way; given back when this is dropped, unless it is here by then.
#[derive(Debug)]
pub(crate) struct Aside {
    others: Arc<Others>,
    of: (BucketId, Dot),
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut state = self.others.state();
        if let Some(coming) = state.coming.get_mut(&self.of) {
            coming.questions -= 1;
            if coming.questions == 0 {
                state.coming.remove(&self.of);
            }
        }
    }
}

impl Aside {
    /// It is held here now.
    pub(crate) fn held(self) {
        let mut state = self.others.state();
        if let Some(coming) = state.coming.get_mut(&self.of) {
            // Whoever asked for the same at once adds nothing.
            let bytes = std::mem::take(&mut coming.bytes);
            state.held += bytes;
            state.since += bytes;
        }
    }
}

impl Others {
    /// No more than so much; none: no size of a disk is known of which it would be a part.
    pub(crate) fn resume(cap: Option<u64>, remembered: Option<OthersFile>) -> Self {
        let state = State {
            held: remembered.unwrap_or_default().bytes,
            is_counted: remembered.is_some(),
            written: remembered,
            ..State::default()
        };
        Self { cap, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room aside for a version of this size; `is_bounded`: if there is some. What it holds otherwise.
    fn set_aside(
        self: &Arc<Self>,
        of: (BucketId, Dot),
        bytes: u64,
        is_bounded: bool,
    ) -> Result<Aside, (u64, u64)> {
        let mut state = self.state();
        let taken = state.taken();
        let is_coming = state.coming.contains_key(&of);
        if let Some(cap) = self.cap.filter(|cap| is_bounded && !is_coming && taken + bytes > *cap) {
            state.refused += 1;
            return Err((taken, cap));
        }
        let coming = state.coming.entry(of).or_insert(Coming { bytes, questions: 0 });
        coming.questions += 1;
        drop(state);
        Ok(Aside { others: self.clone(), of })
    }

    /// Who wrote for whom: whether what this site wrote is held here for another one.
    fn are_anothers(&self, writer: SiteId, me: SiteId, together: &Together) -> bool {
        together.of(writer) != together.of(me) && !self.state().taken_over.contains(&writer)
    }

    /// Takes note of the sites whose place this one took.
    pub(crate) fn set_taken_over(&self, sites: BTreeSet<SiteId>) {
        self.state().taken_over = sites;
    }

    /// A count begins; whether it is the first.
    pub(crate) fn begin_count(&self) -> bool {
        let mut state = self.state();
        state.since = 0;
        !state.is_counted
    }

    /// It ended and found so much. What came meanwhile may be in it or not: it counts beside it until the next one.
    pub(crate) fn end_count(&self, bytes: u64) -> OthersFile {
        let mut state = self.state();
        state.held = bytes + std::mem::take(&mut state.since);
        state.is_counted = true;
        OthersFile { bytes: state.held }
    }

    /// The sum, if it is to be written down: because it is another one than is (`is_exact`), or is that much more. What was
    /// never counted is not: after a start it would pass for a count.
    fn unwritten(&self, is_exact: bool) -> Option<OthersFile> {
        let state = self.state();
        let file = OthersFile { bytes: state.held };
        let is_more = |written: OthersFile| {
            self.cap.is_some_and(|cap| file.bytes > written.bytes.saturating_add(cap / PART))
        };
        let is_due = |written| if is_exact { written != file } else { is_more(written) };
        (state.is_counted && state.written.is_none_or(is_due)).then_some(file)
    }

    /// Whether so much is taken that what goes is to be noticed soon. Nothing makes room under a cap of nothing.
    pub(crate) fn is_near(&self) -> bool {
        self.cap.is_some_and(|cap| cap > 0 && self.state().taken() >= cap / 4 * 3)
    }

    /// For people and metrics.
    pub(crate) fn status(&self) -> OthersStatus {
        let state = self.state();
        OthersStatus { bytes: state.held, cap_bytes: self.cap, refused: state.refused }
    }
}

/// Writes the sum down if it is to be: a start begins with it.
pub(crate) async fn remember(site: &Site, is_exact: bool) {
    let Some(file) = site.others.unwritten(is_exact) else { return };
    let value = Some(codec::encode(&file).into());
    match site.note_down(vec![Entry::Local { key: Bytes::from_static(OTHERS), value }]).await {
        Ok(()) => site.others.state().written = Some(file),
        Err(error) => tracing::warn!(%error, "what is held for other sites was not written down"),
    }
}

/// The other sites that said that they take no more copies from this one.
pub(crate) fn at_cap(site: &Site) -> BTreeSet<SiteId> {
    let now = site.clock.now();
    let mut capped = site.copies.with(|machine| machine.capped(now));
    capped.remove(&site.id);
    capped
}

/// What a version counts that is held for another site; none if it is not, or comes with the records that each member keeps.
pub(crate) fn counted<'a>(
    others: &Others,
    (me, together): (SiteId, &Together),
    record: &'a Record,
) -> Option<&'a Object> {
    let object = record.object().filter(|object| object.size > FEED_BODY_BYTES as u64)?;
    others.are_anothers(record.site, me, together).then_some(object)
}

/// Room for a version that this site is asked to hold, if it is another one's and not here yet; refuses it at the cap.
/// Two are not refused: another node of this site, whose nodes hold what the site answered for, and a client of this site whose
/// write another one decided.
pub(crate) async fn room(
    site: &Site,
    bucket: &Bucket,
    record: &Record,
    from: Asker,
) -> Outcome<Option<Aside>> {
    let together = site.peers.roster.together();
    let Some(object) = counted(&site.others, (site.id, &together), record) else { return Ok(None) };
    if site.is_member(bucket.id) {
        let (store, id, object) = (site.store.clone(), bucket.id, object.clone());
        let look = move || look::is_here(&store, id, &object);
        if tokio::task::spawn_blocking(look).await.map_err(refusal::task)? {
            return Ok(None);
        }
    }
    let is_for_itself = match from.site == site.id {
        true => from.class != Class::Copy,
        false => together.of(from.site) == together.of(site.id),
    };
    let aside = site.others.set_aside((bucket.id, record.dot), object.size, !is_for_itself);
    aside.map(Some).map_err(|(taken, cap)| {
        let message = format!(
            "{} holds {} for other sites, of at most {} (storage.others there); another site is to take it",
            site.called(),
            Size(taken),
            Size(cap)
        );
        ServiceError::new(ErrorKind::QuotaFull, message)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use skerry_base::{NodeId, Origin};

    use super::*;

    fn of(seq: u64) -> (BucketId, Dot) {
        (BucketId([1; 16]), Dot { origin: Origin { node: NodeId([2; 16]), incarnation: 1 }, seq })
    }

    #[test]
    fn what_is_on_its_way_is_counted_once_and_given_back_unless_it_came() {
        let others = Arc::new(Others::resume(Some(100), None));
        let one = others.set_aside(of(1), 60, true).unwrap();
        let again = others.set_aside(of(1), 60, true).unwrap();
        assert_eq!(others.set_aside(of(2), 60, true).unwrap_err(), (60, 100));
        drop(one);
        assert!(others.set_aside(of(2), 60, true).is_err(), "somebody else waits for it still");
        drop(again);
        let two = others.set_aside(of(2), 60, true).unwrap();
        let beside = others.set_aside(of(2), 60, true).unwrap();
        two.held();
        assert_eq!((others.status().bytes, others.status().refused), (60, 2));
        beside.held();
        assert_eq!(others.status().bytes, 60);
        let node = others.set_aside(of(3), 50, false).unwrap();
        assert!(
            others.set_aside(of(4), 1, true).is_err(),
            "another node of the site is not refused, and counts"
        );
        node.held();
        assert_eq!(others.status().bytes, 110);
    }

    #[test]
    fn what_comes_while_it_is_counted_counts_and_what_went_counts_no_more() {
        let others = Arc::new(Others::resume(Some(100), Some(OthersFile { bytes: 90 })));
        assert!(others.set_aside(of(1), 20, true).is_err(), "a start begins with what was counted last");
        assert!(!others.begin_count() && others.is_near());
        others.set_aside(of(2), 10, true).unwrap().held();
        assert_eq!(others.end_count(30), OthersFile { bytes: 40 });
        others.set_aside(of(3), 20, true).unwrap().held();
        others.begin_count();
        assert_eq!(others.end_count(50), OthersFile { bytes: 50 });
        assert!(!others.is_near());
    }

    #[test]
    fn what_came_is_written_down_by_hundredths_of_the_cap_and_at_the_end() {
        let others = Arc::new(Others::resume(Some(1000), None));
        others.set_aside(of(1), 60, true).unwrap().held();
        assert_eq!(others.unwritten(true), None, "a start would take it for all there is");
        others.begin_count();
        let file = others.end_count(100);
        assert_eq!(others.unwritten(false), Some(file));
        others.state().written = Some(file);
        others.begin_count();
        others.set_aside(of(2), 10, true).unwrap().held();
        assert_eq!(
            (others.unwritten(false), others.unwritten(true)),
            (None, Some(OthersFile { bytes: 110 }))
        );
        others.set_aside(of(3), 1, true).unwrap().held();
        assert_eq!(others.unwritten(false), Some(OthersFile { bytes: 111 }), "though the count goes on");
        others.end_count(0);
        assert_eq!(others.unwritten(true), Some(OthersFile { bytes: 11 }));
    }

    #[test]
    fn nothing_is_near_a_cap_of_nothing() {
        let held = Some(OthersFile { bytes: 90 });
        assert!(!Others::resume(Some(0), held).is_near() && Others::resume(Some(100), held).is_near());
        assert!(!Others::resume(None, held).is_near());
    }

    #[test]
    fn v1_fixture() {
        let file = OthersFile { bytes: 1 << 30 };
        let bytes = codec::encode(&file);
        assert_eq!(bytes, [1, 128, 128, 128, 128, 4]);
        assert_eq!(codec::decode::<OthersFile>(&bytes).unwrap(), file);
        assert!(codec::decode::<OthersFile>(&[2, 0]).is_err());
    }
}
