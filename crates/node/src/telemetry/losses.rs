//! Metrics of lost sites: how many there are, and what readers got in place of what only they had.
//!
//! Declared ones are told from those that belong no more: the former end by themselves, so somebody may be woken by them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    answer: &'static str,
}

/// Lost sites.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    declared: Gauge,
    gone: Gauge,
    is_gone: Gauge,
    reads: Family<AnswerLabel, Counter>,
}

impl Losses {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Sites that are declared lost and not back; not those that were expelled or replaced";
        registry.register("skerry_lost_sites", help, self.declared.clone());
        let help = "Sites that were expelled or replaced, for good";
        registry.register("skerry_gone_sites", help, self.gone.clone());
        let help =
            "1 where others say that this very site was expelled or replaced: it takes no writes; else 0";
        registry.register("skerry_is_gone", help, self.is_gone.clone());
        let help =
            "Reads of versions whose body was lost with a site: answered by an older version, or by none";
        registry.register("skerry_lost_reads", help, self.reads.clone());
    }

    /// Sets whether this site itself belongs no more.
    pub fn set_gone(&self, is_gone: bool) {
        self.is_gone.set(i64::from(is_gone));
    }

    /// Sets how many sites are declared lost and how many are gone, and how many reads since the start got an older
    /// version, and none.
    pub fn set(&self, [declared, gone]: [usize; 2], [older, none]: [u64; 2]) {
        self.declared.set(i64::try_from(declared).unwrap_or(i64::MAX));
        self.gone.set(i64::try_from(gone).unwrap_or(i64::MAX));
        for (answer, now) in [("older", older), ("none", none)] {
            let counter = self.reads.get_or_create(&AnswerLabel { answer });
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }
}
