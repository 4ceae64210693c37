//! A wide-area network on one machine: a network namespace per host, and one thread that carries packets between
//! them as the topology says.
//!
//! Invariants: no packet leaves the lab's namespaces (they have no device that leads out); whatever was made is
//! gone when the [`Wan`] is dropped or its process dies; counts only grow.

mod figures;
mod line;
mod netlink;
mod network;
mod packet;
mod pair;
mod plan;
mod priority;
pub(crate) mod registry;
mod shuttle;
mod station;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use skerry_scenario::link::Link;
use skerry_scenario::topology::Topology;

pub use figures::{Flow, Health, HostTraffic, Traffic};
pub use plan::{Host, Role};
pub use registry::{Cleaned, clean};
pub use station::Interface;

use crate::sys;
use network::Network;
use plan::Plan;
use registry::Run;
use shuttle::{Command as Order, Figures, Shuttle};
use station::Station;

/// Variables that a process in a host gets from the lab's own; everything else is set by who starts it.
const VARIABLES: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH"];

/// The program that runs, also if its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Devices that one thread closes.
const STATIONS_PER_CLOSER: usize = 8;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    /// `sys::isolate` was not called.
    #[error("the lab is not isolated: call sys::isolate() first in main, before any thread is started")]
    NotIsolated,
    /// A host could not be made.
    #[error("host {host}: {source}")]
    Host {
        /// Which.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Something else.
    #[error("the emulated network: {0}")]
    System(#[from] io::Error),
}

/// How a network is built.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Seed of jitter, loss and the like.
    pub seed: u64,
    /// The program that enters hosts for others: one whose `main` begins with `sys::enter_if_asked`. If not
    /// given, the one that runs.
    pub launcher: Option<PathBuf>,
}

/// A network that carries packets until it is dropped.
pub struct Wan {
    // In the order of their end: processes, then the shuttle, then devices and namespaces.
    run: Run,
    _guard: Guard,
    shuttle: Shuttle,
    stations: Stations,
    hosts: Vec<Host>,
    launcher: PathBuf,
    smallest_delay_us: u64,
}

/// The process that cleans up if this one dies.
struct Guard(Child);

impl Guard {
    fn start(launcher: &Path, run: &Run) -> io::Result<Self> {
        let mut command = Command::new(launcher);
        command.arg(sys::GUARD).arg(run.directory()).env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It has nothing left to do.
        let _ = self.0.wait();
    }
}

impl Wan {
    /// Builds the network of a topology.
    pub fn build(topology: &Topology) -> Result<Self, WanError> {
        Self::build_with(topology, Settings::default())
    }

    /// Builds the network of a topology.
    pub fn build_with(topology: &Topology, settings: Settings) -> Result<Self, WanError> {
        if !sys::is_isolated() {
            return Err(WanError::NotIsolated);
        }
        let launcher = settings.launcher.unwrap_or_else(|| OWN_PROGRAM.into());
        let plan = Plan::new(topology);
        let hosts = plan.hosts.clone();
        let stations = Stations(Arc::new(stations(&plan)?));
        let names = topology.sites.iter().map(|site| site.name.clone()).collect();
        let network = Network::new(topology, plan, settings.seed);
        let shuttle = Shuttle::start(network, Arc::clone(&stations.0), names)?;
        let mut run = Run::begin()?;
        run.set_networks(stations.0.iter().map(Station::network).collect::<io::Result<_>>()?);
        let guard = Guard::start(&launcher, &run)?;
        let smallest_delay_us = smallest_delay_us(topology);
        Ok(Self { run, _guard: guard, shuttle, stations, hosts, launcher, smallest_delay_us })
    }

    /// The name of this run, unique on this machine as long as it lasts.
    pub fn run_id(&self) -> &str {
        self.run.id()
    }

