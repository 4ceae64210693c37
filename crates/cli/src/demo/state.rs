//! How the sites of a demo are doing: one line each, redrawn on a terminal, printed on change elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use serde_json::json;
use skerry_node::admin_shapes::{PeerStatus, StatusReport};

use crate::exit::Outcome;
use crate::output;
use crate::place::Site;
use crate::progress::style;
use crate::words;

/// Where the state is shown.
pub(crate) struct Board {
    json: bool,
    lines: Option<BTreeMap<String, ProgressBar>>,
    last: BTreeMap<String, String>,
}

impl Board {
    /// A board for these sites.
    pub(crate) fn new(sites: &[Site], json: bool) -> Self {
        let live = !json && std::io::stdout().is_terminal();
        let lines = live.then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
            let line = |site: &Site| {
                let bar = all.add(ProgressBar::new_spinner().with_style(style("{prefix:.bold}  {msg}")));
                bar.set_prefix(site.name.clone());
                (site.name.clone(), bar)
            };
            sites.iter().map(line).collect()
        });
        Self { json, lines, last: BTreeMap::new() }
    }

    /// Asks every site and shows what has changed; gives how many answered. On a terminal figures move all the
    /// time; elsewhere only a change of state is a line.
    pub(crate) async fn refresh(&mut self, sites: &[Site]) -> Outcome<usize> {
        let mut answered = 0;
        for site in sites {
            let report = site.client.get::<StatusReport>("/_skerry/v1/status").await.ok();
            answered += usize::from(report.is_some());
            let state = report.as_ref().map_or_else(|| "not answering".to_owned(), state);
            if let Some(bar) = self.lines.as_ref().and_then(|lines| lines.get(&site.name)) {
                let figures = report.as_ref().map(figures).unwrap_or_default();
                bar.set_message(format!("{state}{figures}"));
            } else if self.last.get(&site.name) != Some(&state) {
                self.tell(site, &state, report.as_ref())?;
            }
            self.last.insert(site.name.clone(), state);
        }
        Ok(answered)
    }

    fn tell(&self, site: &Site, state: &str, report: Option<&StatusReport>) -> Outcome<()> {
        if !self.json {
            output::line(&format!("{}  {state}", site.name));
            return Ok(());
        }
        let cut = report.map(|report| report.cut);
        let body = json!({ "site": site.name, "answers": report.is_some(), "cut": cut, "state": state });
        output::document("site-state", &body)
    }

    /// Prints above the board.
    pub(crate) fn say(&self, text: &str) {
        let bar = self.lines.as_ref().and_then(|lines| lines.values().next());
        match bar {
            Some(bar) => bar.suspend(|| output::line(text)),
            None => output::line(text),
        }
    }

    /// Takes the board away, leaving the last lines.
    pub(crate) fn close(&self) {
        for bar in self.lines.iter().flat_map(BTreeMap::values) {
            bar.abandon();
        }
    }
}

/// What does not move all the time.
fn state(report: &StatusReport) -> String {
    if report.cut {
        return "cut off; clients go on".into();
    }
    let peer = |peer: &PeerStatus| format!("{} {}", peer.name, peer.state);
    let peers: Vec<String> = report.peers.iter().map(peer).collect();
    if peers.is_empty() { "serving, alone".into() } else { format!("serving; {}", peers.join(", ")) }
}

fn figures(report: &StatusReport) -> String {
    let unsent: u64 = report.peers.iter().map(|peer| peer.unsent_records).sum();
    format!(
        "; {}, {}, {}, {} unsent",
        words::count(report.buckets, "bucket"),
        words::bytes(report.storage.live_bytes),
        words::count(report.conflicts, "conflict"),
        words::count(unsent, "record"),
    )
}
