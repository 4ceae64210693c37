//! One host's end of the network: a namespace without a name, and in it a TUN device as the only way out.
//!
//! Why nameless: a namespace that only descriptors hold vanishes with the process that holds them, however it
//! ends; the device is not persistent and vanishes with its descriptor. So a crash leaves no network behind.
//!
//! Invariant: the device's other end is the shuttle, which knows hosts of the lab only. Nothing else leads out.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns, unshare};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::netlink::Netlink;

/// The device's name in every host.
const DEVICE: &str = "wan0";
/// Packets that may wait for the shuttle at one device.
const TX_QUEUE: u32 = 4000;
/// The largest packet on the wire.
const MTU: u16 = 1500;
const CONGESTION: &str = "cubic";
const CONGESTION_FILE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Loopback is the first device of every namespace.
pub(super) const LOOPBACK: u32 = 1;
/// Super-packets are at most so long on their card, in seconds' fractions: one in a thousand.
const GSO_PER_SECOND: u64 = 1000;
const GSO_BYTES: std::ops::RangeInclusive<u64> = 16_384..=65_536;

/// A host's namespace and device.
pub(super) struct Station {
    namespace: OwnedFd,
    device: SyncDevice,
    /// The namespace's own counters, which know nothing of the shuttle.
    counters: File,
    congestion: String,
}

/// What the kernel counted at a host's device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface {
    /// Bytes that came in.
    pub received_bytes: u64,
    /// Bytes that went out.
    pub sent_bytes: u64,
    /// Packets that came in; a super-packet is one.
    pub received_packets: u64,
    /// Packets that went out.
    pub sent_packets: u64,
    /// Packets that had no room on their way out.
    pub sent_dropped: u64,
}

impl Station {
    /// Makes a namespace and its device. The calling thread moves into it: use a thread made for this.
    pub(super) fn build(address: Ipv4Addr, card_rate: u64) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let namespace = File::open("/proc/thread-self/ns/net")?.into();
        // IPv6 would send its own greetings; the lab's hosts have IPv4 only. Refused is as good: they go nowhere.
        let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let congestion = congestion();
        let device = DeviceBuilder::new().name(DEVICE).mtu(MTU).offload(true).enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        let number = device.if_index()?;
        let netlink = Netlink::open()?;
        netlink.up(LOOPBACK)?;
        let gso = (card_rate / GSO_PER_SECOND).clamp(*GSO_BYTES.start(), *GSO_BYTES.end());
        netlink.sizes(number, TX_QUEUE, gso as u32)?;
        netlink.up(number)?;
        netlink.address(number, address)?;
        netlink.default_route(number)?;
        let counters = File::open("/proc/thread-self/net/dev")?;
        Ok(Self { namespace, device, counters, congestion })
    }

    /// Another address in the place of the one it has. For a thread that is within the namespace.
    pub(super) fn readdress(&self, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<()> {
        let (number, netlink) = (self.device.if_index()?, Netlink::open()?);
        // In this order: with its last address a device loses its routes.
        netlink.address(number, to)?;
        netlink.remove_address(number, from)
    }

    pub(super) fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// What tells processes in this namespace from others.
    pub(super) fn network(&self) -> io::Result<PathBuf> {
        fs::read_link(format!("/proc/self/fd/{}", self.namespace.as_raw_fd()))
    }

    pub(super) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// How TCP in this host finds its speed, unless a program says otherwise.
    pub(super) fn congestion(&self) -> &str {
        &self.congestion
    }

    /// What the kernel counted so far.
    pub(super) fn interface(&self) -> io::Result<Interface> {
        let mut text = String::new();
        let mut counters = &self.counters;
        counters.seek(SeekFrom::Start(0))?;
        counters.read_to_string(&mut text)?;
        interface(&text).ok_or_else(|| io::Error::other("the host's device is gone"))
    }
}

/// Asks for the congestion control that the papers' machines had; says what it is then, for some kernels refuse.
fn congestion() -> String {
    // Refused: then results say which it was.
    let _ = fs::write(CONGESTION_FILE, CONGESTION);
    fs::read_to_string(CONGESTION_FILE).unwrap_or_default().trim().to_owned()
}

/// Moves the calling thread into a namespace.
pub(super) fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

/// Reads the device's line of `/proc/net/dev`.
fn interface(text: &str) -> Option<Interface> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some(Interface {
        received_bytes: *numbers.first()?,
        received_packets: *numbers.get(1)?,
        sent_bytes: *numbers.get(8)?,
        sent_packets: *numbers.get(9)?,
        sent_dropped: *numbers.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let text = "Inter-| Receive | Transmit\n face |bytes packets\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
                    wan0: 100 2 0 0 0 0 0 0 300 4 0 5 0 0 0 0\n";
        let expected = Interface {
            received_bytes: 100,
            received_packets: 2,
            sent_bytes: 300,
            sent_packets: 4,
            sent_dropped: 5,
        };
        assert_eq!(interface(text), Some(expected));
        assert_eq!(interface("lo: 1"), None);
    }
}