    /// All hosts: the servers site by site, then the clients site by site.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of a name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// The servers of a site.
    pub fn servers(&self, site: usize) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.site == site && host.role == Role::Server)
    }

    /// The clients of a site.
    pub fn clients(&self, site: usize) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.site == site && host.role == Role::Client)
    }

    /// A command that runs within a host: its network, a process group of its own, no input, no variables but
    /// `PATH` and its like. Add arguments, variables, directory and outputs; end it with [`sys::kill_group`].
    pub fn command(&self, host: &Host, program: &Path) -> Command {
        let mut command = Command::new(&self.launcher);
        let namespace =
            self.number(host).and_then(|number| self.stations.0.get(number)).map(Station::namespace);
        // A host of another network has none here: then the start fails and says so.
        let descriptor = namespace.map_or(-1, |namespace| namespace.as_raw_fd());
        let namespace = format!("/proc/{}/fd/{descriptor}", std::process::id());
        command.arg(sys::ENTER).arg(namespace).arg(self.run.directory()).arg(&host.name).arg(program);
        command.env_clear().env(sys::MARK, self.run.id()).process_group(0).stdin(Stdio::null());
        command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command
    }

    fn number(&self, host: &Host) -> Option<usize> {
        self.hosts.iter().position(|known| known.name == host.name)
    }

    /// Does something in a thread within a host: sockets that it makes are the host's, and stay so.
    pub fn inside<T: Send>(&self, host: &Host, work: impl FnOnce() -> T + Send) -> Result<T, WanError> {
        let station = self.number(host).and_then(|number| self.stations.0.get(number));
        let station =
            station.ok_or_else(|| io::Error::other(format!("{} is no host of this network", host.name)))?;
        let entered = || -> io::Result<T> {
            station::enter(station.namespace())?;
            Ok(work())
        };
        let done = std::thread::scope(|scope| scope.spawn(entered).join());
        Ok(done.map_err(|_| io::Error::other("work within a host panicked"))??)
    }

    /// Gives a client's host another address in the place of its own, as when a machine changes networks; answers it.
    /// Once it has gone, connections from the old one hear nothing any more.
    pub fn readdress(&self, host: &Host) -> Result<Ipv4Addr, WanError> {
        let station = self.number(host).and_then(|number| self.stations.0.get(number));
        let second = host.second_address();
        let (Some(station), Some(second)) = (station, second) else {
            return Err(io::Error::other(format!("{} is no client of this network", host.name)).into());
        };
        self.inside(host, || station.readdress(host.address, second))??;
        Ok(second)
    }

    /// A file or directory that is removed with this network, also after a crash.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        self.run.own(path)
    }

    /// Cuts directions, each from one site to another, or heals them. When this returns nothing arrives over those that are cut any
    /// more; what was under way stays lost.
    pub fn sever(&self, ways: &[(usize, usize)], is_cut: bool) {
        self.order(ways.iter().map(|&(from, to)| Order::Cut { from, to, is_cut }).collect());
    }

    /// Makes one direction another link from now on.
    pub fn link(&self, from: usize, to: usize, link: Link) {
        self.order(vec![Order::Link { from, to, link }]);
    }

    /// The thread lives as long as this network does: an answer without figures can only mean that it panicked,
    /// and then it has said so.
    fn order(&self, orders: Vec<Order>) -> Option<Figures> {
        self.shuttle.ask(orders)
    }

    /// What was sent and what arrived since the network was built.
    pub fn traffic(&self) -> Traffic {
        self.order(Vec::new()).map(|figures| figures.traffic).unwrap_or_default()
    }

    /// How well the emulator kept up since the network was built.
    pub fn health(&self) -> Health {
        let mut health = self.order(Vec::new()).map(|figures| figures.health).unwrap_or_default();
        let dropped =
            |station: &Station| station.interface().map(|counts| counts.sent_dropped).unwrap_or_default();
        health.ring_drops = self.stations.0.iter().map(dropped).sum();
        health.congestion =
            self.stations.0.first().map(|station| station.congestion().to_owned()).unwrap_or_default();
        health.smallest_delay_us = self.smallest_delay_us;
        health
    }

    /// What the kernel counted at a host's device: independent of the emulator.
    pub fn interface(&self, host: &Host) -> io::Result<Interface> {
        let station = self.number(host).and_then(|number| self.stations.0.get(number));
        station.map_or_else(|| Err(io::ErrorKind::NotFound.into()), Station::interface)
    }
}

/// All devices and namespaces. The shuttle shares them and ends before.
struct Stations(Arc<Vec<Station>>);

impl Drop for Stations {
    fn drop(&mut self) {
        let Some(stations) = Arc::get_mut(&mut self.0).map(std::mem::take) else { return };
        // Closing a device waits for the kernel; many that wait together wait about as long as one.
        let mut stations = stations.into_iter().map(Some).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            for some in stations.chunks_mut(STATIONS_PER_CLOSER) {
                scope.spawn(|| some.fill_with(|| None));
            }
        });
    }
}

/// Makes all hosts, each in a thread that moves into the new namespace and ends there.
fn stations(plan: &Plan) -> Result<Vec<Station>, WanError> {
    let build = || -> Result<Vec<Station>, WanError> {
        let named = plan.hosts.iter().zip(&plan.cards);
        let station = named.map(|(host, card)| {
            let built = Station::build(host.address, card.rate);
            built.map_err(|source| WanError::Host { host: host.name.clone(), source })
        });
        station.collect()
    };
    let built = std::thread::scope(|scope| scope.spawn(build).join());
    built.map_err(|_| io::Error::other("making the hosts panicked"))?
}

/// The smallest one-way delay that is not zero.
fn smallest_delay_us(topology: &Topology) -> u64 {
    let links = topology.links.iter().flatten().map(|link| link.delay);
    let near = [topology.site_lan.rtt / 2, topology.access.rtt / 2];
    let delays = links.chain(near).filter(|delay| !delay.is_zero());
    delays.min().map_or(0, |delay| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
}

/// Gives the calling thread the priority of an instrument: what it measures must not be its own waiting.
pub(crate) fn raise_priority() {
    priority::raise();
}

/// Moves the calling thread into a namespace.
pub(crate) fn enter(namespace: &File) -> io::Result<()> {
    station::enter(namespace.as_fd())
}

/// Sets up loopback where the calling thread is.
pub(crate) fn loopback_up() -> io::Result<()> {
    netlink::Netlink::open()?.up(station::LOOPBACK)
}
