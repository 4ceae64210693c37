//! Where the sites are: a TOML file that the simulator and the lab read alike.
//!
//! ```toml
//! version = 1
//! name = "three islands"
//!
//! [[site]]
//! name = "oslo"
//! clock = { offset_ms = -90000, drift_ppm = 40 }
//!
//! [[site]]
//! name = "bergen"
//! hosts = 2                # servers, if not one
//! clients = 0              # client machines, if not one
//!
//! [matrix]                 # round-trip times in milliseconds, as ping prints them
//! rtt_ms = [[0, 12], [12, 0]]
//!
//! [link]                   # what holds for every pair
//! jitter_ms = 2
//! loss = 0.001
//! rate_mbit = 20
//! queue_ms = 100           # what would wait longer for the rate is dropped; 2000 if not said
//! reorder = 0.001          # held back by up to hold_ms (1000 if not said) while others overtake
//! hold_ms = 20
//!
//! [site_lan]               # between machines of one site; rate is each machine's card
//! rtt_ms = 0.5
//! rate_mbit = 1000
//!
//! [access]                 # between a client and the machines of its site; if missing, as [site_lan]
//! rtt_ms = 20
//!
//! [host]                   # every machine, servers and clients
//! memory_mb = 1024
//!
//! [[pair]]                 # what differs for one of them, in both directions unless one_way = true
//! from = "oslo"
//! to = "bergen"
//! loss = 0.02
//! ```
//!
//! The simulator takes sites, clocks and links; what concerns machines within a site is the lab's.
//! An error names the line. Fields that nobody knows are refused: a typing mistake must not be a calm link.

mod attach;

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::clock::WallClock;
use crate::draw::Ppm;
use crate::link::Link;
use crate::refusal::{Refusal, parse};

pub use attach::{Attachment, Machine};
use attach::{AttachmentEntry, MachineEntry};

/// Sites of one federation in one file: bounds the matrix.
const SITES_MAX: usize = 272;

/// A file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// What people call it.
    pub name: String,
    /// The sites, in the order of the file.
    pub sites: Vec<Place>,
    /// Links, `links[from][to]`; the diagonal is calm and immediate.
    pub links: Vec<Vec<Link>>,
    /// Between the machines of a site.
    pub site_lan: Attachment,
    /// Between a client and the machines of its site.
    pub access: Attachment,
    /// What each machine has.
    pub host: Machine,
}

