//! Whatever a peer says: no panic, no violation, and the machine goes on.

use bytes::Bytes;
use skerry_base::{BucketId, Dot, NodeId, Origin, Vector};
use skerry_federation::areas::Coordinate;
use skerry_federation::message::{
    Batch, Census, Compare, Gather, Gathered, Holding, Membership, Message, Place, Probe, Publish, Pull,
    Refusal, Rolls, Said, Seek, Verdict,
};
use skerry_federation::{Config, Federation, FeedItem, Fingerprint, Input, Loose, Output, SiteEntry, Span};

use crate::memory::Record;
use crate::world::{SYSTEM, World, bucket, millis, seconds, site_id};

/// A message drawn from few values, so that tickets and buckets often fit.
fn draw(world: &mut World, ticket: u64) -> Message {
    let origin = Origin { node: NodeId(site_id(world.draw(3)).0), incarnation: 1 };
    let seqs = [1, 2, 5, 40, u64::MAX];
    let seq = seqs[world.draw(5)];
    let vector = if world.draw(4) == 0 { Vector::new() } else { Vector::from_iter([(origin, seq)]) };
    let id = [SYSTEM, bucket(1), bucket(2)][world.draw(3)];
    let dot = Dot { origin, seq };
    let print = Fingerprint { count: seqs[world.draw(5)], sum: [3; 16] };
    let span = Span { origin, first: 1, last: seq };
    let site = site_id(world.draw(4));
    let item = FeedItem { dot, record: Bytes::from_static(b"x"), bodies: vec![] };
    match world.draw(29) {
        0 => Message::Swim(Bytes::from(vec![world.draw(256) as u8; world.draw(80)])),
        1 => Message::Pull(Pull { ticket, bucket: id, seen: vector, max_bytes: u32::MAX, batches: 255 }),
        2 => Message::PullRefused { ticket, bucket: id, reason: Refusal::NotMember },
        3 => Message::News { bucket: id, vector },
        4 => Message::Check { listen: true, entries: vec![(id, 7)] },
        5 => Message::Compare(Compare { ticket, bucket: id, limit: vector, all: print }),
        6 => Message::Compared {
            ticket,
            bucket: id,
            doubt: Vector::new(),
            verdict: Verdict::Differs(vec![print]),
        },
        7 => {
            Message::Compared { ticket, bucket: id, doubt: vector.clone(), verdict: Verdict::Beyond(vector) }
        }
        8 => Message::Probe(Probe { ticket, bucket: id, spans: vec![span] }),
        9 => Message::Probed {
            ticket,
            bucket: id,
            doubt: Vector::new(),
            holdings: vec![Holding::Dots(vec![seq, seq])],
        },
        10 => Message::Probed {
            ticket,
            bucket: id,
            doubt: Vector::new(),
            holdings: vec![Holding::Children(vec![print; 16])],
        },
        11 => Message::Publish(Publish {
            ticket,
            life: seq,
            changes: vec![Membership { bucket: id, version: seq, member: true }],
            digest: 1,
        }),
        12 => Message::Published { ticket, life: 1, digest: 5 },
        13 => Message::Locate { ticket, bucket: id },
        14 => Message::PassOn { ticket, bucket: id, asker: site },
        16 => Message::Loose {
            bucket: id,
            answer: world.draw(2) == 0,
            loose: vec![Loose { origin, covered: seq, print }],
        },
        17 => Message::Gather(Gather { ticket, bucket: id, span, have: vec![seq, seq], max_bytes: 0 }),
        18 => Message::Gathered(Gathered { ticket, bucket: id, items: vec![item], upto: seq }),
        15 => Message::Said { ticket, bucket: id, said: Said::PassedOn(site) },
        20 => Message::Said { ticket, bucket: id, said: Said::NotHeard(vec![site]) },
        21 => Message::Said { ticket, bucket: id, said: Said::NotHere },
        22 => Message::Place(Place {
            coordinate: Coordinate::default().to_bytes(),
            k: world.draw(256) as u8,
            rtt_micros: seq as u32,
        }),
        23 => Message::Withdraw { ticket },
        24 => Message::Census(Census { ticket, entries: vec![(id, seq), (id, seq)] }),
        25 => Message::Rolls(Rolls {
            ticket,
            rolls: vec![(id, vec![site, site_id(0)])],
            unheard: (world.draw(2) == 0).then(|| vec![site]),
            more: world.draw(2) == 0,
        }),
        26 => Message::Seek(seek(world, ticket, id)),
        27 => Message::SeekOn { seek: seek(world, ticket, id), asker: site },
        28 => Message::Said { ticket, bucket: id, said: Said::Giving },
        _ => Message::Batch(batch(world, (ticket, id), item, &vector)),
    }
}

