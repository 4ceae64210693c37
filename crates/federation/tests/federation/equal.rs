//! Ten million records on both sides: what a comparison costs on the wire.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use skerry_base::{BucketId, Instant, NodeId, Origin, Vector};
use skerry_federation::message::Message;
use skerry_federation::{
    Config, Federation, FeedBatch, FeedItem, Fingerprint, Input, Loose, Output, Replica, Report, Share,
    SiteEntry, Span, Unreadable,
};

use crate::world::{SYSTEM, site_id};

const ORIGINS: u64 = 10;
const EACH: u64 = 1_000_000;

fn origin(n: u64) -> Origin {
    Origin { node: NodeId([n as u8; 16]), incarnation: 1 }
}

/// All dots of ten origins but a few. Its fingerprints are cheap stand-ins: sums of numbers instead of hashes.
#[derive(Default)]
struct Dense {
    lacks: BTreeSet<(Origin, u64)>,
    asked: Cell<u64>,
}

impl Replica for Dense {
    fn vector(&self, _: BucketId) -> Result<Vector, Unreadable> {
        Ok((0..ORIGINS).map(|n| (origin(n), EACH)).collect())
    }

    fn origin(&self, _: BucketId) -> Origin {
        origin(0)
    }

    fn seen(&self, bucket: BucketId, _: Origin) -> Result<Vector, Unreadable> {
        self.vector(bucket)
    }

    fn horizon(&self, _: BucketId) -> Result<Vector, Unreadable> {
        Ok(Vector::new())
    }

    fn doubt(&self, _: BucketId) -> Result<Vector, Unreadable> {
        Ok(Vector::new())
    }

    fn after(&self, _: BucketId, _: &Vector, _: Share) -> Result<FeedBatch, Unreadable> {
        Ok(FeedBatch::default())
    }

    fn fingerprint(&self, _: BucketId, span: &Span) -> Result<Fingerprint, Unreadable> {
        self.asked.set(self.asked.get() + 1);
        let lacks = self.lacks.range((span.origin, span.first)..=(span.origin, span.last));
        let (count, sum) =
            lacks.fold((0u64, 0u128), |(count, sum), (_, seq)| (count + 1, sum + u128::from(*seq)));
        let (first, last) = (u128::from(span.first), u128::from(span.last));
        let all = (first + last) * (last - first + 1) / 2;
        Ok(Fingerprint { count: span.width() - count, sum: (all - sum).to_be_bytes() })
    }

    fn dots_in(&self, _: BucketId, span: &Span, limit: usize) -> Result<Vec<u64>, Unreadable> {
        let holds = |seq: &u64| !self.lacks.contains(&(span.origin, *seq));
        Ok((span.first..=span.last).filter(holds).take(limit).collect())
    }

    fn loose(&self, _: BucketId) -> Result<Vec<Loose>, Unreadable> {
        Ok(Vec::new())
    }

    fn records_in(
        &self,
        _: BucketId,
        span: &Span,
        _: &BTreeSet<u64>,
        _: Share,
    ) -> Result<(Vec<FeedItem>, u64), Unreadable> {
        Ok((Vec::new(), span.last))
    }
}

/// Compares two stores; answers bytes on the wire, round trips and the dots dropped.
fn compare(stores: [Dense; 2]) -> (usize, u32, u64) {
    let config = |n| Config::new(site_id(n), 1, n as u64).with_system(SYSTEM);
    let mut machines = [Federation::new(config(0)), Federation::new(config(1))];
    let roster = || (0..2).map(|n| SiteEntry { site: site_id(n), pays: false }).collect();
    let mut inputs = vec![
        (0, Input::Roster(roster())),
        (1, Input::Roster(roster())),
        (0, Input::LinkUp(site_id(1))),
        (1, Input::LinkUp(site_id(0))),
        (0, Input::Reconcile { bucket: SYSTEM, with: site_id(1) }),
    ];
    let (mut bytes, mut now, mut done) = (0, Instant(0), (0, 0));
    while !inputs.is_empty() {
        let (n, input) = inputs.remove(0);
        let mut out = Vec::new();
        now = now.after(Duration::from_micros(1));
        machines[n].handle(input, now, &stores[n], &mut out);
        for output in out {
            match output {
                Output::Send { to, message } => {
                    let counted = matches!(
                        message,
                        Message::Compare(_)
                            | Message::Compared { .. }
                            | Message::Probe(_)
                            | Message::Probed { .. }
                    );
                    bytes += if counted { message.encode().len() } else { 0 };
                    let to = usize::from(to != site_id(0));
                    inputs.push((to, Input::Received { from: site_id(n), message }));
                }
                Output::Drop(drop) => inputs.push((n, Input::Applied { ticket: drop.ticket, ok: true })),
                Output::Report(Report::Reconciled { dropped, rounds, .. }) => done = (rounds, dropped),
                _ => {}
            }
        }
    }
    (bytes, done.0, done.1)
}

#[test]
fn ten_million_equal_records_compare_in_one_message_each_way() {
    let (bytes, rounds, dropped) = compare([Dense::default(), Dense::default()]);
    println!("10 M equal records: {bytes} bytes, {rounds} round trip");
    assert_eq!((rounds, dropped), (1, 0));
    assert!(bytes < 100_000, "{bytes}");
}

#[test]
fn a_few_dead_among_ten_million_are_found_in_few_round_trips() {
    let lacks: BTreeSet<_> = (1..=20).map(|n| (origin(n % ORIGINS), n * 43_211)).collect();
    let dead = Dense { lacks, ..Dense::default() };
    let (bytes, rounds, dropped) = compare([Dense::default(), dead]);
    println!("20 dead among 10 M records: {bytes} bytes, {rounds} round trips");
    assert_eq!(dropped, 20);
    assert!(rounds <= 7, "{rounds}");
    assert!(bytes < 100_000, "{bytes}");
}
