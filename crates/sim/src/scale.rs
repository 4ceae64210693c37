//! How the federation grows: the machine that ships and four others at 3 to 10,000 sites, in one network, under one workload.
//!
//! Why: "small" and "near" are promises about numbers that no laboratory of two cores can hold. Here each system is a [`Machine`] per
//! site; the [`world`] carries their messages over one [`sea`] of metric distances, counts every byte, lets sites leave and come, cuts the
//! federation in halves, and asks every system to find the same objects. `skerry-sim scale` prints the figures of one run as a line of CSV,
//! `skerry-sim scale-report` fits the law by which each grows and draws it ([docs/simulation](../../../docs/simulation/README.md)).
//!
//! Invariants: as everywhere here, one thread, virtual time, every draw from the seed. What a machine is told is what a site could
//! know; distances beyond its own measurements and who is alive are the world's.

use std::time::Duration;

use skerry_base::Instant;

pub mod areas;
pub mod bill;
pub mod fit;
pub mod plot;
pub mod report;
pub mod rivals;
pub mod sea;
pub mod skerry;
pub mod store;
pub mod world;

/// Bytes of one record (key, dot, clock, ETag) whoever carries it.
pub const RECORD: usize = 240;
/// What carries a message beside its bytes: TLS record, framing, TCP/IP of the packet and of its acknowledgement, as in
/// `crates/federation/tests/federation/quiet.rs`.
pub const CARRIER: u64 = 22 + 12 + 52 + 52;

/// An object: the number of what a site has made. Every object of one maker lies at the maker and at its partner ([`sea::Sea::partner`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Who made it.
    pub maker: usize,
    /// From one on.
    pub number: u32,
}

impl Object {
    /// As short as a key of tables.
    pub const fn key(self) -> u64 {
        ((self.maker as u64) << 32) | self.number as u64
    }
}

/// What happens to the machine of a site.
#[derive(Debug, Clone)]
pub enum Event<M> {
    /// Once, at the beginning.
    Start,
    /// A link to another site stands or is gone; only for systems that keep links.
    Link(usize, bool),
    /// A message came.
    Message(usize, M),
    /// This site has made an object.
    Write(Object),
    /// Find who holds an object.
    Find(u64, Object),
    /// The time that the machine asked for has come.
    Wake,
    /// The process starts again; what was on its disk is there.
    Restart,
}

/// What the machine of a site wants done.
#[derive(Debug, Clone)]
pub enum Effect<M> {
    /// To another site.
    Send(usize, M),
    /// The end of a search: sites that are said to hold it, the best first; none if nobody is known.
    Found(u64, Vec<usize>),
}

/// The machine of one site of some system.
pub trait Machine {
    /// What sites say to each other.
    type Message: Clone;
    /// Whether sites keep links to each other, which the world makes and breaks.
    const LINKS: bool;
    /// Bytes on the wire.
    fn size(message: &Self::Message) -> usize;
    /// Something happens.
    fn handle(&mut self, event: Event<Self::Message>, now: Instant, out: &mut Vec<Effect<Self::Message>>);
    /// When to wake it at the latest.
    fn next_wake(&self) -> Option<Instant>;
    /// Whether it has what it should have, given how much each site has made and that all are there.
    fn settled(&self, made: &[u32]) -> bool;
    /// Bytes of its tables by their number and size; none where that can not be told from outside.
    fn memory(&self) -> Option<u64>;
}

/// What a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// How many sites.
    pub sites: usize,
    /// Of all chance.
    pub seed: u64,
    /// Objects that each site has made before anything is counted.
    pub objects: u32,
    /// Objects that each site makes in an hour of load.
    pub writes: f64,
    /// Objects that each site looks for in an hour of load.
    pub finds: f64,
    /// Times that each site goes in an hour of churn.
    pub churn: f64,
    /// How long it is away in the mean.
    pub away: Duration,
    /// Over how long the links of the beginning are made; none: all at once. A thousand sites that meet in one second tell each other
    /// all they know a million times.
    pub spread: Duration,
    /// How long the beginning may take until anything is counted.
    pub settle: Duration,
    /// How long rest is counted; likewise rest with churn.
    pub rest: Duration,
    /// How long load is counted; likewise load with churn.
    pub load: Duration,
    /// How long the halves are cut from each other; none: not at all.
    pub cut: Duration,
}

impl Setting {
    /// The setting of the figures.
    pub const fn of(sites: usize) -> Self {
        Self {
            sites,
            seed: 1,
            objects: 10,
            writes: 60.0,
            finds: 60.0,
            churn: 0.1,
            away: Duration::from_secs(600),
            spread: Duration::ZERO,
            settle: Duration::from_secs(1500),
            rest: Duration::from_secs(3600),
            load: Duration::from_secs(600),
            cut: Duration::from_secs(3600),
        }
    }
}
