//! When a bucket is looked through for copies too many.
//!
//! Before: a pass and what it found ([`Passed`]). After: `trim.rs` asks every second whether one is due. Invariants: a pass
//! that has not heard somebody who may hold something finds nothing for that reason alone, so the next one is due as soon as
//! that one can be asked; whatever makes one due, passes cost a small share of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use skerry_base::{BucketId, Instant, SiteId};

use crate::copies::Rules;

/// After other rules: losses and duties are said to several sites, and come one by one.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// Between two passes while something stays that is too much: at first, and at most.
const AGAIN: Duration = Duration::from_secs(4);
const SELDOM: Duration = Duration::from_secs(600);
/// Between two passes that found nothing: a cut may have made a copy too many, of which nobody is told.
const PERIOD: Duration = Duration::from_secs(6 * 3600);
/// Between two passes that found that another site was taking what is held here: it may be in a pass of its own and have found
/// the same. At least as long as such a find counts, and drawn from so much more, so that no two go on in step.
const APART: Duration = Duration::from_secs(30);
const DRAWN: Duration = Duration::from_secs(120);
/// A pass that cost so long is repeated after this many times as long.
const SHARE: u32 = 100;
/// The same while something stays that is too much.
const AGAIN_SHARE: u32 = 10;

/// How long a site waits that found itself paged, by a share of one that was drawn.
pub(super) fn apart(share: f64) -> Duration {
    APART + DRAWN.mul_f64(share)
}

/// How a pass ended, as far as the next one depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Passed {
    pub(super) released: bool,
    /// Something is too much and could not go.
    pub(super) stays: bool,
    /// Areas have not all the copies yet that they ask for: then some here will be too many.
    pub(super) is_unsettled: bool,
    /// It was blocked because another site takes what is held here: so long is drawn until the next one.
    pub(super) apart: Option<Duration>,
    /// Who may hold something and has not said what.
    pub(super) unheard: BTreeSet<SiteId>,
}

/// When a bucket is looked through next, and by which rules.
#[derive(Debug)]
pub(super) struct Plan {
    rules: Arc<(u16, Rules)>,
    due: Instant,
    /// Not before, whoever is linked anew: what the last pass cost is a share of the time.
    earliest: Instant,
    pause: Duration,
    /// Who was linked when something stayed that is too much: with others it may go.
    stayed_with: Option<BTreeSet<SiteId>>,
    /// Who was not heard and could not be asked.
    away: BTreeSet<SiteId>,
}

impl Plan {
    fn new(rules: Arc<(u16, Rules)>, due: Instant) -> Self {
        let (earliest, pause) = (Instant(0), AGAIN);
        Self { rules, due, earliest, pause, stayed_with: None, away: BTreeSet::new() }
    }

    /// Whether it is time. `hurry`: somebody knows too little of who holds what.
    fn is_due(&mut self, linked: &BTreeSet<SiteId>, hurry: bool, now: Instant) -> bool {
        let others = self.stayed_with.as_ref().is_some_and(|with| with != linked);
        let back = !self.away.is_disjoint(linked);
        if others || back {
            let soon = now.after(SETTLE).max(self.earliest);
            (self.due, self.pause) = (self.due.min(soon), AGAIN);
            self.away.retain(|site| !linked.contains(site));
        }
        if others {
            self.stayed_with = Some(linked.clone());
        }
        if hurry {
            self.due = self.due.min(now.after(self.pause).max(self.earliest));
        }
        self.due <= now
    }

    /// After a pass that began then.
    fn passed(&mut self, pass: &Passed, linked: &BTreeSet<SiteId>, begun: Instant, now: Instant) {
        // Of those that are not linked one is told when they are.
        let is_deaf = !pass.unheard.is_disjoint(linked);
        let again = pass.stays || pass.is_unsettled || is_deaf;
        let pause = if pass.released || !again { AGAIN } else { self.pause };
        let cost = now.since(begun);
        self.due = now.after(match (pass.stays || is_deaf, pass.is_unsettled) {
            (true, _) => pause.max(cost * AGAIN_SHARE),
            (false, true) => pause.max(cost * SHARE),
            (false, false) => PERIOD.max(cost * SHARE),
        });
        if let Some(apart) = pass.apart {
            self.due = self.due.max(now.after(apart));
        }
        self.earliest = now.after(cost * AGAIN_SHARE);
        self.pause = (pause * 2).min(SELDOM);
        self.stayed_with = again.then(|| linked.clone());
        self.away = pass.unheard.difference(linked).copied().collect();
    }

    /// After a pass that failed, of which nothing is known.
    fn failed(&mut self, now: Instant) {
        self.due = now.after(self.pause);
        self.pause = (self.pause * 2).min(SELDOM);
    }
}

