//! Has other sites hold what this site is custodian of, until as many do as the bucket asks for.
//!
//! Before: a commit, a link, a declaration. After: `paths/scope.rs` asks and holds, `copies` remembers. Invariants: no
//! client waits for it; what is lacking is derived from the records and what others said, so a restart forgets
//! nothing; payload is sent along only if it is small, larger bodies are fetched by the holder unless it has them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use skerry_base::kv::View;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, Dot, Instant, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::placement::looks::Looks;
use skerry_federation::placement::{Candidate, Failure, Input, Want};
use skerry_gateway::service::{ErrorKind, Outcome};
use skerry_model::space;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Workers;
use crate::copies::look::Looker;
use crate::copies::wanted::Ground;
use crate::copies::{Rules, book, surplus};
use crate::paths::bucket::Bucket;
use crate::paths::far::first_chunks;
use crate::paths::refusal;
use crate::paths::scope::{self, Unheld};
use crate::peers::message::{Hold, Part, Request};
use crate::site::{Site, entry, unreadable};

mod hearing;

use hearing::{Hearing, Questions, Word};

/// How often it is seen whether something is due.
const GLANCE: Duration = Duration::from_millis(250);
/// Between two looks while things change.
const PACE: Duration = Duration::from_secs(1);
/// Between two looks while nothing does.
const IDLE: Duration = Duration::from_secs(5);
/// What others said is written down this long after, many words at once.
const WRITE: Duration = Duration::from_millis(300);

/// The looks through a bucket's records, and by what they were made.
struct Round {
    rules: Rules,
    doubts: u64,
    links: BTreeMap<SiteId, u64>,
    looks: Looks,
}

/// A site that keeps no copies of a bucket (it has left it, or follows it never) is not asked again for this long, unless
/// it becomes a member: small bodies go with the question, and everything is looked through anew before. Twice as long each
/// time that it says so again, at most for [`OUT_AT_MOST`].
const OUT: Duration = Duration::from_secs(3600);
const OUT_AT_MOST: Duration = Duration::from_secs(24 * 3600);

/// That a site keeps no copies of a bucket.
#[derive(Debug, Clone, Copy)]
struct Out {
    /// How long that is believed.
    until: Instant,
    pause: Duration,
}

type Landed = (BucketId, Dot, SiteId, Result<(), Refusal>);

/// Why a copy was not taken.
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    /// None of its bucket would be.
    pub(crate) whole_bucket: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, whole_bucket: false }
    }
}

/// One of them per site.
pub(super) struct Copier {
    site: Arc<Site>,
    asks: JoinSet<Landed>,
    keys: BTreeMap<(BucketId, Dot), String>,
    rounds: BTreeMap<BucketId, Round>,
    /// What others are asked that they hold.
    hearing: Hearing,
    /// Some bucket was not looked through because others are being asked about it: until when at most.
    put_off: Option<Instant>,
    /// Sites that said that they keep no copies of a bucket.
    out: BTreeMap<(BucketId, SiteId), Out>,
    /// Looks through all buckets: each begins with another one.
    turns: usize,
    /// The links at the last one.
    met: BTreeMap<SiteId, u64>,
    /// Buckets that could not be looked through last.
    unread: BTreeSet<BucketId>,
    /// How much was found damaged of each bucket when it was looked at last.
    hurt: BTreeMap<BucketId, u64>,
}

impl Copier {
    /// What a former one asked, and did not live to hear, is asked again.
    pub(super) fn new(workers: &Workers) -> Self {
        workers.site.copies.abandon();
        Self {
            site: workers.site.clone(),
            asks: JoinSet::new(),
            keys: BTreeMap::new(),
            rounds: BTreeMap::new(),
            hearing: Hearing::new(),
            put_off: None,
            out: BTreeMap::new(),
            turns: 0,
            met: BTreeMap::new(),
            unread: BTreeSet::new(),
            hurt: BTreeMap::new(),
        }
    }

