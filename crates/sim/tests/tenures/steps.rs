//! What can happen next, and what it does.

use skerry_model::bucket::{HomeCause, HomeDocument, Seen, TenureDocument, Turn, awaited};
use skerry_sim::nodes::Mistake;

use super::judge;
use super::world::{FAR, Job, NODES, Place, State, What, Why, World, node_of, nodes, site};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client asks for a decision on what is current here.
    Decide(usize),
    /// A client asks for one on what has passed.
    Refuse(usize),
    /// A write that only this node has.
    Plain(usize),
    /// What the machine wants done: a tenure opened, an heir proposed.
    Turn(usize),
    /// Somebody has the home moved.
    Give(usize, usize),
    /// One more holder has what is under way at a node.
    Deliver(usize, usize, usize),
    /// A node hears that all have it.
    Finish(usize, usize),
    /// All that one has comes to another, or one record alone.
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
        let left = &state.left;
        match self.turn(state, node) {
            Some(Turn::Decide(_)) => {
                let others = (0..=FAR).filter(|other| *other != node && left.moves > 0);
                steps.extend(others.map(|other| Step::Give(node, other)));
                steps.extend((left.decisions > 0).then_some(Step::Decide(node)));
                steps.extend((left.plains > 0).then_some(Step::Plain(node)));
                let is_there = self.current(&state.places[node].held).is_some();
                steps.extend((left.refusals > 0 && is_there).then_some(Step::Refuse(node)));
            }
            Some(Turn::Open(_)) => steps.push(Step::Turn(node)),
            Some(Turn::Pass(_)) if !is_passing(&state.places[node]) => steps.push(Step::Turn(node)),
            _ => {}
        }
    }

    fn travels(&self, state: &State, from: usize, steps: &mut Vec<Step>) {
        for to in (0..=FAR).filter(|to| *to != from) {
            let lacking = state.places[from].held.minus(&state.places[to].held);
            let mut lacking = lacking.iter().peekable();
            if lacking.peek().is_some() && state.left.feeds > 0 {
                steps.push(Step::Feed(from, to));
            }
            if state.left.loose > 0 {
                steps.extend(lacking.map(|record| Step::Loose(from, to, record)));
            }
        }
    }

    /// What the state is after a step, and what is wrong about that.
    pub(crate) fn take(&mut self, state: &State, step: Step) -> (State, Option<judge::Wrong>) {
        let mut next = state.clone();
        let wrong = match step {
            Step::Decide(node) => self.decide(&mut next, node),
            Step::Refuse(node) => self.refuse(&mut next, node),
            Step::Plain(node) => {
                next.left.plains = next.left.plains.saturating_sub(1);
                let seq = self.next(&next.places[node].held, node);
                self.write(&mut next, node, What::Plain { origin: node, seq });
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
                let held = next.places[from].held;
                next.places[to].held.merge(&held);
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

    fn write(&mut self, state: &mut State, node: usize, what: What) -> usize {
        let record = self.number(what);
        state.places[node].held.put(record);
        record
    }

    /// What is under way is asked of all who hold the writes of the view.
    fn begin(&self, state: &mut State, (node, record, why): (usize, usize, Why)) {
        let (holders, view) = (state.holders(), state.places[node].view);
        let is_early = matches!(
            (self.mistake, why),
            (Some(Mistake::EarlyDecision), Why::Decided) | (Some(Mistake::EarlyHeir), Why::Pass)
        );
        let held = if is_early { holders } else { 1 << node };
        state.places[node].jobs.push(Job { record, why, view, holders, held });
    }

    fn decide(&mut self, state: &mut State, node: usize) -> Option<judge::Wrong> {
        let Some(Turn::Decide(epoch)) = self.turn(state, node) else { return None };
        let wrong = judge::deciding(self, state, node);
        state.left.decisions = state.left.decisions.saturating_sub(1);
        let held = state.places[node].held;
        let current = self.current(&held);
        let (seq, stamp) = (self.next(&held, node), current.map_or(0, |((_, stamp), _)| stamp) + 1);
        let expected = current.map(|(_, value)| value);
        let what = What::Decision { origin: node, seq, expected, order: (epoch, stamp) };
        let record = self.write(state, node, what);
        if node == FAR {
            return wrong.or_else(|| judge::tell(self, state, record));
        }
        self.begin(state, (node, record, Why::Decided));
        wrong
    }

    fn refuse(&mut self, state: &mut State, node: usize) -> Option<judge::Wrong> {
        let wrong = judge::deciding(self, state, node);
        state.left.refusals = state.left.refusals.saturating_sub(1);
        let (_, value) = self.current(&state.places[node].held)?;
        if node == FAR || self.mistake == Some(Mistake::UnsettledNo) {
            return wrong.or_else(|| judge::tell(self, state, value));
        }
        self.begin(state, (node, value, Why::Refused));
        wrong
    }

    fn turned(&mut self, state: &mut State, node: usize, turn: Option<Turn>) -> Option<judge::Wrong> {
        let held = state.places[node].held;
        let context = self.seen(&held, true);
        match turn? {
            Turn::Open(said) => {
                let own =
                    self.vector(&held).iter().filter(|(origin, _)| origin.node.0 == site(node).0).collect();
                let seen = match self.mistake {
                    Some(Mistake::BareOpening) => Seen::of(&own),
                    _ => self.known(&held)?.opening(&nodes(), &own),
                };
                self.write(state, node, What::Tenure { said: TenureDocument { seen, ..said }, context });
            }
            Turn::Pass(said) => {
                let record = self.write(state, node, What::Tenure { said, context });
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
            return self.name(state, node, named);
        }
        if to == FAR && self.has_decisions_ahead(&held) && self.mistake != Some(Mistake::HeirAhead) {
            return None;
        }
        let turn = known.give(&self.within(state, node), site(to));
        self.turned(state, node, Some(turn))
    }

    fn name(&mut self, state: &mut State, node: usize, named: HomeDocument) -> Option<judge::Wrong> {
        let context = self.seen(&state.places[node].held, false);
        self.write(state, node, What::Home { named, context });
        judge::homes(self, state)
    }

    fn finish(&mut self, state: &mut State, node: usize, number: usize) -> Option<judge::Wrong> {
        let job = state.places[node].jobs.remove(number);
        let held = state.places[node].held;
        let known = self.known(&held)?;
        match (job.why, self.book[job.record].clone()) {
            (Why::Pass, What::Tenure { said, .. }) => {
                let is_elsewhere = said.heir.is_some_and(|heir| node_of(heir) == FAR);
                let is_ahead = is_elsewhere && self.has_decisions_ahead(&held);
                if is_ahead && self.mistake != Some(Mistake::HeirAhead) {
                    return None;
                }
                let next = known.successor(&said, awaited(&said, &nodes(), &self.vector(&held)))?;
                self.name(state, node, next)
            }
            (why, What::Decision { order, .. }) => {
                let epoch = if why == Why::Decided { order.0 } else { known.home.epoch };
                let is_home = known.home.site == site(node) && known.home.epoch == epoch;
                let has_heir = known.tenure().is_some_and(|tenure| tenure.heir.is_some());
                let is_told = (is_home && !has_heir) || self.mistake == Some(Mistake::LateAnswer);
                if is_told { judge::tell(self, state, job.record) } else { None }
            }
            _ => None,
        }
    }
}

pub(crate) fn is_passing(place: &Place) -> bool {
    place.jobs.iter().any(|job| job.why == Why::Pass)
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
pub(crate) const KINDS: usize = 11;

/// Which of them a step is.
pub(crate) const fn kind(step: &Step) -> usize {
    match step {
        Step::Decide(_) => 0,
        Step::Refuse(_) => 1,
        Step::Plain(_) => 2,
        Step::Turn(_) => 3,
        Step::Give(..) => 4,
        Step::Deliver(..) => 5,
        Step::Finish(..) => 6,
        Step::Feed(..) => 7,
        Step::Loose(..) => 8,
        Step::View(..) => 9,
        Step::Sync(..) => 10,
    }
}
