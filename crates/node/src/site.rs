//! What every path of a running site needs, and the one way to write: a proposal on the commit thread.
//!
//! Invariants: seq, context, clock and conditions are decided in the proposal and nowhere else; nothing is
//! answered before it is durable, but for plain writes with `storage.sync = os`; the own clock never goes below a stamp that was given before, whatever the
//! wall clock says and however the process ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use skerry_base::kv::{Table, View};
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, Hlc, Origin, SiteId, WallTime};
use skerry_federation::Input;
use skerry_gateway::service::{ErrorKind, Md5Batch, Outcome, ServiceError};
use skerry_model::Entry;
use skerry_model::bucket::{is_claimant, resolve_id};
use skerry_model::space::{self, SpaceError};
use skerry_storage::{CommitError, Store};
use tokio::sync::oneshot;

use crate::bulk::Bulk;
use crate::changes::Changes;
use crate::clock::{Clock, Watched};
use crate::copies::Copies;
use crate::copies::others::Others;
use crate::drive::Drive;
use crate::drive::stored::{Stored, membership, swept};
use crate::duties::Duties;
use crate::following::Following;
use crate::incoming::Incoming;
use crate::leaving::Leavings;
use crate::nodes::Nodes;
use crate::own_site::OwnSite;
use crate::paths::bucket::Directory;
use crate::paths::buckets;
use crate::paths::hands::Hands;
use crate::paths::heard::Claims;
use crate::paths::refusal;
use crate::paths::taking::Parts;
use crate::peers::Peers;
use crate::peers::outbox::Outboxes;
use crate::pins::Pins;
use crate::quick::Quick;
use crate::replacing::Replacing;
use crate::tasks::whole;

/// Deleted buckets that are remembered for writes which had begun.
const ENDED: usize = 1024;

/// Buckets that a site may follow. The machine takes a thousand more: several may be joined at once, and its system bucket is
/// one of them.
pub(crate) const MEMBERSHIPS: usize = skerry_federation::limits::BUCKETS - 1024;

