//! What this site and the others are there for now, and what that refuses here.
//!
//! Before: `roster_watch.rs`, which reads it from the records after every change of them. After: every path that
//! writes for a client, takes copies or names who takes over. Invariants: asked without a lock on the way of a write,
//! and once more on the commit thread, so that no write is decided after a duty that forbids it was taken up; what
//! is refused passes when an operator says so, and the message says which word ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{PoisonError, RwLock};

use skerry_base::SiteId;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{Duty, OnDuty};

/// What is to be done at this site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// A write of a client.
    Write,
    /// A part, the end or the abortion of an upload that was begun before.
    Upload,
    /// Holding a copy for others, or following a bucket for them.
    Hold,
    /// Letting go of a bucket: all that is here of it is handed over before.
    Leave,
}

/// The duties of all sites.
#[derive(Debug)]
pub(crate) struct Duties {
    me: SiteId,
    name: RwLock<String>,
    /// [`Duty`] of this site.
    now: AtomicU8,
    /// Whether uploads that nobody completed may be lost: then nothing more comes into them.
    abandons: AtomicBool,
    /// Whether this process was told that it runs beside another with its key, and is linked with nobody.
    copied: AtomicBool,
    /// Whether this site belongs no more: others said so, or its own records do.
    gone: AtomicBool,
    all: RwLock<BTreeMap<SiteId, OnDuty>>,
    /// Who reads the records to set this: one after the other, so that nothing older is set last.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Duties {
    /// Nothing is known yet: everything is served.
    pub(crate) fn new(me: SiteId, name: &str) -> Self {
        let name = RwLock::new(name.into());
        let (now, abandons) = (AtomicU8::new(0), AtomicBool::new(false));
        let (copied, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        let (all, turn) = (RwLock::default(), tokio::sync::Mutex::default());
        Self { me, name, now, abandons, copied, gone, all, turn }
    }

    /// What people call this site.
    pub(crate) fn call(&self, name: String) {
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Takes over what the records say; whether that is news.
    pub(crate) fn set(&self, all: BTreeMap<SiteId, OnDuty>) -> bool {
        let own = all.get(&self.me);
        self.abandons.store(own.is_some_and(OnDuty::abandons_uploads), Ordering::SeqCst);
        let own = own.map(|own| own.duty).unwrap_or_default();
        let before = self.now.swap(own as u8, Ordering::SeqCst);
        let mut known = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != all;
        *known = all;
        drop(known);
        if before != own as u8 {
            tracing::warn!(duty = word(own), "this site has another duty now");
        }
        is_news
    }

    /// Whether this process is a copy that all turn away.
    pub(crate) fn set_copied(&self, is_copied: bool) {
        if self.copied.swap(is_copied, Ordering::SeqCst) != is_copied {
            match is_copied {
                true => tracing::error!(
                    "this process runs beside another with the same key and every site that it reaches turns it away: \
                     it takes no writes; stop one of the two"
                ),
                false => tracing::warn!("this process is linked again: it takes writes"),
            }
        }
    }

    /// The same.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied.load(Ordering::SeqCst)
    }

    /// Whether this site was expelled or replaced, as far as it knows.
    pub(crate) fn set_gone(&self, is_gone: bool) {
        if self.gone.swap(is_gone, Ordering::SeqCst) != is_gone {
            match is_gone {
                true => tracing::error!("{}", self.why_gone()),
                false => {
                    tracing::warn!("this site is linked with who said that it was expelled: it takes writes")
                }
            }
        }
    }

    /// The same.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Why a site that belongs no more takes no writes.
    pub(crate) fn why_gone(&self) -> String {
        let name = self.name.read().unwrap_or_else(PoisonError::into_inner);
        format!(
            "{name} was expelled from the federation, or replaced by another site: it answers reads of what it has, and takes \
             no writes, which would reach nobody; write at another site (`skerry site list` there says what became of this one)"
        )
    }

    /// Of one site.
    pub(crate) fn of(&self, site: SiteId) -> OnDuty {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&site).cloned().unwrap_or_default()
    }

    /// Of this site.
    pub(crate) fn own(&self) -> OnDuty {
        self.of(self.me)
    }

    /// Whether this site stands still for maintenance.
    pub(crate) fn is_frozen(&self) -> bool {
        self.now.load(Ordering::SeqCst) == Duty::Freeze as u8
    }

