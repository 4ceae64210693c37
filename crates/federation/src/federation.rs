//! The one machine of a node: takes every input, hands it to the machine of its mechanism, collects what they
//! want done.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use skerry_base::{BucketId, Instant, SiteId, Vector};

use crate::context::Context;
use crate::feed::{Feed, Wish};
use crate::location::{Change, Location, Question};
use crate::membership::Membership;
use crate::message::Message;
use crate::metered::Metered;
use crate::peers::Peers;
use crate::places::Places;
use crate::reconcile::{Next, Reconcile};
use crate::{AreasReport, Config, Gaps, Input, Output, Pulls, Replica, Report, SiteEntry, Stats, Ticket};

/// All of a node's decisions about other sites.
///
/// Contract: `now` never falls; outputs are carried out in order; every [`Output::Apply`], [`Output::Keep`]
/// and [`Output::Drop`] is answered by exactly one [`Input::Applied`]; `handle` is called at the latest at [`Self::next_wake`].
/// Two machines that are given the same inputs give the same outputs.
pub struct Federation {
    site: SiteId,
    system: BTreeSet<BucketId>,
    started: bool,
    now: Instant,
    peers: Peers,
    stats: Stats,
    rng: StdRng,
    tickets: u64,
    membership: Membership,
    location: Location,
    places: Places,
    metered: Metered,
    feed: Feed,
    reconcile: Reconcile,
}

impl Federation {
    /// A machine at its start: no roster, no links, no memberships but the system buckets.
    pub fn new(config: Config) -> Self {
        let mut rng = StdRng::seed_from_u64(config.seed);
        // Answers to questions of an earlier life must not fit those of this one.
        let tickets = rng.random::<u64>() >> 16;
        Self {
            site: config.site,
            started: false,
            now: Instant::default(),
            peers: Peers::new(&config),
            stats: Stats::default(),
            tickets,
            membership: Membership::new(&config),
            location: Location::new(&config),
            places: Places::default(),
            metered: Metered::default(),
            feed: Feed::new(config.fresh, &mut rng),
            reconcile: Reconcile::default(),
            rng,
            system: config.system,
        }
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, replica: &dyn Replica, out: &mut Vec<Output>) {
        let mut hands = self.hands(now, replica, out);
        hands.cx.hold(now >= hands.before, "time falls");
        if !core::mem::replace(hands.started, true) {
            hands.start();
        }
        hands.take(input);
        hands.tick();
        hands.exchange();
    }

