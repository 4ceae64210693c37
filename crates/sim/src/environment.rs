//! What a run is made of: drawn whole from one seed (the swarm), or from files.
//!
//! A swarm finds more than one well-balanced environment does: each seed leaves most classes of fault out and
//! strikes hard with the others, so that two rare things meet often somewhere.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::canary::Canary;
use crate::disk::Manner;
use skerry_federation::limits::DIALECT;
use skerry_scenario::clock::{WallClock, millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};
use skerry_scenario::link::Link;
use skerry_scenario::topology::Topology;
use skerry_scenario::workload::Workload;

/// A class of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The power fails, in the middle of whatever the store does.
    Power,
    /// The process dies; the machine does not.
    Kill,
    /// A site is cut off, both ways.
    Cut,
    /// One direction between two sites is cut.
    OneWay,
    /// A link goes and comes, many times.
    Flap,
    /// Somebody sets a clock.
    Clock,
    /// A backup of a disk is put back.
    Restore,
    /// A site is away for months.
    Absence,
    /// A disk is full for a while.
    Full,
    /// A sync fails.
    Sync,
    /// A bit of a stored body rots.
    Rot,
    /// The sites part into two halves for months ([`Environment::with_halves`]).
    Halves,
    /// A bit of a journal rots, and its process is started anew ([`Environment::with_damage`]).
    Damage,
}

/// All classes that a seed draws from.
pub const CLASSES: [Class; 11] = [
    Class::Power,
    Class::Kill,
    Class::Cut,
    Class::OneWay,
    Class::Flap,
    Class::Clock,
    Class::Restore,
    Class::Absence,
    Class::Full,
    Class::Sync,
    Class::Rot,
];

impl Class {
    /// Its name in counts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Power => "strikes: power",
            Self::Kill => "strikes: kill",
            Self::Cut => "strikes: cut",
            Self::OneWay => "strikes: one way",
            Self::Flap => "strikes: flap",
            Self::Clock => "strikes: clock",
            Self::Restore => "strikes: restore",
            Self::Absence => "strikes: absence",
            Self::Full => "strikes: full",
            Self::Sync => "strikes: sync",
            Self::Rot => "strikes: rot",
            Self::Halves => "strikes: halves",
            Self::Damage => "strikes: damage",
        }
    }

    /// How often it strikes, when it does at all.
    const fn pace(self) -> RangeInclusive<u64> {
        match self {
            Self::Absence | Self::Restore | Self::Halves | Self::Damage => 8..=40,
            Self::Clock | Self::Full | Self::Sync | Self::Rot => 10..=60,
            Self::Power | Self::Kill | Self::Cut | Self::OneWay | Self::Flap => 8..=60,
        }
    }
}

/// Seeds from here on are of federations that find each other by levels of landmarks: forced upon a few sites, or with
/// as many sites as it takes; some of them of a release that knows nothing of it. Those below mean what they always
/// meant.
pub const LEVELLED: u64 = 1 << 40;

/// Seeds from here on are the same with sites that pay for what crosses their links: one of them, or some, or all; in half of
/// them that changes meanwhile.
pub const METERED: u64 = 1 << 41;

/// How sites find each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding {
    /// Levels of landmarks whatever the number of sites.
    pub levels: Option<u8>,
    /// Whether sites ask each other what they understand; before, nobody did.
    pub asks: bool,
    /// Sites of the release before levels.
    pub old: BTreeSet<usize>,
    /// Sites on metered links.
    pub metered: BTreeSet<usize>,
    /// Whether operators set budgets and take them away while clients ask; none where nobody can pay.
    pub budgets: Option<bool>,
    /// Whether landmarks are asked all at once.
    pub at_once: bool,
}

impl Finding {
    /// What a site understands.
    pub fn dialect(&self, site: usize) -> u8 {
        if self.old.contains(&site) { 1 } else { DIALECT }
    }
}