/// A running site.
pub(crate) struct Site {
    /// The disk.
    pub(crate) store: Arc<Store>,
    /// The other sites.
    pub(crate) peers: Arc<Peers>,
    /// Links that stand.
    pub(crate) boxes: Arc<Outboxes>,
    /// The nodes of this site.
    pub(crate) nodes: Arc<Nodes>,
    /// Directory of the keys and of what is kept beside the store.
    pub(crate) place: PathBuf,
    /// The federation machine.
    pub(crate) drive: Drive,
    /// Who waits for changes.
    pub(crate) changes: Changes,
    /// The clocks.
    pub(crate) clock: Clock,
    /// This site.
    pub(crate) id: SiteId,
    /// What it says of itself.
    pub(crate) own: OwnSite,
    /// What it was called when it was started.
    pub(crate) first_name: String,
    /// Whether buckets made here get names of this site's own (`bucket_scope = site`).
    pub(crate) scoped: bool,
    /// At how many sites what is in buckets made here is to be.
    pub(crate) new_copies: crate::config::Copies,
    /// The bucket of site, claim and key records.
    pub(crate) system: BucketId,
    /// What seals and opens the secrets of access keys.
    pub(crate) credentials: crate::credential_keys::Keys,
    /// Until then links are waited for: the site has just been started.
    pub(crate) links_by: skerry_base::Instant,
    /// Stamps and dots of this life.
    pub(crate) stamps: Arc<Stamps>,
    /// Names and access keys.
    pub(crate) directory: Directory,
    /// Whether the index answers from memory.
    pub(crate) quick: Quick,
    /// Memory for payload on its way in.
    pub(crate) incoming: Incoming,
    /// Memory for payload on its way out.
    pub(crate) outgoing: Bulk,
    /// Memory for chunks that come from other sites while there is no room on the way out.
    pub(crate) arriving: Bulk,
    /// Memory for chunks that are held for other sites.
    pub(crate) holding: Bulk,
    /// The same for copies that nobody waits for: a slow link that they come over leaves room for those that somebody does.
    pub(crate) bringing: Bulk,
    /// Memory for the first bytes of bodies on their way to the other nodes of the site. Together with what those send it fits what
    /// a node has for holding.
    pub(crate) staging: Bulk,
    /// Chunks that come for other sites while those ask how far they are.
    pub(crate) hands: Hands,
    /// Questions for names that are not known here.
    pub(crate) claims: Claims,
    /// What is here of bodies that those have held here.
    pub(crate) parts: Parts,
    /// Chunks of bodies that may be written at once: other work finds a thread beside them.
    pub(crate) writing: Arc<tokio::sync::Semaphore>,
    /// Bodies that other sites forward and this one takes in.
    pub(crate) taken: Arc<tokio::sync::Semaphore>,
    /// Whose these are.
    pub(crate) takers: crate::paths::places::Places,
    /// Whether plain writes are answered before they are on disk (`storage.sync = os`).
    pub(crate) lazy: bool,
    /// Computes the MD5 of bodies on their way in.
    pub(crate) md5: Arc<Md5Batch>,
    /// Who holds copies.
    pub(crate) copies: Arc<Copies>,
    /// What is held for other sites, and how much may be.
    pub(crate) others: Arc<Others>,
    /// What the sites are there for.
    pub(crate) duties: Arc<Duties>,
    /// Whose place it takes.
    pub(crate) replacing: Replacing,
    /// Buckets of which it lost something, and has not heard yet from all others.
    pub(crate) anew: crate::anew::Beginning,
    /// Buckets that this site is about to leave, and what it says of joining.
    pub(crate) leaving: Leavings,
    /// Prefixes that are followed without being a member.
    pub(crate) following: Following,
    /// Bodies of writes that other sites decide.
    pub(crate) bodies: crate::paths::held::Bodies,
    /// Buckets whose members do not answer before writes.
    pub(crate) silences: crate::paths::acquaint::Silences,
    /// What is pinned here.
    pub(crate) pins: Pins,
    /// Processes that run beside another with the same key.
    pub(crate) clones: crate::clones::Clones,
    /// Who said that this site belongs no more.
    pub(crate) told_gone: crate::gone::Told,
    /// Wakes the scrub.
    pub(crate) scrub: tokio::sync::Notify,
    /// Buckets that this site is a member of, and whether it has taken once what a complete member had.
    pub(crate) members: RwLock<BTreeMap<BucketId, bool>>,
}

/// The own clock and origin.
pub(crate) struct Stamps {
    /// This node in this life.
    pub(crate) origin: Origin,
    own: Mutex<HlcClock>,
    clock: Watched,
    /// Buckets that were left in this life: the origin of own records since, and whether the site is out.
    lives: Mutex<BTreeMap<BucketId, (Origin, bool)>>,
    /// How often a bucket was let go of in this life, or nearly.
    left: AtomicU64,
    /// Buckets that were deleted here lately, by what they were claimed as: who found one before is not to write to it.
    ended: Mutex<BTreeMap<BucketId, String>>,
}

impl Stamps {
    /// Goes on after `last`, the highest own stamp found on disk.
    pub(crate) fn resume(origin: Origin, clock: Clock, last: Hlc) -> Self {
        Self {
            origin,
            own: Mutex::new(HlcClock::resume(last)),
            clock: Watched::new(clock),
            lives: Mutex::default(),
            left: AtomicU64::new(0),
            ended: Mutex::default(),
        }
    }

    /// What the wall says.
    pub(crate) fn wall(&self) -> WallTime {
        self.clock.read().0
    }

    /// What of that may be taken for the present where something expires; none expires nothing.
    pub(crate) fn present(&self) -> Option<WallTime> {
        self.clock.present()
    }