    /// Sites that are about to go: what they hold counts no more.
    pub(crate) fn leaving(&self) -> BTreeSet<SiteId> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, duty)| duty.leaves()).map(|(site, _)| *site).collect()
    }

    /// Whether a site stands still for maintenance.
    pub(crate) fn is_frozen_at(&self, site: SiteId) -> bool {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&site).is_some_and(|on| on.duty == Duty::Freeze)
    }

    /// Sites that stand still for maintenance: they take nothing.
    pub(crate) fn frozen(&self) -> BTreeSet<SiteId> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, on)| on.duty == Duty::Freeze).map(|(site, _)| *site).collect()
    }

    /// Whether this site is there for it.
    pub(crate) fn allows(&self, act: Act) -> bool {
        if self.is_copied() || self.is_gone() {
            return false;
        }
        let now = self.now.load(Ordering::SeqCst);
        let ends = now == Duty::Drain as u8
            && match act {
                // What is completed behind the word that all is elsewhere would be lost.
                Act::Upload => !self.abandons.load(Ordering::SeqCst),
                Act::Leave => true,
                Act::Write | Act::Hold => false,
            };
        now == Duty::Serve as u8 || ends
    }

    /// Refuses what this site is not there for.
    pub(crate) fn check(&self, act: Act) -> Outcome<()> {
        // Every write asks: whoever serves takes no lock for it.
        if self.allows(act) {
            return Ok(());
        }
        if self.is_gone() {
            return Err(ServiceError::new(ErrorKind::NotServing, self.why_gone()));
        }
        let now = self.now.load(Ordering::SeqCst);
        let name = self.name.read().unwrap_or_else(PoisonError::into_inner);
        let message = if self.is_copied() {
            format!(
                "another process runs with the key of {name}, and the other sites keep that one: this is its copy, and takes \
                 no writes; stop one of the two (`skerry status`), write at another site"
            )
        } else if now == Duty::Freeze as u8 {
            format!(
                "{name} is frozen for maintenance: it answers reads and takes no writes until `skerry site resume \
                 {name}`; write at another site"
            )
        } else {
            format!(
                "{name} is being emptied to be switched off: it answers reads and takes no writes unless `skerry site \
                 resume {name}` calls it back; write at another site"
            )
        };
        Err(ServiceError::new(ErrorKind::NotServing, message))
    }
}

/// As people call it.
pub(crate) const fn word(duty: Duty) -> &'static str {
    match duty {
        Duty::Serve => "serves",
        Duty::Freeze => "frozen",
        Duty::Drain => "draining",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_each_duty_refuses_is_told_with_what_ends_it() {
        let me = SiteId([1; 16]);
        let duties = Duties::new(me, "oslo");
        let set = |duty| duties.set([(me, OnDuty { duty, epoch: 1, ..OnDuty::default() })].into());
        let refused = |act| duties.check(act).err();
        for (duty, allowed) in [
            (Duty::Serve, &[Act::Write, Act::Upload, Act::Hold, Act::Leave][..]),
            (Duty::Freeze, &[]),
            (Duty::Drain, &[Act::Upload, Act::Leave]),
        ] {
            set(duty);
            for act in [Act::Write, Act::Upload, Act::Hold, Act::Leave] {
                assert_eq!(duties.allows(act), allowed.contains(&act), "{duty:?} {act:?}");
                assert_eq!(refused(act).is_none(), allowed.contains(&act), "{duty:?} {act:?}");
            }
        }
        let error = refused(Act::Write).unwrap();
        assert_eq!(error.kind().status(), 409);
        assert!(error.message().contains("skerry site resume oslo"), "{error}");
        assert_eq!(duties.leaving(), [me].into());
    }

    #[test]
    fn a_copy_that_all_turn_away_takes_nothing_until_it_is_linked() {
        let duties = Duties::new(SiteId([1; 16]), "oslo");
        duties.set_copied(true);
        for act in [Act::Write, Act::Upload, Act::Hold, Act::Leave] {
            assert!(!duties.allows(act), "{act:?}");
        }
        let error = duties.check(Act::Write).unwrap_err();
        assert_eq!(error.kind().status(), 409);
        assert!(error.message().contains("with the key of oslo"), "{error}");
        duties.set_copied(false);
        assert!(duties.check(Act::Write).is_ok());
    }

    #[test]
    fn a_site_that_belongs_no_more_takes_nothing_whatever_else_it_is() {
        let me = SiteId([1; 16]);
        let duties = Duties::new(me, "oslo");
        duties.set([(me, OnDuty { duty: Duty::Drain, epoch: 1, ..OnDuty::default() })].into());
        duties.set_gone(true);
        for act in [Act::Write, Act::Upload, Act::Hold, Act::Leave] {
            assert!(!duties.allows(act), "{act:?}");
        }
        let error = duties.check(Act::Write).unwrap_err();
        assert_eq!(error.kind().status(), 409);
        assert!(error.message().contains("oslo was expelled"), "{error}");
        duties.set_gone(false);
        assert!(duties.check(Act::Leave).is_ok());
    }
}
