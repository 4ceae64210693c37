//! `skerry status`: what each site says of itself and of the others.

mod notes;

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};
use skerry_node::admin_shapes::{NodeStatus, PeerStatus, StatusReport};

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::place::{Place, Site};
use crate::progress::Waiting;
use crate::words;

/// The state of a peer that answers and refuses the key of the site that asks.
const REFUSES: &str = "refuses";

/// The state of a peer that keeps another process with the key of the site that asks.
const COPIED: &str = "copied";

/// Show sites, round-trip times, lag, storage and conflicts.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let sites = self.place.sites(&globals)?;
        let waiting = Waiting::new("asking", globals.json);
        let mut answers = Vec::new();
        for site in &sites {
            waiting.say(format!("asking {}", site.name));
            let answer = site.client.get::<StatusReport>("/_skerry/v1/status").await;
            if let Ok(report) = &answer {
                self.place.check_name(site, report, &globals)?;
            }
            answers.push((site, answer));
        }
        drop(waiting);
        let answered = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
        // A refusal (a wrong token) is not an unreachable site: where nobody answered the first one is the outcome.
        let refusal = answers.iter().position(|(_, answer)| is_refusal(answer)).filter(|_| answered == 0);
        if globals.json {
            output::document(
                "status",
                &json!({ "sites": answers.iter().map(document).collect::<Vec<_>>() }),
            )?;
        } else {
            print(&answers);
            for (_, (site, answer)) in (0..).zip(&answers).filter(|(index, _)| Some(*index) != refusal) {
                if let Err(failure) = answer {
                    output::note(&said(site, failure));
                }
            }
        }
        match refusal.and_then(|index| answers.into_iter().nth(index)?.1.err()) {
            Some(failure) => Err(failure),
            None => Ok(output::exit_of(answered, sites.len())),
        }
    }
}

fn is_refusal(answer: &Outcome<StatusReport>) -> bool {
    answer.as_ref().is_err_and(|failure| failure.exit != Exit::Unreachable)
}

/// Why a site did not answer. The message of an endpoint begins with it already.
fn said(site: &Site, failure: &Failure) -> String {
    match failure.message.starts_with(&site.name) {
        true => failure.message.clone(),
        false => format!("{}: {}", site.name, failure.message),
    }
}

type Answered<'a> = (&'a Site, Outcome<StatusReport>);

fn document((site, answer): &Answered<'_>) -> Value {
    let endpoint = site.client.endpoint.to_string();
    match answer {
        Ok(report) => {
            json!({ "name": report.site_name, "endpoint": endpoint, "answers": true, "status": report })
        }
        Err(Failure { message, .. }) => {
            json!({ "name": site.name, "endpoint": endpoint, "answers": false, "error": message })
        }
    }
}

fn print(answers: &[Answered<'_>]) {
    let mut rows = vec![heading(&[
        "SITE",
        "ENDPOINT",
        "STATE",
        "UP",
        "BUCKETS",
        "STORED",
        "AT RISK",
        "FREE",
        "CONFLICTS",
    ])];
    rows.extend(answers.iter().map(row));
    output::line(&output::table(&rows));
    let peers: Vec<Vec<String>> = answers.iter().flat_map(peers).collect();
    if !peers.is_empty() {
        let mut rows = vec![heading(&["SITE", "SEES", "AS", "RTT", "HEARD", "LAG", "UNACKED"])];
        rows.extend(peers);
        output::line("");
        output::line(&output::table(&rows));
    }
    let nodes: Vec<Vec<String>> = answers.iter().flat_map(nodes).collect();
    if !nodes.is_empty() {
        let mut rows =
            vec![heading(&["NODE", "OF", "IS", "EPOCH", "SEAT", "NODE THERE", "IN THE VIEW", "HEARD"])];
        rows.extend(nodes);
        output::line("");
        output::line(&output::table(&rows));
    }
    for note in refusals(answers) {
        output::note(&note);
    }
    for report in answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()) {
        notes::of(report).for_each(|note| output::note(&note));
    }
    for note in losses(answers) {
        output::note(&note);
    }
}

