//! Links by way of other sites: runs the machine that finds them, and carries those of others.
//!
//! Before: links that come and go, and what other sites ask on streams of their own. After: `Net::link_over`, where both
//! ends prove their keys. Invariants: a site asks on its own behalf only, so nobody is carried to where it may not be; what
//! is carried is neither read nor kept, takes buffers of [`PIECE`] bytes and streams of their own share, and ends when the
//! budget of this site's uplink leaves nothing for copies; nothing here waits without a deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{NodeId, SiteId, codec};
use skerry_federation::budget::Class;
use skerry_federation::circuits::{ANSWER_WAIT, Circuits as Machine, MOST_HOPS, Output, Way, Why};
use skerry_federation::limits::RTT_UNKNOWN;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, Semaphore};

use super::message::{Act, Circuit, Request, Response};
use super::{PeerError, Peers};
use crate::drive::live::Liveness;
use crate::net::{Course, LinkEvent, LinkEvents, Stream, frame};
use crate::paths::places::Places;
use crate::tasks::Tasks;

/// What is read of a carried link at once, in each direction.
const PIECE: usize = 16 << 10;
/// Whether this site may still carry is looked at after so many bytes.
const LOOK_BYTES: u64 = 1 << 20;
/// A carried link on which nothing moves for so long is dead: its ends speak every 50 s.
const IDLE: Duration = Duration::from_secs(180);
/// How often the roster and the round trips are looked at when nothing happens.
const LOOK: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES: usize = 1 << 10;
/// Chunks that are fetched for others at once.
const THROUGH: usize = 10;
/// Of those, kept from each site for others: a slow line may have a place for minutes. A reader asks for eight at once.
const THROUGH_OF_OTHERS: usize = 2;
/// Sites that a refusal names.
const NAMED: usize = 8;

/// The circuits of a site.
pub(crate) struct Circuits {
    me: SiteId,
    machine: Mutex<Machine>,
    /// Whether the operator lets this site carry for others.
    carries: bool,
    /// Something was answered.
    changed: Notify,
    /// Bytes carried for others.
    bytes: AtomicU64,
    /// Room for chunks that are fetched for others.
    pub(crate) through: Semaphore,
    /// Who has how much of it.
    pub(crate) through_by: Places,
}

impl Circuits {
    pub(crate) fn new(me: SiteId, carries: bool) -> Self {
        Self {
            me,
            machine: Mutex::new(Machine::new(me)),
            carries,
            changed: Notify::new(),
            bytes: AtomicU64::new(0),
            through: Semaphore::new(THROUGH),
            through_by: Places::leaving(THROUGH, THROUGH_OF_OTHERS),
        }
    }

    /// This site.
    pub(super) const fn me(&self) -> SiteId {
        self.me
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Links and bytes carried for others: those under way, and those since the start.
    pub(crate) fn carried(&self) -> (usize, u64) {
        (self.machine().carried(), self.bytes.load(Ordering::Relaxed))
    }
}

impl Peers {
    /// Whether this site may carry something for others now.
    pub(crate) fn willing(&self) -> Result<(), Why> {
        if !self.circuits.carries {
            return Err(Why::Off);
        }
        self.uplink.may(Class::Copy).map_err(|_| Why::Metered)
    }

    /// How a site is reached: directly, or by way of which other.
    pub(crate) fn course(&self, site: SiteId) -> Option<Course> {
        self.net().course(self.roster.node(site)?)
    }

    /// Whether nobody has heard of a site for a while.
    pub(super) fn is_unheard(&self, site: SiteId) -> bool {
        self.circuits.machine().is_silent(site)
    }

