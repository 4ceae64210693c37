//! The emulated network as a pure machine: packets and moments go in, deliveries and moments come out.
//!
//! A packet passes its sender's card and access, the link between the sites (rate with a finite buffer, chance,
//! delay and jitter), the other access, and the receiver's card. Each happens in the order of virtual time, so
//! that a slow sender does not hold back others on a link they share.
//!
//! Invariants: a packet that was under way when its pair was cut never arrives, even if the pair is healed before
//! it is due; memory under way is bounded; nothing goes to an address that is no host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use skerry_scenario::draw::Draw;
use skerry_scenario::link::Link;
use skerry_scenario::topology::Topology;

use super::figures::{HostTraffic, Lateness, Traffic};
use super::line::{Line, Stretch};
use super::packet::{Shape, cut, shape};
use super::pair::{Fate, Pair, nanos};
use super::plan::{Card, Host, Plan, Role};

/// Bytes of packets under way; what would be more is dropped and makes the measurement doubtful.
const UNDER_WAY_MAX: u64 = 512 << 20;
/// Pieces of a super-packet take the slowest wire on their way at most so long.
const PIECE: Duration = Duration::from_micros(250);
/// Steps within the network may be computed so much early: outside nobody sees it.
const AHEAD_NS: u64 = 100_000;

/// Packets, lines and figures.
pub(super) struct Network {
    plan: Plan,
    stations: Vec<Station>,
    pairs: Vec<Vec<Pair>>,
    lan_half: u64,
    access_half: u64,
    steps: BinaryHeap<Reverse<Entry>>,
    deliveries: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Option<Packet>>,
    vacant: Vec<usize>,
    under_way: u64,
    sequence: u64,
    pub(super) counts: Counts,
}

/// What belongs to no pair and no host.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) memory_drops: u64,
    pub(super) queue_drops: u64,
    pub(super) strays: u64,
    pub(super) lateness: Lateness,
}

struct Station {
    site: usize,
    is_client: bool,
    out: Line,
    into: Line,
    card: Card,
    traffic: HostTraffic,
}

/// Due time, order of entry, slot.
type Entry = (u64, u64, usize);

#[derive(Clone)]
struct Packet {
    frame: Vec<u8>,
    from: usize,
    to: usize,
    shape: Shape,
    /// Cuts of the pair when it entered.
    cuts: u64,
    stretch: Stretch,
    /// Whether the link is behind it.
    is_over: bool,
}

/// A packet that is due.
pub(super) struct Delivery {
    /// The receiving host.
    pub(super) host: usize,
    /// Prefix and packet.
    pub(super) frame: Vec<u8>,
}

impl Network {
    pub(super) fn new(topology: &Topology, plan: Plan, seed: u64) -> Self {
        let root = Draw::from_seed(seed);
        let station = |(host, card): (&Host, &Card)| Station {
            site: host.site,
            is_client: host.role == Role::Client,
            out: Line::new(card.rate),
            into: Line::new(card.rate),
            card: *card,
            traffic: HostTraffic::default(),
        };
        let pair = |from: usize, to: usize, link: &Link| Pair::new(*link, root.fork(&format!("{from} {to}")));
        let row = |(from, row): (usize, &Vec<Link>)| -> Vec<Pair> {
            row.iter().enumerate().map(|(to, link)| pair(from, to, link)).collect()
        };
        Self {
            stations: plan.hosts.iter().zip(&plan.cards).map(station).collect(),
            pairs: topology.links.iter().enumerate().map(row).collect(),
            plan,
            lan_half: nanos(topology.site_lan.rtt / 2),
            access_half: nanos(topology.access.rtt / 2),
            steps: BinaryHeap::new(),
            deliveries: BinaryHeap::new(),
            slots: Vec::new(),
            vacant: Vec::new(),
            under_way: 0,
            sequence: 0,
            counts: Counts::default(),
        }
    }