    /// When `handle` must be called next at the latest.
    pub fn next_wake(&self) -> Option<Instant> {
        [
            self.membership.next_wake(),
            self.peers.next_wake(),
            self.places.next_wake(),
            self.location.next_wake(),
            self.feed.next_wake(),
            self.reconcile.next_wake(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Counters since the start.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How far this site and the other members are behind each other in those of these buckets that are followed.
    pub fn gaps(&self, buckets: &[BucketId], replica: &dyn Replica) -> Vec<Gaps> {
        let of = |bucket: &BucketId| self.feed.gaps(*bucket, &self.members(*bucket), replica);
        buckets.iter().filter_map(of).collect()
    }

    /// Members that can be reached and are known to have records of a bucket that are missing here, nearest first.
    pub fn ahead(&self, bucket: BucketId, replica: &dyn Replica) -> Vec<SiteId> {
        self.ahead_by(bucket, replica).into_iter().map(|(site, _)| site).collect()
    }

    /// The same members, each with what it is known to have that is missing here.
    pub fn ahead_by(&self, bucket: BucketId, replica: &dyn Replica) -> Vec<(SiteId, Vector)> {
        let mut ahead = self.feed.ahead_by(bucket, replica);
        ahead.retain(|(site, _)| self.peers.is_reachable(*site));
        ahead.sort_by_key(|(site, _)| self.peers.distance(*site));
        ahead
    }

    /// The known members of a bucket but this site, nearest first, reachable or not.
    pub fn members(&self, bucket: BucketId) -> Vec<SiteId> {
        let members = match self.system.contains(&bucket) {
            true => self.peers.roster().clone(),
            false => self.location.published(bucket),
        };
        let mut sites: Vec<SiteId> = members.into_iter().collect();
        sites.sort_by_key(|site| self.peers.distance(*site));
        sites
    }

    /// The buckets that a site is known to be a member of; nothing is known of one that left the roster.
    pub fn buckets_of(&self, site: SiteId) -> Vec<BucketId> {
        self.location.buckets_of(site)
    }

    /// What each other member of a bucket is known to have at least; nothing for one that has not said.
    pub fn seen(&self, bucket: BucketId) -> Vec<(SiteId, Vector)> {
        let told = |site: SiteId| (site, self.feed.told_by(bucket, site).unwrap_or_default());
        self.members(bucket).into_iter().map(told).collect()
    }

    /// The pulls on their way to a site: as the ledger by which its link is shared has them, and as the buckets have them.
    pub fn pulls(&self, site: SiteId) -> [Pulls; 2] {
        self.feed.pulls_of(site)
    }

    /// Whether every member of a bucket is known: only then is what all of [`Self::seen`] have seen by all.
    pub fn knows_all_members(&self, bucket: BucketId) -> bool {
        self.location.knows_all_members(bucket)
    }

    /// The same, and that none of them is known from before this machine's start only: what a site that is away has not seen may
    /// not be taken for seen by all.
    pub fn has_heard_all(&self, bucket: BucketId) -> bool {
        self.location.has_heard_all(bucket, &self.peers)
    }

    /// Sites that have said, since this machine's start, of what they are members, and not of this bucket: to this site, or
    /// where there are too many for that to a landmark.
    pub fn strangers(&self, bucket: BucketId) -> BTreeSet<SiteId> {
        self.location.said_no(bucket, &self.peers)
    }

    /// How this site finds others: its landmarks and its part as one.
    pub fn areas(&self) -> AreasReport {
        self.location.areas(&self.peers)
    }

    /// Whether a site counts as alive: it speaks to somebody.
    pub fn is_alive(&self, site: SiteId) -> bool {
        site == self.site || self.membership.is_alive(site)
    }

    fn hands<'a>(
        &'a mut self,
        now: Instant,
        replica: &'a dyn Replica,
        out: &'a mut Vec<Output>,
    ) -> Hands<'a> {
        let before = self.now;
        self.now = now.max(before);
        Hands {
            before,
            started: &mut self.started,
            system: &self.system,
            membership: &mut self.membership,
            location: &mut self.location,
            places: &mut self.places,
            metered: &mut self.metered,
            feed: &mut self.feed,
            reconcile: &mut self.reconcile,
            cx: Context {
                now: self.now,
                replica,
                peers: &mut self.peers,
                out,
                stats: &mut self.stats,
                rng: &mut self.rng,
                tickets: &mut self.tickets,
                vector: None,
            },
        }
    }
}

/// The machines during one transition.
struct Hands<'a> {
    before: Instant,
    started: &'a mut bool,
    system: &'a BTreeSet<BucketId>,
    membership: &'a mut Membership,
    location: &'a mut Location,
    places: &'a mut Places,
    metered: &'a mut Metered,
    feed: &'a mut Feed,
    reconcile: &'a mut Reconcile,
    cx: Context<'a>,
}

