//! What a run needs of the network below it: the emulator, or a double without distances.

use std::io;
use std::path::Path;

use crate::result::{HostTraffic, Network, Traffic};
use crate::systems::{Machine, Machines};
use crate::wan::{self, Flow, Host, Role, Wan};

/// Hosts, their network, and what can be done to it.
pub trait Ground: Machines {
    /// The hosts of clients, site by site.
    fn clients(&self) -> Vec<Machine>;

    /// Cuts directions from one site to another, or heals them; holds when it returns.
    fn sever(&self, ways: &[(usize, usize)], is_cut: bool);

    /// What was sent since the network was built.
    fn traffic(&self) -> Traffic;

    /// Something that goes with the network, also after a crash.
    fn own(&self, path: &Path) -> io::Result<()>;

    /// How well the network keeps to its word, and what makes measurements doubtful.
    fn network(&self) -> (Network, Vec<String>);
}

impl Ground for Wan {
    fn clients(&self) -> Vec<Machine> {
        let clients = self.hosts().iter().filter(|host| host.role == Role::Client);
        let names = self.traffic().sites;
        let machine = |host: &Host| Machine {
            host: host.name.clone(),
            site: host.site,
            site_name: names.get(host.site).cloned().unwrap_or_default(),
            address: host.address,
        };
        clients.map(machine).collect()
    }

    fn sever(&self, ways: &[(usize, usize)], is_cut: bool) {
        Self::sever(self, ways, is_cut);
    }

    fn traffic(&self) -> Traffic {
        let now = Self::traffic(self);
        let matrix = |of: fn(&Flow) -> u64| -> Vec<Vec<u64>> {
            now.pairs.iter().map(|row| row.iter().map(of).collect()).collect()
        };
        let host = |host: &wan::HostTraffic| HostTraffic {
            sent_bytes: host.sent_bytes,
            received_bytes: host.received_bytes,
        };
        Traffic {
            bytes: matrix(|flow| flow.bytes),
            packets: matrix(|flow| flow.packets),
            hosts: now.hosts.iter().map(|(name, traffic)| (name.clone(), host(traffic))).collect(),
        }
    }

    fn own(&self, path: &Path) -> io::Result<()> {
        Self::own(self, path)
    }

    fn network(&self) -> (Network, Vec<String>) {
        let health = self.health();
        let network = Network {
            ring_drops: health.ring_drops,
            memory_drops: health.memory_drops,
            lateness_p99_ms: health.late_p99_us as f64 / 1e3,
        };
        (network, health.doubts())
    }
}