    /// Takes what a host's device gave.
    pub(super) fn enter(&mut self, now: u64, from: usize, frame: &[u8]) {
        let Some((shape, to)) = self.destination(from, frame) else {
            self.counts.strays += 1;
            return;
        };
        if self.under_way + frame.len() as u64 > UNDER_WAY_MAX {
            self.counts.memory_drops += shape.segments;
            return;
        }
        let segments = self.piece_segments(from, to, &shape);
        if let Some(station) = self.stations.get_mut(from) {
            station.traffic.sent_packets += shape.segments;
            station.traffic.sent_bytes += shape.wire_bytes;
        }
        let Some(pair) = self.pair_of(from, to) else { return };
        pair.count_sent(&shape);
        if pair.is_cut() {
            pair.flow.lost_packets += shape.segments;
            return;
        }
        let cuts = pair.cuts();
        let packet =
            |frame, shape| Packet { frame, from, to, shape, cuts, stretch: Stretch::at(now), is_over: false };
        if shape.segments <= segments {
            self.send(packet(frame.to_vec(), shape));
            return;
        }
        for piece in cut(frame, &shape, segments) {
            if let Some(shape) = super::packet::shape(&piece) {
                self.send(packet(piece, shape));
            }
        }
    }

    /// Where it goes, if that is a host and the sender says truly who it is.
    fn destination(&self, from: usize, frame: &[u8]) -> Option<(Shape, usize)> {
        let shape = shape(frame)?;
        let to = self.plan.at(shape.to)?;
        (self.plan.at(shape.from) == Some(from) && to != from).then_some((shape, to))
    }

    fn pair_of(&mut self, from: usize, to: usize) -> Option<&mut Pair> {
        let from = self.stations.get(from)?.site;
        let to = self.stations.get(to)?.site;
        self.pairs.get_mut(from)?.get_mut(to)
    }

    /// Into how large pieces a super-packet is cut: chance acts on single wire packets, rates on short stretches.
    fn piece_segments(&self, from: usize, to: usize, shape: &Shape) -> u64 {
        let (Some(sender), Some(receiver)) = (self.stations.get(from), self.stations.get(to)) else {
            return 1;
        };
        let Some(pair) = self.pairs.get(sender.site).and_then(|row| row.get(receiver.site)) else { return 1 };
        if pair.is_chancy() {
            return 1;
        }
        let rates = [sender.card.rate, receiver.card.rate, pair.rate()];
        let slowest = rates.into_iter().filter(|rate| *rate > 0).min().unwrap_or(u64::MAX);
        let bytes = u128::from(slowest) * PIECE.as_nanos() / 1_000_000_000;
        u64::try_from(bytes / u128::from(shape.segment_bytes().max(1))).unwrap_or(u64::MAX).max(1)
    }

    /// Past the sender's card and its access.
    fn send(&mut self, mut packet: Packet) {
        let access = self.access_from(&packet);
        let Some(station) = self.stations.get_mut(packet.from) else { return };
        packet.stretch = station.out.pass(packet.stretch, packet.shape.wire_bytes).later(access);
        self.push(packet, false);
    }

    /// What the sender's access adds: half its round trip, and all of it that a way within the site has.
    fn access_from(&self, packet: &Packet) -> u64 {
        let half = |client: bool| if client { self.access_half } else { 0 };
        match (self.stations.get(packet.from), self.stations.get(packet.to)) {
            (Some(from), Some(to)) if from.site == to.site && !from.is_client && !to.is_client => {
                self.lan_half
            }
            (Some(from), _) => half(from.is_client),
            _ => 0,
        }
    }