    /// Until the site stops.
    pub(super) async fn run(mut self) {
        let mut changes = self.site.changes.follow();
        changes.mark_changed();
        let (mut looked, mut dirty, mut write_at) = (self.now(), false, None::<Instant>);
        let mut ticks = interval(GLANCE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(landed) = self.asks.join_next(), if !self.asks.is_empty() => {
                    if let Ok(landed) = landed {
                        self.landed(landed);
                    }
                    write_at.get_or_insert(self.now().after(WRITE));
                }
                Some(word) = self.hearing.next() => {
                    self.heard(&word);
                    write_at.get_or_insert(self.now().after(WRITE));
                }
                changed = changes.changed(), if !dirty => {
                    if changed.is_err() {
                        return;
                    }
                    dirty = true;
                }
                _ = ticks.tick() => {
                    let now = self.now();
                    if write_at.is_some_and(|at| at <= now) {
                        self.write_down().await;
                        write_at = None;
                    }
                    let is_due = looked.after(if dirty { PACE } else { IDLE }) <= now;
                    if is_due || self.put_off.is_some_and(|until| until <= now) {
                        changes.mark_unchanged();
                        if let Err(error) = self.turn().await {
                            tracing::warn!(%error, "copies could not be looked after");
                        }
                        (looked, dirty) = (self.now(), false);
                        write_at.get_or_insert(looked.after(WRITE));
                    }
                }
            }
        }
    }

    fn now(&self) -> skerry_base::Instant {
        self.site.clock.now()
    }

    /// Once all that were asked have answered what was put off waits no more.
    fn heard(&mut self, word: &Word) {
        let now = self.now();
        self.hearing.take(word, now);
        if self.hearing.is_over() {
            self.put_off = self.put_off.map(|until| until.min(now));
        }
    }

    fn landed(&mut self, (bucket, dot, site, result): Landed) {
        let input = match result {
            Ok(()) => {
                self.out.remove(&(bucket, site));
                Input::Held(bucket, dot, site)
            }
            Err(Refusal { failure, whole_bucket }) => {
                if whole_bucket {
                    self.keeps_none(bucket, site);
                }
                Input::Failed(bucket, dot, site, failure)
            }
        };
        let asks = self.site.copies.tell(input, self.now());
        self.ask(asks);
    }

    fn ask(&mut self, asks: Vec<(BucketId, Dot, SiteId)>) {
        for (bucket, dot, to) in asks {
            let site = self.site.clone();
            // The machine knows of distances, not of who may have what.
            let may = self.rounds.get(&bucket).is_none_or(|round| round.rules.sites.contains(&to))
                && !self.is_out(bucket, to);
            let key = self.keys.get(&(bucket, dot)).filter(|_| may).cloned();
            self.asks.spawn(async move {
                let result = match key {
                    // However it ends it is heard of: else its place among those on their way is never given back.
                    Some(key) => {
                        let held = AssertUnwindSafe(have_held(&site, bucket, (key, dot), to)).catch_unwind();
                        held.await.unwrap_or_else(|_| Err(Failure::Version.into()))
                    }
                    None => Err(Failure::Version.into()),
                };
                (bucket, dot, to, result)
            });
        }
    }

    /// A site said that it keeps no copies of a bucket.
    fn keeps_none(&mut self, bucket: BucketId, site: SiteId) {
        let now = self.now();
        let before = self.out.get(&(bucket, site)).copied();
        // What was asked at once is answered at once.
        if before.is_some_and(|out| out.until > now) {
            return;
        }
        let pause = before.map_or(OUT, |out| (out.pause * 2).min(OUT_AT_MOST));
        self.out.insert((bucket, site), Out { until: now.after(pause), pause });
    }

    /// Whether a site said a while ago that it keeps no copies of a bucket, and has not joined it since.
    fn is_out(&self, bucket: BucketId, site: SiteId) -> bool {
        let said = self.out.get(&(bucket, site)).is_some_and(|out| out.until > self.now());
        said && !self.site.copies.follows(bucket, site)
    }

    /// Who takes nothing of which bucket, for whoever computes what its areas can hold.
    fn tell_refusing(&mut self, live: &BTreeSet<BucketId>) {
        self.out.retain(|(bucket, _), _| live.contains(bucket));
        let mut refusing: BTreeMap<BucketId, BTreeSet<SiteId>> = BTreeMap::new();
        for &(bucket, site) in self.out.keys().filter(|(bucket, site)| self.is_out(*bucket, *site)) {
            refusing.entry(bucket).or_default().insert(site);
        }
        self.site.copies.set_refusing(refusing);
    }

    /// What others said, in this node's own table. Nobody is told: it is no record.
    async fn write_down(&self) {
        let dirty = self.site.copies.take_dirty();
        if let Err(error) = surplus::write_down(&self.site, dirty).await {
            tracing::warn!(%error, "who holds copies could not be written down; it will be with the next");
        }
    }

    async fn turn(&mut self) -> Outcome<()> {
        let site = self.site.clone();
        let links = site.boxes.links();
        let known: BTreeSet<SiteId> = site.peers.roster.all().into_keys().chain([site.id]).collect();
        let candidates = known.iter().map(|other| candidate(&site, *other, &links)).collect();
        site.copies.set_together(site.peers.roster.together());
        let asks = site.copies.tell_sites(candidates, self.now());
        self.ask(asks);
        self.meet(&links);
        let buckets = site.followed().await?;
        let ids: BTreeSet<BucketId> = buckets.iter().map(|bucket| bucket.id).collect();
        self.tell_refusing(&ids);
        self.see_damage(&ids);
        self.forget_deleted(ids).await?;
        self.put_off = None;
        let mut questions = Questions::new();
        // When more waits than may, each has its turn to be the first.
        let first = self.turns.checked_rem(buckets.len()).unwrap_or_default();
        self.turns = self.turns.wrapping_add(1);
        let (ground, mut looked) = (Ground::of(&site), Vec::new());
        for bucket in buckets.iter().cycle().skip(first).take(buckets.len()) {
            let rules = ground.rules(&site, bucket);
            if !rules.demand.needs_others() {
                self.rounds.remove(&bucket.id);
                continue;
            }
            self.hear_members(bucket.id).await;
            match self.ask_claims(bucket, &rules, &links, &mut questions) {
                Some(until) => self.put_off = Some(self.put_off.map_or(until, |other| other.min(until))),
                None => looked.push((bucket.id, self.look(bucket, rules, &links).await)),
            }
        }
        // Whatever did not read: a bucket that waits for an answer waits for no other bucket.
        self.hearing.ask(&site, questions);
        self.tell_unread(&buckets, looked);
        Ok(())
    }

    /// What cannot be looked through keeps no other bucket from its copies.
    fn tell_unread(&mut self, buckets: &[Bucket], looked: Vec<(BucketId, Outcome<()>)>) {
        for (id, result) in looked {
            let name = buckets.iter().find(|bucket| bucket.id == id).map_or("", |bucket| &*bucket.name);
            match result {
                Ok(()) => drop(self.unread.remove(&id)),
                Err(error) if self.unread.insert(id) => {
                    tracing::error!(bucket = name, %error, "a bucket cannot be looked through: it gets no copies until it can");
                }
                Err(error) => tracing::debug!(bucket = name, %error, "a bucket cannot be looked through"),
            }
        }
    }

    /// What is damaged here is held elsewhere too seldom: its bucket is looked through anew.
    fn see_damage(&mut self, followed: &BTreeSet<BucketId>) {
        let now = self.site.store.damage();
        let before = std::mem::take(&mut self.hurt);
        for (bucket, _) in now.iter().filter(|(bucket, count)| before.get(bucket) != Some(count)) {
            if followed.contains(bucket) {
                self.site.copies.hurt(*bucket);
            }
        }
        self.hurt = now;
    }

    /// Who comes anew may have another cap.
    fn meet(&mut self, links: &BTreeMap<SiteId, u64>) {
        let before = std::mem::replace(&mut self.met, links.clone());
        for (other, _) in links.iter().filter(|(other, link)| before.get(other) != Some(link)) {
            let asks = self.site.copies.tell(Input::Met(*other), self.now());
            self.ask(asks);
        }
    }

    /// What is known of the copies of buckets that are no more is of no use, here and on disk. One that is revived is
    /// looked through anew.
    async fn forget_deleted(&mut self, followed: BTreeSet<BucketId>) -> Outcome<()> {
        if self.site.check_whole(self.site.system).is_err() {
            return Ok(());
        }
        for bucket in self.site.copies.beside(&followed) {
            if self.site.claim_of(bucket).await?.is_some() {
                continue;
            }
            self.site.copies.forget(bucket);
            self.rounds.remove(&bucket);
            self.hearing.forget(bucket);
            let forget = move |view: &dyn View| {
                let rows = book::forgotten(view, bucket).map_err(unreadable)?;
                Ok(((), rows.iter().map(|row| entry(row).freeing()).collect()))
            };
            self.site.commit(bucket, (), forget).await?;
        }
        Ok(())
    }

    /// Takes note of who follows a bucket, as far as that is known.
    async fn hear_members(&self, id: BucketId) {
        let known = self.site.drive.ask(move |machine, _| (machine.strangers(id), machine.members(id))).await;
        let (away, members) = known.unwrap_or_default();
        self.site.copies.set_away(id, away, members.into_iter().collect());
    }

    /// Over a new link a site that follows the bucket, or of which something is believed, is asked what it holds: all of it if
    /// something is believed, else what others are about to be asked for. Until when the bucket is not looked through for
    /// that.
    fn ask_claims(
        &self,
        bucket: &Bucket,
        rules: &Rules,
        links: &BTreeMap<SiteId, u64>,
        questions: &mut Questions,
    ) -> Option<Instant> {
        let (covered, now) = (self.site.copies.covered(bucket.id, rules), self.now());
        let mut waits = None;
        for (other, link) in links {
            let is_new = self.hearing.lacks(bucket.id, (*other, *link), now);
            // Whoever else holds something would follow it.
            let may_hold = || {
                let copies = &self.site.copies;
                let is_believed = || copies.with(|machine| machine.known(bucket.id, *other).is_some());
                copies.follows(bucket.id, *other) || is_believed()
            };
            if !is_new || *other == self.site.id || rules.lost.contains(other) || !may_hold() {
                continue;
            }
            waits = waits.max(self.hearing.waits_until(*other, now));
            let (_, of) = questions.entry(*other).or_insert_with(|| (*link, Vec::new()));
            of.push((bucket.id, covered.clone()));
        }
        waits
    }

    /// Looks through the next records and offers what lacks holders.
    async fn look(&mut self, bucket: &Bucket, rules: Rules, links: &BTreeMap<SiteId, u64>) -> Outcome<()> {
        let (id, began) = (bucket.id, self.now());
        let own = self.site.read(move |view: &dyn View| space::vector(view, id).map_err(unreadable)).await?;
        self.site.copies.take_over(id, &rules);
        let doubts = self.site.copies.doubts(id);
        let covered = self.site.copies.covered(id, &rules);
        if covered.includes(&own) || !self.site.copies.with(|machine| machine.is_hungry(id)) {
            return Ok(());
        }
        // Other rules, or a holder that held less than it was believed to: all over again.
        let fits = |round: &Round| {
            round.rules == rules && round.doubts == doubts && round.looks.covered() == covered
        };
        let round = self.rounds.remove(&id).filter(fits);
        let looks = || Looks::new(covered.clone(), began);
        let fresh = || Round { rules: rules.clone(), doubts, links: links.clone(), looks: looks() };
        let mut round = round.unwrap_or_else(fresh);
        if round.links != *links {
            round.links.clone_from(links);
            round.looks.hurry(began);
        }
        let Some(look) = round.looks.next(&own, began) else {
            self.rounds.insert(id, round);
            return Ok(());
        };
        let (site, by) = (self.site.clone(), rules.clone());
        let read = move || {
            let looker = Looker { store: &site.store, copies: &site.copies, bucket: id, rules: &by };
            looker.look(look.from, look.most)
        };
        let found = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
        round.looks.take(&found.seen(), began, self.now());
        // Else all over again.
        let covered = round.looks.covered();
        if self.site.copies.set_covered((id, &rules), covered, found.passed, doubts) {
            self.rounds.insert(id, round);
        }
        self.offer(id, &rules, found.wants, look.anew);
        Ok(())
    }

    /// `anew`: in place of what waits of the bucket.
    fn offer(&mut self, bucket: BucketId, rules: &Rules, found: Vec<(Want, String)>, anew: bool) {
        let copies = &self.site.copies;
        self.keys.extend(found.iter().map(|(want, key)| ((bucket, want.dot), key.clone())));
        let (wants, demand) = (found.into_iter().map(|(want, _)| want).collect(), rules.demand.clone());
        let offer = match anew {
            true => Input::Offer { bucket, demand, wants },
            false => Input::More { bucket, demand, wants },
        };
        let asks = copies.tell(offer, self.now());
        let pending = copies.with(|machine| machine.pending(bucket));
        self.keys.retain(|(of, dot), _| *of != bucket || pending.contains(dot));
        self.ask(asks);
    }
}

