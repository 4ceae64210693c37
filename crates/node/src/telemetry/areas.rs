//! Metrics of how this site finds others. See docs/areas.md.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skerry_federation::AreasReport;

use super::{FloatGauge, signed};

/// Landmarks, what is told to them, what is held for others.
#[derive(Debug, Clone, Default)]
pub struct Areas {
    levels: Gauge,
    level: Gauge,
    told: Gauge,
    know: Gauge,
    cluster: Gauge,
    entries: Gauge,
    error: FloatGauge,
}

impl Areas {
    pub(super) fn register(&self, registry: &mut Registry) {
        let gauges = [
            (
                "skerry_areas_levels",
                "Levels of landmarks (K); with one every site tells every other",
                &self.levels,
            ),
            ("skerry_areas_level", "Level of this site; the highest is a landmark of all sites", &self.level),
            ("skerry_areas_landmarks", "Sites that are told what this one holds", &self.told),
            (
                "skerry_areas_landmarks_settled",
                "Of them those that have said that they know it all",
                &self.know,
            ),
            ("skerry_areas_cluster_sites", "Sites that tell this one all that they hold", &self.cluster),
            ("skerry_areas_entries", "Memberships of other sites held here", &self.entries),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let help = "Relative error of round trips estimated from here, 0 to 1";
        registry.register("skerry_areas_coordinate_error", help, self.error.clone());
    }

    /// Sets all from one reading.
    pub fn set(&self, report: &AreasReport) {
        let count = |number: usize| signed(u64::try_from(number).unwrap_or(u64::MAX));
        self.levels.set(report.k.into());
        self.level.set(report.level.into());
        self.told.set(count(report.told.0));
        self.know.set(count(report.told.1));
        self.cluster.set(count(report.sites.iter().filter(|near| near.tells).count()));
        self.entries.set(count(report.entries));
        self.error.set(f64::from(1.0 - report.coordinate.confidence()));
    }
}
