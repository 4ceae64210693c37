//! `skerry status`: what each site says of itself and of the others.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};
use skerry_node::admin_shapes::{NodeStatus, PeerStatus, StatusReport, StorageStatus};

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
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
        note_storage(report);
        note_standing(report);
    }
    for note in losses(answers) {
        output::note(&note);
    }
}

/// What is to be said of a site's disk and of the copies on it.
fn note_storage(report: &StatusReport) {
    let (chunks, segments) = (report.storage.damaged_chunks, report.storage.damaged_segments);
    if chunks + segments > 0 {
        let (chunks, segments) =
            (words::count(chunks, "damaged chunk"), words::count(segments, "damaged journal segment"));
        let found = format!("{chunks}, {segments}");
        output::note(&format!("{}: {found}: see `skerry scrub status`", report.site_name));
    }
    mended(&report.site_name, &report.storage).iter().for_each(|note| output::note(note));
    let unread = report.storage.unread_segments;
    if unread > 0 {
        let (unread, are, them) = match unread {
            1 => ("1 payload segment".to_owned(), "is", "it"),
            many => (words::count(many, "payload segment"), "are", "them"),
        };
        let what = format!(
            "{unread} {are} kept whole because the disk could not read a part of {them}; what reads again \
             `skerry check --repair` takes in while the site is stopped"
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.damaged_index {
        let what = format!(
            "part of the index does not read: keys in it are answered by errors; start the site anew, which builds the index \
             again (that needs {} of room, or the old one makes way)",
            words::bytes(report.storage.index_bytes)
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.sync_waits_seconds > 0 {
        let what = format!(
            "the disk has not answered a sync for {} s: nothing that is written is acknowledged; look after the disk, its cable or \
             the share it lies on",
            report.storage.sync_waits_seconds
        );
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.undecided_writes > 0 {
        output::note(&format!("{}: {}", report.site_name, undecided(&report.storage)));
    }
    if report.surplus.versions > 0 {
        let (versions, bytes) = (report.surplus.versions, words::bytes(report.surplus.bytes));
        let copies = if versions == 1 { "copy" } else { "copies" };
        let what = format!("{versions} {copies} too many ({bytes}): {}", report.surplus.reason);
        output::note(&format!("{}: {what}", report.site_name));
    }
    note_nowhere(report);
    note_caps(report);
    for place in &report.replacing {
        let (name, id) = (&place.name, look::short(&place.site));
        let what = format!("in the place of {name} ({id}): {}", super::site::progress(&place.recovery));
        output::note(&format!("{}: {what}", report.site_name));
    }
    for lacks in &report.areas {
        let what = format!("{}: {}", lacks.bucket, super::bucket::area(lacks));
        output::note(&format!("{}: {what}", report.site_name));
    }
    if report.storage.lazy {
        let unsynced = words::bytes(report.storage.unsynced_bytes);
        let what = format!("storage.sync = os: a power cut loses what was answered last ({unsynced} now)");
        output::note(&format!("{}: {what}", report.site_name));
    }
}

/// That something rotted and is whole again: nobody else tells of it, and what rotted once rots again.
fn mended(site: &str, storage: &StorageStatus) -> Option<String> {
    let what = words::count(storage.mended_chunks, "damaged chunk");
    (storage.mended_chunks > 0)
        .then(|| format!("{site}: {what} mended so far, by the scrub or by reads: look after its disk"))
}

/// What is kept for writes of which nobody has said what became of them.
fn undecided(storage: &StorageStatus) -> String {
    let (writes, bytes) = (storage.undecided_writes, words::bytes(storage.undecided_bytes));
    let waits = match storage.undecided_at.is_empty() {
        true => String::new(),
        false => format!("; waits for {}", storage.undecided_at.join(", ")),
    };
    format!(
        "of {writes} conditional writes the answer of the bucket's home was lost, and their bodies ({bytes}) are kept until it is \
         known what it decided{waits}: some ten minutes after it is linked; one that never comes back: `skerry site expel SITE` (one that is only declared lost may \
         come back with what it decided)"
    )
}

/// Whether a cap is worth a word. Who takes nothing by choice, and holds nothing, knows it.
const fn is_near(bytes: u64, cap: u64) -> bool {
    bytes > 0 && bytes >= cap.saturating_sub(cap / 10)
}

/// What is to be said of what is at risk and nobody is known to have.
fn note_nowhere(report: &StatusReport) {
    if report.nowhere_bytes > 0 {
        let what = format!(
            "of what is AT RISK {} are at no place that is known: this site's copy does not read whole, or who may have one is away",
            words::bytes(report.nowhere_bytes)
        );
        let hint = "`skerry scrub start`, or bring the sites back that are away";
        output::note(&format!("{}: {what}: {hint}", report.site_name));
    }
    if !report.unread_buckets.is_empty() {
        let what =
            format!("{} cannot be read here, and get no copies from here", report.unread_buckets.join(", "));
        output::note(&format!("{}: {what}: a start rebuilds an index that does not read", report.site_name));
    }
}

/// What is to be said of what sites hold for others.
fn note_caps(report: &StatusReport) {
    let others = &report.others;
    if let Some(cap) = others.cap_bytes.filter(|cap| is_near(others.bytes, *cap)) {
        let what = format!("{} of at most {}", words::bytes(others.bytes), words::bytes(cap));
        let hint = "what is here stays, more is refused (`storage.others`)";
        output::note(&format!("{}: holds {what} for other sites: {hint}", report.site_name));
    }
    if !report.at_cap.is_empty() {
        let risk = match report.unprotected_bytes {
            0 => String::new(),
            bytes => format!("; {} are AT RISK", words::bytes(bytes)),
        };
        let what = format!("{} take no more copies from it", report.at_cap.join(", "));
        let hint = "raise `storage.others` there, or add a site";
        output::note(&format!("{}: {what}, by the cap of their owners{risk}: {hint}", report.site_name));
    }
}

/// What is to be said of a site among the others.
fn note_standing(report: &StatusReport) {
    let refusing = refusing(report).join(", ");
    if !refusing.is_empty() {
        let why = match report.gone {
            true => "it was expelled or replaced, and takes no writes",
            false => "it was expelled or replaced, or has not been heard of there",
        };
        let hint = "`skerry site list` there says which";
        output::note(&format!("{}: refused by {refusing}: {why}; {hint}", report.site_name));
    }
    note_copies(report);
    for joining in &report.joining {
        let what = format!("is still taking {}: {}", joining.bucket, joining.reason);
        output::note(&format!("{}: {what}", report.site_name));
    }
    note_anew(report);
    if report.followed_prefixes > 0 {
        let prefixes = match report.followed_prefixes {
            1 => "1 prefix".to_owned(),
            many => format!("{many} prefixes"),
        };
        let behind = report.followed_behind;
        output::note(&format!("{}: follows {prefixes}, {behind} of them behind", report.site_name));
    }
    // Who has no link has nothing to lose by it.
    if let Some(lack) = report.links_lack.as_deref().filter(|_| !report.peers.is_empty()) {
        output::note(&format!("{}: {lack}; docs/operations.md, far and fast links", report.site_name));
    }
    if report.single_copy_buckets > 0 {
        let buckets = words::count(report.single_copy_buckets, "bucket");
        let what = "what only it has of them is not counted in AT RISK; `skerry bucket set NAME --copies 2` asks for a second one";
        output::note(&format!("{}: {buckets} with copies = 1: {what}", report.site_name));
    }
}

/// What is to be said of a site that lost part of its journal.
fn note_anew(report: &StatusReport) {
    let Some(anew) = &report.anew else { return };
    let what = match anew.names {
        true => "of names and homes, so it decides no conditions".to_owned(),
        false => format!("of {}, in which it decides no conditions", words::count(anew.buckets, "bucket")),
    };
    let more = if anew.more > 0 { format!(" and {} more", anew.more) } else { String::new() };
    let waits = match anew.waits.is_empty() {
        true => "all have been heard".to_owned(),
        false => format!("waits for {}{more}", anew.waits.join(", ")),
    };
    output::note(&format!(
        "{}: lost part of its journal, or its store, and has not yet all that others have {what}; {waits}; a site that is gone for good: \
         `skerry site declare-lost`",
        report.site_name
    ));
}

/// What is to be said of two processes that run with one key.
fn note_copies(report: &StatusReport) {
    let ago = |millis| words::span(std::time::Duration::from_millis(millis));
    let rule = "of a site and its copy only one may run: stop one (docs/operations.md, two copies)";
    let keeping: Vec<&str> =
        report.peers.iter().filter(|peer| peer.state == COPIED).map(|peer| peer.name.as_str()).collect();
    if !keeping.is_empty() {
        let keeping = keeping.join(", ");
        let what = if report.copied { "; it takes no writes" } else { "" };
        let why = format!("turned away by {keeping}, where another process with its key is linked{what}");
        output::note(&format!("{}: {why}; {rule}", report.site_name));
    }
    for peer in &report.peers {
        if let Some(millis) = peer.copy_ms {
            let what = format!("turned away a copy of {} {} ago", peer.name, ago(millis));
            output::note(&format!("{}: {what}; {rule}", report.site_name));
        }
    }
    if let Some(millis) = report.copy_ms {
        let what = format!("another site turned away a copy of it {} ago", ago(millis));
        output::note(&format!("{}: {what}; {rule}", report.site_name));
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
        // The note says what is wrong with how it was asked.
        Err(_) => return vec![site.name.clone(), endpoint, "not asked".into()],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rotted_and_was_mended_is_told() {
        let mut storage = StorageStatus::default();
        assert_eq!(mended("oslo", &storage), None);
        storage.mended_chunks = 2;
        let said = mended("oslo", &storage).unwrap_or_default();
        assert!(said.starts_with("oslo: 2 damaged chunks mended so far"), "{said}");
    }

    #[test]
    fn a_cap_is_worth_a_word_where_something_is_held() {
        assert!(is_near(90, 100) && is_near(1, 0) && is_near(300, 100));
        assert!(!is_near(89, 100) && !is_near(0, 0) && !is_near(0, 100));
    }
}
