//! Which machines a topology asks for: names, addresses, cards, and the way from one to another.
//!
//! Invariants: pure; a host's number is its place in the list; an address belongs to one host and can be turned
//! back into its number without a search.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skerry_scenario::topology::Topology;

/// Rate of a card for which the topology gives none: links without a rate would make the shuttle the bottleneck.
pub(super) const CARD_RATE: u64 = 1_250_000_000;
/// Clients' addresses begin above the servers'.
const FIRST_CLIENT: u8 = 129;
/// How far above its address a client's second one lies.
const SECOND: u8 = 64;

/// What a host is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It serves.
    Server,
    /// Clients ask from it.
    Client,
    /// A small machine that stores for a server: no topology has them yet.
    Edge,
}

/// One machine of the emulated network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `oslo-1`, or `oslo-client-1`.
    pub name: String,
    /// The number of its site in the topology.
    pub site: usize,
    /// What it is there for.
    pub role: Role,
    /// Its only address besides loopback.
    pub address: Ipv4Addr,
    /// Memory that its processes may use together, if limited.
    pub memory_mb: Option<u64>,
    /// Processors that its processes may use together, if limited.
    pub cpu_share: Option<f64>,
}

impl Host {
    /// The address that a client can have instead of its own ([`super::Wan::readdress`]).
    pub(super) fn second_address(&self) -> Option<Ipv4Addr> {
        let [ten, high, low, number] = self.address.octets();
        let second = number.checked_add(SECOND).filter(|_| self.role == Role::Client)?;
        Some(Ipv4Addr::new(ten, high, low, second))
    }
}

/// A card: the same rate in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Card {
    /// Bytes per second, never 0.
    pub(super) rate: u64,
    /// What may wait at the receiving side.
    pub(super) queue: Duration,
}

/// All machines of a topology.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) hosts: Vec<Host>,
    pub(super) cards: Vec<Card>,
    /// Per site: where its servers and its clients begin in `hosts`.
    starts: Vec<(usize, usize)>,
    clients_end: usize,
}

impl Plan {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut plan = Self { hosts: Vec::new(), cards: Vec::new(), starts: Vec::new(), clients_end: 0 };
        for (site, place) in topology.sites.iter().enumerate() {
            plan.starts.push((plan.hosts.len(), 0));
            (0..place.hosts).for_each(|number| plan.add(topology, site, Role::Server, number));
        }
        for (site, place) in topology.sites.iter().enumerate() {
            let first = plan.hosts.len();
            if let Some(starts) = plan.starts.get_mut(site) {
                starts.1 = first;
            }
            (0..place.clients).for_each(|number| plan.add(topology, site, Role::Client, number));
        }
        plan.clients_end = plan.hosts.len();
        plan
    }

    fn add(&mut self, topology: &Topology, site: usize, role: Role, number: u32) {
        let (word, first, network) = match role {
            Role::Client => ("-client", FIRST_CLIENT, topology.access),
            Role::Server | Role::Edge => ("", 1, topology.site_lan),
        };
        let place = topology.sites.get(site).map_or("", |place| place.name.as_str());
        let limits = [network.rate, topology.host.rate];
        let rate = limits.into_iter().filter(|rate| *rate > 0).min().unwrap_or(CARD_RATE);
        self.cards.push(Card { rate, queue: network.queue });
        self.hosts.push(Host {
            name: format!("{place}{word}-{}", number + 1),
            site,
            role,
            address: Ipv4Addr::new(10, 64 + (site / 256) as u8, site as u8, first + number as u8),
            memory_mb: topology.host.memory_mb,
            cpu_share: topology.host.cpu_share,
        });
    }

    /// The host that has an address.
    pub(super) fn at(&self, address: Ipv4Addr) -> Option<usize> {
        let [ten, high, low, number] = address.octets();
        let site = usize::from(high.checked_sub(64)?) * 256 + usize::from(low);
        let (servers, clients) = *self.starts.get(site)?;
        let host = match number {
            0 => return None,
            1..FIRST_CLIENT => servers + usize::from(number) - 1,
            _ => clients + usize::from(number - FIRST_CLIENT),
        };
        let is_first = |found: &&Host| ten == 10 && found.address == address;
        let first = self.hosts.get(host).filter(is_first).map(|_| host);
        first.or_else(|| {
            let host = clients + usize::from(number.checked_sub(FIRST_CLIENT + SECOND)?);
            self.hosts.get(host).filter(|found| found.second_address() == Some(address)).map(|_| host)
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::new(&Topology::parse("t.toml", text).unwrap())
    }

    #[test]
    fn servers_come_first_site_by_site_then_clients() {
        let plan = plan(
            "version = 1\n[[site]]\nname = \"a\"\nhosts = 2\n[[site]]\nname = \"b\"\nclients = 2\n\
             [access]\nrate_mbit = 8\n[site_lan]\nrate_mbit = 80\n",
        );
        let names: Vec<_> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["a-1", "a-2", "b-1", "a-client-1", "b-client-1", "b-client-2"]);
        let rates: Vec<_> = plan.cards.iter().map(|card| card.rate / 1_000_000).collect();
        assert_eq!(rates, [10, 10, 10, 1, 1, 1]);
        assert_eq!(plan.hosts[4].address, Ipv4Addr::new(10, 64, 1, 129));
    }

    #[test]
    fn every_address_leads_back_and_no_other_does() {
        let sites: String =
            (0..272).map(|site| format!("[[site]]\nname = \"s{site}\"\nhosts = 3\n")).collect();
        let plan = plan(&format!("version = 1\n{sites}"));
        for (number, host) in plan.hosts.iter().enumerate() {
            assert_eq!(plan.at(host.address), Some(number), "{host:?}");
            if let Some(second) = host.second_address() {
                assert_eq!(plan.at(second), Some(number), "{host:?}");
            }
        }
        for stranger in [
            [10, 64, 0, 0],
            [10, 64, 0, 4],
            [10, 64, 0, 130],
            [10, 64, 0, 194],
            [10, 65, 16, 1],
            [11, 64, 0, 1],
        ] {
            assert_eq!(plan.at(stranger.into()), None, "{stranger:?}");
        }
    }

    #[test]
    fn a_machines_card_is_the_slowest_of_what_is_said() {
        let plan = plan(
            "version = 1\n[[site]]\nname = \"a\"\n[host]\nrate_mbit = 94\n[site_lan]\nrate_mbit = 1000\n",
        );
        assert_eq!(plan.cards[0].rate, 94 * 125_000);
        assert_eq!(plan.cards[1].rate, 94 * 125_000);
    }
}
