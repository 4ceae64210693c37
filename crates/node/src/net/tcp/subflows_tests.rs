//! Real sockets on loopback; what is under way is made out to be much.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use skerry_federation::subflows::REST;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::super::{Net, Stream, frame, tls::Tls};
use super::super::tests::{Site, echo, linked, until};
use super::super::{KnownKeys, Peer};
use super::*;

/// A time that only these looks have.
const fn second(n: u64) -> Instant {
    Instant((1_000_000 + n) * 1_000_000_000)
}

fn both(a: &Site, b: &Site) -> [usize; 2] {
    [a.net.connections(b.node()), b.net.connections(a.node())]
}

/// A busy link, as both ends see it.
async fn busy(a: &Site, b: &Site, at: u64) {
    until("round trips", || a.net.rtt(b.node()).is_some() && b.net.rtt(a.node()).is_some()).await;
    [a, b].iter().for_each(|site| look(&site.net.shared, second(at), 1));
    echo(a, b, &[7; 1 << 20]).await;
    [a, b].iter().for_each(|site| look(&site.net.shared, second(at + 1), 1));
}

async fn with_subflows() -> (Site, Site) {
    let (a, b) = linked().await;
    assert_eq!(both(&a, &b), [1, 1]);
    busy(&a, &b, 0).await;
    until("as many as there may be", || both(&a, &b) == [1 + MOST, 1 + MOST]).await;
    (a, b)
}

/// A stream of bulk from the first to the second, as both hold it.
async fn bulk(from: &Site, to: &Site) -> (Stream, Stream) {
    let mut ours = from.net.open_bulk(to.node()).await.unwrap();
    frame::write(&mut ours, b"asked").await.unwrap();
    let (peer, mut theirs) = to.net.accept().await.unwrap();
    assert_eq!(peer, Peer::Known(from.node()));
    assert_eq!(frame::read(&mut theirs).await.unwrap().unwrap(), b"asked");
    (ours, theirs)
}

fn subflows(of: &Site, to: &Site) -> Vec<Arc<Link>> {
    of.net.shared.state(|state| state.peers[&to.node()].beside.standing.clone())
}

#[tokio::test]
async fn bulk_goes_over_connections_beside_a_busy_link_from_both_ends() {
    let (a, b) = with_subflows().await;
    for (from, to) in [(&a, &b), (&b, &a)] {
        let mut open = Vec::new();
        for _ in 0..2 * MOST {
            open.push(bulk(from, to).await);
        }
        assert!(subflows(from, to).iter().all(|subflow| subflow.opened() == 2), "shared out evenly");
        assert!(subflows(to, from).iter().all(|subflow| subflow.is_used()), "the other end sees them");
    }
    echo(&a, &b, b"the link is as it was").await;
    assert_eq!(a.net.refused(), super::super::Refused::default());
}

#[tokio::test]
async fn one_that_breaks_takes_its_streams_along_and_nothing_else() {
    let (a, b) = with_subflows().await;
    let (mut ours, _theirs) = bulk(&a, &b).await;
    let used: Vec<_> = subflows(&a, &b).into_iter().filter(|subflow| subflow.opened() == 1).collect();
    assert_eq!(used.len(), 1);
    // Neither end makes another meanwhile.
    for (site, peer) in [(&a, b.node()), (&b, a.node())] {
        let later =
            |state: &mut State| state.peers.get_mut(&peer).unwrap().beside.not_before = Instant(u64::MAX);
        site.net.shared.state(later);
    }
    used.iter().for_each(|subflow| subflow.sever());
    assert!(ours.read_u8().await.is_err());
    until("it is gone at both ends", || both(&a, &b) == [MOST, MOST]).await;
    let (_ours, _theirs) = bulk(&a, &b).await;
    echo(&a, &b, b"the link stands").await;
}

#[tokio::test]
async fn they_go_with_the_link_and_after_a_rest() {
    let (mut a, mut b) = with_subflows().await;
    let (_ours, _theirs) = bulk(&a, &b).await;
    b.net.set_cut(true);
    a.down(b.node()).await;
    b.down(a.node()).await;
    assert_eq!(both(&a, &b), [0, 0]);
    b.net.set_cut(false);
    a.up(b.node()).await;
    b.up(a.node()).await;
    busy(&a, &b, 10).await;
    until("they come again", || both(&a, &b) == [1 + MOST, 1 + MOST]).await;
    let held = bulk(&b, &a).await;
    let rests = |at| {
        let now = second(at + REST.as_secs());
        [&a, &b].iter().for_each(|site| look(&site.net.shared, now, u64::MAX));
    };
    rests(100);
    assert_eq!(both(&a, &b), [1 + MOST, 1 + MOST], "a stream is open");
    drop(held);
    until("nobody uses any", || {
        subflows(&a, &b).iter().chain(&subflows(&b, &a)).all(|subflow| !subflow.is_used())
    })
    .await;
    rests(200);
    until("they rest", || both(&a, &b) == [1, 1]).await;
    echo(&a, &b, b"the link stands").await;
}

