//! Answers an operator's word about this site, and empties the site if that is the word.
//!
//! Before: `roster_watch.rs` with a new duty. After: `paths/scope.rs` has bodies held, `paths/home.rs` hands homes over.
//! What decides is `skerry_federation::drain`; here it meets the records, the other sites and the disk. Invariants:
//! nothing is remembered but the word and the report, so a kill at any moment only begins another look; the report that
//! the site is empty is decided on the commit thread, against the vectors of that moment; it is taken back when others
//! answer that they hold less, and not because they are silent: of who is, what it said last counts. What is kept here and
//! does not read whole is lacking unless others hold it; a bucket that does not read keeps no other one from being offered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Instant, NodeId, SiteId, Vector, WallTime};
use skerry_federation::budget::Class;
use skerry_federation::drain::{Drain, Input, Lacking, Output};
use skerry_federation::placement::{Demand, Failure, Input as Placing, Output as Placed, Placement, Want};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{self as model, DutyReport, OnDuty, SystemKey};
use skerry_model::space;
use tokio::sync::watch;
use tokio::task::JoinSet;

mod pace;
mod pages;
mod words;

use self::pace::{rest_after, stuck, stuck_for};
use self::pages::Pages;
use self::words::{Unread, confined, unnamed, unread, waits_for};
use super::copies::Refusal;
use super::{Worker, Workers, copies};
use crate::copies::behind::Behind;
use crate::copies::handover::{self, Kept, Loose};
use crate::copies::lives;
use crate::paths::bucket::{Bucket, Declared};
use crate::paths::{held, home, register};
use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};

/// Questions on their way at once.
const QUESTIONS: usize = 16;
/// What was asked to be held has this long before others are asked again what they have.
const LANDING: Duration = Duration::from_secs(10);
/// Between two reports while it goes on.
const REPORT: Duration = Duration::from_secs(3);
/// A site that had said that it is empty before it was started hears so long who follows what before it takes that back.
const SETTLE: Duration = Duration::from_secs(60);
/// Records that no feed covers in one look, some hundred bytes of memory each: the next goes on behind them. Few in tests.
const LOOSE: usize = if cfg!(test) { 8 } else { 50_000 };
/// A look is not begun sooner after another, whatever links do.
const NEWS: Duration = Duration::from_secs(1);

/// What one question asks of whom, of how large a body, and since when.
#[derive(Debug, Clone, Copy)]
struct Asked {
    bucket: BucketId,
    dot: Dot,
    to: SiteId,
    bytes: u64,
    since: Instant,
}

type Landed = (Asked, Result<(), Refusal>);

/// Bodies that some hold and too few, and who could hold them and is not linked.
#[derive(Debug, Default)]
struct Few {
    bodies: u64,
    away: BTreeSet<SiteId>,
}

/// The word that is being carried out.
struct Under {
    epoch: u64,
    abandons_uploads: bool,
    machine: Drain,
    placement: Placement,
    /// Those who could take over when it was said last that the site is empty, and are not gone since.
    relied: Option<BTreeSet<SiteId>>,
    /// Of them those of whom nothing was heard since the start: they may hold everything.
    unheard: BTreeSet<SiteId>,
    /// Those who were asked in the look at hand, and have not been silent.
    answered: BTreeSet<SiteId>,
    /// Who could take over when the look began: with others there is news before the next is due.
    looked_with: BTreeSet<SiteId>,
    /// Who said since then that it takes nothing of a bucket.
    refusing: BTreeSet<(BucketId, SiteId)>,
    /// Who follows what, as the look at hand knows it.
    members: BTreeSet<(BucketId, SiteId)>,
    /// How far buckets were offered of which more is lacking than is offered at once.
    pages: Pages,
    /// With which record that no feed covers the next look goes on; none: with the first.
    loose_from: Option<(BucketId, Dot)>,
    few: Few,
    /// A bucket of which something is lacking that may lie at nobody who could take it.
    confined: Option<String>,
    /// Why buckets that were made here and have no home keep it.
    unnamed: Option<String>,
    /// What does not read, of the look at hand.
    unread: Unread,
    looked: Instant,
    /// Until when what is lacking says nothing: who follows a bucket is forgotten with a start, and heard again.
    settles: Option<Instant>,
    not_before: Instant,
    /// What was lacking in the last look, and in how many before it without anything on its way.
    stuck: Option<(Lacking, u32)>,
    /// Nor before this, unless something changes.
    stuck_until: Instant,
    reported: Option<Instant>,
}

