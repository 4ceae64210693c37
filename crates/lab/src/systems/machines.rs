//! Where a system's processes run: the emulated hosts, or this machine's loopback as their double.
//!
//! Invariant: an address of a system is dialled only from inside the host that asks, never from the lab's own network.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::wan::{Host, Role, Wan};

/// A host that runs servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name, unique within the run.
    pub host: String,
    /// The number of its site, from 0.
    pub site: usize,
    /// The name of its site.
    pub site_name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// Hosts that can run programs.
pub trait Machines: Sync {
    /// The hosts for servers, site by site.
    fn servers(&self) -> Vec<Machine>;

    /// A command that will run on a host.
    fn command(&self, host: &str, program: &Path) -> io::Result<Command>;

    /// Dials from inside a host.
    fn connect(&self, host: &str, to: SocketAddr, within: Duration) -> io::Result<TcpStream>;
}

/// Hosts that are addresses of the loopback network: no distances, for trials and tests.
#[derive(Debug, Clone)]
pub struct Loopback {
    machines: Vec<Machine>,
}

impl Loopback {
    /// So many sites of so many hosts, the first of them at 127.`network`.1.1, 127.`network`.2.1 and so on.
    pub fn new(network: u8, sites: u8, nodes: u8) -> Self {
        let machine = |site: u8, node: u8| Machine {
            host: format!("site-{site}-{node}"),
            site: usize::from(site) - 1,
            site_name: format!("site-{site}"),
            address: Ipv4Addr::new(127, network, site, node),
        };
        let of_site = |site: u8| (1..=nodes).map(move |node| machine(site, node));
        Self { machines: (1..=sites).flat_map(of_site).collect() }
    }
}

impl Machines for Loopback {
    fn servers(&self) -> Vec<Machine> {
        self.machines.clone()
    }

    fn command(&self, _host: &str, program: &Path) -> io::Result<Command> {
        Ok(Command::new(program))
    }

    fn connect(&self, _host: &str, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&to, within)
    }
}

impl Machines for Wan {
    fn servers(&self) -> Vec<Machine> {
        let sites = self.traffic().sites;
        let servers = self.hosts().iter().filter(|host| host.role == Role::Server);
        let machine = |host: &Host| Machine {
            host: host.name.clone(),
            site: host.site,
            site_name: sites.get(host.site).cloned().unwrap_or_default(),
            address: host.address,
        };
        servers.map(machine).collect()
    }

    fn command(&self, host: &str, program: &Path) -> io::Result<Command> {
        let known = self.host(host).ok_or_else(|| io::Error::other(format!("there is no host {host}")))?;
        Ok(Self::command(self, known, program))
    }

    fn connect(&self, host: &str, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let known = self.host(host).ok_or_else(|| io::Error::other(format!("there is no host {host}")))?;
        let dialled = self.inside(known, || TcpStream::connect_timeout(&to, within));
        dialled.map_err(io::Error::other)?
    }
}
