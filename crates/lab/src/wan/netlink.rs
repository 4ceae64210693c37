//! The few words of rtnetlink that a host's network needs: link up, address, default route, sizes.
//!
//! Why by hand: four requests of a few dozen bytes, answered by one acknowledgement each; the crates for it bring
//! an asynchronous runtime. Everything acts on the network namespace of the calling thread.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const ERROR: u16 = 2;
/// REQUEST | ACK, and CREATE for what is new.
const CHANGE: u16 = 0x5;
const CREATE: u16 = 0x405;
const IFF_UP: u32 = 1;
const AF_INET: u8 = 2;
const ATTRIBUTE_TX_QUEUE: u16 = 13;
const ATTRIBUTE_GSO_SIZE: u16 = 41;
const ATTRIBUTE_OUT: u16 = 4;
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;
const TABLE_MAIN: u8 = 254;
const BY_STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;

/// A connection to the kernel's routing of this thread's namespace.
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // Protocol 0 of this family is routing.
        let family = AddressFamily::NETLINK;
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket })
    }

    /// Sets a device up.
    pub(super) fn up(&self, device: u32) -> io::Result<()> {
        self.ask(NEW_LINK, CHANGE, &link_header(device, IFF_UP))
    }

    /// How many packets wait for the shuttle, and how large a super-packet may be.
    pub(super) fn sizes(&self, device: u32, tx_queue: u32, gso_bytes: u32) -> io::Result<()> {
        let mut body = link_header(device, 0);
        attribute(&mut body, ATTRIBUTE_TX_QUEUE, &tx_queue.to_ne_bytes());
        attribute(&mut body, ATTRIBUTE_GSO_SIZE, &gso_bytes.to_ne_bytes());
        self.ask(NEW_LINK, CHANGE, &body)
    }

    /// Gives a device an address.
    pub(super) fn address(&self, device: u32, address: Ipv4Addr) -> io::Result<()> {
        self.ask(NEW_ADDRESS, CREATE, &address_body(device, address))
    }

    /// Takes an address from a device.
    pub(super) fn remove_address(&self, device: u32, address: Ipv4Addr) -> io::Result<()> {
        self.ask(DELETE_ADDRESS, CHANGE, &address_body(device, address))
    }

    /// Sends everything that is not local to a device.
    pub(super) fn default_route(&self, device: u32) -> io::Result<()> {
        let mut body = vec![AF_INET, 0, 0, 0, TABLE_MAIN, BY_STATIC, SCOPE_LINK, UNICAST, 0, 0, 0, 0];
        attribute(&mut body, ATTRIBUTE_OUT, &device.to_ne_bytes());
        self.ask(NEW_ROUTE, CREATE, &body)
    }

    fn ask(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let request = message(kind, flags, body);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0; 4096];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        verdict(answer.get(..length).unwrap_or_default())
    }
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    message
}

/// The header of messages about a device; `up` are flags to set.
fn link_header(device: u32, up: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&device.to_ne_bytes());
    body.extend_from_slice(&up.to_ne_bytes());
    body.extend_from_slice(&up.to_ne_bytes());
    body
}

fn address_body(device: u32, address: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![AF_INET, 32, 0, 0];
    body.extend_from_slice(&device.to_ne_bytes());
    attribute(&mut body, ATTRIBUTE_LOCAL, &address.octets());
    attribute(&mut body, ATTRIBUTE_ADDRESS, &address.octets());
    body
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// What the acknowledgement says: 0, or a negative error number.
fn verdict(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("the kernel's routing gave an answer that is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_messages_carry_their_length() {
        let mut body = Vec::new();
        attribute(&mut body, 3, b"wan0\0");
        assert_eq!(body.len(), 12);
        let message = message(NEW_LINK, CHANGE, &body);
        assert_eq!(message.len(), 28);
        assert_eq!(message[..4], 28u32.to_ne_bytes());
    }

    #[test]
    fn a_refusal_is_an_error_of_the_system() {
        let mut answer = message(ERROR, 0, &(-1i32).to_ne_bytes());
        assert_eq!(verdict(&answer).map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
        answer[16..20].copy_from_slice(&0i32.to_ne_bytes());
        assert!(verdict(&answer).is_ok());
        assert!(verdict(&[]).is_err());
    }
}