/// One of them per site.
pub(super) struct Drainer {
    site: Arc<Site>,
    under: Option<Under>,
    /// Key and size of what the last look offered.
    keys: BTreeMap<(BucketId, Dot), (String, u64)>,
    asks: JoinSet<Landed>,
    /// Of this site.
    changes: watch::Receiver<u64>,
    /// What they ask of whom: a body on a slow link outlives the look that asked for it, and is not asked for twice.
    under_way: BTreeSet<(BucketId, Dot, SiteId)>,
}

/// How a look ended.
enum Ended {
    Lacks(Lacking),
    /// Others did not confirm what they had said, or this site wrote meanwhile: the next look tells.
    Doubt,
    Safe(BTreeMap<BucketId, Vector>),
}

#[async_trait::async_trait]
impl Worker for Drainer {
    async fn turn(&mut self) -> bool {
        let own = self.site.duties.own();
        if let Err(error) = self.serve(&own).await {
            tracing::warn!(%error, "an operator's word about this site could not be carried out; it is tried again");
        }
        false
    }
}

impl Drainer {
    pub(super) fn new(workers: &Workers) -> Self {
        let site = workers.site.clone();
        let (keys, asks, under_way) = (BTreeMap::new(), JoinSet::new(), BTreeSet::new());
        let changes = site.changes.follow();
        Self { site, under: None, keys, asks, changes, under_way }
    }

    async fn serve(&mut self, own: &OnDuty) -> Outcome<()> {
        if own.epoch > 0 && own.report.is_none() {
            heard(&self.site, own.epoch).await?;
        }
        if !own.leaves() {
            self.under = None;
            self.rest();
            return Ok(());
        }
        let now = self.now();
        if self.under.as_ref().is_none_or(|under| under.epoch != own.epoch) {
            tracing::warn!(epoch = own.epoch, "this site is being emptied");
            let was_empty = own.is_empty() && !disown(&self.site, own.epoch).await?;
            self.under = Some(Under {
                epoch: own.epoch,
                abandons_uploads: own.abandons_uploads(),
                machine: Drain::new(),
                placement: Placement::new(self.site.id),
                relied: was_empty.then(|| self.others()),
                unheard: if was_empty { self.others() } else { BTreeSet::new() },
                answered: BTreeSet::new(),
                looked_with: BTreeSet::new(),
                refusing: BTreeSet::new(),
                members: BTreeSet::new(),
                pages: Pages::default(),
                loose_from: None,
                few: Few::default(),
                confined: None,
                unnamed: None,
                unread: Unread::default(),
                looked: now,
                settles: was_empty.then(|| now.after(SETTLE)),
                not_before: now,
                stuck: None,
                stuck_until: now,
                reported: None,
            });
        }
        let Some(mut under) = self.under.take() else { return Ok(()) };
        let is_stuck = under.stuck_until > now && !self.changes.has_changed().unwrap_or(true);
        let rests = (under.not_before > now || is_stuck) && !self.is_news(&under, now);
        let ended = if rests { Ok(()) } else { self.look_again(&mut under).await };
        self.land(&mut under).await;
        self.under = Some(under);
        ended
    }

    /// A look, what follows of it, and when the next is due.
    async fn look_again(&mut self, under: &mut Under) -> Outcome<()> {
        let begun = self.now();
        self.changes.mark_unchanged();
        let looked = self.look(under).await;
        let lacks = if let Ok(Ended::Lacks(lacking)) = &looked { Some(*lacking) } else { None };
        under.stuck = stuck(under.stuck, lacks.filter(|_| self.asks.is_empty()));
        let ended = match looked {
            Ok(ended) => self.conclude(under, ended).await,
            Err(error) => Err(error),
        };
        under.looked = self.now();
        let pause = rest_after(under.looked.since(begun), under.relied.is_some());
        under.not_before = under.looked.after(pause);
        under.stuck_until = under.looked.after(stuck_for(under.stuck));
        ended
    }

