//! What can happen next, and what it does.

use skerry_base::BucketId;
use skerry_model::bucket::{
    FIRST_EPOCH, HomeCause, HomeDocument, NamingDocument, Seen, TenureDocument, Turn, awaited,
};
use skerry_sim::nodes::Mistake;

use super::judge;
use super::world::{
    CLAIMANTS, FAR, Job, NAMES, NODES, Place, Record, Set, State, What, Why, World, naming, node_of, nodes,
    site,
};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Somebody asks the register for a name, for this claimant.
    Ask(usize, usize, usize),
    /// A record that only this node has.
    Plain(usize),
    /// What the machine wants done: a tenure opened, an heir proposed.
    Turn(usize),
    /// Somebody has the register moved.
    Give(usize, usize),
    /// One more holder has what is under way at a node.
    Deliver(usize, usize, usize),
    /// A node hears that all have it.
    Finish(usize, usize),
    /// What the vector of one covers comes to another, or one record alone.
    Feed(usize, usize),
    Loose(usize, usize, usize),
    /// The view goes on: who is live, who joins.
    View(u8, u8),
    /// A node fetches what it needs in its view; who joins does so from one that is live.
    Sync(usize, usize),
}

impl World {
    pub(crate) fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        (0..=FAR).for_each(|node| self.steps_of(state, node, &mut steps));
        for (node, place) in state.places.iter().enumerate() {
            for (number, job) in place.jobs.iter().enumerate() {
                let lacks = |to: &usize| job.holders & !job.held & (1 << to) != 0;
                let lacking = (0..NODES).filter(lacks).filter(|to| state.places[*to].view == job.view);
                steps.extend(lacking.map(|to| Step::Deliver(node, number, to)));
                steps.extend((job.holders & !job.held == 0).then_some(Step::Finish(node, number)));
            }
            self.travels(state, node, &mut steps);
        }
        views(state, &mut steps);
        steps
    }

    fn steps_of(&self, state: &State, node: usize, steps: &mut Vec<Step>) {
        if node != FAR && !state.is_leased(node) {
            return;
        }
        let (left, place) = (&state.left, &state.places[node]);
        match self.turn(state, node) {
            Some(Turn::Decide(_)) => {
                let others = (0..=FAR).filter(|other| *other != node && left.moves > 0);
                steps.extend(others.map(|other| Step::Give(node, other)));
                steps.extend((left.plains > 0).then_some(Step::Plain(node)));
                if left.asks > 0 && !is_under_way(place, Why::Name) {
                    let asked = |name| (0..CLAIMANTS).map(move |claimant| Step::Ask(node, name, claimant));
                    steps.extend((0..NAMES).flat_map(asked));
                }
            }
            Some(Turn::Open(_)) => steps.push(Step::Turn(node)),
            Some(Turn::Pass(_)) if !is_under_way(place, Why::Pass) => steps.push(Step::Turn(node)),
            _ => {}
        }
    }

    fn travels(&self, state: &State, from: usize, steps: &mut Vec<Step>) {
        for to in (0..=FAR).filter(|to| *to != from) {
            let (held, known) = (&state.places[from].held, &state.places[to].held);
            if state.left.feeds > 0 && self.fed(held).minus(known).iter().next().is_some() {
                steps.push(Step::Feed(from, to));
            }
            if state.left.loose > 0 {
                steps.extend(held.minus(known).iter().map(|record| Step::Loose(from, to, record)));
            }
        }
    }

    /// What the state is after a step, and what is wrong about that.
    pub(crate) fn take(&mut self, state: &State, step: Step) -> (State, Option<judge::Wrong>) {
        let mut next = state.clone();
        let wrong = match step {
            Step::Ask(node, name, claimant) => self.ask(&mut next, node, (name, claimant)),
            Step::Plain(node) => {
                next.left.plains = next.left.plains.saturating_sub(1);
                self.write(&mut next, node, What::Plain);
                None
            }
            Step::Turn(node) => {
                let turn = self.turn(state, node);
                self.turned(&mut next, node, turn)
            }
            Step::Give(node, to) => self.give(&mut next, node, to),
            Step::Deliver(node, number, to) => {
                let job = &mut next.places[node].jobs[number];
                job.held |= 1 << to;
                let record = job.record;
                next.places[to].held.put(record);
                None
            }
            Step::Finish(node, number) => self.finish(&mut next, node, number),
            Step::Feed(from, to) => {
                next.left.feeds = next.left.feeds.saturating_sub(1);
                let covered = self.fed(&next.places[from].held);
                next.places[to].held.merge(&covered);
                None
            }
            Step::Loose(_, to, record) => {
                next.left.loose = next.left.loose.saturating_sub(1);
                next.places[to].held.put(record);
                None
            }
            Step::View(live, joining) => {
                view(&mut next, live, joining);
                None
            }
            Step::Sync(node, from) => {
                sync(&mut next, node, from);
                None
            }
        };
        (next, wrong)
    }

    /// What a feed brings.
    fn fed(&self, held: &Set) -> Set {
        let covered = self.covered(held);
        let mut fed = Set::default();
        held.iter()
            .filter(|record| self.book[*record].seq <= covered[self.book[*record].origin])
            .for_each(|record| fed.put(record));
        fed
    }

    fn write(&mut self, state: &mut State, node: usize, what: What) -> usize {
        let held = state.places[node].held;
        let context = match &what {
            What::Plain | What::Given(_) => Set::default(),
            what => self.seen(&held, |other| std::mem::discriminant(other) == std::mem::discriminant(what)),
        };
        let record = self.number(Record { origin: node, seq: self.next(&held, node), context, what });
        state.places[node].held.put(record);
        record
    }

    /// What is under way is asked of all who hold the writes of the view.
    fn begin(&self, state: &mut State, (node, record, why): (usize, usize, Why)) {
        let (holders, view) = (state.holders(), state.places[node].view);
        let is_early = self.mistake == Some(Mistake::EarlyNaming) && why == Why::Name;
        let held = if is_early { holders } else { 1 << node };
        state.places[node].jobs.push(Job { record, why, view, holders, held });
    }

    /// The register is asked for a name.
    fn ask(&mut self, state: &mut State, node: usize, wish: (usize, usize)) -> Option<judge::Wrong> {
        let Some(Turn::Decide(epoch)) = self.turn(state, node) else { return None };
        state.left.asks = state.left.asks.saturating_sub(1);
        if node == FAR {
            return self.ask_alone(state, epoch, wish);
        }
        let mut said = self.carried(&state.places[node], node, epoch).ok()?;
        let held = state.places[node].held;
        let is_given = |bucket: BucketId| !self.given(&held, bucket).is_empty();
        let wished = naming(wish.0, wish.1);
        if said.namings.iter().all(|begun| is_given(begun.home.bucket)) {
            if self.is_taken(&held, wish.0) {
                return None;
            }
            said.namings.push(wished);
        }
        let record = self.write(state, node, What::Said(said));
        self.begin(state, (node, record, Why::Name));
        None
    }

    /// Who decides alone says and names in one commit; first what was begun.
    fn ask_alone(
        &mut self,
        state: &mut State,
        epoch: u64,
        (name, claimant): (usize, usize),
    ) -> Option<judge::Wrong> {
        let said = self.said(&state.places[FAR].held);
        let is_current = said.as_ref().map_or(epoch == FIRST_EPOCH, |said| said.epoch == epoch);
        let is_silent = self.mistake == Some(Mistake::SilentRegister);
        if !is_current {
            let carried = self.carried(&state.places[FAR], FAR, epoch).ok()?;
            let begun = carried.clone();
            if !is_silent {
                self.write(state, FAR, What::Said(carried));
            }
            if let Some(wrong) = self.carry_out(state, FAR, &begun) {
                return Some(wrong);
            }
        }
        if self.is_taken(&state.places[FAR].held, name) {
            return None;
        }
        let wished = NamingDocument { epoch, namings: vec![naming(name, claimant)] };
        self.carry_out(state, FAR, &wished)
    }

    /// Writes what is not written yet.
    fn carry_out(&mut self, state: &mut State, node: usize, said: &NamingDocument) -> Option<judge::Wrong> {
        for naming in &said.namings {
            if self.given(&state.places[node].held, naming.home.bucket).is_empty() {
                self.write(state, node, What::Given(naming.home.clone()));
            }
        }
        judge::names(self, state)
    }

    fn turned(&mut self, state: &mut State, node: usize, turn: Option<Turn>) -> Option<judge::Wrong> {
        let held = state.places[node].held;
        match turn? {
            Turn::Open(said) => {
                let own =
                    self.vector(&held).iter().filter(|(origin, _)| origin.node.0 == site(node).0).collect();
                let seen = match self.mistake {
                    Some(Mistake::BareOpening) => Seen::of(&own),
                    _ => self.known(&held)?.opening(&nodes(), &own),
                };
                self.write(state, node, What::Tenure(TenureDocument { seen, ..said }));
            }
            Turn::Pass(said) => {
                let record = self.write(state, node, What::Tenure(said));
                self.begin(state, (node, record, Why::Pass));
            }
            _ => {}
        }
        None
    }

    fn give(&mut self, state: &mut State, node: usize, to: usize) -> Option<judge::Wrong> {
        state.left.moves = state.left.moves.saturating_sub(1);
        let held = state.places[node].held;
        let known = self.known(&held)?;
        if node == FAR {
            if known.is_kept_by_its_site(&[site(FAR)].into()) {
                return None;
            }
            let (epoch, cause) = (known.home.epoch + 1, HomeCause::Moved);
            let seen = Seen::of(&self.vector(&held));
            let named = HomeDocument { site: site(to), epoch, seen, cause, ..known.home };
            self.write(state, node, What::Home(named));
            return judge::homes(self, state);
        }
        if to == FAR && self.is_held_back(&held) {
            return None;
        }
        let turn = known.give(&self.within(state, node), site(to));
        self.turned(state, node, Some(turn))
    }

    /// Whether something that was named lies ahead of the vector that an heir elsewhere would wait for.
    fn is_held_back(&self, held: &Set) -> bool {
        self.mistake != Some(Mistake::NamesAhead) && self.is_ahead(held)
    }

    fn finish(&mut self, state: &mut State, node: usize, number: usize) -> Option<judge::Wrong> {
        let job = state.places[node].jobs.remove(number);
        let held = state.places[node].held;
        let known = self.known(&held)?;
        match (job.why, self.book[job.record].what.clone()) {
            (Why::Pass, What::Tenure(said)) => {
                let is_elsewhere = said.heir.is_some_and(|heir| node_of(heir) == FAR);
                if is_elsewhere && self.is_held_back(&held) {
                    return None;
                }
                let next = known.successor(&said, awaited(&said, &nodes(), &self.vector(&held)))?;
                self.write(state, node, What::Home(next));
                judge::homes(self, state)
            }
            (Why::Name, What::Said(said)) => {
                let is_home = known.home.site == site(node) && known.home.epoch == said.epoch;
                let has_heir = known.tenure().is_some_and(|tenure| tenure.heir.is_some());
                let is_current = self.said(&held).is_some_and(|latest| latest.epoch == said.epoch);
                if !(is_home && !has_heir && is_current) && self.mistake != Some(Mistake::LateNaming) {
                    return None;
                }
                let wrong = self.carry_out(state, node, &said);
                for naming in &said.namings {
                    if let Some(record) = self.given(&state.places[node].held, naming.home.bucket).first() {
                        self.begin(state, (node, *record, Why::Given));
                    }
                }
                wrong
            }
            (Why::Given, _) => {
                state.places[node].settled.put(job.record);
                None
            }
            _ => None,
        }
    }
}