    fn push(&mut self, packet: Packet, is_delivery: bool) {
        let due = packet.stretch.last;
        self.under_way += packet.frame.len() as u64;
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(packet);
        }
        self.sequence += 1;
        let heap = if is_delivery { &mut self.deliveries } else { &mut self.steps };
        heap.push(Reverse((due, self.sequence, slot)));
    }

    fn take(&mut self, slot: usize) -> Option<Packet> {
        let packet = self.slots.get_mut(slot)?.take()?;
        self.vacant.push(slot);
        self.under_way -= packet.frame.len() as u64;
        Some(packet)
    }

    /// Moves what is under way on to this moment; call before [`Network::due`].
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(&Reverse((at, _, slot))) = self.steps.peek() {
            if at > now + AHEAD_NS {
                return;
            }
            self.steps.pop();
            let Some(packet) = self.take(slot) else { continue };
            if packet.is_over { self.arrive(packet) } else { self.cross(packet) }
        }
    }

    /// Over the link and the receiver's access.
    fn cross(&mut self, mut packet: Packet) {
        packet.is_over = true;
        let receiver = self.stations.get(packet.to);
        let access = if receiver.is_some_and(|station| station.is_client) { self.access_half } else { 0 };
        let bytes = packet.shape.wire_bytes;
        let (segments, stretch) = (packet.shape.segments, packet.stretch);
        let Some(pair) = self.pair_of(packet.from, packet.to) else { return };
        let fate = pair.carry(stretch, bytes);
        match fate {
            Fate::Lost => pair.flow.lost_packets += segments,
            Fate::QueueFull => {
                pair.flow.lost_packets += segments;
                self.counts.queue_drops += segments;
            }
            Fate::Once(out) => {
                packet.stretch = out.later(access);
                self.push(packet, false);
            }
            Fate::Twice(out) => {
                packet.stretch = out.later(access);
                self.push(packet.clone(), false);
                self.push(packet, false);
            }
        }
    }

    /// Through the receiver's card.
    fn arrive(&mut self, mut packet: Packet) {
        let Some(station) = self.stations.get_mut(packet.to) else { return };
        if station.into.is_full(packet.stretch.first, station.card.queue) {
            self.counts.queue_drops += packet.shape.segments;
            self.lose(&packet);
            return;
        }
        packet.stretch = station.into.pass(packet.stretch, packet.shape.wire_bytes);
        self.push(packet, true);
    }

    fn lose(&mut self, packet: &Packet) {
        if let Some(pair) = self.pair_of(packet.from, packet.to) {
            pair.flow.lost_packets += packet.shape.segments;
        }
    }

    /// The next packet that is due, counted as delivered.
    pub(super) fn due(&mut self, now: u64) -> Option<Delivery> {
        while let Some(&Reverse((at, _, slot))) = self.deliveries.peek() {
            if at > now {
                return None;
            }
            self.deliveries.pop();
            let Some(packet) = self.take(slot) else { continue };
            let Some(pair) = self.pair_of(packet.from, packet.to) else { continue };
            if !pair.holds(packet.cuts) {
                pair.flow.lost_packets += packet.shape.segments;
                continue;
            }
            pair.flow.delivered_packets += packet.shape.segments;
            pair.flow.delivered_bytes += packet.shape.wire_bytes;
            pair.flow.device_delivered_bytes += packet.shape.device_bytes;
            self.counts.lateness.add(now - at);
            if let Some(station) = self.stations.get_mut(packet.to) {
                station.traffic.received_packets += packet.shape.segments;
                station.traffic.received_bytes += packet.shape.wire_bytes;
            }
            return Some(Delivery { host: packet.to, frame: packet.frame });
        }
        None
    }

    /// When [`Network::advance`] is to be called next.
    pub(super) fn next_step(&self) -> Option<u64> {
        self.steps.peek().map(|Reverse((at, ..))| at.saturating_sub(AHEAD_NS))
    }

    /// When the next packet is due, as far as is known.
    pub(super) fn next_delivery(&self) -> Option<u64> {
        self.deliveries.peek().map(|Reverse((at, ..))| *at)
    }

    /// How long the sender's card of a host is busy from now on with what it was given.
    pub(super) fn backlog(&self, host: usize, now: u64) -> u64 {
        self.stations.get(host).map_or(0, |station| station.out.wait(now))
    }

    /// Cuts or heals one direction.
    pub(super) fn set_cut(&mut self, from: usize, to: usize, is_cut: bool) {
        if let Some(pair) = self.pairs.get_mut(from).and_then(|row| row.get_mut(to)) {
            if is_cut { pair.cut() } else { pair.heal() }
        }
    }

    /// Makes one direction another link.
    pub(super) fn set_link(&mut self, from: usize, to: usize, link: Link) {
        if let Some(pair) = self.pairs.get_mut(from).and_then(|row| row.get_mut(to)) {
            pair.set(link);
        }
    }

    /// What passed until now.
    pub(super) fn traffic(&self, sites: &[String]) -> Traffic {
        let named = self.plan.hosts.iter().zip(&self.stations);
        Traffic {
            sites: sites.to_vec(),
            pairs: self.pairs.iter().map(|row| row.iter().map(|pair| pair.flow).collect()).collect(),
            hosts: named.map(|(host, station)| (host.name.clone(), station.traffic)).collect(),
        }
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