    fn now(&self) -> Instant {
        self.site.clock.now()
    }

    /// Others can take over than in the last look: a link came or went. Not at every turn, though it flaps.
    fn is_news(&self, under: &Under, now: Instant) -> bool {
        under.looked.after(NEWS) <= now && under.looked_with != self.there()
    }

    /// One look, to its end.
    async fn look(&mut self, under: &mut Under) -> Outcome<Ended> {
        let fit = handover::fit(&self.site);
        let mut steps = VecDeque::new();
        let sites: Vec<SiteId> = fit.iter().map(|candidate| candidate.site).collect();
        under.answered = sites.iter().copied().collect();
        if under.looked_with != under.answered {
            under.refusing.clear();
            under.looked_with.clone_from(&under.answered);
        }
        self.tell(under, Input::Sites(sites), &mut steps);
        let there = |other: &SiteId| self.may_come_back(*other);
        under.relied.iter_mut().for_each(|relied| relied.retain(there));
        under.unheard.retain(there);
        let believed = under.relied.clone().unwrap_or_default();
        self.tell(under, Input::Believe(believed), &mut steps);
        // What a holder was known to hold may be gone with its disk: each look places anew. Who holds as much for others as it
        // is to said so to the whole site, and is left alone by this one too.
        under.placement = self.site.copies.with(|machine| Placement::new(self.site.id).with_caps_of(machine));
        under.placement.set_together(self.site.peers.roster.together());
        self.place(under, Placing::Sites(fit, [self.site.id].into()));
        self.keys.clear();
        let own = handover::own(&self.site).await?;
        // Taken note of before others are asked: what comes later comes from them.
        // All at once, but for a site of whose records no feed covers any: who follows a prefix never is without some.
        let most = if self.site.anew.is_any() { LOOSE } else { usize::MAX };
        let loose = handover::loose(&self.site, under.loose_from.take(), most).await?;
        under.loose_from = loose.next;
        under.unnamed = self.unnamed(own.values().filter(|own| own.may_be_named).count()).await;
        let covered = own.iter().map(|(bucket, own)| (*bucket, own.vector.clone())).collect();
        let members = own.iter().flat_map(|(bucket, own)| own.members.iter().map(|site| (*bucket, *site)));
        under.members = members.collect();
        self.tell(under, Input::Look(own), &mut steps);
        loop {
            let (mut questions, mut hands) = (Vec::new(), Vec::new());
            let mut scan = false;
            for step in std::mem::take(&mut steps) {
                match step {
                    Output::Ask { bucket, site, life, from } => questions.push((bucket, site, life, from)),
                    Output::Follow(bucket, site) => self.have_followed(bucket, site).await,
                    Output::Hand(bucket, site) => hands.push((bucket, site)),
                    Output::Scan => scan = true,
                    Output::Lacks(lacking) => return Ok(Ended::Lacks(lacking)),
                    Output::Doubt => return Ok(Ended::Doubt),
                    Output::Safe(vectors) => return Ok(Ended::Safe(vectors)),
                }
            }
            // An heir that has not all yet is waited for, for seconds: not for one home behind the other.
            let hand = |(bucket, to)| self.hand(bucket, to);
            futures::stream::iter(hands).for_each_concurrent(QUESTIONS, hand).await;
            if scan {
                let scanned = self.scan(under, &covered, &loose).await?;
                self.tell(under, scanned, &mut steps);
                continue;
            }
            if questions.is_empty() {
                return Ok(Ended::Doubt);
            }
            for said in self.ask(questions).await {
                if let Input::Silent(_, silent) = &said {
                    under.answered.remove(silent);
                }
                self.tell(under, said, &mut steps);
            }
        }
    }

    fn tell(&self, under: &mut Under, input: Input, steps: &mut VecDeque<Output>) {
        let mut out = Vec::new();
        under.machine.handle(input, self.now(), &mut out);
        steps.extend(out);
    }

    async fn ask(&self, questions: Vec<handover::Question>) -> Vec<Input> {
        let ask = |question| handover::ask(self.site.clone(), question);
        futures::stream::iter(questions).map(ask).buffer_unordered(QUESTIONS).collect().await
    }