/// A question for something.
fn seek(world: &mut World, ticket: u64, bucket: BucketId) -> Seek {
    Seek { ticket, bucket, wanted: vec![7; world.draw(40)].into() }
}

/// A batch of one record.
fn batch(world: &mut World, (ticket, bucket): (u64, BucketId), item: FeedItem, vector: &Vector) -> Batch {
    Batch {
        ticket,
        bucket,
        source: Origin::default(),
        index: world.draw(3) as u8,
        last: world.draw(2) == 0,
        items: vec![item],
        upto: vector.clone(),
        end: world.draw(2) == 0,
        vector: vector.clone(),
        horizon: vector.clone(),
        doubt: Vector::new(),
    }
}

/// Feeds one site with drawn messages, carrying out nothing of what it wants but answering its tickets.
#[test]
fn no_message_breaks_the_machine() {
    for seed in 0..30 {
        let levels = [None, Some(2), Some(3)][seed as usize % 3];
        let mut world = World::mixed(3, seed, millis(20), (levels, &[]));
        world.start();
        world.join(0, bucket(1));
        (0..20).for_each(|key| world.put(0, bucket(1), key));
        world.run(seconds(5));
        let mut ticket = 0;
        let (mut now, mut open) = (world.now, Vec::new());
        for _ in 0..2000 {
            let message = draw(&mut world, ticket);
            let from = site_id(1 + world.draw(3));
            let Ok(message) = Message::decode(&message.encode()) else { continue };
            let mut out = Vec::new();
            now = now.after(millis(world.draw(400) as u64));
            let site = &mut world.sites[0];
            site.machine.handle(Input::Received { from, message }, now, &site.store, &mut out);
            if let Some(applied) = open.pop().filter(|_| out.len() % 2 == 0) {
                let input = Input::Applied { ticket: applied, ok: out.len() % 3 == 0 };
                site.machine.handle(input, now, &site.store, &mut out);
            }
            for output in &out {
                match output {
                    Output::Send { message: Message::Pull(pull), .. } => ticket = pull.ticket,
                    Output::Send { message: Message::Compare(compare), .. } => ticket = compare.ticket,
                    Output::Send { message: Message::Probe(probe), .. } => ticket = probe.ticket,
                    Output::Send { message: Message::Census(census), .. } => ticket = census.ticket,
                    Output::Apply(apply) => open.push(apply.ticket),
                    Output::Send { message: Message::Gather(gather), .. } => ticket = gather.ticket,
                    Output::Keep(keep) => open.push(keep.ticket),
                    Output::Drop(drop) => open.push(drop.ticket),
                    Output::Violation(what) => assert_eq!(*what, "", "seed {seed}"),
                    _ => {}
                }
            }
            assert!(site.machine.next_wake().is_none_or(|at| at > now), "a wake in the past");
        }
        assert!(world.sites[0].machine.stats().refused + world.sites[0].machine.stats().stale > 100);
    }
}