/// Sites that are declared lost, each once.
fn losses(answers: &[Answered<'_>]) -> BTreeSet<String> {
    let reports = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    let peers = reports.flat_map(|report| &report.peers);
    let note = |peer: &PeerStatus| {
        let since = words::wall(peer.lost_ms?);
        let back = match (peer.state == "alive", peer.disk_unheard) {
            (true, false) => {
                "; it is there and has not taken that back: unless it came a moment ago, its disk is another one: \
                 `skerry site declare-found`"
            }
            (true, true) => {
                "; it is there; whether with the disk that was meant nobody can tell, for nothing of it had been heard \
                 then: if it is, say `skerry site declare-found`"
            }
            (false, _) => "",
        };
        Some(format!("{} is declared lost since {since}: its copies do not count{back}", peer.name))
    };
    peers.filter_map(note).collect()
}

fn heading(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn row((site, answer): &Answered<'_>) -> Vec<String> {
    let endpoint = site.client.endpoint.to_string();
    let report = match answer {
        Ok(report) => report,
        Err(failure) if failure.exit == Exit::Unreachable => {
            return vec![site.name.clone(), endpoint, "not answering".into()];
        }
        Err(failure) if failure.exit == Exit::Refused => {
            return vec![site.name.clone(), endpoint, "refused".into()];
        }
        // The note says what is wrong, with how it was asked or with what it answered.
        Err(failure) => {
            let state = if failure.exit == Exit::Usage { "not asked" } else { "failed" };
            return vec![site.name.clone(), endpoint, state.into()];
        }
    };
    let state = match (report.cut, report.duty.as_str(), report.storage.full) {
        (true, ..) => "cut".into(),
        _ if report.copied => "copy".into(),
        _ if is_out(report) => format!("refused by {}", refusing(report).join(", ")),
        (_, duty @ ("frozen" | "draining" | "empty"), _) => duty.into(),
        (.., true) => "full".into(),
        _ if report.storage.lazy => "serving, unsynced".into(),
        _ => "serving".into(),
    };
    // Where every bucket has one copy there is nothing that is counted.
    let is_counted = report.unprotected_bytes > 0 || report.single_copy_buckets < report.buckets;
    let risk = if is_counted { words::bytes(report.unprotected_bytes) } else { "-".into() };
    vec![
        report.site_name.clone(),
        endpoint,
        state,
        words::span(std::time::Duration::from_secs(report.uptime_seconds)),
        report.buckets.to_string(),
        words::bytes(report.storage.live_bytes),
        risk,
        words::bytes(report.storage.free_bytes),
        report.conflicts.to_string(),
    ]
}

/// The sites that refuse this one's key.
pub(super) fn refusing(report: &StatusReport) -> Vec<String> {
    report.peers.iter().filter(|peer| peer.state == REFUSES).map(|peer| peer.name.clone()).collect()
}

/// Whether a site is refused, and linked with nobody.
pub(super) fn is_out(report: &StatusReport) -> bool {
    report.peers.iter().any(|peer| peer.state == REFUSES)
        && report.peers.iter().all(|peer| peer.state != "alive")
}

fn peers<'a>((_, answer): &'a Answered<'a>) -> impl Iterator<Item = Vec<String>> + 'a {
    let reports = answer.iter();
    reports.flat_map(|report| report.peers.iter().map(|peer| peer_row(&report.site_name, peer)))
}

/// The round trip, and who carries it.
fn distance(peer: &PeerStatus) -> String {
    let rtt = peer.rtt_ms.map_or("-".into(), |rtt| format!("{rtt:.1} ms"));
    match (&peer.via, peer.hops) {
        (None, _) => rtt,
        (Some(via), 0 | 1) => format!("{rtt} via {via}"),
        (Some(via), hops) => format!("{rtt} via {via} and {} more", hops - 1),
    }
}

/// The seats of a site of several nodes, as this node sees them.
fn nodes<'a>((_, answer): &'a Answered<'a>) -> impl Iterator<Item = Vec<String>> + 'a {
    let reports = answer.iter().filter_map(|report| Some((report, report.nodes.as_ref()?)));
    reports.flat_map(|(report, nodes)| {
        let row = |node: &NodeStatus| {
            let ago = |millis| words::span(std::time::Duration::from_millis(millis));
            vec![
                report.site_name.clone(),
                nodes.site_name.clone(),
                nodes.standing.clone(),
                nodes.epoch.map_or("-".into(), |epoch| epoch.to_string()),
                node.seat.to_string(),
                if node.name.is_empty() { "-".into() } else { node.name.clone() },
                node.role.clone(),
                if node.seat == nodes.seat { "itself".into() } else { node.heard_ms.map_or("-".into(), ago) },
            ]
        };
        nodes.nodes.iter().map(row)
    })
}

/// Which node does not listen to which, which cannot hold what the others write, and why.
fn refusals(answers: &[Answered<'_>]) -> Vec<String> {
    let reports = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    let of = |report: &StatusReport| {
        let nodes = report.nodes.iter().flat_map(|nodes| &nodes.nodes);
        let note = |node: &NodeStatus| {
            let (name, seat) = (&report.site_name, node.seat);
            let deaf = |why: &String| format!("{name}: the node in seat {seat} does not listen to it: {why}");
            let unable = |why: &String| {
                format!("{name}: the node in seat {seat} is left out if the others can: {why}")
            };
            let notes = [node.refuses.as_ref().map(deaf), node.unable.as_ref().map(unable)];
            notes.into_iter().flatten().collect::<Vec<_>>()
        };
        nodes.flat_map(note).collect::<Vec<_>>()
    };
    reports.flat_map(of).collect()
}

fn peer_row(site: &str, peer: &PeerStatus) -> Vec<String> {
    let ago =
        |millis: Option<u64>| millis.map_or("-".into(), |m| words::span(std::time::Duration::from_millis(m)));
    let unsent = match peer.unsent_records {
        0 => "-".into(),
        records => format!("{records} ({})", words::bytes(peer.unsent_bytes)),
    };
    vec![
        site.to_owned(),
        peer.name.clone(),
        match peer.duty.as_str() {
            _ if peer.state == REFUSES => "refuses it".into(),
            _ if peer.state == COPIED => "keeps its copy".into(),
            "" | "serves" => peer.state.clone(),
            duty => format!("{}, {duty}", peer.state),
        },
        distance(peer),
        ago(peer.heard_ms),
        ago(peer.lag_ms),
        unsent,
    ]
}