    /// Looks through all bodies and loose records here, and offers those that too few others hold.
    async fn scan(
        &mut self,
        under: &mut Under,
        own: &BTreeMap<BucketId, Vector>,
        loose: &Loose,
    ) -> Outcome<Input> {
        let (mut bodies, mut bytes, mut believed, mut others) = (0, 0, 0, 0);
        let claims = handover::claims(&self.site).await?;
        (under.few, under.unread, under.confined) = Default::default();
        let there = self.there();
        let is_confined = |bucket: &Bucket| !there.iter().any(|other| bucket.may_lie_at(*other));
        under.pages.begin();
        let first = under.pages.first();
        for (&bucket, covered) in own.range(first..).chain(own.range(..first)) {
            let name = || claims.get(&bucket).map_or_else(|| bucket.to_string(), |found| found.name.clone());
            let mut behind = Behind::of(&self.site, bucket, claims.get(&bucket)).await?;
            let refuses = |of| under.refusing.contains(&of) && !under.members.contains(&of);
            behind.all.retain(|other| !refuses((bucket, *other)));
            let mut from = Some(Vector::new());
            let mut demands = Demands::new();
            let mut page = under.pages.of(bucket);
            let mut items = loose.all.get(&bucket).cloned().unwrap_or_default();
            loop {
                for item in items {
                    let places = match lacks(under, bucket, (&behind, &mut demands), &item) {
                        Lack::Nothing => continue,
                        Lack::Believed => {
                            believed += 1;
                            continue;
                        }
                        Lack::Places(places) => places,
                    };
                    bodies += 1;
                    if claims.get(&bucket).is_some_and(is_confined) {
                        under.confined.get_or_insert_with(name);
                    }
                    bytes += item.want.bytes;
                    let (dot, size) = (item.want.dot, item.want.bytes);
                    if let Some(why) = item.unread {
                        // Nobody could take it: what others have of it is asked for by who mends.
                        under.unread.bodies += 1;
                        under.unread.first.get_or_insert_with(|| (name(), item.key, why));
                        continue;
                    }
                    if page.offers(Want { places, ..item.want }) {
                        self.keys.insert((bucket, dot), (item.key, size));
                    }
                }
                let Some(seen) = from.take() else { break };
                let found = match handover::page(&self.site, bucket, seen).await {
                    Ok(found) => found,
                    Err(error) => {
                        under.unread.buckets.insert(name(), error.message().to_owned());
                        others += 1;
                        break;
                    }
                };
                (items, from) = (found.items, found.next);
                // What came since others were asked came from them.
                items.retain(|item| covered.covers(item.want.dot));
            }
            let wants = under.pages.turn(bucket, page);
            if !wants.is_empty() {
                let wish = (&behind.wish, 0);
                let demand = under.machine.demand(bucket, wish, &behind.all, &behind.together);
                self.place(under, Placing::Offer { bucket, demand, wants });
            }
        }
        others += match under.abandons_uploads {
            true => 0,
            false => handover::uploads(&self.site).await?,
        } + held::count(&self.site).await?
            // What was not looked at may be here alone.
            + u64::from(!loose.is_all());
        Ok(Input::Scanned { bodies, bytes, others, believed })
    }

    fn place(&mut self, under: &mut Under, input: Placing) {
        let mut out = Vec::new();
        under.placement.handle(input, self.now(), &mut out);
        for placed in out {
            let Placed::Ask(bucket, dot, to) = placed else { continue };
            if !self.under_way.insert((bucket, dot, to)) {
                continue;
            }
            let site = self.site.clone();
            let (key, bytes) = self.keys.get(&(bucket, dot)).cloned().unzip();
            let asked = Asked { bucket, dot, to, bytes: bytes.unwrap_or_default(), since: self.now() };
            self.asks.spawn(async move {
                let result = match key {
                    Some(key) => copies::have_held(&site, bucket, (key, dot), to).await,
                    None => Err(Failure::Version.into()),
                };
                (asked, result)
            });
        }
    }