/// Who believed it would write dots that are taken, or none any more.
#[test]
fn more_of_this_sites_life_than_it_has_lived_is_refused() {
    let mut world = World::pair();
    world.put(0, bucket(1), 1);
    world.run(seconds(1));
    let life =
        |n: usize, world: &World| Origin { node: NodeId(site_id(n).0), incarnation: world.sites[n].life };
    let (own, other) = (life(0, &world), life(1, &world));
    let batch = |ticket: u64, told: u64| {
        let dot = Dot { origin: other, seq: 1 };
        let vector = Vector::from_iter([(own, told), (other, 1)]);
        let item = FeedItem { dot, record: Bytes::from_static(b"x"), bodies: vec![] };
        Message::Batch(Batch {
            ticket,
            bucket: bucket(1),
            source: other,
            index: 0,
            last: true,
            items: vec![item],
            upto: vector.clone(),
            end: true,
            vector,
            horizon: Vector::new(),
            doubt: Vector::new(),
        })
    };
    for (told, is_believed) in [(u64::MAX, false), (2, false), (1, true)] {
        for ticket in [None, Some(Batch::FRESH)] {
            let from = site_id(1);
            let (now, mut out) = (world.now, Vec::new());
            let site = &mut world.sites[0];
            // A machine that pulls from it, each time.
            let config = Config::new(site_id(0), site.life, 7).with_system(SYSTEM);
            let mut machine = Federation::new(config.with_fresh(true));
            let roster = [0, 1].map(|n| SiteEntry { site: site_id(n), pays: false }).to_vec();
            let news = Message::News { bucket: bucket(1), vector: Vector::from_iter([(other, 1)]) };
            for input in [
                Input::Roster(roster),
                Input::LinkUp(from),
                Input::Join { bucket: bucket(1) },
                Input::Received { from, message: news },
            ] {
                machine.handle(input, now, &site.store, &mut out);
            }
            let asked = out.iter().find_map(|output| match output {
                Output::Send { message: Message::Pull(pull), .. } if pull.bucket == bucket(1) => {
                    Some(pull.ticket)
                }
                _ => None,
            });
            out.clear();
            let message = batch(ticket.unwrap_or(asked.unwrap()), told);
            machine.handle(Input::Received { from, message }, now, &site.store, &mut out);
            let taken = out.iter().any(|output| matches!(output, Output::Apply(_) | Output::Fresh(_)));
            assert_eq!(taken, is_believed, "{told} {ticket:?}");
        }
    }
}

/// A batch that comes again and again, and never the one that is waited for, does not keep a bucket's only pull open.
#[test]
fn a_source_that_repeats_one_batch_is_given_up_for_another() {
    let mut world = World::new(3, 5, millis(20));
    world.start();
    world.join(0, bucket(1));
    world.run(seconds(5));
    let origin = |n: usize| Origin { node: NodeId(site_id(n).0), incarnation: 1 };
    let (config, mut now) = (Config::new(site_id(0), 1, 7).with_system(SYSTEM), world.now);
    let mut machine = Federation::new(config.with_fresh(true));
    let (mut out, store) = (Vec::new(), &world.sites[0].store);
    let roster = [0, 1, 2].map(|n| SiteEntry { site: site_id(n), pays: false }).to_vec();
    machine.handle(Input::Roster(roster), now, store, &mut out);
    for n in [1, 2] {
        let rtt = millis(if n == 1 { 5 } else { 50 });
        machine.handle(Input::Rtt { site: site_id(n), rtt }, now, store, &mut out);
        machine.handle(Input::LinkUp(site_id(n)), now, store, &mut out);
    }
    machine.handle(Input::Join { bucket: bucket(1) }, now, store, &mut out);
    let news = || Message::News { bucket: bucket(1), vector: Vector::from_iter([(origin(1), 9)]) };
    for n in [1, 2] {
        machine.handle(Input::Received { from: site_id(n), message: news() }, now, store, &mut out);
    }
    let pulls = |out: &[Output], of: usize| {
        let of_bucket = |output: &Output| match output {
            Output::Send { to, message: Message::Pull(pull) } if pull.bucket == bucket(1) => {
                (*to == site_id(of)).then_some(pull.ticket)
            }
            _ => None,
        };
        out.iter().filter_map(of_bucket).last()
    };
    for _ in 0..120 {
        let ticket = pulls(&out, 1);
        if let Some(ticket) = ticket {
            let message = Message::Batch(Batch {
                ticket,
                bucket: bucket(1),
                source: origin(1),
                index: 7,
                last: true,
                items: Vec::new(),
                upto: Vector::from_iter([(origin(1), 9)]),
                end: true,
                vector: Vector::new(),
                horizon: Vector::new(),
                doubt: Vector::new(),
            });
            machine.handle(Input::Received { from: site_id(1), message }, now, store, &mut out);
        }
        now = now.after(seconds(5));
        machine.handle(Input::Wake, now, store, &mut out);
        if pulls(&out, 2).is_some() {
            break;
        }
    }
    assert!(pulls(&out, 2).is_some(), "in ten minutes nobody else was asked");
}

