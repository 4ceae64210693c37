//! Metrics of credential keys: what does not open here, and what sites that are gone may know.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Credential keys and what is sealed with them.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    unopened: Gauge,
    exposed: Gauge,
}

impl Credentials {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help =
            "Access keys that work and whose credential key this site was not told yet: it refuses them";
        registry.register("skerry_unopened_access_keys", help, self.unopened.clone());
        let help = "Access keys that work and that a site which was expelled or replaced may know";
        registry.register("skerry_exposed_access_keys", help, self.exposed.clone());
    }

    /// Sets both.
    pub fn set(&self, [unopened, exposed]: [usize; 2]) {
        self.unopened.set(i64::try_from(unopened).unwrap_or(i64::MAX));
        self.exposed.set(i64::try_from(exposed).unwrap_or(i64::MAX));
    }
}
