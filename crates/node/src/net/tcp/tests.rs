//! Real sockets on loopback.

#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::net::{LinkEvent, frame};

/// A node with its key and what it tells of its links.
pub(super) struct Site {
    pub(super) net: Arc<TcpNet>,
    pub(super) identity: Identity,
    events: LinkEvents,
}

impl Site {
    async fn new() -> Self {
        Self::at("127.0.0.1:0", Identity::generate().unwrap()).await
    }

    async fn at(listen: &str, identity: Identity) -> Self {
        let net = TcpNet::bind(listen, &identity).await.unwrap();
        let events = net.links();
        Self { net, identity, events }
    }

    pub(super) fn node(&self) -> NodeId {
        self.net.node()
    }

    fn address(&self) -> PeerAddress {
        PeerAddress { key: self.identity.public(), addresses: vec![self.net.address().to_string()] }
    }

    fn silent(&self) -> PeerAddress {
        PeerAddress { key: self.identity.public(), addresses: Vec::new() }
    }

    pub(super) async fn up(&mut self, other: NodeId) {
        assert_eq!(self.events.next().await, Some(LinkEvent::Up(other)));
    }

    pub(super) async fn down(&mut self, other: NodeId) {
        assert_eq!(self.events.next().await, Some(LinkEvent::Down(other)));
    }
}

/// Whoever is asked because others' links broke: everybody in turn, whatever the number.
#[test]
fn each_in_its_turn() {
    let peers: BTreeMap<NodeId, ()> = [1, 3, 5].map(|n| (NodeId([n; 16]), ())).into();
    let order = |last: Option<u8>| {
        round(&peers, last.map(|n| NodeId([n; 16]))).map(|(node, ())| node.0[0]).collect::<Vec<u8>>()
    };
    assert_eq!(order(None), [1, 3, 5]);
    assert_eq!(order(Some(1)), [3, 5, 1]);
    assert_eq!(order(Some(4)), [5, 1, 3], "one that is gone");
    assert_eq!(order(Some(5)), [1, 3, 5]);
}

pub(super) async fn linked() -> (Site, Site) {
    let (mut a, mut b) = (Site::new().await, Site::new().await);
    a.net.set_peers(vec![b.address()]);
    b.net.set_peers(vec![a.address()]);
    a.up(b.node()).await;
    b.up(a.node()).await;
    (a, b)
}

/// Sends a message from one to the other and back.
pub(super) async fn echo(a: &Site, b: &Site, bytes: &[u8]) {
    let mut ours = a.net.open(b.node()).await.unwrap();
    let asking = async {
        frame::write(&mut ours, bytes).await.unwrap();
        assert_eq!(frame::read(&mut ours).await.unwrap().unwrap(), bytes);
    };
    let serving = async {
        let (peer, mut theirs) = b.net.accept().await.unwrap();
        assert_eq!(peer, Peer::Known(a.node()));
        let said = frame::read(&mut theirs).await.unwrap().unwrap();
        frame::write(&mut theirs, &said).await.unwrap();
    };
    tokio::join!(asking, serving);
}

#[tokio::test]
async fn streams_carry_bytes_both_ways_and_the_wire_is_counted() {
    let (a, b) = linked().await;
    let bytes = vec![7; 3 << 20];
    echo(&a, &b, &bytes).await;
    echo(&b, &a, b"small").await;
    let [traffic] = a.net.traffic()[..] else { panic!() };
    assert_eq!(traffic.node, b.node());
    let payload = bytes.len() as u64;
    for count in [traffic.sent, traffic.received] {
        assert!(count > payload && count < payload + payload / 50, "{count} for {payload}");
    }
    assert_eq!(a.net.refused(), Refused::default());
}

#[tokio::test]
async fn the_round_trip_is_measured_on_both_ends() {
    let (a, b) = linked().await;
    // The first ping goes ahead of what follows it on the wire; a few echoes later its answer is there.
    while a.net.rtt(b.node()).is_none() || b.net.rtt(a.node()).is_none() {
        echo(&a, &b, b"x").await;
        echo(&b, &a, b"x").await;
    }
    assert!(a.net.rtt(b.node()).unwrap() < Duration::from_secs(5));
    assert_eq!(a.net.rtt(NodeId([0; 16])), None);
}

