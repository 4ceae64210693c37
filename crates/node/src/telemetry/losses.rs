//! Metrics of lost sites: how many there are, and what readers got in place of what only they had.

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
    sites: Gauge,
    reads: Family<AnswerLabel, Counter>,
}

impl Losses {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Sites whose copies count no more: declared lost, expelled or replaced";
        registry.register("skerry_lost_sites", help, self.sites.clone());
        let help =
            "Reads of versions whose body was lost with a site: answered by an older version, or by none";
        registry.register("skerry_lost_reads", help, self.reads.clone());
    }

    /// Sets the number of lost sites, and how many reads since the start got an older version, and none.
    pub fn set(&self, sites: usize, [older, none]: [u64; 2]) {
        self.sites.set(i64::try_from(sites).unwrap_or(i64::MAX));
        for (answer, now) in [("older", older), ("none", none)] {
            let counter = self.reads.get_or_create(&AnswerLabel { answer });
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }
}
