//! Nodes that cannot hold what others write: frozen by an operator, or full.
//!
//! A frozen node takes in nothing until it is called back. A full one finds out when something does not fit; a little comes
//! free all the time, and it can hold again when a margin has. Both say so to the others, as the product does, and go on
//! promising, agreeing and hearing what travels by itself.
//!
//! Judged in calm weather, where nothing else strikes meanwhile: the view changes once for a node that cannot hold and then
//! rests (`flapping`), and where too few are left to go on without them it does not change at all, reads go on, and no write
//! waits for what cannot be (`stuck`, `stall`).

use std::collections::BTreeMap;
use std::time::Duration;

use skerry_base::Instant;
use skerry_federation::site_view::{Input, View};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use super::faults::Mend;
use super::{Event, Job, Mistake, STALL, Weather, Why, World};

/// Records that must fit again before a full disk counts as one with room: more than comes free in a spell of calm weather.
const MARGIN: u32 = 100;
/// Views that one node that cannot hold may cost: it is left out; and what was on its way just then.
const CHANGES: u64 = 2;
/// A view that leaves a node out so soon after it could hold nothing does so for that: what was on its way.
const CAUSED: Duration = millis(500);

/// What of a world is about nodes that cannot hold: drawn apart, so that worlds without them are what they were.
#[derive(Debug)]
pub(super) struct Rooms {
    draw: Draw,
    /// Whether there are such.
    is_on: bool,
    spell: Option<Spell>,
    /// Nodes that could not hold, beside the one that calm weather strikes, and until when.
    held_nothing: BTreeMap<usize, Instant>,
    /// Those of them that a view left out for that, and since when each is live again.
    out: BTreeMap<usize, Option<Instant>>,
}

impl Rooms {
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("rooms");
        let is_on = draw.below(2) == 0;
        let is_on = mistake.map_or(is_on, Mistake::is_of_rooms);
        Self { draw, is_on, spell: None, held_nothing: BTreeMap::new(), out: BTreeMap::new() }
    }
}

/// What keeps a node from holding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing.
    #[default]
    Plenty,
    /// It is frozen.
    Frozen,
    /// It is nearly full: so many more records fit; and whether one did not.
    Left(u32, bool),
}

/// Nodes that cannot hold for a while, in calm weather.
#[derive(Debug, Clone)]
struct Spell {
    nodes: Vec<usize>,
    /// The last view before.
    from: u64,
}

impl Spell {
    /// Whether too few are left to go on without them.
    const fn stops_all(&self) -> bool {
        self.nodes.len() > 1
    }
}

impl World {
    /// Whether a node can hold nothing now.
    pub(super) fn refuses(&self, node: usize) -> bool {
        matches!(self.nodes[node].room, Room::Frozen | Room::Left(_, true))
    }

    /// A record is to go to a disk: whether there is room for it.
    pub(super) fn fits(&mut self, node: usize) -> bool {
        match &mut self.nodes[node].room {
            Room::Plenty => true,
            Room::Left(left, false) if *left > 0 => {
                *left -= 1;
                true
            }
            Room::Left(_, refuses) => {
                *refuses = true;
                self.count("records that did not fit");
                self.tell_room(node);
                false
            }
            Room::Frozen => false,
        }
    }

    /// The machine is told what its node can do; a process that has just started, too.
    pub(super) fn tell_room(&mut self, node: usize) {
        let says = self.refuses(node) && self.mistake != Some(Mistake::Unsaid);
        self.give(node, Input::Refuses(says));
    }

    fn plan_trickle(&mut self, node: usize) {
        let is_storm = self.weather == Weather::Storm;
        let span = if is_storm { millis(10)..=millis(30) } else { millis(100)..=millis(300) };
        self.plan(span, Event::Trickle { node });
    }

    /// A little comes free.
    pub(super) fn trickle(&mut self, node: usize) {
        let enough = if self.mistake == Some(Mistake::NoMargin) { 1 } else { MARGIN };
        let Room::Left(left, refuses) = &mut self.nodes[node].room else { return };
        *left += 1;
        let again = *refuses && *left >= enough;
        *refuses &= !again;
        self.plan_trickle(node);
        if again {
            self.count("disks with room again");
            self.tell_room(node);
        }
    }

    /// An operator freezes a node, or its disk fills; for so long.
    fn refuse(&mut self, node: usize, is_frozen: bool, until: Instant) {
        if self.nodes[node].room != Room::Plenty {
            return;
        }
        self.count(if is_frozen { "nodes frozen" } else { "disks filled" });
        self.nodes[node].room = if is_frozen { Room::Frozen } else { Room::Left(0, false) };
        if !is_frozen {
            self.plan_trickle(node);
        }
        self.tell_room(node);
        self.queue.plan(until, Event::Mend(Mend::Room(node)));
    }

    /// In a storm: any node, for a while.
    fn refuse_for_a_while(&mut self, node: usize) {
        let last = self.draw.span(millis(300)..=seconds(9));
        let is_frozen = self.draw.below(2) == 0;
        self.refuse(node, is_frozen, self.queue.now().after(last));
    }

    /// Whether it is such a spell that strikes next in calm weather.
    pub(super) fn strikes_rooms(&mut self) -> bool {
        let is_calm = self.rooms.is_on && self.weather == Weather::Calm;
        is_calm && (self.mistake.is_some() || self.rooms.draw.below(2) == 0)
    }