#[tokio::test]
async fn many_streams_share_the_link() {
    let (a, b) = linked().await;
    let serving = async {
        for _ in 0..200 {
            let (_, mut stream) = b.net.accept().await.unwrap();
            tokio::spawn(async move {
                let said = frame::read(&mut stream).await.unwrap().unwrap();
                frame::write(&mut stream, &said).await.unwrap();
            });
        }
    };
    let asking = futures::future::join_all((0..200_u32).map(|n| {
        let (net, to) = (a.net.clone(), b.node());
        async move {
            let mut stream = net.open(to).await.unwrap();
            frame::write(&mut stream, &n.to_be_bytes()).await.unwrap();
            assert_eq!(frame::read(&mut stream).await.unwrap().unwrap(), n.to_be_bytes());
        }
    }));
    tokio::join!(serving, asking);
}

/// `cargo test --release -p skerry-node --lib -- --ignored --nocapture what_a_link_carries`: both ends and both ciphers in
/// one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures; asserts nothing"]
async fn what_a_link_carries() {
    const BYTES: usize = 256 << 20;
    let (a, b) = linked().await;
    for streams in [1, 4, 16] {
        let begun = std::time::Instant::now();
        let serving = async {
            let taking = futures::stream::iter(0..streams).then(|_| b.net.accept());
            let taking = taking.map(|accepted| tokio::spawn(taken(accepted.unwrap().1)));
            let tasks: Vec<_> = taking.collect().await;
            futures::future::join_all(tasks).await.into_iter().map(Result::unwrap).sum::<usize>()
        };
        let (net, to) = (a.net.clone(), b.node());
        let sending = futures::future::join_all((0..streams).map(|_| {
            let net = net.clone();
            tokio::spawn(async move {
                let mut stream = net.open(to).await.unwrap();
                let piece = vec![7; 1 << 20];
                for _ in 0..(BYTES >> 20) / streams {
                    stream.write_all(&piece).await.unwrap();
                }
                stream.shutdown().await.unwrap();
            })
        }));
        let (came, _) = tokio::join!(serving, sending);
        println!("{streams} streams: {:.0} MiB/s", (came >> 20) as f64 / begun.elapsed().as_secs_f64());
    }
}

async fn taken(mut stream: Stream) -> usize {
    let (mut piece, mut came) = (vec![0; 256 << 10], 0);
    loop {
        match stream.read(&mut piece).await.unwrap() {
            0 => return came,
            read => came += read,
        }
    }
}

#[tokio::test]
async fn dials_that_cross_end_as_one_link_without_a_flap() {
    for _ in 0..20 {
        let (a, b) = linked().await;
        echo(&a, &b, b"one").await;
        echo(&b, &a, b"two").await;
        let id = |site: &Site, other: NodeId| {
            site.net.shared.state(|state| state.peers[&other].standing.clone().unwrap().id)
        };
        assert_eq!(id(&a, b.node()), id(&b, a.node()));
        // Links made so far on either side: exactly one.
        for site in [&a, &b] {
            assert_eq!(site.net.shared.state(|state| state.numbers), 1);
        }
        tokio::join!(a.net.close(), b.net.close());
    }
}