    /// Gives stamps; call it on the commit thread, so that stamps rise in the order of the journal.
    pub(crate) fn with<T>(&self, give: impl FnOnce(&mut HlcClock) -> T) -> T {
        give(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lives in buckets that were left.
impl Stamps {
    fn lives(&self) -> std::sync::MutexGuard<'_, BTreeMap<BucketId, (Origin, bool)>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node in this life of its membership: what own records of the bucket are stamped with.
    pub(crate) fn origin_of(&self, bucket: BucketId) -> Origin {
        self.lives().get(&bucket).map_or(self.origin, |(origin, _)| *origin)
    }

    /// Whether the site has left a bucket and not come back: nothing may be written there. Say and ask it on the commit
    /// thread: then it is so of the view at hand.
    pub(crate) fn is_out(&self, bucket: BucketId) -> bool {
        self.lives().get(&bucket).is_some_and(|(_, out)| *out)
    }

    /// A bucket is being deleted. Say it on the commit thread.
    pub(crate) fn ends(&self, bucket: BucketId, claimed: &str) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.insert(bucket, claimed.to_owned());
        if ended.len() > ENDED {
            ended.pop_first();
        }
    }

    /// Whether a bucket was deleted here, and has not come back. Ask it on the commit thread, of the view at hand.
    pub(crate) fn has_ended(
        &self,
        view: &dyn View,
        system: BucketId,
        bucket: BucketId,
    ) -> Result<bool, SpaceError> {
        let claimed = self.ended.lock().unwrap_or_else(PoisonError::into_inner).get(&bucket).cloned();
        claimed.map_or(Ok(false), |name| Ok(resolve_id(view, system, (&name, bucket))?.is_none()))
    }

    /// The site leaves a bucket: whatever it writes there later is another origin's.
    pub(crate) fn leave(&self, bucket: BucketId, incarnation: u64) {
        let origin = Origin { incarnation, ..self.origin };
        self.left.fetch_add(1, Ordering::SeqCst);
        self.lives().insert(bucket, (origin, true));
    }

    /// How often a bucket was let go of in this life: counted before that can be seen.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }

    /// It is a member again, or still.
    pub(crate) fn enter(&self, bucket: BucketId) {
        if let Some((_, out)) = self.lives().get_mut(&bucket) {
            *out = false;
        }
    }
}

/// What became of a commit.
type Committed<T> = Result<T, CommitError<ServiceError>>;

impl Site {
    /// What people call it, as its record says now.
    pub(crate) fn called(&self) -> String {
        self.peers.roster.name_of(self.id).unwrap_or_else(|| self.first_name.clone())
    }

    /// Commits what `propose` decides; `keep` is let go only afterwards, whoever still waits.
    pub(crate) async fn commit<T: Send + 'static>(
        &self,
        bucket: BucketId,
        keep: impl Send + 'static,
        propose: impl FnOnce(&dyn View) -> Outcome<(T, Vec<skerry_storage::Entry>)> + Send + 'static,
    ) -> Outcome<T> {
        let (done, answered) = self.told(bucket, keep);
        self.store.submit(propose, done);
        answered.await.map_err(|_| refusal::unanswered())?.map_err(refusal::commit)
    }

    /// The same behind all that feeds have brought by now.
    pub(crate) async fn commit_behind(
        &self,
        bucket: BucketId,
        propose: impl FnOnce(&dyn View) -> Outcome<((), Vec<skerry_storage::Entry>)> + Send + 'static,
    ) -> Outcome<()> {
        let (done, answered) = self.told(bucket, ());
        self.store.submit_behind(propose, done);
        answered.await.map_err(|_| refusal::unanswered())?.map_err(refusal::commit)
    }

    /// What is done at the end of a commit, and where its outcome comes.
    fn told<T: Send + 'static>(
        &self,
        bucket: BucketId,
        keep: impl Send + 'static,
    ) -> (impl FnOnce(Committed<T>) + Send + 'static, oneshot::Receiver<Committed<T>>) {
        let (answer, answered) = oneshot::channel();
        let (drive, changes) = (self.drive.clone(), self.changes.clone());
        let done = move |result: Committed<T>| {
            drop(keep);
            if result.is_ok() {
                changes.happened(bucket);
                drive.durable(bucket);
            }
            answer.send(result).ok();
        };
        (done, answered)
    }

    /// Writes facts down that are this node's own and that nobody waits for: no change is told of.
    pub(crate) async fn note_down(&self, facts: Vec<Entry>) -> Outcome<()> {
        let (answer, answered) = oneshot::channel();
        let propose =
            move |_: &dyn View| Outcome::Ok(((), facts.iter().map(|fact| entry(fact).freeing()).collect()));
        self.store.submit(propose, move |result| {
            answer.send(result).ok();
        });
        answered.await.map_err(|_| refusal::unanswered())?.map_err(refusal::commit)
    }

