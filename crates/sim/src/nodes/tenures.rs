//! What a node does about conditions: the production machine of tenures over what its disk has, and what a commit thread
//! does with its word. Decisions, tenures and home documents of one bucket go to the disk one at a time.

use std::collections::BTreeSet;

use skerry_base::SiteId;
use skerry_federation::site_view::{Seat, View};
use skerry_model::bucket::{HomeCause, HomeDocument, Known, Seen, TenureDocument, Turn, Within, awaited};

use super::chain::Answer;
use super::{BUCKETS, Job, Mistake, Packet, What, Why, World, Write};

impl World {
    /// What a node knows of a home.
    pub(super) fn known(&self, node: usize, bucket: usize) -> Option<Known> {
        let kept = &self.nodes[node].kept;
        let named = |number: &u64| match self.writes.get(number).map(|of| &of.what) {
            Some(What::Home { named, .. }) => Some((named.epoch, *number, named.clone())),
            _ => None,
        };
        let said = |number: &u64| match self.writes.get(number).map(|of| &of.what) {
            Some(What::Tenure { said, .. }) => Some(said.clone()),
            _ => None,
        };
        let homes = kept.homes[bucket].iter().filter_map(named);
        let home = homes.max_by_key(|(epoch, number, _)| (*epoch, *number)).map(|(_, _, home)| home);
        let mut tenures: Vec<TenureDocument> = kept.tenures[bucket].iter().filter_map(said).collect();
        if self.mistake == Some(Mistake::UnheardHome) {
            tenures.retain(|said| home.as_ref().is_some_and(|home| said.epoch <= home.epoch));
        }
        let mut known = Known::new(home, tenures, &kept.vector(bucket))?;
        known.is_ready |= self.mistake == Some(Mistake::NoWait);
        Some(known)
    }

    /// Whether a node decides by itself: it is no node of a site of three or four.
    pub(super) fn is_alone(&self, node: usize) -> bool {
        node == self.far() || self.nodes[node].all.len() < 3
    }

    /// The machine in a seat of a view.
    fn occupant(&self, view: &View, seat: Seat) -> Option<SiteId> {
        self.nonces.get(&(seat, view.occupant(seat).nonce)).copied()
    }

    /// What a node knows of its site's view.
    fn within(&self, node: usize, bucket: usize) -> Option<Within> {
        let place = &self.nodes[node];
        let machine = place.machine.as_ref()?;
        let view = machine.view()?;
        let now = self.local(node);
        let reads = machine.may_read(now) && !machine.awaits_change(now) && self.reads(node, bucket);
        let live = view.live.iter().filter_map(|seat| self.occupant(view, seat)).collect();
        let owner = self.occupant(view, view.owner(BUCKETS[bucket])?)?;
        Some(Within { me: place.id, view: view.epoch, reads, nodes: self.ever.clone(), live, owner })
    }

    /// Whether a node has all of a bucket that the site acknowledged, when it has a lease.
    pub(super) fn reads(&self, node: usize, bucket: usize) -> bool {
        let place = &self.nodes[node];
        place.excused != Some(bucket) && !place.gaps.contain(BUCKETS[bucket])
    }

    /// What a node may do about a condition.
    pub(super) fn turn(&self, node: usize, bucket: usize) -> Option<Turn> {
        let known = self.known(node, bucket)?;
        if self.is_alone(node) {
            return Some(self.turn_alone(node, &known));
        }
        let within = self.within(node, bucket)?;
        Some(self.bent(node, known, within))
    }

    fn turn_alone(&self, node: usize, known: &Known) -> Turn {
        let home = &known.home;
        match (home.site == self.nodes[node].id, known.is_ready) {
            (false, _) => Turn::Elsewhere(home.site),
            (true, false) => Turn::Behind,
            (true, true) => Turn::Decide(home.epoch),
        }
    }

    /// The word of the production machine, but for a deliberate mistake.
    fn bent(&self, node: usize, mut known: Known, mut within: Within) -> Turn {
        let is_home = known.home.site == within.me;
        let forgets = match self.mistake {
            Some(Mistake::OldHome) => is_home,
            Some(Mistake::OtherHeir) => !is_home,
            _ => false,
        };
        if forgets {
            known.tenures.iter_mut().for_each(|said| said.heir = None);
        }
        match self.mistake {
            Some(Mistake::HastyTakeover) if !is_home => within.live.clear(),
            Some(Mistake::NoLease) => within.reads = self.is_live(node),
            Some(Mistake::LowestView) => {
                let lowest =
                    known.tenures.iter().filter(|said| said.heir.is_some()).map(|said| said.view).min();
                known.tenures.retain(|said| said.heir.is_none() || Some(said.view) == lowest);
            }
            _ => {}
        }
        match known.turn(&within) {
            Turn::Unopened(_) if self.mistake == Some(Mistake::UnopenedTaken) => {
                Turn::Pass(self.opened(&known, within.view, Some(within.me)))
            }
            turn => turn,
        }
    }