    /// In calm weather: the node that is struck, or so many that the others cannot go on; and nothing else meanwhile.
    pub(super) fn begin_spell(&mut self) {
        let last = self.draw.span(seconds(4)..=seconds(6));
        let until = self.queue.now().after(last);
        self.plan(last + seconds(5)..=last + seconds(9), Event::Strike);
        let is_quiet = |node: &super::Node| {
            node.machine.is_some() && (node.slow_wire + node.slow_disk).is_zero() && node.room == Room::Plenty
        };
        let is_whole = self.site().all(|node| is_quiet(&self.nodes[node])) && self.cuts.is_empty();
        // Who is not live comes back meanwhile, if its disk has room for the first records.
        let are_live = self.views.last_key_value().is_some_and(|(_, view)| view.live == self.all);
        if !is_whole || !are_live {
            return;
        }
        let stops_all = self.draw.below(3) == 0 && self.mistake.is_none();
        let others = (0..self.seated()).filter(|node| *node != self.target);
        let more = if stops_all { self.seated() - self.all.majority() } else { 0 };
        let nodes: Vec<usize> = [self.target].into_iter().chain(others.take(more)).collect();
        let is_frozen = stops_all || self.draw.below(2) == 0;
        self.rooms.spell = Some(Spell { nodes: nodes.clone(), from: self.highest() });
        nodes.into_iter().for_each(|node| self.refuse(node, is_frozen, until));
        self.queue.plan(Instant(until.0.saturating_sub(1)), Event::Spell);
    }

    fn highest(&self) -> u64 {
        self.views.last_key_value().map_or(0, |(epoch, _)| *epoch)
    }

    /// Something strikes in a storm, or a spell of calm weather ends.
    pub(super) fn spell(&mut self) {
        if self.rests_since.is_some() {
            return;
        }
        match self.rooms.spell.take() {
            Some(spell) => self.judge_spell(&spell),
            None if self.weather == Weather::Storm && self.rooms.is_on => {
                self.plan(millis(300)..=seconds(6), Event::Spell);
                let node = self.draw.below(self.seated() as u64) as usize;
                self.refuse_for_a_while(node);
            }
            None => {}
        }
    }

    fn judge_spell(&mut self, spell: &Spell) {
        let changes = self.highest() - spell.from;
        let (what, checker) = match spell.stops_all() {
            true => ("spells of a site that cannot go on", "stuck"),
            false => ("spells of a node that cannot hold", "flapping"),
        };
        self.count(what);
        if changes > CHANGES {
            self.violated(checker, format!("{changes} views while nodes {:?} could not hold", spell.nodes));
        }
        let live = self.views.last_key_value().map(|(_, view)| view.live).unwrap_or_default();
        let is_live = |node: &usize| live.contains(self.nodes[*node].seat);
        for node in self.site().filter(is_live).collect::<Vec<_>>() {
            let now = self.local(node);
            if !self.nodes[node].machine.as_ref().is_some_and(|machine| machine.may_read(now)) {
                self.violated(
                    checker,
                    format!("node {node} serves nothing while {:?} cannot hold", spell.nodes),
                );
            }
        }
        if spell.stops_all() {
            self.forgive_waits();
            let others = spell.nodes.iter().filter(|node| **node != self.target);
            self.rooms.held_nothing = others.map(|node| (*node, self.queue.now())).collect();
        }
    }

    /// Whether what is written through a node may wait because it could not hold: who left again and again is longer away.
    pub(super) fn was_out(&self, node: usize) -> bool {
        let now = self.queue.now();
        self.rooms.out.get(&node).is_some_and(|back| back.is_none_or(|at| now.since(at) <= STALL))
    }

    /// A node is in this view.
    pub(super) fn note_out(&mut self, node: usize, view: &View) {
        let now = self.queue.now();
        let is_live = view.live.contains(self.nodes[node].seat);
        let ended = self.rooms.held_nothing.get(&node);
        if !is_live && ended.is_some_and(|ended| now.since(*ended) <= CAUSED) {
            self.rooms.out.insert(node, None);
        } else if is_live && let Some(back) = self.rooms.out.get_mut(&node) {
            back.get_or_insert(now);
        }
    }

    /// Where too few can hold nothing is decided: nobody is to blame for that.
    fn forgive_waits(&mut self) {
        let now = self.queue.now();
        self.answered.iter_mut().for_each(|answered| *answered = (*answered).max(now));
        self.forgive_names();
    }

    /// Everything is mended.
    pub(super) fn rest_rooms(&mut self) {
        if self.rooms.spell.take().is_some_and(|spell| spell.stops_all()) {
            self.forgive_waits();
        }
        self.site().for_each(|node| self.nodes[node].room = Room::Plenty);
        self.site().for_each(|node| self.tell_room(node));
    }

    pub(super) fn mend_room(&mut self, node: usize) {
        self.nodes[node].room = Room::Plenty;
        self.tell_room(node);
    }

    /// What waits here for nodes without which the view cannot go on is answered: it would wait in vain. Likewise at a node that
    /// was left out because it cannot hold.
    pub(super) fn answer_in_vain(&mut self, node: usize) {
        let (now, seat) = (self.local(node), self.nodes[node].seat);
        let Some(machine) = &self.nodes[node].machine else { return };
        let is_out = self.refuses(node) && machine.view().is_some_and(|view| !view.holders().contains(seat));
        if machine.stuck(now).is_empty() && !is_out {
            return;
        }
        let waits = |job: &Job| !matches!(job.why, Why::Pass(_) | Why::Alone(_) | Why::Opened | Why::Quiet);
        let is_begun = |job: &Job| self.nodes[node].kept.held.contains(&job.write);
        let jobs = self.nodes[node].jobs.iter().filter(|(_, job)| waits(job) && is_begun(job));
        for job in jobs.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.abandon(node, job, "writes answered at once: the site cannot hold them");
        }
    }
}