    /// Why there is no link to a site, with what was tried to get round it.
    pub(crate) fn apart(&self, site: SiteId) -> String {
        let tried = self.circuits.machine().tried(site);
        if tried.is_empty() {
            return "no link to it".into();
        }
        let named = tried.iter().take(NAMED).map(|(by, why)| format!("{} {why}", self.roster.name(*by)));
        format!("no link to it, nor by way of others: {}", named.collect::<Vec<_>>().join(", "))
    }
}

/// Follows the links and looks for ways to who has none, until the network closes.
pub(crate) async fn keep(peers: Arc<Peers>, liveness: Arc<Liveness>, tasks: Tasks) {
    let mut links = peers.net().links();
    loop {
        look(&peers, &liveness);
        let mut out = Vec::new();
        let now = peers.clock().now();
        let wake = {
            let mut machine = peers.circuits.machine();
            machine.step(now, &mut out);
            machine.next_wake()
        };
        for output in out {
            let peers = peers.clone();
            tasks.spawn(async move { perform(&peers, output).await });
        }
        let pause = wake.map_or(LOOK, |at| at.since(peers.clock().now())).min(LOOK);
        let turn = tokio::time::timeout(pause, changed(&peers, &mut links));
        if let Ok(false) = turn.await {
            return;
        }
    }
}

/// Waits for something to happen; false when the network is closed.
async fn changed(peers: &Peers, links: &mut LinkEvents) -> bool {
    tokio::select! {
        () = peers.circuits.changed.notified() => true,
        event = links.next() => match event {
            Some(event) => {
                linked(peers, event);
                true
            }
            None => false,
        }
    }
}

fn linked(peers: &Peers, event: LinkEvent) {
    let (LinkEvent::Up(node) | LinkEvent::Down(node)) = event;
    let Some(site) = peers.roster.site(node) else { return };
    let now = peers.clock().now();
    if matches!(event, LinkEvent::Down(_)) {
        return peers.circuits.machine().link_down(site, now);
    }
    let course = peers.net().course(node).unwrap_or_default();
    if course.hops > 0 {
        let via = course.via.map(|via| peers.roster.node_name(via)).unwrap_or_default();
        tracing::info!(site = peers.roster.name(site), via, hops = course.hops, "linked by way of others");
    }
    let rtt = peers.net().rtt(node).unwrap_or(RTT_UNKNOWN);
    // Told before the roster is, a link would not count.
    let mut machine = peers.circuits.machine();
    machine.set_roster(peers.roster.all().into_keys(), now);
    machine.link_up(site, course.hops, rtt, now);
}

/// Takes in what nobody tells of: who the sites are, how far they are, who was heard of.
fn look(peers: &Peers, liveness: &Liveness) {
    let (now, all) = (peers.clock().now(), peers.roster.all());
    let mut machine = peers.circuits.machine();
    machine.set_roster(all.keys().copied(), now);
    for (site, known) in all {
        if let Some(rtt) = peers.net().rtt(known.key.node()) {
            machine.measured(site, rtt);
        }
        machine.lives(site, liveness.of(site).is_none_or(|heard| heard.alive), now);
    }
}

async fn perform(peers: &Peers, output: Output) {
    let me = peers.circuits.me;
    match output {
        Output::Ask { relay, target, most } => {
            let circuit = Circuit { from: me, to: target, act: Act::Ask(most) };
            let answer = ask(peers, relay, circuit).await.map(|(way, _)| way);
            peers.circuits.machine().answered(target, relay, answer, peers.clock().now());
        }
        Output::Dial { relay, target, most } => {
            let result = dial(peers, relay, target, most).await;
            peers.circuits.machine().dialled(target, relay, result, peers.clock().now());
        }
    }
    peers.circuits.changed.notify_one();
}

async fn dial(peers: &Peers, relay: SiteId, target: SiteId, most: u8) -> Result<(), Why> {
    let circuit = Circuit { from: peers.circuits.me, to: target, act: Act::Carry(most) };
    let (way, stream) = ask(peers, relay, circuit).await?;
    if !(1..=most).contains(&way.hops) {
        return Err(Why::Far);
    }
    let node = peers.roster.node(target).ok_or(Why::Unable)?;
    let course = Course { hops: way.hops, via: peers.roster.node(relay) };
    peers.net().link_over(node, course, true, stream).await.map_err(|error| {
        tracing::debug!(%error, site = peers.roster.name(target), "a circuit did not become a link");
        Why::Silent
    })
}

/// Asks a site about a circuit; the stream is the link's if it is to be one.
async fn ask(peers: &Peers, site: SiteId, circuit: Circuit) -> Result<(Way, Stream), Why> {
    let node = peers.roster.node(site).ok_or(Why::Unable)?;
    let net = peers.net();
    let talk = async {
        let stays = !matches!(circuit.act, Act::Ask(_));
        let stream = if stays { net.open_circuit(node).await } else { net.open(node).await };
        let mut stream = stream.map_err(|_| Why::Silent)?;
        stream.rank(Class::Read);
        let asked = codec::encode(&Request::Circuit(circuit));
        frame::write(&mut stream, &asked).await.map_err(|_| Why::Silent)?;
        let answer = frame::read_capped(&mut stream, ANSWER_BYTES).await.map_err(|_| Why::Silent)?;
        // A release that does not know the question closes the stream.
        match codec::decode(&answer.ok_or(Why::Unable)?) {
            Ok(Response::Circuit(answer)) => answer.map(|way| (way, stream)),
            _ => Err(Why::Unable),
        }
    };
    tokio::time::timeout(ANSWER_WAIT, talk).await.unwrap_or(Err(Why::Silent))
}

/// Room that a circuit takes here, given back however it ends.
struct Room<'a> {
    peers: &'a Peers,
    number: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.peers.circuits.machine().end(self.number);
    }
}