/// A record that this site takes from nobody comes from the nearest: what others have comes from them.
#[test]
fn a_record_that_is_refused_does_not_keep_back_what_others_have() {
    let mut world = World::new(3, 11, millis(200));
    world.set_rtt(1, 2, millis(2));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world.cut(0, 1);
    world.cut(1, 2);
    let unwanted = world.write(1, bucket(1), 1, false, Bytes::from_static(b"unwanted"));
    world.sites[2].store.unwanted.insert(unwanted);
    world.heal(1, 2);
    world.run(seconds(120));
    for key in 10..30 {
        world.put(0, bucket(1), key);
    }
    world.run(seconds(20));
    let visible = world.sites[2].store.visible(bucket(1)).len();
    assert_eq!(visible, 20, "all that the other wrote");
}

/// Each message is bounded, and what is kept of all that one site says is, too.
#[test]
fn what_a_site_says_of_origins_is_kept_for_no_more_than_a_vector_has() {
    let mut world = World::new(2, 3, millis(20));
    world.start();
    (0..2).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    // Heard, and not asked: a pull that ends would take it back.
    world.silence(0, 1);
    for message in 0..40_u64 {
        let origin = |n: u64| Origin { node: NodeId([3; 16]), incarnation: message * 4096 + n };
        let vector = (0..4096).map(|n| (origin(n), 1)).collect();
        let message = Message::News { bucket: bucket(1), vector };
        world.input(0, Input::Received { from: site_id(1), message });
    }
    let kept = world.sites[0].machine.seen(bucket(1)).into_iter().map(|(_, vector)| vector.len()).max();
    assert!(kept.is_some_and(|kept| (4096..=65_536).contains(&kept)), "{kept:?}");
}

/// A bucket that is named again and again in one check is refused, and many of long vectors are not all answered at once: a frame of
/// 100 KB would take hundreds of megabytes.
#[test]
fn a_check_is_answered_with_no_more_than_some_mebibytes() {
    let twice =
        Message::Check { listen: false, entries: vec![(bucket(1), 7), (bucket(2), 7), (bucket(1), 8)] };
    assert!(Message::decode(&twice.encode()).is_err());
    let mut world = World::pair();
    (1..=40).for_each(|id| world.join(0, bucket(id)));
    world.run(seconds(1));
    let site = &mut world.sites[0];
    for id in 1..=40 {
        // A few thousand starts of a dozen sites.
        let vector = &mut site.store.held(bucket(id)).vector;
        for incarnation in 0..4000 {
            vector.add(Dot { origin: Origin { node: NodeId([9; 16]), incarnation }, seq: 1 });
        }
    }
    let entries = (1..=40).map(|id| (bucket(id), 7)).collect();
    let message = Message::decode(&Message::Check { listen: false, entries }.encode()).unwrap();
    let (now, mut out) = (world.now.after(seconds(1)), Vec::new());
    site.machine.handle(Input::Received { from: site_id(1), message }, now, &site.store, &mut out);
    let sent = |output: &Output| match output {
        Output::Send { message, .. } => message.encode().len(),
        _ => 0,
    };
    let bytes: usize = out.iter().map(sent).sum();
    assert!((1 << 20..4 << 20).contains(&bytes), "{bytes} bytes");
}

