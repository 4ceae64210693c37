//! Writes that another site was asked to decide and whose answer was lost: when it is known that what was decided is here.
//!
//! The body of such a write lies at the site that asked, and is kept until then: a decision may come with any record of a feed,
//! however late, and has superseded what was acknowledged before it. That nothing was decided nobody says; it shows: whoever was
//! asked goes on answering other questions for longer than it may take to decide, and all that it has written by then is here.
//!
//! Invariants: a word counts only if it was asked for after the write's own question was over; who falls silent in between begins
//! anew, since what it had been sent may lie unread there for as long; only an operator's word (`expel`, `site replace`), or that
//! of the site itself that it holds nothing of the bucket, lets the others speak for it: all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use skerry_base::{Instant, SiteId, Vector};

/// How long a site may take at most from hearing a question to its decision: later it refuses.
pub const DECIDED_WITHIN: Duration = Duration::from_secs(300);
/// For how long who was asked is to go on answering before its silence about a write says that there is none.
pub const SPELL: Duration = Duration::from_secs(600);
/// Who was not heard for so long in between has begun anew.
pub const GAP: Duration = Duration::from_secs(120);

/// What came of asking a site what it has of the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It did not say, or has no link.
    Silent,
    /// It was expelled or replaced, and has no link.
    Gone,
    /// It is no member, and has handed over what it had if it ever was one.
    Nothing,
    /// All that it has.
    Said(Vector),
}

/// Since when a site has answered without a gap, and when last.
#[derive(Debug, Clone, Copy)]
struct Spell {
    since: Instant,
    last: Instant,
}

/// One write that is waited for.
#[derive(Debug, Clone)]
pub struct Undecided {
    home: SiteId,
    spells: BTreeMap<SiteId, Spell>,
}

/// What is known of it by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All that was decided is here.
    Settled,
    /// These are waited for.
    Waits(Vec<SiteId>),
}

impl Undecided {
    /// This site was asked.
    pub const fn new(home: SiteId) -> Self {
        Self { home, spells: BTreeMap::new() }
    }

    /// Who was asked.
    pub const fn home(&self) -> SiteId {
        self.home
    }

    /// Whether all others are to be asked as well: by this word of the site that was asked it can say nothing itself.
    pub const fn asks_others(word: &Word) -> bool {
        matches!(word, Word::Gone | Word::Nothing)
    }

    /// Judges what was said at `now`; `own` was read afterwards. `spell` is how long it must have been said for.
    pub fn hear(
        &mut self,
        words: &BTreeMap<SiteId, Word>,
        own: &Vector,
        (now, spell): (Instant, Duration),
    ) -> Verdict {
        let mut waits = Vec::new();
        for (site, word) in words {
            let is_here = match word {
                Word::Silent => false,
                Word::Gone => continue,
                Word::Nothing => self.has_answered(*site, now, spell),
                Word::Said(vector) => self.has_answered(*site, now, spell) && own.includes(vector),
            };
            if !is_here {
                waits.push(*site);
            }
        }
        match waits.is_empty() && !words.is_empty() {
            true => Verdict::Settled,
            false => Verdict::Waits(waits),
        }
    }

    fn has_answered(&mut self, site: SiteId, now: Instant, spell: Duration) -> bool {
        let known = self.spells.entry(site).or_insert(Spell { since: now, last: now });
        if now.since(known.last) > GAP {
            known.since = now;
        }
        known.last = now;
        now.since(known.since) >= spell
    }
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;

    const HOME: SiteId = SiteId([1; 16]);
    const OTHER: SiteId = SiteId([2; 16]);

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn upto(seq: u64) -> Vector {
        Vector::from_iter([(Origin { node: NodeId([1; 16]), incarnation: 1 }, seq)])
    }

    fn hear(of: &mut Undecided, seconds: u64, said: &[(SiteId, Word)], own: u64) -> bool {
        let words = said.iter().cloned().collect();
        of.hear(&words, &upto(own), (at(seconds), SPELL)) == Verdict::Settled
    }

    #[test]
    fn what_was_not_decided_shows_once_the_home_has_answered_for_long_and_all_it_has_is_here() {
        let (mut of, said) = (Undecided::new(HOME), [(HOME, Word::Said(upto(5)))]);
        for seconds in (0..600).step_by(60) {
            assert!(!hear(&mut of, seconds, &said, 5), "it may be deciding still at {seconds}");
        }
        assert!(!hear(&mut of, 600, &said, 4), "what it decided may be what is on its way");
        assert!(hear(&mut of, 601, &said, 5));
    }

    #[test]
    fn who_was_silent_in_between_may_only_now_read_what_it_was_asked() {
        let (mut of, said) = (Undecided::new(HOME), [(HOME, Word::Said(upto(5)))]);
        assert!(!hear(&mut of, 0, &said, 5));
        let week = 7 * 24 * 3600;
        assert!(!hear(&mut of, week, &said, 5), "it was asleep");
        assert!(!hear(&mut of, week + 60, &[(HOME, Word::Silent)], 5));
        for seconds in (60..600).step_by(60) {
            assert!(!hear(&mut of, week + seconds, &said, 5));
        }
        assert!(hear(&mut of, week + 600, &said, 5));
    }

    #[test]
    fn for_a_home_that_is_gone_all_others_speak() {
        let mut of = Undecided::new(HOME);
        assert!([Word::Gone, Word::Nothing].iter().all(Undecided::asks_others));
        assert!(![Word::Silent, Word::Said(upto(1))].iter().any(Undecided::asks_others));
        let (said, away) = ((OTHER, Word::Said(upto(5))), (SiteId([3; 16]), Word::Silent));
        for seconds in (0..=600).step_by(100) {
            assert!(!hear(&mut of, seconds, &[said.clone(), away.clone()], 5), "it may have heard of it");
        }
        let lost = (away.0, Word::Gone);
        assert!(hear(&mut of, 650, &[said.clone(), lost, (HOME, Word::Gone)], 5));
        assert!(hear(&mut Undecided::new(HOME), 0, &[(HOME, Word::Gone)], 5), "there are no others");
        assert!(!hear(&mut Undecided::new(HOME), 0, &[], 5), "nobody said anything");
    }

    #[test]
    fn a_decision_is_made_well_before_its_absence_is_believed() {
        assert!(DECIDED_WITHIN * 2 <= SPELL && GAP * 2 < SPELL);
    }
}
