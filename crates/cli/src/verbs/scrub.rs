//! `skerry scrub …`: how far reading everything again is, what it found, and whether it may.

use clap::{Args, Subcommand};
use serde_json::json;
use skerry_node::admin_shapes::{ScrubReport, ScrubRequest};

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::look;
use crate::output;
use crate::place::Place;
use crate::words;

const PATH: &str = "/_skerry/v1/scrub";

/// Watch and steer the scrub of a site.
#[derive(Debug, Subcommand)]
pub(crate) enum Scrub {
    /// How far it is and what it found; ends with 1 if anything is damaged
    Status(Which),
    /// Begin a round now
    Start(Which),
    /// Let it rest until told otherwise, also after a restart
    Pause(Which),
    /// Let it go on
    Resume(Which),
}

/// Which site.
#[derive(Debug, Args)]
pub(crate) struct Which {
    #[command(flatten)]
    place: Place,
}

impl Scrub {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let (which, act, request) = match self {
            Self::Status(which) => return which.status(&globals).await,
            Self::Start(which) => {
                (which, "begin a round of the scrub", ScrubRequest { pause: None, begin: true })
            }
            Self::Pause(which) => {
                (which, "pause the scrub", ScrubRequest { pause: Some(true), begin: false })
            }
            Self::Resume(which) => {
                (which, "let the scrub go on", ScrubRequest { pause: Some(false), begin: false })
            }
        };
        let site = which.place.site(&globals).await?;
        let about = async { site.client.get::<ScrubReport>(PATH).await.map(drop) };
        if look::dry_run(&globals, act, about).await? {
            return Ok(Exit::Done);
        }
        // Before the act: an error behind it would say that it failed.
        let called = site.called().await?;
        let report: ScrubReport = site.client.post(PATH, &request).await?;
        show(&called, &report, &globals)?;
        Ok(Exit::Done)
    }
}

impl Which {
    async fn status(&self, globals: &Globals) -> Outcome {
        let site = self.place.site(globals).await?;
        let report: ScrubReport = site.client.get(PATH).await?;
        show(&site.called().await?, &report, globals)?;
        let is_well = report.damaged_chunks == 0 && report.damaged_segments.is_empty();
        Ok(if is_well { Exit::Done } else { Exit::Failed })
    }
}

fn show(site: &str, report: &ScrubReport, globals: &Globals) -> Outcome<()> {
    if globals.json {
        return output::document("scrub", &json!({ "site": site, "scrub": report }));
    }
    let state = match (report.paused, report.running) {
        (true, _) => "paused",
        (false, true) => "reading",
        (false, false) => "resting",
    };
    output::line(&format!(
        "{site}: {state}; round {}: {} chunks, {} read; {} found damaged so far, {} mended, {} damaged now",
        report.round,
        report.chunks,
        words::bytes(report.bytes),
        report.found,
        report.mended,
        report.damaged_chunks,
    ));
    for chunk in &report.damaged {
        output::line(&format!("damaged chunk {chunk}"));
    }
    for segment in &report.damaged_segments {
        output::line(&format!("damaged journal segment {segment}: what it says is in the index still"));
    }
    Ok(())
}