impl Hands<'_> {
    fn start(&mut self) {
        for bucket in self.system.clone() {
            self.join(bucket);
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Roster(entries) => self.roster(&entries),
            Input::LinkUp(site) => self.link_up(site),
            Input::LinkDown(site) => self.link_down(site),
            Input::Received { from, message } => self.receive(from, message),
            Input::Speaks { site, dialect } => self.speaks(site, dialect),
            Input::Rtt { site, rtt } => self.cx.peers.measured(site, rtt, self.cx.now),
            Input::Join { bucket } => self.join(bucket),
            Input::Leave { bucket } => self.leave(bucket),
            Input::Hear { bucket, upto } => self.feed.hear(bucket, upto, &self.cx),
            Input::Durable { bucket } => self.feed.news(bucket, &mut self.cx),
            Input::Applied { ticket, ok } => self.applied(ticket, ok),
            Input::Locate { ticket, bucket } => self.location.locate(ticket, bucket, None, &mut self.cx),
            Input::Seek { ticket, bucket, wanted } => {
                self.location.locate(ticket, bucket, Some(wanted), &mut self.cx);
            }
            Input::Refuted { bucket, site } => self.not_member(site, bucket),
            Input::Reconcile { bucket, with } => self.feed.reconcile(bucket, with, &mut self.cx),
            Input::Spent(sites) => self.feed.spent(sites, &mut self.cx),
            Input::Metered { every, free } => self.metered.set(every, free, &mut self.cx),
            Input::Fellows(fellows) => self.cx.peers.set_fellows(fellows),
            Input::Wake => {}
        }
    }

    fn roster(&mut self, entries: &[SiteEntry]) {
        let before = self.cx.peers.roster().clone();
        let gone = self.cx.peers.set_roster(entries, self.cx.now);
        let left_out = self.cx.peers.left_out(entries);
        if left_out > 0 {
            self.cx.out.push(Output::Report(Report::RosterCut { left_out }));
        }
        for site in &gone {
            self.reconcile.link_down(*site, &mut self.cx);
        }
        let come: Vec<SiteId> = self.cx.peers.roster().difference(&before).copied().collect();
        let mut changes: Vec<Change> = Vec::new();
        for bucket in self.system {
            changes.extend(gone.iter().map(|site| Change { site: *site, bucket: *bucket, member: false }));
            changes.extend(come.iter().map(|site| Change { site: *site, bucket: *bucket, member: true }));
        }
        self.feed.members_changed(&changes, &mut self.cx);
        self.location.roster_changed(&gone, &mut self.cx);
        self.metered.roster_changed(&gone, &mut self.cx);
        for site in come {
            self.membership.link_up(site, &mut self.cx);
        }
        self.membership.roster_changed(&mut self.cx);
    }

    fn link_up(&mut self, site: SiteId) {
        self.cx.peers.link_up(site, self.cx.now);
        self.metered.link_up(site, &mut self.cx);
        self.membership.link_up(site, &mut self.cx);
        self.location.link_up(site, &mut self.cx);
        self.feed.link_up(site, &mut self.cx);
    }

    fn link_down(&mut self, site: SiteId) {
        self.cx.peers.link_down(site, self.cx.now);
        self.location.link_down(site, &self.cx);
        self.places.link_down(site);
        self.membership.link_down(site);
        self.reconcile.link_down(site, &mut self.cx);
        self.feed.link_down(site, &mut self.cx);
    }

    /// What the other end of a link understands.
    fn speaks(&mut self, site: SiteId, dialect: u8) {
        self.cx.peers.speaks(site, dialect);
        self.metered.met(site, dialect, &mut self.cx);
        self.location.spoke(site, &mut self.cx);
        self.places.met(site, &mut self.cx);
    }

    /// A site that asks for records of a bucket, or tells of some, follows it.
    fn met(&mut self, site: SiteId, buckets: impl Iterator<Item = BucketId>) {
        buckets.for_each(|bucket| self.location.met(site, bucket, &mut self.cx));
    }

    fn join(&mut self, bucket: BucketId) {
        let members = self.location.members(bucket, &self.cx);
        if self.feed.join(bucket, members, &mut self.cx) {
            self.location.join(bucket, &mut self.cx);
        } else {
            // Who is told that this site is a member would count on it.
            self.cx.out.push(Output::Report(Report::NotFollowed { bucket }));
        }
    }

    fn leave(&mut self, bucket: BucketId) {
        if !self.system.contains(&bucket) {
            self.reconcile.leave(bucket);
            self.feed.leave(bucket, &mut self.cx);
            self.location.leave(bucket, &mut self.cx);
        }
    }

    fn applied(&mut self, ticket: Ticket, ok: bool) {
        let known =
            self.feed.applied(ticket, ok, &mut self.cx) || self.reconcile.applied(ticket, ok, &mut self.cx);
        if !known {
            self.cx.stale();
        }
    }

    fn not_member(&mut self, site: SiteId, bucket: BucketId) {
        if !self.system.contains(&bucket) {
            self.location.refuted(bucket, site, &mut self.cx);
            self.feed.members_changed(&[Change { site, bucket, member: false }], &mut self.cx);
        }
    }

    fn receive(&mut self, from: SiteId, message: Message) {
        if !self.cx.peers.knows(from) {
            return self.cx.refuse(from, "not in the roster");
        }
        match &message {
            Message::Pull(pull) => self.met(from, [pull.bucket].into_iter()),
            Message::News { bucket, .. } => self.met(from, [*bucket].into_iter()),
            Message::Check { listen: true, entries } => {
                self.met(from, entries.iter().map(|(bucket, _)| *bucket))
            }
            _ => {}
        }
        let cx = &mut self.cx;
        match message {
            Message::Swim(packet) => self.membership.receive(from, &packet, cx),
            Message::Pull(pull) => self.feed.serve(from, pull, cx),
            Message::Batch(batch) => self.feed.batch(from, batch, cx),
            Message::PullRefused { ticket, bucket, reason } => {
                self.feed.refused(from, ticket, bucket, reason, cx)
            }
            Message::News { bucket, vector } => self.feed.news_came(from, bucket, &vector, cx),
            Message::Check { listen: false, entries } if entries.is_empty() => self.feed.wants_fresh(from),
            Message::Check { listen, entries } => self.feed.checked(from, listen, &entries, cx),
            Message::Compare(compare) => {
                self.reconcile.compare(from, &compare, self.feed.has_joined(compare.bucket), cx);
            }
            Message::Compared { ticket, bucket, doubt, verdict } => {
                self.reconcile.compared(from, ticket, bucket, (doubt, verdict), cx);
            }
            Message::Probe(probe) => {
                self.reconcile.probe(from, &probe, self.feed.has_joined(probe.bucket), cx);
            }
            Message::Probed { ticket, bucket, doubt, holdings } => {
                self.reconcile.probed(from, ticket, bucket, (doubt, &holdings), cx);
            }
            Message::Dead { bucket, vector, dots } => {
                if self.feed.has_joined(bucket) {
                    self.reconcile.dead(from, bucket, &vector, dots, cx);
                }
            }
            Message::Publish(publish) => self.location.published_by(from, publish, cx),
            Message::Published { ticket, life: _, digest } => {
                self.location.acknowledged(from, ticket, digest, cx)
            }
            Message::Locate { ticket, bucket } => {
                self.location.asked(Question { asker: from, ticket, bucket, wanted: None }, cx);
            }
            Message::PassOn { ticket, bucket, asker } => {
                self.location.passed_on(from, Question { asker, ticket, bucket, wanted: None }, cx);
            }
            Message::Seek(seek) => self.location.asked(Question::of(seek, from), cx),
            Message::SeekOn { seek, asker } => {
                self.location.passed_on(from, Question::of(seek, asker), cx);
            }
            Message::Said { ticket, bucket, said } => self.location.said(from, (ticket, bucket, said), cx),
            Message::NotMember { bucket } => self.not_member(from, bucket),
            Message::Loose { bucket, answer, loose } => self.feed.loose(from, (bucket, answer, loose), cx),
            Message::Gather(gather) => self.feed.gather_asked(from, gather, cx),
            Message::Gathered(gathered) => self.feed.gathered(from, gathered, cx),
            Message::Place(place) => {
                if cx.peers.placed(from, &place, cx.now) {
                    self.places.heard(from, cx);
                } else {
                    cx.refuse(from, "a coordinate of nowhere");
                }
            }
            Message::Withdraw { ticket } => self.location.withdrawn(from, ticket, cx),
            Message::Census(census) => self.location.census_asked(from, &census, cx),
            Message::Rolls(rolls) => self.location.rolled(from, rolls, cx),
            Message::Metered { every_secs } => {
                self.metered.heard(from, every_secs, cx);
                self.feed.budget_said(from, cx);
            }
        }
    }

    fn tick(&mut self) {
        self.membership.tick(&mut self.cx);
        if self.cx.peers.tick(self.cx.now) {
            self.location.turned(&mut self.cx);
            self.places.turned(&mut self.cx);
        }
        self.places.tick(&mut self.cx);
        self.location.tick(&mut self.cx);
        self.feed.tick(&mut self.cx);
        self.reconcile.tick(&mut self.cx);
    }

    /// Whether with this one every site was compared that is, or for all we know may be, a member.
    fn is_last(&self, bucket: BucketId, with: SiteId, before: &BTreeSet<SiteId>) -> bool {
        let done = |site: &SiteId| {
            *site == with
                || before.contains(site)
                || self.location.is_surely_no_member(*site, bucket, &self.cx)
        };
        self.cx.peers.roster().iter().all(done)
    }

    /// Carries what one machine found to the others, until nothing is left to carry.
    fn exchange(&mut self) {
        loop {
            let changes = self.location.take_changes();
            let wishes = self.feed.take_wishes();
            let next = self.reconcile.take_next();
            if changes.is_empty() && wishes.is_empty() && next.is_empty() {
                return;
            }
            self.feed.members_changed(&changes, &mut self.cx);
            for wish in wishes {
                match wish {
                    Wish::Compare(bucket, with, before) => {
                        let last = self.is_last(bucket, with.0, &before);
                        self.reconcile.start(bucket, with, last, &mut self.cx);
                    }
                    Wish::Settle(bucket, with) => self.reconcile.settled(bucket, with, &mut self.cx),
                }
            }
            for next in next {
                match next {
                    Next::Settle(bucket, with) => self.feed.settle(bucket, with, &mut self.cx),
                    Next::Done(done) => self.feed.compared(done.bucket, done.with, done.end, &mut self.cx),
                }
            }
        }
    }
}