pub(crate) fn candidate(site: &Site, other: SiteId, links: &BTreeMap<SiteId, u64>) -> Candidate {
    let node = site.peers.roster.node(other);
    let distance = node.and_then(|node| site.peers.net().rtt(node)).unwrap_or(Duration::MAX);
    // A metered link that keeps the rest of its budget for more urgent things is none for copies.
    let reached = links.contains_key(&other) && site.peers.uplink.may(Class::Copy).is_ok();
    // Who is frozen would refuse, and then be left alone for a while though it serves again.
    let linked = reached && !site.duties.is_frozen_at(other);
    Candidate { site: other, linked, distance }
}

/// Has a site, maybe this one, hold a version.
pub(crate) async fn have_held(
    site: &Arc<Site>,
    bucket: BucketId,
    of: (String, Dot),
    to: SiteId,
) -> Result<(), Refusal> {
    let store = site.store.clone();
    let question = move || -> Outcome<Option<Request>> {
        let (key, dot) = of;
        let Some(record) = space::record(&store.view(), bucket, &key, dot).map_err(unreadable)? else {
            return Ok(None);
        };
        let small = record.object().is_some_and(|object| object.size <= JOURNAL_BODY_BYTES as u64);
        let payload = if small { first_chunks(&store, &record, Part::Whole)? } else { Vec::new() };
        // Who has it kept for somebody who asked for more copies is not the only one to know.
        let copies = book::promised(&store.view(), bucket, dot).map_err(unreadable)?;
        let copies = scope::told(&record, u16::try_from(copies).unwrap_or(u16::MAX));
        let hold = Hold { bucket, record: record.encode().into(), payload };
        Ok(Some(Request::hold_for(hold, copies)))
    };
    let question = tokio::task::spawn_blocking(question).await;
    // It died meanwhile, or cannot be read: the next look knows.
    let Ok(Ok(Some(request))) = question else { return Err(Failure::Version.into()) };
    scope::held_by(site, Class::Copy, to, &request).await.map_err(|why| {
        tracing::debug!(%why, %to, "a copy was not taken");
        let whole_bucket = matches!(&why, Unheld::Refused(error) if error.kind() == ErrorKind::NotResident);
        Refusal { failure: failure(&why), whole_bucket }
    })
}

/// Whether the site cannot take any copy now, or only not this one.
fn failure(why: &Unheld) -> Failure {
    match why {
        Unheld::Silent(_) | Unheld::Senseless => Failure::Site,
        Unheld::Stopped(_) => Failure::Version,
        Unheld::Refused(error) => match error.kind() {
            ErrorKind::QuotaFull => Failure::Capped,
            ErrorKind::StorageFull | ErrorKind::SlowDown | ErrorKind::NotServing | ErrorKind::Unavailable => {
                Failure::Site
            }
            _ => Failure::Version,
        },
    }
}