/// What is loose here of many origins in many buckets neither, for a check of 100 KB that names them all, nor unasked to who never
/// says that it has heard it.
#[test]
fn of_what_is_loose_no_more_than_some_mebibytes_are_told_at_once() {
    let mut world = World::pair();
    (1..=200).for_each(|id| (0..2).for_each(|n| world.join(n, bucket(id))));
    world.run(seconds(1));
    let record = Record { key: 1, context: Vector::new(), tombstone: false, payload: Bytes::new() };
    let site = &mut world.sites[0];
    for id in 1..=200 {
        for incarnation in 0..1000 {
            let dot = Dot { origin: Origin { node: NodeId([9; 16]), incarnation }, seq: 2 };
            site.store.held(bucket(id)).live.insert(dot, record.clone());
        }
    }
    let sent = |out: &[Output]| -> usize {
        let bytes = |output: &Output| match output {
            Output::Send { message: message @ Message::Loose { .. }, .. } => message.encode().len(),
            _ => 0,
        };
        out.iter().map(bytes).sum()
    };
    let entries = (1..=200).map(|id| (bucket(id), 7)).collect();
    let message = Message::decode(&Message::Check { listen: false, entries }.encode()).unwrap();
    let (now, mut out) = (world.now.after(seconds(1)), Vec::new());
    site.machine.handle(Input::Received { from: site_id(1), message }, now, &site.store, &mut out);
    let asked = sent(&out);
    out.clear();
    site.machine.handle(Input::Wake, now.after(seconds(300)), &site.store, &mut out);
    let unasked = sent(&out);
    assert!(
        [asked, unasked].iter().all(|bytes| (1 << 20..5 << 20).contains(bytes)),
        "{asked} and {unasked} bytes"
    );
}

/// 256 times all that a store has of an origin would be seconds of the machine's thread for a message of some kilobytes.
#[test]
fn a_probe_asks_for_nothing_twice() {
    let origin = |n: u64| Origin { node: NodeId([9; 16]), incarnation: n };
    let probe = |spans: &[(u64, u64, u64)]| {
        let span =
            |(of, first, last): &(u64, u64, u64)| Span { origin: origin(*of), first: *first, last: *last };
        let spans = spans.iter().map(span).collect();
        Message::decode(&Message::Probe(Probe { ticket: 1, bucket: bucket(1), spans }).encode())
    };
    assert!(probe(&[(2, 17, 32), (1, 1, 40), (2, 33, u64::MAX), (2, 1, 16)]).is_ok(), "in any order");
    assert!(probe(&[(1, 1, 1 << 40); 256]).is_err(), "one for all");
    assert!(probe(&[(1, 1, 64), (2, 1, 64), (1, 64, 70)]).is_err(), "one seq in two");
}

/// What a member pushes and the store refuses, again and again, ends the pulls from all others: of the system bucket, too, where
/// it would be said that it was expelled.
#[test]
fn who_pushes_what_is_refused_does_not_keep_back_what_others_have() {
    let came = |id: BucketId, every: Option<u64>| {
        let mut world = World::new(3, 11, millis(200));
        world.start();
        (0..3).for_each(|n| world.join(n, id));
        world.run(seconds(5));
        world.cut(0, 1);
        let origin = Origin { node: NodeId(site_id(1).0), incarnation: world.sites[1].life };
        let (dot, vector) = (Dot { origin, seq: 1 }, Vector::from_iter([(origin, 1)]));
        world.sites[2].store.unwanted.insert(dot);
        for key in 0..20 {
            world.write(0, id, key, false, Bytes::from(vec![7; 8 << 10]));
        }
        for _ in 0..60_000 / every.unwrap_or(1000) {
            if every.is_some() {
                let batch = Batch {
                    ticket: Batch::FRESH,
                    bucket: id,
                    source: origin,
                    index: 0,
                    last: true,
                    items: vec![FeedItem { dot, record: Bytes::from_static(b"x"), bodies: vec![] }],
                    upto: vector.clone(),
                    end: true,
                    vector: vector.clone(),
                    horizon: Vector::new(),
                    doubt: Vector::new(),
                };
                let message = Message::Batch(batch);
                world.input(2, Input::Received { from: site_id(1), message });
            }
            world.run(millis(every.unwrap_or(1000)));
        }
        world.sites[2].store.visible(id).len()
    };
    let of = |id| [None, Some(1000), Some(500), Some(250), Some(100)].map(|every| came(id, every));
    let came = [of(bucket(1)), of(SYSTEM)];
    assert_eq!(came, [[20; 5]; 2], "in a minute: undisturbed, and once in 1 s, 500, 250 and 100 ms");
}