    /// Waits for what is being handed over, as long as it comes nearer.
    async fn land(&mut self, under: &mut Under) {
        let end = self.now().after(LANDING);
        while !self.asks.is_empty() {
            let left = end.since(self.now());
            let Ok(Some(landed)) = tokio::time::timeout(left, self.asks.join_next()).await else { break };
            let Ok((asked, result)) = landed else { continue };
            let Asked { bucket, dot, to: site, bytes, since } = asked;
            self.under_way.remove(&(bucket, dot, site));
            let input = match result {
                Ok(()) => {
                    self.site.copies.took(site, bytes, since);
                    under.pages.took(bucket);
                    self.tell(under, Input::Took(bucket, dot, site), &mut VecDeque::new());
                    Placing::Held(bucket, dot, site)
                }
                Err(Refusal { failure, whole_bucket }) => {
                    if failure == Failure::Capped {
                        self.site.copies.refused_by_cap(site, bytes, self.now());
                    }
                    under.refusing.extend(whole_bucket.then_some((bucket, site)));
                    Placing::Failed(bucket, dot, site, failure)
                }
            };
            self.place(under, input);
        }
        if self.asks.is_empty() {
            self.rest();
        }
    }

    /// Nothing is handed over any more.
    fn rest(&mut self) {
        self.asks.abort_all();
        (self.keys, self.asks, self.under_way) = Default::default();
    }

    async fn have_followed(&self, bucket: BucketId, to: SiteId) {
        let request = Request::Follow { bucket };
        let answer = tokio::time::timeout(handover::SAY, self.site.peers.call(to, &request)).await;
        if !matches!(&answer, Ok(Ok(answer)) if matches!(answer.response, Response::Done)) {
            tracing::debug!(%bucket, %to, "a bucket that only this site follows was not taken over");
        }
    }

    async fn hand(&self, bucket: BucketId, to: SiteId) {
        let moved = home::shift(&self.site, "", home::Move { bucket, to, lost: None }).await;
        if let Err(error) = moved {
            tracing::warn!(%bucket, %to, %error, "a home was not handed over; it is tried again");
        }
    }

    /// Why so many buckets that this site made, and whose homes nobody has named, keep it, for people.
    async fn unnamed(&self, buckets: usize) -> Option<String> {
        if buckets == 0 {
            return None;
        }
        let keeper = register::keeper(&self.site).await.ok().flatten();
        Some(unnamed(buckets, keeper.map(|keeper| self.site.peers.roster.name(keeper))))
    }

    /// What holds it up, for people.
    fn waits_for(&self, under: &Under, there: &BTreeSet<SiteId>, lacking: &Lacking) -> String {
        // Of some bucket everybody who is there goes.
        let mut going: BTreeMap<BucketId, BTreeSet<SiteId>> = BTreeMap::new();
        for (bucket, site) in under.machine.going().filter(|(_, site)| there.contains(site)) {
            going.entry(bucket).or_default().insert(site);
        }
        let most = going.into_values().max_by_key(BTreeSet::len).unwrap_or_default();
        let names: Vec<String> = most.iter().map(|site| self.site.peers.roster.name(*site)).collect();
        let away = under.few.away.iter().map(|site| self.site.peers.roster.name(*site)).collect();
        let lost_some = || self.site.waits_in_vain(self.site.system).filter(|_| lacking.bodies == 0);
        let unread = unread(&under.unread, lacking).or_else(lost_some);
        let paid = self.site.peers.uplink.may(Class::Copy).err().filter(|_| lacking.bodies > 0);
        let unnamed = under.unnamed.clone().filter(|_| lacking.records == 0 && lacking.bodies == 0);
        let waits = || match waits_for(there, &names, lacking, (under.few.bodies, away)) {
            words if words.is_empty() => {
                under.confined.as_deref().map(confined).or(paid).or(unnamed).unwrap_or_default()
            }
            words => words,
        };
        unread.unwrap_or_else(waits)
    }

    /// Whether a site that is silent may hold what it held: it belongs, and is neither lost nor going.
    fn may_come_back(&self, other: SiteId) -> bool {
        self.site.peers.roster.node(other).is_some() && !self.site.copies.uncounted().contains(&other)
    }