/// A run before it begins.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The seed that everything else comes from.
    pub seed: u64,
    /// Links between the sites, `links[from][to]`; its length is the number of sites.
    pub links: Vec<Vec<Link>>,
    /// Clocks on the walls.
    pub clocks: Vec<WallClock>,
    /// Disks.
    pub disks: Vec<Manner>,
    /// What clients ask for.
    pub workload: Workload,
    /// How long they ask, and how long faults strike.
    pub active: Duration,
    /// Which faults strike, and how far apart on average.
    pub faults: Vec<(Class, Duration)>,
    /// How long the sites may take to agree once everything is healed and nobody asks for anything.
    pub quiet_within: Duration,
    /// Bytes that a store gives to a feed at once at most: small, so that rounds of several batches happen.
    pub feed_bytes: usize,
    /// Whether each site takes and gives records with the news of them.
    pub fresh: Vec<bool>,
    /// Whether disks burn where backups are put back: the site begins anew with nothing.
    pub burns: bool,
    /// Whether a worker drops tombstones as soon as all members have seen them.
    pub retires: bool,
    /// Whether clients race with conditions for keys of buckets that they claim, and homes change hands.
    pub races: bool,
    /// Whether more lives of nodes wrote into a bucket than a document names, before its home is first handed over.
    pub many_lives: bool,
    /// Whether that is recorded as a history, with deletes and reads, for a checker that is not ours.
    pub histories: bool,
    /// Whether writes ask to be held by several sites before they are answered.
    pub scopes: bool,
    /// Whether sites leave buckets and come back to them.
    pub departs: bool,
    /// How many others must have everything before a site may leave.
    pub leave_copies: usize,
    /// How the sites find each other.
    pub finding: Finding,
    /// Whether distances between sites violate no triangle: then what is promised of first bytes holds.
    pub metric: bool,
    /// A fault of our own making that a checker must find.
    pub canary: Option<Canary>,
}

impl Environment {
    /// The whole environment of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let root = Draw::from_seed(seed);
        let mut draw = root.fork("environment");
        let faults = sample_faults(&mut root.fork("faults"));
        let few = 2 + draw.weighted(&[3, 5, 2, 1]);
        let (sites, finding) = match seed >= LEVELLED {
            true => sample_finding(&mut root.fork("areas")),
            false => (few, Finding::default()),
        };
        let metered = match seed >= METERED {
            true => sample_metered(sites, &mut root.fork("metered")),
            false => BTreeSet::new(),
        };
        let budgets = (seed >= METERED).then(|| root.fork("budgets").chance(Ppm::percent(50)));
        let finding = Finding { metered, budgets, ..finding };
        let links = sample_links(sites, &mut root.fork("links"));
        let mut clocks = root.fork("clocks");
        let mut disks = root.fork("disks");
        let mut fresh = root.fork("fresh");
        Self {
            seed,
            links,
            clocks: (0..sites).map(|_| sample_clock(&mut clocks)).collect(),
            disks: (0..sites).map(|_| Manner::sample(&mut disks)).collect(),
            workload: Workload::sample(&mut root.fork("workload")),
            active: seconds(draw.between(20..=90)),
            feed_bytes: draw.pick(&[300, 1500, 10_000, usize::MAX]).copied().unwrap_or(usize::MAX),
            fresh: (0..sites).map(|_| fresh.chance(Ppm::percent(80))).collect(),
            burns: root.fork("burns").chance(Ppm::percent(40)),
            retires: draw.chance(Ppm::percent(40)),
            faults,
            quiet_within: if seed >= METERED { QUIET_WITHIN * 2 } else { QUIET_WITHIN },
            races: false,
            many_lives: false,
            histories: false,
            scopes: false,
            departs: false,
            leave_copies: root.fork("departures").between(1..=2) as usize,
            finding,
            metric: false,
            canary: None,
        }
    }

    /// The same with races of conditional operations. A disk that is set back forgets what a home decided, which no
    /// promise covers; all other faults stay.
    #[must_use]
    pub fn with_races(mut self) -> Self {
        self.races = true;
        self.faults.retain(|(class, _)| *class != Class::Restore);
        self
    }

    /// The same, in buckets of many lives of nodes: what a home had seen fits into no document.
    pub fn with_many_lives(self) -> Self {
        Self { many_lives: true, ..self.with_races() }
    }

    /// The same with races recorded as histories.
    #[must_use]
    pub fn with_histories(self) -> Self {
        Self { histories: true, ..self.with_races() }
    }

    /// The same with writes that wait until one, two or three sites hold them, while disks burn and links are cut.
    #[must_use]
    pub fn with_scopes(mut self) -> Self {
        self.scopes = true;
        self.burns = true;
        for class in [Class::Restore, Class::Cut, Class::Power] {
            if !self.faults.iter().any(|(known, _)| *known == class) {
                self.faults.push((class, seconds(15)));
            }
        }
        self
    }

    /// The same with sites that leave buckets and come back.
    #[must_use]
    pub const fn with_departures(mut self) -> Self {
        self.departs = true;
        self
    }

    /// The same with two halves that are apart for months, and work on.
    #[must_use]
    pub fn with_halves(mut self) -> Self {
        self.faults.push((Class::Halves, seconds(15)));
        self
    }

    /// The same with journals that rot.
    #[must_use]
    pub fn with_damage(mut self) -> Self {
        self.faults.push((Class::Damage, seconds(10)));
        self
    }

    /// The same on a plane, sites of one release at points of it, whose links carry whatever comes; landmarks are asked in waves or
    /// all at once.
    #[must_use]
    pub fn with_metric(mut self, at_once: bool) -> Self {
        let mut draw = Draw::from_seed(self.seed).fork("plane");
        let mut point = || [draw.between(0..=100_000), draw.between(0..=100_000)];
        let points: Vec<[u64; 2]> = (0..self.sites()).map(|_| point()).collect();
        for (from, row) in self.links.iter_mut().enumerate() {
            for (to, link) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                let way = points.get(from).zip(points.get(to));
                let way =
                    way.map_or(0.0, |([x, y], [v, w])| (x.abs_diff(*v) as f64).hypot(y.abs_diff(*w) as f64));
                let delay = Duration::from_micros(1000 + way as u64);
                *link = Link { delay, jitter: Duration::ZERO, rate: 0, ..*link };
            }
        }
        self.finding.old.clear();
        (self.finding.at_once, self.metric) = (at_once, true);
        self
    }

    /// The same with what files say: the seed decides only what they leave open.
    #[must_use]
    pub fn with_files(mut self, topology: Option<&Topology>, workload: Option<&Workload>) -> Self {
        if let Some(topology) = topology {
            let mut disks = Draw::from_seed(self.seed).fork("disks");
            self.links.clone_from(&topology.links);
            self.clocks = topology.sites.iter().map(|site| site.clock).collect();
            self.disks = topology.sites.iter().map(|_| Manner::sample(&mut disks)).collect();
        }
        if let Some(workload) = workload {
            self.workload = workload.clone();
        }
        self
    }

    /// How many sites there are.
    pub const fn sites(&self) -> usize {
        self.links.len()
    }
}