/// Greets on both ends of a connection that `from` dialled; true where it became the link.
async fn greeted(from: &Site, to: &Site) -> (bool, bool) {
    let (a, b) = tokio::io::duplex(64);
    // Both dial before either has ever had a link.
    let last = greet::LinkId::default();
    let end = |site: &Site, end, peer: NodeId, last| {
        let peer = (peer, Course::default());
        let (shared, token) = (site.net.shared.clone(), site.net.shared.connected().unwrap());
        tokio::spawn(async move {
            match greet::greet(&shared, end, peer, last, token).await.unwrap() {
                greet::Greeted::Link(link) => {
                    shared.spawn(link);
                    true
                }
                greet::Greeted::Spare => false,
            }
        })
    };
    let (a, b) = tokio::join!(end(from, a, to.node(), Some(last)), end(to, b, from.node(), None));
    (a.unwrap(), b.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn greetings_that_cross_agree_on_one_connection() {
    for _ in 0..100 {
        let (mut a, mut b) = (Site::new().await, Site::new().await);
        a.net.set_peers(vec![b.silent()]);
        b.net.set_peers(vec![a.silent()]);
        let ((a_dialled, b_took), (b_dialled, a_took)) = tokio::join!(greeted(&a, &b), greeted(&b, &a));
        assert_eq!((a_dialled, b_dialled), (b_took, a_took), "both ends agree on each connection");
        assert!(a_dialled != b_dialled, "exactly one is the link");
        a.up(b.node()).await;
        b.up(a.node()).await;
        echo(&a, &b, b"x").await;
        echo(&b, &a, b"y").await;
    }
}

#[tokio::test]
async fn a_greeting_that_breaks_off_leaves_the_place_free() {
    let (mut a, mut b) = (Site::new().await, Site::new().await);
    if b.node() < a.node() {
        std::mem::swap(&mut a, &mut b);
    }
    a.net.set_peers(vec![b.silent()]);
    b.net.set_peers(vec![a.silent()]);
    // The arbiter has decided when it finds that nobody hears it.
    let (end, mut other) = tokio::io::duplex(64);
    let shared = a.net.shared.clone();
    let greeting =
        greet::greet(&shared, end, (b.node(), Course::default()), None, shared.connected().unwrap());
    let breaking = async {
        other.write_all(&[1; 25]).await.unwrap();
        drop(other);
    };
    let (greeted, ()) = tokio::join!(greeting, breaking);
    assert!(greeted.is_err());
    assert!(a.net.shared.state(|state| state.peers[&b.node()].standing.is_none()));
    a.net.set_peers(vec![b.address()]);
    a.up(b.node()).await;
    b.up(a.node()).await;
}

/// Passes bytes on between two streams and keeps what it saw.
async fn pass_on(mut one: Stream, mut other: Stream, seen: Arc<Mutex<Vec<u8>>>) {
    let (mut here, mut there) = (vec![0; 4096], vec![0; 4096]);
    loop {
        let (bytes, to) = tokio::select! {
            read = one.read(&mut here) => match read { Ok(n) if n > 0 => (&here[..n], &mut other), _ => return },
            read = other.read(&mut there) => match read { Ok(n) if n > 0 => (&there[..n], &mut one), _ => return },
        };
        seen.lock().unwrap().extend_from_slice(bytes);
        to.write_all(bytes).await.unwrap();
        to.flush().await.unwrap();
    }
}

/// Three of which the first and the last are kept apart.
async fn in_a_row() -> [Site; 3] {
    let [mut a, mut b, mut c] = [Site::new().await, Site::new().await, Site::new().await];
    a.net.set_apart([c.node()].into());
    a.net.set_peers(vec![b.address(), c.address()]);
    b.net.set_peers(vec![a.address(), c.address()]);
    c.net.set_peers(vec![a.address(), b.address()]);
    a.up(b.node()).await;
    c.up(b.node()).await;
    let mut met = [b.events.next().await, b.events.next().await];
    met.sort_by_key(|event| *event != Some(LinkEvent::Up(a.node())));
    assert_eq!(met, [Some(LinkEvent::Up(a.node())), Some(LinkEvent::Up(c.node()))]);
    [a, b, c]
}

/// A stream from the first to the second, as both hold it.
async fn stream(from: &Site, to: &Site) -> (Stream, Stream) {
    let mut ours = from.net.open_circuit(to.node()).await.unwrap();
    ours.write_all(b"!").await.unwrap();
    ours.flush().await.unwrap();
    let (peer, mut theirs) = to.net.accept().await.unwrap();
    assert_eq!((peer, theirs.read_u8().await.unwrap()), (Peer::Known(from.node()), b'!'));
    (ours, theirs)
}

#[tokio::test]
async fn a_link_that_another_carries_is_read_by_nobody_and_gives_way_to_a_direct_one() {
    let [mut a, b, mut c] = in_a_row().await;
    let (course, back) = (Course { hops: 1, via: Some(b.node()) }, Course { hops: 1, via: Some(b.node()) });
    let ((near, from_a), (to_c, far)) = (stream(&a, &b).await, stream(&b, &c).await);
    let seen = Arc::new(Mutex::new(Vec::new()));
    tokio::spawn(pass_on(from_a, to_c, seen.clone()));
    let (one, other) = tokio::join!(
        a.net.link_over(c.node(), course, true, near),
        c.net.link_over(a.node(), back, false, far)
    );
    one.unwrap();
    other.unwrap();
    a.up(c.node()).await;
    c.up(a.node()).await;
    assert_eq!(a.net.course(c.node()), Some(course));
    let secret = b"nobody in between reads this".repeat(400);
    echo(&a, &c, &secret).await;
    echo(&c, &a, &secret).await;
    {
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 4 * secret.len());
        assert!(!seen.windows(16).any(|window| window == &secret[..16]), "the relay saw what was said");
    }
    // Counted where it crossed: on the link to the relay.
    let counted = |node| a.net.traffic().iter().find(|traffic| traffic.node == node).unwrap().sent;
    assert_eq!(counted(c.node()), 0);
    assert!(counted(b.node()) > 2 * secret.len() as u64);
    a.net.set_apart(BTreeSet::new());
    a.down(c.node()).await;
    a.up(c.node()).await;
    assert_eq!(a.net.course(c.node()), Some(Course::default()));
    c.down(a.node()).await;
    c.up(a.node()).await;
    echo(&a, &c, b"direct").await;
}

#[tokio::test]
async fn who_carries_a_link_cannot_speak_for_an_end_of_it() {
    let [a, b, c] = in_a_row().await;
    let course = Course { hops: 1, via: Some(b.node()) };
    // It says that it carries for the first, and speaks itself.
    let (ours, theirs) = stream(&b, &c).await;
    let speaks = async {
        let config = b.net.shared.tls.client(c.identity.public(), super::super::tls::LINK).unwrap();
        let connector = tokio_rustls::TlsConnector::from(config);
        connector.connect(super::super::tls::server_name(), ours).await
    };
    let (_spoken, refused) = tokio::join!(speaks, c.net.link_over(a.node(), course, false, theirs));
    assert!(refused.unwrap_err().to_string().contains("another node"), "taken for the first");
    assert_eq!(c.net.course(a.node()), None);
    // The first believes no other key than that of whom it wants.
    let ((near, from_a), (to_c, far)) = (stream(&a, &b).await, stream(&b, &c).await);
    drop((to_c, far));
    let answers = tokio_rustls::TlsAcceptor::from(b.net.shared.tls.link.clone()).accept(from_a);
    let (refused, _) = tokio::join!(a.net.link_over(c.node(), course, true, near), answers);
    refused.unwrap_err();
    assert_eq!(a.net.course(c.node()), None);
}

#[tokio::test]
async fn a_carried_link_ends_with_a_cut_and_with_who_carries_it() {
    let [mut a, b, mut c] = in_a_row().await;
    let course = Course { hops: 1, via: Some(b.node()) };
    let ((near, from_a), (to_c, far)) = (stream(&a, &b).await, stream(&b, &c).await);
    tokio::spawn(pass_on(from_a, to_c, Arc::default()));
    let (one, other) = tokio::join!(
        a.net.link_over(c.node(), course, true, near),
        c.net.link_over(a.node(), course, false, far)
    );
    one.unwrap();
    other.unwrap();
    a.up(c.node()).await;
    c.up(a.node()).await;
    let wakers = a.net.shared.state(|state| state.peers[&c.node()].wakers.clone());
    let dropped = || super::dial::dropped(&a.net.shared, &wakers, c.node()).now_or_never();
    assert!(dropped().is_none(), "the pause of who is carried goes on");
    b.net.close().await;
    let mut gone = [a.events.next().await, a.events.next().await];
    gone.sort_by_key(|event| *event != Some(LinkEvent::Down(b.node())));
    assert_eq!(gone, [Some(LinkEvent::Down(b.node())), Some(LinkEvent::Down(c.node()))]);
    assert!(super::dial::dropped(&a.net.shared, &wakers, c.node()).now_or_never().is_some(), "and ends");
    assert!(matches!(a.net.open(c.node()).await, Err(NetError::NoLink(_))));
}

#[tokio::test]
async fn one_side_alone_may_dial() {
    for a_dials in [true, false] {
        let (mut a, mut b) = (Site::new().await, Site::new().await);
        a.net.set_peers(vec![if a_dials { b.address() } else { b.silent() }]);
        b.net.set_peers(vec![if a_dials { a.silent() } else { a.address() }]);
        a.up(b.node()).await;
        b.up(a.node()).await;
        echo(&a, &b, b"x").await;
    }
}

#[tokio::test]
async fn a_cut_breaks_everything_and_heals_by_itself() {
    let (mut a, mut b) = linked().await;
    let mut stream = a.net.open(b.node()).await.unwrap();
    b.net.set_cut(true);
    a.down(b.node()).await;
    b.down(a.node()).await;
    stream.read_u8().await.unwrap_err();
    assert!(matches!(b.net.open(a.node()).await, Err(NetError::Cut)));
    assert!(matches!(a.net.open(b.node()).await, Err(NetError::NoLink(_))));
    let addresses = [b.net.address().to_string()];
    assert!(a.net.join(b.identity.public(), &addresses).await.is_err());
    assert!(matches!(b.net.join(a.identity.public(), &[]).await, Err(NetError::Cut)));
    b.net.set_cut(false);
    a.up(b.node()).await;
    b.up(a.node()).await;
    echo(&a, &b, b"healed").await;
}

#[tokio::test]
async fn a_restarted_peer_is_met_again_at_its_address() {
    let (mut a, b) = linked().await;
    let (node, address) = (b.node(), b.net.address().to_string());
    b.net.close().await;
    a.down(node).await;
    let mut b = Site::at(&address, b.identity).await;
    b.net.set_peers(vec![a.silent()]);
    a.up(node).await;
    b.up(a.node()).await;
    echo(&a, &b, b"again").await;
}

#[tokio::test]
async fn who_was_heard_is_dialled_unless_it_is_linked() {
    let (mut a, b) = (Site::new().await, Site::new().await);
    let heard = |site: &Site| {
        site.net.heard(b.node());
        let heard = site.net.shared.state(|state| state.peers[&b.node()].wakers.heard.clone());
        heard.notified().now_or_never().is_some()
    };
    a.net.set_peers(vec![b.silent()]);
    assert!(heard(&a));
    b.net.set_peers(vec![a.address()]);
    a.up(b.node()).await;
    assert!(!heard(&a));
}

/// A machine that has lost one address, and dials from another one, if from any.
struct Moved {
    gone: std::net::IpAddr,
    source: Option<std::net::IpAddr>,
}

impl ways::Ground for Moved {
    fn is_own(&self, local: SocketAddr) -> bool {
        local.ip() != self.gone
    }

    fn source_to(&self, _: SocketAddr) -> Option<std::net::IpAddr> {
        self.source
    }
}

#[tokio::test]
async fn a_link_whose_own_address_is_gone_is_made_anew_if_there_is_another_way() {
    let (mut a, mut b) = (Site::new().await, Site::at("127.0.0.2:0", Identity::generate().unwrap()).await);
    b.net.set_peers(vec![a.silent()]);
    a.net.set_peers(vec![b.address()]);
    a.up(b.node()).await;
    b.up(a.node()).await;
    b.net.set_peers(vec![a.address()]);
    let address = |last: u8| std::net::IpAddr::from([127, 0, 0, last]);
    let (mut before, gone) = (ways::Sources::new(), address(2));
    let hurries = b.net.shared.state(|state| state.peers[&a.node()].wakers.hurry.clone());
    hurries.notified().now_or_never();
    let mut look = |gone, source| ways::look(&b.net.shared, &Moved { gone, source }, &mut before);
    assert_eq!(look(gone, None), 0, "there is no other way: it may come back");
    assert_eq!(look(gone, Some(gone)), 0);
    assert_eq!(look(address(9), Some(address(3))), 0, "the link's own is there");
    assert!(hurries.notified().now_or_never().is_none(), "it is linked well, and not dialled sooner");
    echo(&a, &b, b"as it was").await;
    // Nobody reaches the address that is gone.
    a.net.set_peers(vec![b.silent()]);
    let moved = pace::now();
    assert_eq!(look(gone, Some(address(3))), 1);
    b.down(a.node()).await;
    b.up(a.node()).await;
    assert!(moved.elapsed() < Duration::from_secs(5), "{:?}", moved.elapsed());
    a.down(b.node()).await;
    a.up(b.node()).await;
    echo(&b, &a, b"from elsewhere").await;
    assert_eq!(
        ways::look(&b.net.shared, &Moved { gone, source: Some(address(3)) }, &mut Default::default()),
        0
    );
}

/// A process of this key that is linked with `a` and hangs from then on: its sockets stay open and nobody answers, until what
/// this returns is dropped.
async fn hung(a: &mut Site, key: Identity) -> std::sync::mpsc::Sender<()> {
    let (address, node) = (a.address(), key.node());
    let (linked, stands) = tokio::sync::oneshot::channel();
    let (release, hold) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let old = runtime.block_on(async {
            let mut old = Site::at("127.0.0.1:0", key).await;
            old.net.set_peers(vec![address.clone()]);
            old.up(address.key.node()).await;
            old
        });
        linked.send(()).unwrap();
        // Nobody drives its tasks any more.
        hold.recv().ok();
        drop(old);
    });
    a.up(node).await;
    stands.await.unwrap();
    release
}