/// Those of all followed buckets. A look costs the ones that are due, and all only after others are linked.
#[derive(Debug, Default)]
pub(super) struct Plans {
    plans: BTreeMap<BucketId, Plan>,
    agenda: BTreeSet<(Instant, BucketId)>,
    linked: BTreeSet<SiteId>,
    /// Looked through while others were linked than at the last look.
    crossed: BTreeSet<BucketId>,
    /// Rules told last: buckets that are asked for alike share them.
    shared: Vec<Arc<(u16, Rules)>>,
}

/// Rules among which those of the next bucket are looked for.
const SHARED: usize = 8;

impl Plans {
    /// Only these are followed.
    pub(super) fn retain(&mut self, followed: &BTreeSet<BucketId>) {
        self.plans.retain(|bucket, _| followed.contains(bucket));
        self.agenda.retain(|(_, bucket)| followed.contains(bucket));
    }

    /// A bucket is looked through by these rules; if they are new, not before this.
    pub(super) fn set(&mut self, bucket: BucketId, rules: (u16, Rules), due: Instant) {
        if self.plans.get(&bucket).is_some_and(|plan| *plan.rules == rules) {
            return;
        }
        let shared = self.shared.iter().find(|shared| ***shared == rules).cloned();
        let rules = shared.unwrap_or_else(|| {
            let rules = Arc::new(rules);
            self.shared.insert(0, rules.clone());
            self.shared.truncate(SHARED);
            rules
        });
        if let Some(before) = self.plans.insert(bucket, Plan::new(rules, due)) {
            self.agenda.remove(&(before.due, bucket));
        }
        self.agenda.insert((due, bucket));
    }

    /// The rules of a bucket.
    pub(super) fn rules(&self, bucket: BucketId) -> Option<Arc<(u16, Rules)>> {
        self.plans.get(&bucket).map(|plan| plan.rules.clone())
    }

    /// The buckets whose time has come. `hurries`: those of which somebody knows too little of who holds what.
    pub(super) fn due(
        &mut self,
        linked: BTreeSet<SiteId>,
        hurries: &BTreeSet<BucketId>,
        now: Instant,
    ) -> Vec<BucketId> {
        let (are_others, crossed) = (self.linked != linked, core::mem::take(&mut self.crossed));
        self.linked = linked;
        let looked: BTreeSet<BucketId> = match are_others {
            true => self.plans.keys().copied().collect(),
            false => {
                let due = self.agenda.iter().take_while(|(at, _)| *at <= now);
                due.map(|(_, bucket)| *bucket).chain(hurries.iter().copied()).chain(crossed).collect()
            }
        };
        let linked = core::mem::take(&mut self.linked);
        let mut due = Vec::new();
        for bucket in looked {
            let hurry = hurries.contains(&bucket);
            if self.change(bucket, |plan| plan.is_due(&linked, hurry, now)).unwrap_or_default() {
                due.push(bucket);
            }
        }
        self.linked = linked;
        due
    }

    /// After a pass that began then.
    pub(super) fn passed(
        &mut self,
        bucket: BucketId,
        pass: &Passed,
        linked: &BTreeSet<SiteId>,
        (begun, now): (Instant, Instant),
    ) {
        if *linked != self.linked {
            self.crossed.insert(bucket);
        }
        self.change(bucket, |plan| plan.passed(pass, linked, begun, now));
    }

    /// After one that failed.
    pub(super) fn failed(&mut self, bucket: BucketId, now: Instant) {
        self.change(bucket, |plan| plan.failed(now));
    }