    /// All other sites.
    fn others(&self) -> BTreeSet<SiteId> {
        self.site.peers.roster.all().into_keys().filter(|other| *other != self.site.id).collect()
    }

    /// Those who could take over now.
    fn there(&self) -> BTreeSet<SiteId> {
        handover::fit(&self.site).iter().map(|fit| fit.site).collect()
    }

    async fn conclude(&mut self, under: &mut Under, ended: Ended) -> Outcome<()> {
        let lacking = match ended {
            Ended::Safe(vectors) => {
                if empty(&self.site, under.epoch, vectors).await? {
                    if under.relied.is_none() {
                        tracing::warn!(
                            "this site is empty: all that it held is elsewhere, it may be switched off"
                        );
                    }
                    under.relied = Some(self.there());
                    under.unheard.clear();
                }
                return Ok(());
            }
            Ended::Doubt => return self.doubt(under).await,
            Ended::Lacks(lacking) => lacking,
        };
        let there = self.there();
        under.unheard.retain(|other| !under.answered.contains(other));
        let silent = under.relied.is_some() && !under.unheard.is_empty();
        let now = self.now();
        let settles = under.settles.is_some_and(|until| until > now) && under.relied.is_some();
        let is_time = is_time(under, now) || under.relied.is_some();
        // Silence of those who may hold everything is no word against it; of others who are silent the last word was counted.
        if silent || settles || !is_time {
            return Ok(());
        }
        if under.relied.take().is_some() {
            tracing::warn!(?lacking, "this site is not empty any more");
        }
        under.reported = Some(now);
        let wall = self.site.clock.wall();
        let ends = under
            .machine
            .remaining(now)
            .map(|left| WallTime(wall.0.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))));
        let report = DutyReport {
            epoch: under.epoch,
            empty: false,
            records: lacking.records,
            bodies: lacking.bodies,
            bytes: lacking.bytes,
            homes: lacking.homes,
            uploads: lacking.others,
            ends,
            waits_for: self.waits_for(under, &there, &lacking),
            said: wall,
        };
        say(&self.site, report).await
    }

    /// All is elsewhere, as was said, and some of those who said it are silent now: told, or nobody would know why it
    /// does not end.
    async fn doubt(&self, under: &mut Under) -> Outcome<()> {
        let silent: Vec<_> = under.looked_with.difference(&under.answered).collect();
        let now = self.now();
        if silent.is_empty() || under.relied.is_some() || !is_time(under, now) {
            return Ok(());
        }
        under.reported = Some(now);
        let names: Vec<String> = silent.iter().map(|site| self.site.peers.roster.name(**site)).collect();
        let waits_for = format!("no answer from {}, where copies of what is here lie", names.join(", "));
        let said = self.site.clock.wall();
        say(&self.site, DutyReport { epoch: under.epoch, waits_for, said, ..DutyReport::default() }).await
    }
}

/// Whether another report is due.
fn is_time(under: &Under, now: Instant) -> bool {
    under.reported.is_none_or(|said| said.after(REPORT) <= now)
}

/// What is asked for of versions by what was promised of them: there are few such numbers, and many versions.
type Demands = BTreeMap<usize, Demand>;

/// What a version lacks that is here.
enum Lack {
    /// Enough others have it.
    Nothing,
    /// The same, if who is silent still has what it had.
    Believed,
    /// At how many places it is to be.
    Places(usize),
}

fn lacks(
    under: &mut Under,
    bucket: BucketId,
    (behind, demands): (&Behind, &mut Demands),
    item: &Kept,
) -> Lack {
    let (machine, dot) = (&under.machine, item.want.dot);
    if !item.body {
        return match machine.holds(bucket, dot) || machine.has_record(bucket, dot) {
            true => Lack::Nothing,
            false if machine.is_believed_to_have(bucket, dot) => Lack::Believed,
            false => Lack::Places(0),
        };
    }
    // A site that said that it is empty takes that back when nobody else has something, not when somebody comes who could.
    let (wish, promised) = match under.relied.is_some() {
        true => (&Demand::anywhere(1), 0),
        false => (&behind.wish, behind.promised(dot, item.scope)),
    };
    let ask = || machine.demand(bucket, (wish, promised), &behind.all, &behind.together);
    let demand = demands.entry(promised).or_insert_with(ask);
    let holders = machine.holders(bucket, dot);
    if demand.is_met(&holders, &behind.together) {
        return Lack::Nothing;
    }
    if demand.is_met(&machine.believed_holders(bucket, dot), &behind.together) {
        return Lack::Believed;
    }
    let places = demand.all();
    if !holders.is_empty() {
        under.few.bodies += 1;
        under.few.away.extend(behind.all.difference(&under.looked_with));
    }
    // Who is asked next is one that has it not.
    for holder in holders {
        under.placement.learn_one(bucket, dot, holder);
    }
    Lack::Places(places)
}

