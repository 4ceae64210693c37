//! How this site finds others, in the words of the admin face and of the metrics.
//!
//! Invariant: read from the machine at one moment, so that its numbers fit each other.

use std::sync::Arc;

use skerry_federation::AreasReport as Machine;
use skerry_federation::areas::distance::Source;
use skerry_federation::areas::{Coordinate, ring};
use skerry_gateway::service::{AreaStatus, AreasReport, NearStatus, Outcome, PlaceStatus, VERSION};

use crate::paths::refusal;
use crate::site::Site;

/// What the machine says now; none when it has stopped.
pub(crate) async fn read(site: &Site) -> Option<Machine> {
    site.drive.ask(|machine, _| machine.areas()).await
}

/// The same for people.
pub(crate) async fn report(site: &Arc<Site>) -> Outcome<AreasReport> {
    let found = read(site).await.ok_or_else(refusal::stopping)?;
    let roster = &site.peers.roster;
    let near = |near: &skerry_federation::Near| NearStatus {
        site: near.site.to_string(),
        name: roster.name(near.site),
        level: near.level,
        landmark: near.landmark,
        tells: near.tells,
        linked: near.linked,
        rtt_ms: near.rtt.as_secs_f64() * 1000.0,
        source: source(near.source).into(),
        place: near.coordinate.as_ref().map(place),
    };
    let area = |area: &ring::Area| AreaStatus {
        radius_ms: ring::radius(area.ring).and_then(|radius| u64::try_from(radius.as_millis()).ok()),
        sites: area.sites,
    };
    Ok(AreasReport {
        version: VERSION,
        site_name: site.called(),
        k: found.k,
        level: found.level,
        place: place(&found.coordinate),
        told: found.told.0,
        know: found.told.1,
        left_out: found.left_out,
        entries: found.entries,
        sites: found.sites.iter().map(near).collect(),
        areas: found.areas.iter().map(area).collect(),
    })
}

const fn source(source: Source) -> &'static str {
    match source {
        Source::Measured => "measured",
        Source::Estimated => "estimated",
        Source::Assumed => "assumed",
    }
}

fn place(coordinate: &Coordinate) -> PlaceStatus {
    PlaceStatus {
        place_ms: coordinate.place(),
        height_ms: coordinate.height(),
        error: 1.0 - coordinate.confidence(),
    }
}
