//! The own addresses under the links: when one goes while there is another way to the same peer, its links end at once and
//! are dialled again from there.
//!
//! Why here: the kernel goes on sending from an address that it has not any more, and gives up after the user timeout
//! ([`super::tuning`]); a link at rest finds out when its other end is asked next. Asking the kernel whether an
//! address is its own costs two system calls and no packet.
//!
//! Invariants: a link whose address is still there is left alone; so is one without another way to its peer, because an
//! address that comes back finds it as it was; so is one whose address the kernel never called its own (it is in another table,
//! VRF); nothing is sent to find out; who is well linked is not dialled for a way that is another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::super::pace;
use super::{PeerState, Shared, greet};

/// How often the kernel is asked.
const LOOK: Duration = Duration::from_secs(1);
/// Peers at most of which it is asked from where they would be dialled.
const SAMPLE: usize = 8;

/// Where the ends of a connection are: this one and the other.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// The ends of a socket; none if the kernel does not say.
pub(super) fn ends(socket: &TcpStream) -> Option<Ends> {
    socket.local_addr().ok().zip(socket.peer_addr().ok())
}

type Places = BTreeMap<u64, (Ends, CancellationToken)>;

/// The direct connections that stand or are about to.
#[derive(Debug, Clone, Default)]
pub(super) struct Ways(Arc<Mutex<(u64, Places)>>);

/// One of them, until this is dropped.
#[derive(Debug)]
pub(super) struct Way {
    ways: Ways,
    number: u64,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.ways.all().1.remove(&self.number);
    }
}

impl Ways {
    fn all(&self) -> MutexGuard<'_, (u64, Places)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection between these, which ends with this token; none if its own end is not an address of this machine now.
    pub(super) fn note(
        &self,
        ends: Option<Ends>,
        token: &CancellationToken,
        ground: &dyn Ground,
    ) -> Option<Way> {
        let ends = ends.filter(|(local, _)| ground.is_own(*local))?;
        let mut all = self.all();
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, (ends, token.clone()));
        Some(Way { ways: self.clone(), number })
    }

    /// The connections whose own address is gone and whose peer can be reached from another one.
    fn lost(&self, ground: &dyn Ground) -> Vec<CancellationToken> {
        let mut stands: BTreeMap<IpAddr, bool> = BTreeMap::new();
        let mut is_lost = |(local, remote): Ends| {
            let stands = *stands.entry(local.ip()).or_insert_with(|| ground.is_own(local));
            !stands && ground.source_to(remote).is_some_and(|source| source != local.ip())
        };
        let all = self.all();
        let lost = all.1.values().filter(|(ends, _)| is_lost(*ends));
        lost.map(|(_, token)| token.clone()).collect()
    }
}

/// Keeps the note of a connection for as long as the link runs that it was decided to be.
pub(super) fn while_linked(greeted: greet::Greeted, way: Option<Way>) -> greet::Greeted {
    match greeted {
        greet::Greeted::Link(link) => greet::Greeted::Link(Box::pin(async move {
            link.await;
            drop(way);
        })),
        greet::Greeted::Spare => greet::Greeted::Spare,
    }
}

/// What the kernel knows of addresses.
pub(super) trait Ground: Send + Sync {
    /// Whether this is an address of this machine.
    fn is_own(&self, local: SocketAddr) -> bool;

    /// From which address this one would be dialled now; none if there is no way to it.
    fn source_to(&self, remote: SocketAddr) -> Option<IpAddr>;
}

/// The one that this process runs on.
pub(super) struct Kernel;

impl Ground for Kernel {
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing is sent: the kernel is asked whether an address is its own"
    )]
    fn is_own(&self, mut local: SocketAddr) -> bool {
        local.set_port(0);
        match UdpSocket::bind(local) {
            Ok(_) => true,
            // Anything else says nothing of the address.
            Err(error) => error.kind() != std::io::ErrorKind::AddrNotAvailable,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "nothing is sent: the kernel is asked for a route")]
    fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(remote).ok()?;
        Some(socket.local_addr().ok()?.ip())
    }
}

/// From where some peers would be dialled, at the last look, by their address.
pub(super) type Sources = BTreeMap<SocketAddr, Option<IpAddr>>;