#[tokio::test]
async fn a_peer_that_came_back_replaces_a_link_whose_end_does_not_answer() {
    for _ in 0..2 {
        let (mut a, key) = (Site::new().await, Identity::generate().unwrap());
        let again = Identity::from_pkcs8(key.pkcs8()).unwrap();
        a.net.set_peers(vec![PeerAddress { key: key.public(), addresses: Vec::new() }]);
        let old = hung(&mut a, key).await;
        let mut new = Site::at("127.0.0.1:0", again).await;
        new.net.set_peers(vec![a.address()]);
        a.down(new.node()).await;
        a.up(new.node()).await;
        new.up(a.node()).await;
        echo(&a, &new, b"new").await;
        assert_eq!((a.net.meetings(), a.net.turned_away().len()), (Vec::new(), 0));
        drop(old);
    }
}

/// Longer than the half minute after which who was turned away comes again.
pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(90), wait).await.is_ok(), "waited in vain until {what}");
}

/// Whoever decides between two connections: the one that is linked stays, the copy is told, and takes its place once it is
/// gone.
async fn a_copy_is_turned_away(copied_is_lower: bool) {
    let (mut one, mut other) = (Site::new().await, Site::new().await);
    if (one.node() < other.node()) != copied_is_lower {
        (one, other) = (other, one);
    }
    let (mut site, mut peer) = (one, other);
    peer.net.set_peers(vec![site.silent()]);
    site.net.set_peers(vec![peer.address()]);
    peer.up(site.node()).await;
    site.up(peer.node()).await;
    let mut copy = Site::at("127.0.0.1:0", Identity::from_pkcs8(site.identity.pkcs8()).unwrap()).await;
    copy.net.set_peers(vec![peer.address()]);
    until("the copy is told", || copy.net.copied_by() == [peer.node()].into()).await;
    let lives = |site: &Site| site.net.shared.instance;
    let meeting = Meeting { node: site.node(), stood: lives(&site), came: lives(&copy) };
    until("they met", || !peer.net.shared.state(|state| state.meetings.is_empty())).await;
    assert_eq!(peer.net.meetings(), [meeting]);
    assert_eq!(peer.net.lives(), [(site.node(), lives(&site))].into());
    assert!(peer.net.turned_away().contains_key(&site.node()));
    assert!(peer.net.answers(site.node(), lives(&site)).await);
    assert!(!peer.net.answers(site.node(), lives(&copy)).await);
    echo(&peer, &site, b"still").await;
    assert!(site.net.copied_by().is_empty() && copy.net.lives().is_empty());
    // Found to be a copy it stays out, though nobody else is there; started anew it is in.
    peer.net.set_refused([(site.node(), [lives(&copy)].into())].into());
    site.net.close().await;
    peer.down(site.node()).await;
    let since = || peer.net.turned_away()[&site.node()];
    let last = std::cell::Cell::new(since());
    let is_new = |now: Duration| now < last.replace(now);
    until("it came again", || is_new(since())).await;
    assert!(peer.net.lives().is_empty());
    copy.net.close().await;
    copy = Site::at("127.0.0.1:0", copy.identity).await;
    copy.net.set_peers(vec![peer.address()]);
    peer.up(site.node()).await;
    copy.up(peer.node()).await;
    assert!(copy.net.copied_by().is_empty());
    // What is found while it is linked ends its link.
    peer.net.set_refused([(site.node(), [lives(&copy)].into())].into());
    peer.down(site.node()).await;
    until("it is told", || copy.net.copied_by() == [peer.node()].into()).await;
}