#[tokio::test]
async fn there_is_none_while_somebody_pays() {
    let (a, b) = with_subflows().await;
    for site in [&a, &b] {
        site.net.shared.state(|state| state.paid = [a.node(), b.node()].into());
    }
    busy(&a, &b, 10).await;
    until("they go at once", || both(&a, &b) == [1, 1]).await;
    assert!(subflows(&a, &b).is_empty());
}

/// Where there are very many links each rests for longer; nobody pays for it.
#[tokio::test]
async fn a_link_that_rests_may_have_some() {
    let (a, b) = linked().await;
    a.net.set_rest(b.node(), Some(Duration::from_secs(60)));
    b.net.set_rest(a.node(), Some(Duration::from_secs(60)));
    busy(&a, &b, 0).await;
    until("as many as there may be", || both(&a, &b) == [1 + MOST, 1 + MOST]).await;
}

/// What dials one, whoever is at the other end.
fn dialled(from: &Site, to: &Site, address: String, id: LinkId) -> Dial {
    from.net.shared.state(|state| {
        let peer = &state.peers[&to.node()];
        Dial {
            node: to.node(),
            key: to.identity.public(),
            address,
            id,
            token: state.connected.child_token(),
            counters: peer.counters.clone(),
        }
    })
}

#[tokio::test]
async fn who_does_not_name_the_link_or_comes_too_late_is_refused() {
    let (a, b) = with_subflows().await;
    let id = a.net.shared.state(|state| state.peers[&b.node()].standing.as_ref().unwrap().id);
    for id in [LinkId::default(), id] {
        let address = b.net.address().to_string();
        let refused = connect(&a.net.shared, dialled(&a, &b, address, id)).await;
        assert!(matches!(refused, Err(NetError::Dial { .. })), "another link, and one too many");
    }
    assert_eq!(both(&a, &b), [1 + MOST, 1 + MOST]);
}

/// As a release before answers at its port: no such protocol.
#[tokio::test]
async fn a_release_before_takes_none_and_is_left_alone() {
    let (a, b) = linked().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let known = KnownKeys::default();
    known.write().unwrap().known = [a.identity.public()].into();
    let mut config = (*Tls::new(&b.identity, known).unwrap().link).clone();
    config.alpn_protocols = vec![tls::LINK.to_vec()];
    let before = tokio::spawn(async move {
        let (socket, _): (TcpStream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config)).accept(socket).await.is_err()
    });
    let id = a.net.shared.state(|state| state.peers[&b.node()].standing.as_ref().unwrap().id);
    make(a.net.shared.clone(), dialled(&a, &b, address, id), second(0)).await;
    assert!(before.await.unwrap());
    let not_before = a.net.shared.state(|state| state.peers[&b.node()].beside.not_before);
    assert_eq!(not_before, second(PAUSE.as_secs()));
    echo(&a, &b, b"the link stands").await;
}

/// As after dials that crossed: the one that came second, and is no link, leaves its address as if it were.
fn both_have_dialled(a: &Site, b: &Site) {
    for (site, other) in [(a, b), (b, a)] {
        let address = other.net.address().to_string();
        site.net.shared.state(|state| state.peers.get_mut(&other.node()).unwrap().dialled = Some(address));
    }
}

/// None is on its way to be made.
async fn settled(a: &Site, b: &Site) {
    let dialling =
        |site: &Site, other: &Site| site.net.shared.state(|state| state.peers[&other.node()].beside.dialling);
    until("none is being made", || dialling(a, b) + dialling(b, a) == 0 && both(a, b)[0] == both(a, b)[1])
        .await;
}

/// Both ends take themselves for the one that dialled, and look at the same moment, each second.
#[tokio::test]
async fn where_both_ends_dial_at_once_those_of_the_arbiter_stand() {
    let (a, b) = linked().await;
    both_have_dialled(&a, &b);
    busy(&a, &b, 0).await;
    for at in 2..12 {
        settled(&a, &b).await;
        assert_eq!(both(&a, &b), [1 + MOST, 1 + MOST]);
        [&a, &b].iter().for_each(|site| look(&site.net.shared, second(at), 1));
    }
}

/// Whoever hears of it first that somebody pays ends them; the other end does not make new ones each second.
#[tokio::test]
async fn who_has_not_heard_yet_that_somebody_pays_does_not_dial_again_and_again() {
    let (a, b) = with_subflows().await;
    let (dialler, other) = match a.net.shared.state(|state| state.peers[&b.node()].dialled.is_some()) {
        true => (&a, &b),
        false => (&b, &a),
    };
    other.net.shared.state(|state| state.paid = [dialler.node()].into());
    let sent = || dialler.net.traffic()[0].crossed();
    let before = sent();
    for at in 10..20 {
        look(&other.net.shared, second(at), 1);
        until("they are gone", || both(&a, &b) == [1, 1]).await;
        look(&dialler.net.shared, second(at), 1);
        settled(&a, &b).await;
    }
    assert!(sent() - before < 20_000, "{} bytes crossed", sent() - before);
}