/// One look: ends the links whose address is gone, and has those dialled that have no direct link where the way to a peer is
/// another one than before. How many links ended.
pub(super) fn look(shared: &Shared, ground: &dyn Ground, before: &mut Sources) -> usize {
    let lost = shared.ways.lost(ground);
    let now = sources(shared, ground);
    let has_new_way = has_new_way(before, &now);
    *before = now;
    if !lost.is_empty() {
        tracing::info!(
            links = lost.len(),
            "an address of this site is gone: its links are made anew from another one"
        );
        lost.iter().for_each(CancellationToken::cancel);
    }
    if has_new_way || !lost.is_empty() {
        shared.state(|state| {
            state.peers.values().filter(is_to_be_dialled).for_each(|peer| peer.wakers.hurry())
        });
    }
    lost.len()
}

/// Whether one of those who were looked at before would be dialled from elsewhere. Who came or went since says nothing.
fn has_new_way(before: &Sources, now: &Sources) -> bool {
    let is_new = |(remote, now): (&SocketAddr, &Option<IpAddr>)| {
        now.is_some() && before.get(remote).is_some_and(|before| before != now)
    };
    now.iter().any(is_new)
}

/// Whether no direct link stands, or one that has just been ended.
fn is_to_be_dialled(peer: &&PeerState) -> bool {
    let standing = peer.standing.as_ref();
    standing.is_none_or(|standing| standing.course.hops > 0 || standing.token.is_cancelled())
}

fn sources(shared: &Shared, ground: &dyn Ground) -> Sources {
    let literal = |peer: &PeerState| peer.address.addresses.iter().find_map(|address| address.parse().ok());
    let some: Vec<SocketAddr> =
        shared.state(|state| state.peers.values().filter_map(literal).take(SAMPLE).collect());
    some.into_iter().map(|remote| (remote, ground.source_to(remote))).collect()
}

/// Looks until the network is closed.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut before = sources(&shared, &Kernel);
    while shared.closed.run_until_cancelled(pace::pause(LOOK)).await.is_some() {
        look(&shared, &Kernel, &mut before);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_kernel_knows_its_own_addresses_and_sends_nothing() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(Kernel.is_own(at("127.0.0.1:9")) && Kernel.is_own(at("127.0.0.3:9")));
        // For documents (RFC 5737): no machine has it.
        assert!(!Kernel.is_own(at("192.0.2.1:9")));
        assert_eq!(Kernel.source_to(at("127.0.0.1:9")), Some(at("127.0.0.1:0").ip()));
    }

    #[test]
    fn a_peer_that_comes_or_goes_is_no_new_way() {
        let from = |from: &str| Some(from.parse().unwrap());
        let of = |ways: &[(&str, Option<IpAddr>)]| -> Sources {
            ways.iter().map(|(peer, source)| (peer.parse().unwrap(), *source)).collect()
        };
        let (lan, vpn) = (("192.0.2.1:9", from("10.0.0.1")), ("192.0.2.2:9", from("10.8.0.1")));
        assert!(!has_new_way(&of(&[lan]), &of(&[vpn, lan])) && !has_new_way(&of(&[lan, vpn]), &of(&[vpn])));
        assert!(has_new_way(&of(&[lan, (vpn.0, None)]), &of(&[lan, vpn])));
        assert!(!has_new_way(&of(&[lan, vpn]), &of(&[lan, (vpn.0, None)])), "there is none to dial by");
    }

    /// As with VRF and `tcp_l3mdev_accept`: it is no address of the table that the kernel is asked about.
    #[test]
    fn a_link_whose_address_was_never_here_is_left_alone() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (ways, token) = (Ways::default(), CancellationToken::new());
        let remote = at("192.0.2.2:9");
        let none = ways.note(Some((at("192.0.2.1:9"), remote)), &token, &Kernel);
        let one = ways.note(Some((at("127.0.0.1:9"), remote)), &token, &Kernel);
        assert!(none.is_none() && one.is_some() && ways.all().1.len() == 1);
        drop(one);
        assert!(ways.all().1.is_empty());
    }
}