#[tokio::test]
async fn a_copy_whose_key_decides_is_turned_away() {
    a_copy_is_turned_away(true).await;
}

#[tokio::test]
async fn a_copy_whose_peer_decides_is_turned_away() {
    a_copy_is_turned_away(false).await;
}

#[tokio::test]
async fn a_wrong_identity_is_refused_and_counted() {
    let (mut a, mut b) = linked().await;
    // A stranger that speaks the links' protocol.
    let stranger = Site::new().await;
    stranger.net.set_peers(vec![a.address()]);
    while a.net.refused().identity == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(stranger.net.open(a.node()).await, Err(NetError::NoLink(_))));
    // A known node at whose address another one answers.
    let wanted = Identity::generate().unwrap().public();
    let error = b.net.join(wanted, &a.address().addresses).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("another node answers there"), "{error}");
    // A node that is taken from the set loses its link.
    let before = a.net.traffic();
    a.net.set_peers(Vec::new());
    a.down(b.node()).await;
    b.down(a.node()).await;
    // What it has cost stays counted.
    assert!(before[0].sent > 0 && a.net.traffic()[0].sent >= before[0].sent);
}

#[tokio::test]
async fn garbage_at_the_port_is_refused_and_counted() {
    let (a, b) = linked().await;
    for garbage in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 64], &[0x16, 3, 1, 0xff, 0xff, 1]] {
        let before = a.net.refused().garbage;
        let mut socket = TcpStream::connect(a.net.address()).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // An alert at most, then the end.
        let _ = socket.read_to_end(&mut answer).await;
        assert!(answer.len() < 64);
        while a.net.refused().garbage == before {
            tokio::task::yield_now().await;
        }
    }
    echo(&a, &b, b"still well").await;
}