/// Answers a neighbour about a circuit, and carries it.
pub(crate) async fn serve(
    peers: &Peers,
    (site, node): (SiteId, NodeId),
    circuit: Circuit,
    mut stream: Stream,
) -> Result<(), PeerError> {
    let Circuit { from, to, act } = circuit;
    match act {
        Act::Ask(most) if from == site => {
            let way = peers.circuits.machine().way((from, to), most, peers.willing());
            answer(&mut stream, way).await?;
            tokio::time::timeout(ANSWER_WAIT, stream.shutdown()).await.map_err(|_| PeerError::Silent)??;
            Ok(())
        }
        Act::Carry(most) if from == site => carry(peers, (from, to), most, stream).await,
        Act::Take(hops) if to == peers.circuits.me => take(peers, (from, node), hops, stream).await,
        _ => answer(&mut stream, Err(Why::Unable)).await,
    }
}

async fn answer(stream: &mut Stream, answer: Result<Way, Why>) -> Result<(), PeerError> {
    let answer = codec::encode(&Response::Circuit(answer));
    let written = tokio::time::timeout(ANSWER_WAIT, frame::write(stream, &answer)).await;
    Ok(written.map_err(|_| PeerError::Silent)??)
}

async fn carry(
    peers: &Peers,
    (from, to): (SiteId, SiteId),
    most: u8,
    mut stream: Stream,
) -> Result<(), PeerError> {
    let willing = peers.willing();
    let begun = peers.circuits.machine().begin((from, to), most, willing);
    let (number, way) = match begun {
        Ok(begun) => begun,
        Err(why) => return answer(&mut stream, Err(why)).await,
    };
    let _room = Room { peers, number };
    let onward = Circuit { from, to, act: Act::Take(way.hops) };
    let onward = match ask(peers, to, onward).await {
        Ok((_, onward)) => onward,
        Err(why) => return answer(&mut stream, Err(why)).await,
    };
    answer(&mut stream, Ok(way)).await?;
    let (one, other) = (peers.roster.name(from), peers.roster.name(to));
    tracing::info!(one, other, "carries a link between two sites that cannot reach each other");
    let ended = splice(peers, stream, onward).await;
    tracing::info!(one, other, why = %ended, "carries that link no more");
    Ok(())
}

/// The other end of a circuit that `from` had made.
async fn take(
    peers: &Peers,
    (from, via): (SiteId, NodeId),
    hops: u8,
    mut stream: Stream,
) -> Result<(), PeerError> {
    let node = peers.roster.node(from).filter(|_| (1..=MOST_HOPS).contains(&hops));
    let Some(node) = node else { return answer(&mut stream, Err(Why::Unable)).await };
    answer(&mut stream, Ok(Way { hops, rtt_micros: 0 })).await?;
    let course = Course { hops, via: Some(via) };
    Ok(peers.net().link_over(node, course, false, stream).await?)
}

/// Passes bytes on in both directions until one ends, nothing moves, or this site may carry no more; says which.
async fn splice(peers: &Peers, one: Stream, other: Stream) -> String {
    let (one, other) = (tokio::io::split(one), tokio::io::split(other));
    let ended = tokio::select! {
        ended = pour(peers, one.0, other.1) => ended,
        ended = pour(peers, other.0, one.1) => ended,
    };
    ended.map_or_else(|error| error.to_string(), |()| "it was ended".into())
}

async fn pour(peers: &Peers, mut from: ReadHalf<Stream>, mut to: WriteHalf<Stream>) -> Result<(), PeerError> {
    let (mut piece, mut looked) = (vec![0; PIECE], 0);
    loop {
        let read = tokio::time::timeout(IDLE, from.read(&mut piece));
        let read = read.await.map_err(|_| PeerError::Senseless("nothing moved"))??;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        let written = async {
            to.write_all(bytes).await?;
            to.flush().await
        };
        tokio::time::timeout(IDLE, written).await.map_err(|_| PeerError::Senseless("nothing moved"))??;
        peers.circuits.bytes.fetch_add(read as u64, Ordering::Relaxed);
        looked += read as u64;
        if looked >= LOOK_BYTES {
            looked = 0;
            peers.willing().map_err(|why| PeerError::Metered(why.to_string()))?;
        }
    }
}