    /// Returns when everything that was put or written here is on disk, whatever was answered before; also payload that
    /// only records refer to that were here before it.
    pub(crate) async fn settle(&self) -> Outcome<()> {
        let (answer, answered) = oneshot::channel();
        self.store.settle(move |result| {
            answer.send(result).ok();
        });
        answered.await.map_err(|_| refusal::stopping())?.map_err(refusal::storage)
    }

    /// The same where answers do not wait for the disk: else there is nothing to wait for.
    pub(crate) async fn settle_lazy(&self) -> Outcome<()> {
        if self.lazy { self.settle().await } else { Ok(()) }
    }

    /// Looks up one thing in the index: in place while that is quick, else as [`Site::read`].
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&dyn View) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        if !self.quick.allows() {
            let (answer, time) = self.read(timed(self.clock, look)).await?;
            self.quick.took(time);
            return answer;
        }
        let (answer, time) = timed(self.clock, look)(&self.store.view())?;
        self.quick.took(time);
        answer
    }

    /// Reads the index on a blocking thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let store = self.store.clone();
        let read = move || read(&store.view());
        tokio::task::spawn_blocking(read).await.map_err(refusal::task)?
    }

    fn membership(&self, bucket: BucketId) -> Option<bool> {
        if bucket == self.system {
            return Some(true);
        }
        self.members.read().unwrap_or_else(PoisonError::into_inner).get(&bucket).copied()
    }

    /// Whether this site keeps the records of the bucket that it hears of.
    pub(crate) fn is_member(&self, bucket: BucketId) -> bool {
        self.membership(bucket).is_some()
    }

    /// Whether what this site keeps of the bucket is all that a member knows, but for what is on its way.
    pub(crate) fn is_complete(&self, bucket: BucketId) -> bool {
        self.membership(bucket) == Some(true)
    }

    /// All buckets that this site is a member of.
    pub(crate) fn memberships(&self) -> Vec<BucketId> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Those whose records it is still taking.
    pub(crate) fn incomplete(&self) -> Vec<BucketId> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.iter().filter(|(_, complete)| !**complete).map(|(bucket, _)| *bucket).collect()
    }

    /// Becomes a member: remembered first, then told to the machine, which pulls. Both happen, whoever still waits.
    pub(crate) async fn join(self: &Arc<Self>, bucket: BucketId) -> Outcome<()> {
        if self.is_member(bucket) {
            return Ok(());
        }
        let site = self.clone();
        whole(async move {
            let _gate = site.leaving.gate().await;
            // While it waited the site may have joined, or stayed a member after all: that is not begun anew.
            if site.is_member(bucket) { Ok(()) } else { site.begin_membership(bucket, false).await }
        })
        .await
    }

    /// Refuses what would make this site a member of more buckets than it can feed others of.
    pub(crate) fn check_room_for_one_more(&self) -> Outcome<()> {
        let followed = self.members.read().unwrap_or_else(PoisonError::into_inner).len();
        if followed < MEMBERSHIPS {
            return Ok(());
        }
        let message = format!(
            "{} follows {followed} buckets, and a site can follow {MEMBERSHIPS}: let it leave some (skerry bucket leave), \
             delete some, or use this one at another site",
            self.called()
        );
        Err(ServiceError::new(ErrorKind::TooManyBuckets, message))
    }

    /// Remembers a membership and takes note of it. What is left of a former one stays.
    pub(crate) async fn remember_membership(
        self: &Arc<Self>,
        bucket: BucketId,
        complete: bool,
    ) -> Outcome<()> {
        let site = self.clone();
        whole(async move {
            let _gate = site.leaving.gate().await;
            site.begin_membership(bucket, complete).await
        })
        .await
    }

    async fn begin_membership(&self, bucket: BucketId, complete: bool) -> Outcome<()> {
        if !self.is_member(bucket) {
            self.check_room_for_one_more()?;
        }
        let (stamps, system, me) = (self.stamps.clone(), self.system, self.id);
        let asked = self.claim_of(bucket).await?.map(|found| buckets::asked_key(&found.name));
        let joins = move |view: &dyn View| {
            stamps.enter(bucket);
            let has_asked = match &asked {
                Some(key) => view.get(Table::Local, key).map_err(|error| unreadable(error.into()))?.is_some(),
                None => false,
            };
            // Who asked for a name, was given it and never heard the answer: nobody else would be the first to have all of
            // it. A store begun anew has not asked: it takes what others have.
            let complete =
                complete || (has_asked && is_claimant(view, system, bucket, me).map_err(unreadable)?);
            let mut entries = vec![membership(bucket, complete), swept(bucket)];
            entries.extend(asked.filter(|_| has_asked).map(|key| Entry::Local { key, value: None }));
            entries.extend(space::rested(view, bucket).map_err(unreadable)?);
            Ok((complete, entries.iter().map(entry).collect()))
        };
        let complete = self.commit(bucket, (), joins).await?;
        self.joined(bucket, complete);
        Ok(())
    }

    /// A member has taken all that a complete one had; nothing if it has left meanwhile.
    pub(crate) async fn completed(&self, bucket: BucketId) -> Outcome<()> {
        let stored = move |view: &dyn View| {
            let known = view.get(Table::Local, &Stored::Member.key(bucket));
            let known = known.map_err(|error| unreadable(error.into()))?.is_some();
            Ok(((), if known { vec![entry(&membership(bucket, true))] } else { Vec::new() }))
        };
        self.commit(bucket, (), stored).await?;
        self.whole_again(bucket);
        Ok(())
    }

    /// Takes note of a membership that is complete, durably.
    pub(crate) fn whole_again(&self, bucket: BucketId) {
        if let Some(known) = self.members.write().unwrap_or_else(PoisonError::into_inner).get_mut(&bucket) {
            *known = true;
        }
        self.changes.world();
    }

    /// This site is no member for anybody any more; whether it was a complete one. The machine is told, and has heard it
    /// when this returns: nothing that it wants stored comes later.
    pub(crate) async fn close(&self, bucket: BucketId) -> bool {
        let known = self.members.write().unwrap_or_else(PoisonError::into_inner).remove(&bucket);
        // What was written here for the site goes; whoever joins again has it from somebody who may know less. Not said
        // before it is kept no more: what is fetched from another node meanwhile would close the gap again.
        if let Err(error) = self.excuse(bucket).await {
            tracing::warn!(%bucket, %error, "that a bucket is not read for the site could not be stored");
        }
        self.drive.tell(Input::Leave { bucket });
        self.drive.ask(|_, _| ()).await;
        known.unwrap_or_default()
    }

    /// Takes note of a membership that is durable.
    pub(crate) fn joined(&self, bucket: BucketId, complete: bool) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let known = members.entry(bucket).or_insert(complete);
        *known |= complete;
        drop(members);
        self.following.begin_anew(bucket);
        self.stamps.enter(bucket);
        self.drive.tell(Input::Join { bucket });
        self.changes.world();
    }
}

/// A look-up with how long it takes.
fn timed<T>(
    clock: Clock,
    look: impl FnOnce(&dyn View) -> Outcome<T>,
) -> impl FnOnce(&dyn View) -> Outcome<(Outcome<T>, Duration)> {
    move |view| {
        let begun = clock.now();
        let answer = look(view);
        Ok((answer, Duration::from_nanos(clock.now().0.saturating_sub(begun.0))))
    }
}

/// An entry of the model as the store takes it.
pub(crate) fn entry(entry: &Entry) -> skerry_storage::Entry {
    let stored = skerry_storage::Entry::new(entry.encode());
    match entry {
        Entry::Write(record) | Entry::Record(record) if record.object().is_none() => stored.freeing(),
        Entry::UploadEnd { .. } | Entry::Drop { .. } => stored.freeing(),
        _ => stored,
    }
}

/// The index could not be read.
pub(crate) fn unreadable(error: skerry_model::space::SpaceError) -> ServiceError {
    tracing::error!(%error, "the index cannot be read");
    ServiceError::new(skerry_gateway::service::ErrorKind::Internal, error.to_string())
}