#[tokio::test]
async fn too_many_unproven_connections_are_hung_up_on() {
    let (a, b) = linked().await;
    let mut silent = Vec::new();
    for _ in 0..ANONYMOUS {
        silent.push(TcpStream::connect(a.net.address()).await.unwrap());
    }
    let mut one_more = TcpStream::connect(a.net.address()).await.unwrap();
    let mut byte = [0];
    assert!(matches!(one_more.read(&mut byte).await, Ok(0) | Err(_)));
    assert_eq!(a.net.refused().busy, 1);
    echo(&a, &b, b"links go on").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_dropped_in_time() {
    let a = Site::new().await;
    let mut socket = TcpStream::connect(a.net.address()).await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut byte = [0];
    assert!(matches!(socket.read(&mut byte).await, Ok(0) | Err(_)));
    assert!(begun.elapsed() >= HANDSHAKE);
    assert_eq!(a.net.refused().slow, 1);
}

#[tokio::test]
async fn a_stranger_gets_its_one_stream_and_no_link() {
    let (a, stranger) = (Site::new().await, Site::new().await);
    let addresses = ["127.0.0.1:1".to_string(), format!("localhost:{}", a.net.address().port())];
    let mut ours = stranger.net.join(a.identity.public(), &addresses).await.unwrap();
    let (peer, mut theirs) = a.net.accept().await.unwrap();
    assert_eq!(peer, Peer::Stranger(stranger.identity.public()));
    frame::write(&mut ours, b"may I?").await.unwrap();
    assert_eq!(frame::read(&mut theirs).await.unwrap().unwrap(), b"may I?");
    frame::write(&mut theirs, b"no").await.unwrap();
    assert_eq!(frame::read(&mut ours).await.unwrap().unwrap(), b"no");
    assert!(matches!(stranger.net.open(a.node()).await, Err(NetError::NoLink(_))));
}

#[tokio::test]
async fn a_stranger_too_many_is_told_to_come_back() {
    let (a, stranger) = (Site::new().await, Site::new().await);
    let addresses = [a.net.address().to_string()];
    let mut served = Vec::new();
    for _ in 0..super::STRANGERS {
        let ours = stranger.net.join(a.identity.public(), &addresses).await.unwrap();
        served.push((ours, a.net.accept().await.unwrap()));
    }
    let mut turned = stranger.net.join(a.identity.public(), &addresses).await.unwrap();
    frame::write(&mut turned, b"may I?").await.unwrap();
    let answer = frame::read(&mut turned).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("try again in 10 seconds"));
    assert_eq!(a.net.refused().busy, 1);
    // Once one has left there is room again.
    served.pop();
    for _ in 0..100 {
        let mut ours = stranger.net.join(a.identity.public(), &addresses).await.unwrap();
        frame::write(&mut ours, b"may I?").await.unwrap();
        tokio::select! {
            accepted = a.net.accept() => return drop(accepted.unwrap()),
            answer = frame::read(&mut ours) => drop(answer),
        }
    }
    panic!("nobody is let in any more");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_not_served_for_ever() {
    let (a, stranger) = (Site::new().await, Site::new().await);
    let addresses = [a.net.address().to_string()];
    let mut ours = stranger.net.join(a.identity.public(), &addresses).await.unwrap();
    let (_, mut theirs) = a.net.accept().await.unwrap();
    let begun = tokio::time::Instant::now();
    theirs.read_u8().await.unwrap_err();
    assert!(begun.elapsed() >= STRANGER);
    drop(theirs);
    ours.read_u8().await.unwrap_err();
}

#[tokio::test]
async fn close_ends_everything() {
    let (mut a, b) = linked().await;
    b.net.close().await;
    a.down(b.node()).await;
    assert!(b.net.accept().await.is_none());
    assert!(matches!(b.net.open(a.node()).await, Err(NetError::Closed)));
    assert!(TcpStream::connect(b.net.address()).await.is_err());
}

#[tokio::test]
async fn a_busy_port_is_named() {
    let a = Site::new().await;
    let address = a.net.address().to_string();
    let error = TcpNet::bind(&address, &a.identity).await.map(drop).unwrap_err();
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn version_six_addresses_work() {
    let Ok(net) = TcpNet::bind("[::1]:0", &Identity::generate().unwrap()).await else {
        // A machine without IPv6 cannot show it.
        return;
    };
    drop(net);
    let (mut a, mut b) = (Site::at("[::1]:0", Identity::generate().unwrap()).await, Site::new().await);
    a.net.set_peers(vec![b.silent()]);
    b.net.set_peers(vec![a.address()]);
    b.up(a.node()).await;
    a.up(b.node()).await;
    echo(&a, &b, b"six").await;
}

/// However many streams of some peers wait to be accepted, none of another is dropped for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_many_peers_wait_beside_each_other() {
    const PEERS: usize = 6;
    const EACH: usize = 60;
    let mut hub = Site::new().await;
    let mut peers = Vec::new();
    for _ in 0..PEERS {
        peers.push(Site::new().await);
    }
    hub.net.set_peers(peers.iter().map(Site::address).collect());
    for peer in &mut peers {
        peer.net.set_peers(vec![hub.address()]);
        peer.up(hub.node()).await;
    }
    for _ in 0..PEERS {
        assert!(matches!(hub.events.next().await, Some(LinkEvent::Up(_))));
    }
    let mut open = Vec::new();
    for peer in &peers {
        for _ in 0..EACH {
            let mut stream = peer.net.open(hub.node()).await.unwrap();
            frame::write(&mut stream, &[7; 1000]).await.unwrap();
            open.push(stream);
        }
    }
    // All are here before the first is accepted.
    let here = || hub.net.traffic().iter().all(|traffic| traffic.received >= 1000 * EACH as u64);
    while !here() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for n in 0..PEERS * EACH {
        let next = tokio::time::timeout(Duration::from_secs(10), hub.net.accept()).await;
        assert!(next.is_ok(), "{n} streams of {} were accepted", PEERS * EACH);
    }
}