    fn opened(&self, known: &Known, view: u64, heir: Option<SiteId>) -> TenureDocument {
        let HomeDocument { bucket, site, epoch, ref seen, .. } = known.home;
        TenureDocument { bucket, site, epoch, view, seen: seen.clone(), heir }
    }

    /// Whether something that a commit thread would see is on its way to the disk, or an heir is being settled.
    pub(super) fn is_busy(&self, node: usize, bucket: usize) -> bool {
        let place = &self.nodes[node];
        let is_of = |number: &u64| {
            let write = self.writes.get(number);
            write.is_some_and(|of| {
                of.bucket == bucket && of.origin == place.id && !matches!(of.what, What::Plain)
            })
        };
        let mut own = place.storing.iter().filter(|(_, of)| of.asker.is_none()).map(|(number, _)| number);
        own.any(is_of)
    }

    fn is_passing(&self, node: usize, bucket: usize) -> bool {
        let is_of = |job: &Job| matches!(&job.why, Why::Pass(said) if said.bucket == BUCKETS[bucket]);
        self.nodes[node].jobs.values().any(is_of)
    }

    /// A condition is to be decided, here or where the home is thought to be.
    pub(super) fn decide(&mut self, node: usize, op: usize, hops: u8) {
        let Some(bucket) = self.asked.get(op).map(|asked| asked.bucket) else { return };
        if self.is_busy(node, bucket) {
            return self.count("conditions that found another at work");
        }
        match self.turn(node, bucket) {
            Some(Turn::Decide(epoch)) => self.decide_here(node, op, epoch),
            Some(Turn::Elsewhere(site)) if hops > 0 => self.pass_on(node, site, op, hops - 1),
            Some(Turn::Elsewhere(_)) => self.count("conditions that went in circles"),
            Some(Turn::Open(_) | Turn::Pass(_)) => self.stir(node, bucket),
            Some(Turn::Behind) => self.count("conditions refused: behind"),
            Some(Turn::Unready) | None => self.count("conditions refused: no lease"),
            Some(Turn::Unopened(_)) => self.count("conditions refused: never opened"),
        }
    }

    fn pass_on(&mut self, node: usize, site: SiteId, op: usize, hops: u8) {
        let found = (0..self.nodes.len()).find(|other| self.nodes[*other].id == site && *other != node);
        let is_lost = node == self.far() && (found.is_none() || self.draw.below(3) == 0);
        // Who is far does not know who is live: it asks any of them.
        let to = if is_lost { Some(self.draw.below(self.seated() as u64) as usize) } else { found };
        if let Some(to) = to {
            self.send(node, to, Packet::Decide { op, hops });
        }
    }

    fn decide_here(&mut self, node: usize, op: usize, epoch: u64) {
        let Some(asked) = self.asked.get(op).copied() else { return };
        if self.refuses(node) {
            return self.count("conditions refused: the home cannot hold");
        }
        let bucket = asked.bucket;
        let current = self.nodes[node].kept.current(bucket);
        let is_alone = self.is_alone(node);
        let bound = self.nodes[node].machine.as_ref().and_then(|machine| machine.epoch());
        self.judge_decision(node, bucket);
        if current != asked.expected {
            return match current {
                Some(head) if !is_alone && self.mistake != Some(Mistake::UnsettledNo) => {
                    let job = self.begin_job(node, head, Why::Refused(op), bound);
                    self.give(node, skerry_federation::site_view::Input::Write { write: job, bound });
                }
                _ => {
                    self.count("conditions that did not hold");
                    self.answer(op, Answer::Current(current, self.queue.now()), false);
                }
            };
        }
        let stamp = self.nodes[node].kept.next(bucket) + self.draw.below(3);
        let what = What::Decision { op, expected: asked.expected, order: (epoch, stamp) };
        let bound = bound.filter(|_| self.mistake != Some(Mistake::UnboundDecision));
        let why = if is_alone { Why::Alone(op) } else { Why::Decided(op) };
        self.take_in(node, (bucket, what), why, bound);
    }

    /// Does what is to be done about a home, if it is this node's turn.
    pub(super) fn stir(&mut self, node: usize, bucket: usize) {
        if self.is_alone(node) || self.is_busy(node, bucket) || self.is_passing(node, bucket) {
            return;
        }
        match self.turn(node, bucket) {
            Some(Turn::Pass(said)) => self.pass(node, bucket, said),
            Some(Turn::Open(said)) => self.open(node, bucket, said),
            _ => {}
        }
    }