/// Agreement must come within this after everything is healed: two safety-net checks at rest (300 s each), the
/// longest backoff (60 s) and what slow links take. Twice as long where sites are metered: they check half as often.
pub const QUIET_WITHIN: Duration = seconds(15 * 60);

/// How many sites, and how they find each other.
fn sample_finding(draw: &mut Draw) -> (usize, Finding) {
    let (sites, levels) = match draw.weighted(&[10, 3, 2, 1]) {
        0 => (draw.between(3..=6) as usize, Some(2)),
        1 => (draw.between(4..=7) as usize, Some(3)),
        2 => (draw.between(2..=5) as usize, None),
        _ => (draw.between(17..=24) as usize, None),
    };
    let mixed = draw.chance(Ppm::percent(30));
    let old = (0..sites).filter(|_| mixed && draw.chance(Ppm::percent(30))).collect();
    (sites, Finding { levels, asks: true, old, metered: BTreeSet::new(), budgets: None, at_once: false })
}

/// Who pays for what crosses.
fn sample_metered(sites: usize, draw: &mut Draw) -> BTreeSet<usize> {
    match draw.weighted(&[6, 3, 1]) {
        0 => [draw.below(sites as u64) as usize].into(),
        1 => (0..sites).filter(|_| draw.chance(Ppm::percent(40))).collect(),
        _ => (0..sites).collect(),
    }
}

