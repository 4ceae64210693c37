//! The meter of this site's uplink: counts what crosses, asks the budget, remembers.
//!
//! Why here: every question and every record to another site passes this folder, so nothing is forgotten. What may
//! go is decided by [`skerry_federation::budget`]. Invariants: all links to other sites together are one uplink, those to
//! other nodes of this site are none; a site without a
//! budget pays one look at a lock; the count is looked at with every question and written down once a granule crossed,
//! and when the node stops; each start adds a granule for what a crash may have cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::limits::CHUNK_BYTES;
use skerry_base::{NodeId, SiteId, WallTime, codec};
use skerry_federation::budget::{Account, Budget, Class, Period, Plan, Verdict};
use skerry_federation::rest;
use skerry_gateway::service::Outcome;
use skerry_model::space;
use tokio::sync::Notify;

use super::message::{Part, Request};
use crate::clock::Clock;
use crate::net::Net;
use crate::site::unreadable;

/// Where the budget and the count are remembered, in the node's own table.
pub(crate) const PLAN: &[u8] = b"uplink/plan";
pub(crate) const ACCOUNT: &[u8] = b"uplink/account";
/// The least that is worth writing down.
const GRANULE_BYTES: u64 = 256 << 10;
/// The part of a budget that is written down at once.
const GRANULES: u64 = 4096;
/// What TCP and IP add to what a question brings, in percent: headers of full segments and of their acknowledgements. What
/// crossed is counted as the network says.
const HEADERS_PERCENT: u64 = 6;

struct State {
    budget: Budget,
    /// What the network had counted by peer when it was looked at last.
    seen: BTreeMap<NodeId, u64>,
    /// Bytes not written down yet.
    unsaved: u64,
    /// The other nodes of this site: what they say to each other stays on the LAN.
    lan: BTreeSet<NodeId>,
}

/// The uplink of a site.
pub(crate) struct Uplink {
    net: Arc<dyn Net>,
    clock: Clock,
    state: Mutex<State>,
    /// Bytes that questions under way may still bring.
    expected: Arc<AtomicU64>,
    /// Woken when a granule crossed.
    due: Notify,
}

/// What a question may bring is set aside while this lives, so that many at once do not pass the end together.
pub(crate) struct Held {
    expected: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.expected.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How an uplink stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) plan: Option<Plan>,
    pub(crate) account: Account,
    /// When the period ends.
    pub(crate) ends: Option<WallTime>,
    /// In the order of [`Class::ALL`].
    pub(crate) verdicts: [Verdict; 4],
}

/// What a question is, if its asker does not say more.
pub(crate) const fn class(request: &Request) -> Option<Class> {
    match request {
        // What is said on it is judged message by message; what is carried, by who carries it.
        Request::Control | Request::Circuit(_) => None,
        // Asked for by who takes it, and weighed by who gives it, as what is asked for.
        Request::Give { .. } => None,
        Request::Decide(_) | Request::NameHome(_) | Request::ClaimName(_) => Some(Class::Decision),
        // Once per link, and nothing else is packed before it.
        Request::Words { .. } => Some(Class::Decision),
        Request::Below(_)
        | Request::Lives
        | Request::IsLive { .. }
        | Request::Remains { .. }
        | Request::CredentialKeys(_) => Some(Class::Record),
        _ => Some(Class::Read),
    }
}

/// What a question counts as: nothing makes it more urgent than it is, but its asker knows whether somebody waits for it. A
/// chunk for a copy, or a copy that is to be held, is asked for in the words of a reader.
pub(crate) fn weight(request: &Request, said: Class) -> Option<Class> {
    class(request).map(|own| own.max(said))
}

/// Bytes that a question and its answer take at most, as far as it says.
fn size(request: &Request) -> u64 {
    let body = match request {
        Request::Chunk { .. } | Request::Through(_) => CHUNK_BYTES as u64,
        Request::Tail(tail) => u64::from(tail.chunk.stored.saturating_sub(tail.from)),
        Request::Read(read) if read.part != Part::Nothing => CHUNK_BYTES as u64,
        Request::Hold(hold) => hold.bytes() as u64,
        Request::HoldFor(asked) => asked.hold.bytes() as u64,
        // Follows the question, as it comes from the client.
        Request::Forward(forward) => forward.length.unwrap_or(0),
        Request::Replace(replace) => replace.put.length.unwrap_or(0),
        _ => 0,
    };
    with_headers(body)
}

const fn with_headers(body: u64) -> u64 {
    body.saturating_add(body.saturating_mul(HEADERS_PERCENT) / 100)
}

fn granule(plan: &Plan) -> u64 {
    (plan.bytes / GRANULES).max(GRANULE_BYTES)
}