pub(crate) fn is_under_way(place: &Place, why: Why) -> bool {
    place.jobs.iter().any(|job| job.why == why)
}

/// Views that may follow: a majority of those that have what was acknowledged, one of them live before.
fn views(state: &State, steps: &mut Vec<Step>) {
    let place = |node: usize| &state.places[node];
    let all: u8 = (1 << NODES) - 1;
    for node in 0..NODES {
        let is_there = state.holders() & (1 << node) != 0 && place(node).view == state.view;
        if is_there && !place(node).is_synced {
            let sources = (0..NODES).filter(|from| *from != node && state.live & (1 << from) != 0);
            match state.live & (1 << node) != 0 {
                true => steps.push(Step::Sync(node, node)),
                false => steps.extend(sources.map(|from| Step::Sync(node, from))),
            }
        }
    }
    if state.left.views == 0 {
        return;
    }
    let joined = |node: &usize| state.joining & (1 << node) != 0 && place(*node).is_synced;
    let ready = (0..NODES).filter(joined).fold(state.live, |ready, node| ready | 1 << node);
    for live in 0..=all {
        let is_majority = live.count_ones() as usize > NODES / 2;
        if !is_majority || live & !ready != 0 || live & state.live == 0 {
            continue;
        }
        for joining in [0, all & !live] {
            let step = Step::View(live, joining);
            if (live, joining) != (state.live, state.joining) && !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
}

/// All who are in it enter it. That one of them does so later changes nothing: it holds no lease and answers in the former
/// view only what it had before.
fn view(state: &mut State, live: u8, joining: u8) {
    state.left.views = state.left.views.saturating_sub(1);
    (state.view, state.live, state.joining) = (state.view + 1, live, joining);
    for node in (0..NODES).filter(|node| (live | joining) & (1 << node) != 0) {
        let place = &mut state.places[node];
        (place.view, place.is_synced) = (state.view, false);
        place.jobs.clear();
        place.settled = Set::default();
    }
}

fn sync(state: &mut State, node: usize, from: usize) {
    let is_source = |other: &usize| match node == from {
        true => state.live & (1 << other) != 0,
        false => *other == from,
    };
    let sources: Vec<usize> = (0..NODES).filter(is_source).collect();
    for other in sources {
        let held = state.places[other].held;
        state.places[node].held.merge(&held);
    }
    state.places[node].is_synced = true;
}

/// Kinds of steps.
pub(crate) const KINDS: usize = 10;

/// Which of them a step is.
pub(crate) const fn kind(step: &Step) -> usize {
    match step {
        Step::Ask(..) => 0,
        Step::Plain(_) => 1,
        Step::Turn(_) => 2,
        Step::Give(..) => 3,
        Step::Deliver(..) => 4,
        Step::Finish(..) => 5,
        Step::Feed(..) => 6,
        Step::Loose(..) => 7,
        Step::View(..) => 8,
        Step::Sync(..) => 9,
    }
}