fn sample_links(sites: usize, draw: &mut Draw) -> Vec<Vec<Link>> {
    let stormy = draw.chance(Ppm::percent(60));
    let slow = draw.chance(Ppm::percent(25));
    let farthest = draw.pick(&[5, 60, 300, 800]).copied().unwrap_or(60);
    let mut link = || {
        let delay = millis(draw.between(1..=farthest));
        let storm = |draw: &mut Draw, percent| {
            if stormy { Ppm::percent(draw.between(0..=percent) as u32) } else { Ppm::NEVER }
        };
        Link {
            delay,
            jitter: delay / 4,
            loss: storm(draw, 15),
            duplicate: storm(draw, 8),
            reorder: storm(draw, 15),
            hold: seconds(3),
            rate: if slow { draw.between(20_000..=500_000) } else { 0 },
            queue: seconds(4),
        }
    };
    let mut links = vec![vec![Link::default(); sites]; sites];
    for (from, row) in links.iter_mut().enumerate() {
        for (to, place) in row.iter_mut().enumerate() {
            if from != to {
                *place = link();
            }
        }
    }
    links
}

fn sample_clock(draw: &mut Draw) -> WallClock {
    let worst: i64 = draw.pick(&[0, 2_000, 120_000, 7_200_000]).copied().unwrap_or(0);
    let spread = draw.between(0..=(2 * worst) as u64) as i64;
    WallClock { offset_ms: spread - worst, drift_ppm: draw.between(0..=400) as i64 - 200 }
}

fn sample_faults(draw: &mut Draw) -> Vec<(Class, Duration)> {
    let calm = draw.chance(Ppm::percent(10));
    let mut faults = Vec::new();
    for class in CLASSES {
        let pace = seconds(draw.between(class.pace()));
        if draw.chance(Ppm::percent(30)) && !calm {
            faults.push((class, pace));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_meets_everything() {
        let environments: Vec<_> = (0..200).map(Environment::of_seed).collect();
        for sites in 2..=5 {
            assert!(environments.iter().any(|found| found.sites() == sites), "{sites} sites");
        }
        for class in CLASSES {
            let with = environments.iter().filter(|found| found.faults.iter().any(|(c, _)| *c == class));
            assert!((20..100).contains(&with.count()), "{class:?}");
        }
        assert!(environments.iter().any(|found| found.faults.is_empty()));
    }

    #[test]
    fn seeds_of_levels_meet_few_and_many_sites_and_older_releases() {
        let environments: Vec<_> = (LEVELLED..LEVELLED + 200).map(Environment::of_seed).collect();
        assert!(environments.iter().any(|found| found.sites() >= 17 && found.finding.levels.is_none()));
        for levels in [Some(2), Some(3), None] {
            assert!(environments.iter().any(|found| found.finding.levels == levels), "{levels:?}");
        }
        let mixed = environments.iter().filter(|found| !found.finding.old.is_empty()).count();
        assert!((10..120).contains(&mixed), "{mixed}");
    }

    #[test]
    fn metered_seeds_have_one_some_or_all() {
        let environments: Vec<_> = (METERED..METERED + 200).map(Environment::of_seed).collect();
        let many = |wanted: fn(usize, usize) -> bool| {
            let fits = |found: &&Environment| wanted(found.finding.metered.len(), found.sites());
            environments.iter().filter(fits).count()
        };
        assert!(many(|metered, _| metered == 1) > 80);
        assert!(many(|metered, sites| metered > 1 && metered < sites) > 10);
        assert!(many(|metered, sites| metered == sites) > 5);
        let change = environments.iter().filter(|found| found.finding.budgets == Some(true)).count();
        assert!((60..140).contains(&change), "{change}");
        assert!(
            (0..200)
                .chain(LEVELLED..LEVELLED + 200)
                .map(|seed| Environment::of_seed(seed).finding)
                .all(|finding| finding.metered.is_empty() && finding.budgets.is_none())
        );
    }

    #[test]
    fn files_replace_what_they_speak_of() {
        let text = "version = 1\n[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n[link]\nrtt_ms = 50\n";
        let topology = Topology::parse("t", text).ok();
        let environment = Environment::of_seed(3).with_files(topology.as_ref(), None);
        assert_eq!((environment.sites(), environment.disks.len()), (2, 2));
        assert_eq!(environment.links[0][1].delay, millis(25));
        assert_eq!(environment.workload, Environment::of_seed(3).workload);
    }
}