/// The site has heard a word: from this commit on it is obeyed here.
pub(crate) async fn heard(site: &Arc<Site>, epoch: u64) -> Outcome<()> {
    say(site, DutyReport { epoch, said: site.clock.wall(), ..DutyReport::default() }).await
}

/// Takes back that the site is empty, if another disk under the same identity said so: this one may have been handed
/// something since. Whether it did.
async fn disown(site: &Arc<Site>, epoch: u64) -> Outcome<bool> {
    let (system, me) = (site.system, site.id);
    let decide = move |view: &dyn View, said| {
        let key = SystemKey::DutyReport(me).to_string();
        let record = space::current(view, system, &key).map_err(unreadable)?;
        let lives = lives::read(view).map_err(unreadable)?;
        if record.is_none_or(|record| lives.contains(&record.dot.origin.incarnation)) {
            return Ok((false, None));
        }
        let report = DutyReport { epoch, said, ..DutyReport::default() };
        let said = model::report_duty(view, system, me, &report).map_err(unreadable)?;
        Ok((true, said.map(|(key, object)| Declared::document(key, object))))
    };
    let is_another = site.declare("", decide).await?;
    if is_another {
        tracing::warn!("a former disk of this site said that it is empty; this one looks for itself");
    }
    Ok(is_another)
}

async fn say(site: &Arc<Site>, report: DutyReport) -> Outcome<()> {
    let (system, me) = (site.system, site.id);
    let decide = move |view: &dyn View, _| {
        let said = model::report_duty(view, system, me, &report).map_err(unreadable)?;
        Ok(((), said.map(|(key, object)| Declared::document(key, object))))
    };
    site.declare("", decide).await
}

/// Says that the site is empty, unless it wrote something since others were asked, or another word holds.
async fn empty(site: &Arc<Site>, epoch: u64, safe: BTreeMap<BucketId, Vector>) -> Outcome<bool> {
    let (system, me, node) = (site.system, site.id, site.stamps.origin.node);
    let decide = move |view: &dyn View, wall| {
        let now = model::duty(view, system, me).map_err(unreadable)?;
        if now.epoch != epoch || wrote(view, system, node, &safe)? {
            return Ok((false, None));
        }
        let report = DutyReport { epoch, empty: true, said: wall, ..DutyReport::default() };
        let said = model::report_duty(view, system, me, &report).map_err(unreadable)?;
        Ok((true, said.map(|(key, object)| Declared::document(key, object))))
    };
    site.declare("", decide).await
}

/// Whether this node has written something that these vectors do not cover. What came from others meanwhile is theirs.
fn wrote(
    view: &dyn View,
    system: BucketId,
    node: NodeId,
    safe: &BTreeMap<BucketId, Vector>,
) -> Outcome<bool> {
    let nothing = Vector::new();
    let exist = handover::alive(view, system)?;
    for bucket in space::buckets(view).map_err(unreadable)? {
        // Of a bucket that was deleted nothing is handed over, unless something visible in it brings it back.
        let is_gone = bucket != system && !exist.contains(&bucket) && !safe.contains_key(&bucket);
        if is_gone && space::sums(view, bucket).map_err(unreadable)?.keys == 0 {
            continue;
        }
        let covered = safe.get(&bucket).unwrap_or(&nothing);
        let now = space::vector(view, bucket).map_err(unreadable)?;
        if now.iter().any(|(origin, seq)| origin.node == node && seq > covered.get(origin)) {
            return Ok(true);
        }
    }
    Ok(false)
}