    pub(super) fn open(&mut self, node: usize, bucket: usize, said: TenureDocument) {
        self.count("tenures opened");
        let Some(known) = self.known(node, bucket) else { return };
        let me = self.nodes[node].id;
        let own =
            self.nodes[node].kept.vector(bucket).iter().filter(|(origin, _)| origin.node.0 == me.0).collect();
        let said = TenureDocument { seen: known.opening(&self.ever, &own), ..said };
        let what = self.tenure(node, bucket, said);
        self.take_in(node, (bucket, what), Why::Opened, None);
    }

    pub(super) fn pass(&mut self, node: usize, bucket: usize, said: TenureDocument) {
        self.count(match said.heir {
            Some(heir) if !self.ever.contains(&heir) => "heirs elsewhere proposed",
            _ if said.site == self.nodes[node].id => "heirs proposed by the home",
            _ => "takeovers proposed",
        });
        self.lie_in_wait(node);
        let (what, bound) = (self.tenure(node, bucket, said.clone()), Some(said.view));
        self.take_in(node, (bucket, what), Why::Pass(said), bound);
    }

    fn tenure(&self, node: usize, bucket: usize, said: TenureDocument) -> What {
        What::Tenure { said, context: self.context(&self.nodes[node].kept.tenures[bucket]) }
    }

    /// The home document that a node writes.
    pub(super) fn write_home(&mut self, node: usize, bucket: usize, named: HomeDocument) {
        self.lie_in_wait(node);
        let context = self.context(&self.nodes[node].kept.homes[bucket]);
        self.take_in(node, (bucket, What::Home { named, context }), Why::Quiet, None);
    }

    /// These heads, and what they had seen.
    fn context(&self, heads: &BTreeSet<u64>) -> BTreeSet<u64> {
        let seen = |head: &u64| match self.writes.get(head) {
            Some(Write { what: What::Tenure { context, .. } | What::Home { context, .. }, .. }) => {
                context.clone()
            }
            _ => BTreeSet::new(),
        };
        heads.iter().flat_map(seen).chain(heads.iter().copied()).collect()
    }

    /// An heir was proposed to all holders of one view: it is named, unless somebody has done so.
    pub(super) fn name(&mut self, node: usize, said: &TenureDocument) {
        let Some(bucket) = BUCKETS.iter().position(|of| *of == said.bucket) else { return };
        let Some(known) = self.known(node, bucket).filter(|_| !self.is_busy(node, bucket)) else { return };
        let kept = &self.nodes[node].kept;
        let is_elsewhere = said.heir.is_some_and(|heir| !self.ever.contains(&heir));
        if is_elsewhere && kept.has_decisions_ahead(bucket) && self.mistake != Some(Mistake::HeirAhead) {
            return self.count("heirs elsewhere not named: decisions ahead");
        }
        let seen = awaited(said, &self.ever, &kept.vector(bucket));
        let Some(next) = known.successor(said, seen) else { return self.count("heirs named already") };
        self.count(match is_elsewhere {
            true => "homes moved to the other site",
            false if said.site == self.nodes[node].id => "homes moved within the site",
            false => "homes taken over",
        });
        self.write_home(node, bucket, next);
    }

    /// An operator, or whoever balances load, has a home moved.
    pub(super) fn hand(&mut self, node: usize, bucket: usize, to: SiteId) {
        if self.is_busy(node, bucket) || self.is_passing(node, bucket) {
            return;
        }
        let Some(known) = self.known(node, bucket) else { return };
        if self.is_alone(node) {
            let nodes =
                if node == self.far() { BTreeSet::from([self.nodes[node].id]) } else { self.ever.clone() };
            let is_decided = matches!(self.turn_alone(node, &known), Turn::Decide(_));
            if is_decided && !known.is_kept_by_its_site(&nodes) {
                self.count("homes handed over by who decides alone");
                let seen = Seen::of(&self.nodes[node].kept.vector(bucket));
                let (epoch, cause) = (known.home.epoch + 1, HomeCause::Moved);
                self.write_home(node, bucket, HomeDocument { site: to, epoch, seen, cause, ..known.home });
            }
            return;
        }
        let Some(within) = self.within(node, bucket) else { return };
        let is_ahead = self.nodes[node].kept.has_decisions_ahead(bucket);
        if is_ahead && !self.ever.contains(&to) && self.mistake != Some(Mistake::HeirAhead) {
            return self.count("homes not given elsewhere: decisions ahead");
        }
        match known.give(&within, to) {
            Turn::Pass(said) => self.pass(node, bucket, said),
            Turn::Open(said) => self.open(node, bucket, said),
            _ => {}
        }
    }
}