    fn change<T>(&mut self, bucket: BucketId, change: impl FnOnce(&mut Plan) -> T) -> Option<T> {
        let plan = self.plans.get_mut(&bucket)?;
        let before = plan.due;
        let answer = change(plan);
        if plan.due != before {
            self.agenda.remove(&(before, bucket));
            self.agenda.insert((plan.due, bucket));
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
        numbers.iter().map(|number| SiteId([*number; 16])).collect()
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn plan() -> Plan {
        Plan::new(Arc::new((2, Rules::default())), at(10))
    }

    fn unheard(numbers: &[u8]) -> Passed {
        Passed { unheard: sites(numbers), ..Passed::default() }
    }

    #[test]
    fn who_could_not_be_asked_is_asked_once_it_is_linked() {
        let (mut plan, both) = (plan(), sites(&[2, 3]));
        assert!(!plan.is_due(&sites(&[2]), false, at(9)) && plan.is_due(&sites(&[2]), false, at(10)));
        // 3 is away, and may hold what is too many here then.
        plan.passed(&unheard(&[3]), &sites(&[2]), at(10), at(10));
        assert!(!plan.is_due(&sites(&[2]), false, at(3600)), "nothing new");
        assert!(!plan.is_due(&both, false, at(3600)));
        assert!(plan.is_due(&both, false, at(3602)));
        plan.passed(&unheard(&[]), &both, at(3602), at(3602));
        assert!(!plan.is_due(&both, false, at(20_000)) && !plan.is_due(&sites(&[2]), false, at(20_100)));
        assert!(plan.is_due(&both, false, at(3602 + 6 * 3600)));
    }

    #[test]
    fn who_is_linked_and_did_not_say_it_is_asked_again_soon_and_then_seldom() {
        let (mut plan, linked, mut now) = (plan(), sites(&[2, 3]), 10);
        for pause in [4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            assert!(plan.is_due(&linked, false, at(now)));
            plan.passed(&unheard(&[3]), &linked, at(now), at(now));
            assert!(!plan.is_due(&linked, false, at(now + pause - 1)));
            now += pause;
        }
    }

    #[test]
    fn who_was_paged_waits_for_what_was_drawn_and_no_less_than_it_would_have() {
        let (mut plan, linked) = (plan(), sites(&[2]));
        let paged =
            |apart| Passed { stays: true, apart: Some(Duration::from_secs(apart)), ..Passed::default() };
        plan.passed(&paged(47), &linked, at(10), at(10));
        assert!(!plan.is_due(&linked, false, at(56)) && plan.is_due(&linked, false, at(57)));
        plan.passed(&paged(3), &linked, at(57), at(57));
        assert!(!plan.is_due(&linked, false, at(64)) && plan.is_due(&linked, false, at(65)));
    }

    #[test]
    fn two_that_page_each_other_are_apart_for_most_draws() {
        let drawn = |share| apart(share).as_secs();
        assert_eq!((drawn(0.0), drawn(0.5)), (APART.as_secs(), 90));
        assert!(drawn(0.3).abs_diff(drawn(0.6)) > APART.as_secs());
    }

    #[test]
    fn links_that_come_and_go_cost_no_more_than_a_share() {
        let mut plan = plan();
        plan.passed(&unheard(&[3]), &sites(&[2]), at(10), at(40));
        let both = sites(&[2, 3]);
        assert!(!plan.is_due(&both, false, at(41)) && !plan.is_due(&both, false, at(339)));
        assert!(plan.is_due(&both, false, at(340)), "thirty seconds: ten times as long after");
    }

    fn bucket(number: u16) -> BucketId {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        BucketId(id)
    }

    #[test]
    fn of_many_buckets_only_those_are_looked_at_whose_time_has_come() {
        let (mut plans, linked, none) = (Plans::default(), sites(&[2]), BTreeSet::new());
        for number in 0..10_000 {
            plans.set(bucket(number), (2, Rules::default()), at(10 + u64::from(number % 100)));
        }
        let one = |plans: &Plans| plans.rules(bucket(7)).map_or(0, |rules| Arc::strong_count(&rules));
        assert!(one(&plans) > 10_000, "rules that are alike lie in memory once");
        assert_eq!(plans.due(linked.clone(), &none, at(9)), []);
        let due = plans.due(linked.clone(), &none, at(10));
        assert_eq!(due.len(), 100);
        for bucket in due {
            plans.passed(bucket, &Passed::default(), &linked, (at(10), at(10)));
        }
        assert_eq!(plans.due(linked.clone(), &none, at(10)), [], "they were looked through");
        // They had been heard all, so nobody else makes them due; who hurries does.
        let hurried = [bucket(100), bucket(50)].into();
        assert_eq!(plans.due(linked.clone(), &hurried, at(10)), []);
        assert_eq!(plans.due(linked.clone(), &none, at(10)), []);
        let due = plans.due(sites(&[2, 3]), &none, at(14));
        assert_eq!(due.len(), 401, "those of the next four seconds, and the one that was hurried");
        assert!(due.contains(&bucket(50)));
        plans.failed(bucket(50), at(14));
        // A link that came and went while it was looked through: who was not heard is asked now.
        plans.passed(bucket(51), &unheard(&[3]), &linked, (at(14), at(14)));
        assert!(!plans.due(sites(&[2, 3]), &none, at(15)).contains(&bucket(51)));
        assert!(plans.due(sites(&[2, 3]), &none, at(17)).contains(&bucket(51)));
        assert!(!plans.due(sites(&[2, 3]), &none, at(17)).contains(&bucket(50)));
        plans.retain(&[bucket(50)].into());
        plans.set(bucket(50), (3, Rules::default()), at(30));
        assert_eq!(plans.due(sites(&[2, 3]), &none, at(29)), []);
        assert_eq!(plans.due(sites(&[2, 3]), &none, at(30)), [bucket(50)]);
    }

    #[test]
    fn what_stays_is_looked_at_again_with_other_links() {
        let (mut plan, two, both) = (plan(), sites(&[2]), sites(&[2, 3]));
        let stays = Passed { stays: true, ..Passed::default() };
        for _ in 0..8 {
            plan.passed(&stays, &two, at(10), at(10));
        }
        assert!(!plan.is_due(&two, false, at(500)) && !plan.is_due(&both, false, at(500)));
        assert!(plan.is_due(&both, false, at(502)));
    }
}
