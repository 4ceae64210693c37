//! `skerry areas`: which sites a site tells and asks, and how far everybody is.

use clap::Args;
use serde_json::json;
use skerry_node::admin_shapes::{AreasReport, NearStatus, PlaceStatus};

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::place::Place;
use crate::words;

/// Show landmarks, levels, areas and network coordinates of a site.
#[derive(Debug, Args)]
pub(crate) struct Areas {
    #[command(flatten)]
    place: Place,
}

impl Areas {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let site = self.place.site(&globals).await?;
        let report: AreasReport = site.client.get("/_skerry/v1/areas").await?;
        if globals.json {
            output::document("areas", &json!({ "site": report.site_name, "areas": report }))?;
        } else {
            print(&report);
        }
        Ok(Exit::Done)
    }
}

fn print(report: &AreasReport) {
    let levels = match report.k {
        1 => "1 level: every site tells every other what it holds".to_owned(),
        k => format!("{k} levels; this site is of level {}", report.level),
    };
    output::line(&format!("{}: {levels}", report.site_name));
    output::line(&format!(
        "tells {}, of which {} know it all; holds {} of others",
        words::count(report.told as u64, "site"),
        report.know,
        words::count(report.entries as u64, "membership"),
    ));
    output::line(&format!("is at {}", where_is(&report.place)));
    if report.left_out > 0 {
        output::note(&format!("{} too many were left out", words::count(report.left_out as u64, "landmark")));
    }
    if !report.areas.is_empty() {
        let area = |area: &skerry_node::admin_shapes::AreaStatus| match area.radius_ms {
            Some(radius) => format!("{} within {radius} ms", area.sites),
            None => format!("{} in all", area.sites),
        };
        let areas: Vec<String> = report.areas.iter().map(area).collect();
        output::line(&format!("areas (sites that tell this one): {}", areas.join(", ")));
    }
    output::line("");
    let heading = ["SITE", "LEVEL", "RTT", "BY", "LANDMARK", "TELLS", "LINK", "PLACE"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(report.sites.iter().map(row));
    output::line(&output::table(&rows));
}

fn row(near: &NearStatus) -> Vec<String> {
    let mark = |yes: bool| if yes { "yes" } else { "-" }.to_owned();
    vec![
        near.name.clone(),
        near.level.to_string(),
        format!("{:.1} ms", near.rtt_ms),
        near.source.clone(),
        mark(near.landmark),
        mark(near.tells),
        mark(near.linked),
        near.place.as_ref().map_or_else(|| "-".into(), where_is),
    ]
}

fn where_is(place: &PlaceStatus) -> String {
    let parts: Vec<String> = place.place_ms.iter().map(|part| format!("{part:.1}")).collect();
    format!("({}) + {:.1} ms ± {:.0} %", parts.join(", "), place.height_ms, place.error * 100.0)
}