/// One site of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name, unique within the file.
    pub name: String,
    /// What its clock shows.
    pub clock: WallClock,
    /// Machines that serve.
    pub hosts: u32,
    /// Machines from which clients ask.
    pub clients: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    #[serde(default)]
    name: String,
    site: Vec<SiteEntry>,
    matrix: Option<MatrixEntry>,
    #[serde(default)]
    site_lan: AttachmentEntry,
    access: Option<AttachmentEntry>,
    #[serde(default)]
    host: MachineEntry,
    #[serde(default)]
    link: LinkEntry,
    #[serde(default)]
    pair: Vec<PairEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteEntry {
    name: Spanned<String>,
    #[serde(default)]
    clock: ClockEntry,
    hosts: Option<Spanned<u32>>,
    clients: Option<Spanned<u32>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ClockEntry {
    offset_ms: i64,
    drift_ppm: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixEntry {
    rtt_ms: Vec<Spanned<Vec<Spanned<f64>>>>,
}

/// What may be said of links in general and of one pair.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LinkEntry {
    rtt_ms: Option<Spanned<f64>>,
    jitter_ms: Option<Spanned<f64>>,
    loss: Option<Spanned<f64>>,
    duplicate: Option<Spanned<f64>>,
    reorder: Option<Spanned<f64>>,
    hold_ms: Option<Spanned<f64>>,
    rate_mbit: Option<Spanned<f64>>,
    queue_ms: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairEntry {
    from: Spanned<String>,
    to: Spanned<String>,
    #[serde(default)]
    one_way: bool,
    rtt_ms: Option<Spanned<f64>>,
    jitter_ms: Option<Spanned<f64>>,
    loss: Option<Spanned<f64>>,
    duplicate: Option<Spanned<f64>>,
    reorder: Option<Spanned<f64>>,
    hold_ms: Option<Spanned<f64>>,
    rate_mbit: Option<Spanned<f64>>,
    queue_ms: Option<Spanned<f64>>,
}

impl Topology {
    /// Reads a file; `path` is only for the error.
    pub fn parse(path: &str, text: &str) -> Result<Self, Refusal> {
        let file: File = parse(path, text)?;
        let refuse = |span, reason: String| Refusal::at(path, text, span, reason);
        if *file.version.get_ref() != 1 {
            return Err(refuse(file.version.span(), "this release reads version 1".into()));
        }
        let sites = places(&file.site).map_err(|(span, reason)| refuse(span, reason))?;
        let links = links(&file, &sites).map_err(|(span, reason)| refuse(span, reason))?;
        let (site_lan, access, host) = machines(&file).map_err(|(span, reason)| refuse(span, reason))?;
        Ok(Self { name: file.name, sites, links, site_lan, access, host })
    }

    /// The number of a site.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.name == name)
    }
}

type Fault = (std::ops::Range<usize>, String);

fn places(entries: &[SiteEntry]) -> Result<Vec<Place>, Fault> {
    let mut places: Vec<Place> = Vec::new();
    for entry in entries {
        let name = entry.name.get_ref();
        if name.is_empty() || places.iter().any(|place| place.name == *name) {
            return Err((entry.name.span(), format!("site name {name:?} is empty or used twice")));
        }
        if places.len() == SITES_MAX {
            return Err((entry.name.span(), format!("more than {SITES_MAX} sites")));
        }
        let clock = WallClock { offset_ms: entry.clock.offset_ms, drift_ppm: entry.clock.drift_ppm };
        let hosts = attach::machines(&entry.hosts, "hosts", 1)?;
        let clients = attach::machines(&entry.clients, "clients", 1)?;
        places.push(Place { name: name.clone(), clock, hosts, clients });
    }
    Ok(places)
}

fn machines(file: &File) -> Result<(Attachment, Attachment, Machine), Fault> {
    let site_lan = file.site_lan.over(Attachment::default())?;
    let access = file.access.as_ref().map_or(Ok(site_lan), |access| access.over(site_lan))?;
    Ok((site_lan, access, file.host.checked()?))
}

fn links(file: &File, sites: &[Place]) -> Result<Vec<Vec<Link>>, Fault> {
    let mut basis = Link { queue: Duration::from_secs(2), ..Link::default() };
    file.link.apply(&mut basis)?;
    let mut links = vec![vec![basis; sites.len()]; sites.len()];
    for (number, row) in links.iter_mut().enumerate() {
        if let Some(own) = row.get_mut(number) {
            *own = Link::default();
        }
    }
    if let Some(matrix) = &file.matrix {
        apply_matrix(matrix, &mut links)?;
    }
    for pair in &file.pair {
        let from = find(sites, &pair.from)?;
        let to = find(sites, &pair.to)?;
        pair.apply(links.get_mut(from).and_then(|row| row.get_mut(to)))?;
        if !pair.one_way {
            pair.apply(links.get_mut(to).and_then(|row| row.get_mut(from)))?;
        }
    }
    Ok(links)
}

fn find(sites: &[Place], name: &Spanned<String>) -> Result<usize, Fault> {
    let known = sites.iter().position(|site| site.name == *name.get_ref());
    known.ok_or_else(|| (name.span(), format!("no site is called {:?}", name.get_ref())))
}

fn apply_matrix(matrix: &MatrixEntry, links: &mut [Vec<Link>]) -> Result<(), Fault> {
    let sites = links.len();
    if matrix.rtt_ms.len() != sites {
        let span = matrix.rtt_ms.first().map_or(0..0, Spanned::span);
        return Err((span, format!("{} rows for {sites} sites", matrix.rtt_ms.len())));
    }
    for (row, to) in matrix.rtt_ms.iter().zip(links) {
        if row.get_ref().len() != sites {
            return Err((row.span(), format!("{} columns for {sites} sites", row.get_ref().len())));
        }
        for (rtt, link) in row.get_ref().iter().zip(to) {
            link.delay = span_of(rtt, "rtt_ms")? / 2;
        }
    }
    Ok(())
}

fn span_of(ms: &Spanned<f64>, field: &str) -> Result<Duration, Fault> {
    let value = *ms.get_ref();
    if (0.0..=86_400_000.0).contains(&value) {
        Ok(Duration::from_nanos((value * 1e6).round() as u64))
    } else {
        Err((ms.span(), format!("{field} is from 0 to 86400000, not {value}")))
    }
}

fn share_of(share: &Spanned<f64>, field: &str) -> Result<Ppm, Fault> {
    let value = *share.get_ref();
    if (0.0..=1.0).contains(&value) {
        Ok(Ppm::fraction(value))
    } else {
        Err((share.span(), format!("{field} is a share from 0 to 1, not {value}")))
    }
}

fn rate_of(rate: &Spanned<f64>) -> Result<u64, Fault> {
    let value = *rate.get_ref();
    if value > 0.0 && value <= 1e6 {
        Ok((value * 125_000.0).round() as u64)
    } else {
        Err((rate.span(), format!("rate_mbit is above 0 and at most 1000000, not {value}")))
    }
}

impl LinkEntry {
    fn apply(&self, link: &mut Link) -> Result<(), Fault> {
        if let Some(rtt) = &self.rtt_ms {
            link.delay = span_of(rtt, "rtt_ms")? / 2;
        }
        if let Some(jitter) = &self.jitter_ms {
            link.jitter = span_of(jitter, "jitter_ms")?;
        }
        if let Some(loss) = &self.loss {
            link.loss = share_of(loss, "loss")?;
        }
        if let Some(duplicate) = &self.duplicate {
            link.duplicate = share_of(duplicate, "duplicate")?;
        }
        if let Some(reorder) = &self.reorder {
            link.reorder = share_of(reorder, "reorder")?;
            link.hold = Duration::from_secs(1);
        }
        if let Some(hold) = &self.hold_ms {
            link.hold = span_of(hold, "hold_ms")?;
        }
        if let Some(rate) = &self.rate_mbit {
            link.rate = rate_of(rate)?;
        }
        if let Some(queue) = &self.queue_ms {
            link.queue = span_of(queue, "queue_ms")?;
        }
        Ok(())
    }
}

impl PairEntry {
    fn apply(&self, link: Option<&mut Link>) -> Result<(), Fault> {
        let Some(link) = link else { return Ok(()) };
        let entry = LinkEntry {
            rtt_ms: self.rtt_ms.clone(),
            jitter_ms: self.jitter_ms.clone(),
            loss: self.loss.clone(),
            duplicate: self.duplicate.clone(),
            reorder: self.reorder.clone(),
            hold_ms: self.hold_ms.clone(),
            rate_mbit: self.rate_mbit.clone(),
            queue_ms: self.queue_ms.clone(),
        };
        entry.apply(link)
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