/// The least that may cross, for a budget that does not read: whoever pays for the link does not find out by the bill.
fn unread_plan(error: &codec::DecodeError) -> Plan {
    tracing::error!(
        %error,
        "the budget of the metered link does not read (damage, or a later release wrote it): next to nothing crosses until \
         `skerry link budget` says it anew, or --none"
    );
    Plan { bytes: 1_000_000, period: Period::Month, reset_day: 1, hours: None, zone_minutes: 0 }
}

fn unread_account(error: &codec::DecodeError) -> Account {
    tracing::error!(%error, "what crossed the metered link in this period does not read: it is counted from nothing");
    Account::default()
}

impl Uplink {
    /// Not metered, until it is said otherwise.
    pub(crate) fn new(net: Arc<dyn Net>, clock: Clock) -> Self {
        let state =
            State { budget: Budget::default(), seen: BTreeMap::new(), unsaved: 0, lan: BTreeSet::new() };
        Self { net, clock, state: Mutex::new(state), expected: Arc::default(), due: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on where the last run of the node ended.
    pub(crate) fn resume(&self, view: &dyn View) -> Outcome<()> {
        let plan = space::local(view, PLAN).map_err(unreadable)?;
        let plan =
            plan.map(|bytes| codec::decode::<Plan>(&bytes).unwrap_or_else(|error| unread_plan(&error)));
        let account = space::local(view, ACCOUNT).map_err(unreadable)?;
        let account = account
            .map(|bytes| codec::decode::<Account>(&bytes).unwrap_or_else(|error| unread_account(&error)));
        let account = account.unwrap_or_default();
        let mut state = self.state();
        state.budget = Budget::new(plan, account);
        if let Some(plan) = plan {
            state.budget.carried(granule(&plan), self.clock.wall(), self.clock.is_trusted());
        }
        Ok(())
    }

    /// Sets or lifts the budget; what is to be remembered of the count.
    pub(crate) fn set(&self, plan: Option<Plan>) -> Account {
        self.look(&mut self.state());
        let mut state = self.state();
        state.budget.set(plan, self.clock.wall());
        state.unsaved = 0;
        state.budget.account()
    }

    /// The other nodes of this site, from now on.
    pub(crate) fn set_lan(&self, lan: BTreeSet<NodeId>) {
        self.look(&mut self.state());
        self.state().lan = lan;
    }

    /// Takes in what crossed since the last look.
    fn look(&self, state: &mut State) {
        let mut crossed = 0;
        for traffic in self.net.traffic() {
            let now = traffic.crossed();
            let before = state.seen.insert(traffic.node, now).unwrap_or(0);
            if state.lan.contains(&traffic.node) {
                continue;
            }
            // A peer that was dropped and came back is counted anew from nothing.
            crossed += now.checked_sub(before).unwrap_or(now);
        }
        state.budget.carried(crossed, self.clock.wall(), self.clock.is_trusted());
        state.unsaved += crossed;
        if state.budget.plan().is_some_and(|plan| state.unsaved >= granule(plan)) {
            self.due.notify_one();
        }
    }

    /// If it is metered: after how much silence a link is asked whether its other end is there, with so many other sites; and
    /// those that are reached without paying.
    pub(crate) fn rest(
        &self,
        sites: impl Iterator<Item = (SiteId, NodeId)>,
    ) -> Option<(Duration, BTreeSet<SiteId>)> {
        let state = self.state();
        let plan = state.budget.plan()?;
        let (free, paid): (Vec<_>, Vec<_>) = sites.partition(|(_, node)| state.lan.contains(node));
        let every = rest::every(plan.month_bytes(), paid.len() as u64);
        Some((every, free.into_iter().map(|(site, _)| site).collect()))
    }

    /// Whether there is a budget.
    pub(crate) fn is_metered(&self) -> bool {
        self.state().budget.plan().is_some()
    }

    /// Waits until there is something to write down.
    pub(crate) async fn due(&self) {
        self.due.notified().await;
    }

    /// Whether something of this class may cross now; else why not, and when.
    pub(crate) fn may(&self, class: Class) -> Result<(), String> {
        self.hold(None, class, 0).map(drop)
    }

    /// The same to a node.
    pub(crate) fn may_send(&self, node: NodeId, class: Class) -> Result<(), String> {
        self.hold(Some(node), class, 0).map(drop)
    }

    /// Those of these sites, by their nodes, to and from which nothing of this class may cross now.
    pub(crate) fn spent(
        &self,
        class: Class,
        sites: impl Iterator<Item = (SiteId, NodeId)>,
    ) -> BTreeSet<SiteId> {
        if self.may(class).is_ok() {
            return BTreeSet::new();
        }
        let state = self.state();
        sites.filter(|(_, node)| !state.lan.contains(node)).map(|(site, _)| site).collect()
    }

    /// The same for so many bytes of whomever, which are set aside.
    pub(crate) fn hold_for(&self, class: Class, bytes: u64) -> Result<Held, String> {
        self.hold(None, class, with_headers(bytes))
    }

    /// The same for so many bytes, which are set aside; between the nodes of a site everything may.
    fn hold(&self, node: Option<NodeId>, class: Class, bytes: u64) -> Result<Held, String> {
        let mut state = self.state();
        let held = |bytes: u64| {
            self.expected.fetch_add(bytes, Ordering::Relaxed);
            Held { expected: self.expected.clone(), bytes }
        };
        let Some(plan) = state.budget.plan().copied() else { return Ok(held(0)) };
        if node.is_some_and(|node| state.lan.contains(&node)) {
            return Ok(held(0));
        }
        self.look(&mut state);
        let (now, mut ahead) = (self.clock.wall(), state.budget);
        let expected = self.expected.load(Ordering::Relaxed).saturating_add(bytes);
        ahead.carried(expected, now, self.clock.is_trusted());
        let when = |at: WallTime| words(at, &plan);
        match ahead.may(class, now) {
            Verdict::Go => Ok(held(bytes)),
            Verdict::Spent(until) => {
                // `skerry link budget` says that it may cross then: what is left is not enough for this.
                let left = match state.budget.left(class) {
                    0 => String::new(),
                    left => format!(" but for {left} bytes, too few for this beside what is under way"),
                };
                Err(format!(
                    "the budget of the site's metered link is used up for {}{left}; it returns {}",
                    name(class),
                    when(until)
                ))
            }
            Verdict::Closed(until) => {
                Err(format!("copies cross the site's metered link at its hours only: from {}", when(until)))
            }
        }
    }

    /// The same for a question to a node or from it, whose asker says that it is so urgent.
    pub(crate) fn may_ask(
        &self,
        node: NodeId,
        request: &Request,
        said: Class,
    ) -> Result<Option<Held>, String> {
        let weight = weight(request, said);
        weight.map(|class| self.hold(Some(node), class, size(request))).transpose()
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        let mut state = self.state();
        self.look(&mut state);
        let (now, budget) = (self.clock.wall(), state.budget);
        let account = budget.account();
        Standing {
            plan: budget.plan().copied(),
            account,
            ends: budget.plan().map(|plan| plan.ends(now.max(account.since))),
            verdicts: Class::ALL.map(|class| budget.may(class, now)),
        }
    }

    /// The count, if there is something to write down.
    pub(crate) fn to_remember(&self) -> Option<Account> {
        let mut state = self.state();
        self.look(&mut state);
        state.budget.plan()?;
        let unsaved = std::mem::take(&mut state.unsaved);
        (unsaved > 0).then(|| state.budget.account())
    }
}

/// As people call what is refused.
pub(crate) const fn name(class: Class) -> &'static str {
    match class {
        Class::Decision => "conditional operations",
        Class::Record => "records",
        Class::Read => "reads",
        Class::Copy => "copies",
    }
}

/// A time in the zone of a plan.
fn words(at: WallTime, plan: &Plan) -> String {
    let local = WallTime(at.0.saturating_add_signed(i64::from(plan.zone_minutes) * 60_000));
    let date = skerry_gateway::service::date::iso(local);
    let time = date.get(..16).unwrap_or(&date).replace('T', " ");
    format!("{time} {}", zone(plan.zone_minutes))
}

/// A zone as it is written.
pub(crate) fn zone(minutes: i16) -> String {
    if minutes == 0 {
        return "UTC".into();
    }
    let (sign, size) = (if minutes < 0 { '-' } else { '+' }, minutes.unsigned_abs());
    format!("{sign}{:02}:{:02}", size / 60, size % 60)
}

#[cfg(test)]
mod tests {
    use skerry_base::{BucketId, ChunkId};

    use super::*;
    use crate::peers::message::{Hold, Holdings};

    #[test]
    fn what_an_asker_says_makes_a_question_less_urgent_and_never_more() {
        let bucket = BucketId([1; 16]);
        let chunk = Request::Chunk { domain: bucket, chunk: ChunkId([2; 32]) };
        let hold = Request::Hold(Hold { bucket, record: Vec::new().into(), payload: Vec::new() });
        let holdings = Request::Holdings(Holdings { bucket, life: None, from: Default::default() });
        for request in [&chunk, &hold, &holdings] {
            let counts = Class::ALL.map(|said| weight(request, said));
            assert_eq!(counts, [Class::Read, Class::Read, Class::Read, Class::Copy].map(Some));
        }
        let words = Request::Words { dialect: 4 };
        assert_eq!(Class::ALL.map(|said| weight(&words, said)), Class::ALL.map(Some));
        assert_eq!(Class::ALL.map(|said| weight(&Request::Control, said)), [None; 4]);
    }
}
