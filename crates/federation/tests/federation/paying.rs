//! Who pays for its link is no landmark where others can be: what records say of it changes levels as the roster does, and
//! answers stay honest while not all sites have read them.

use std::collections::BTreeSet;

use skerry_federation::Answer;

use crate::location::found;
use crate::world::{World, bucket, millis, seconds, site_id};

/// Sites 5 ms and more apart, linked and settled, of which these do not read who pays.
fn settled(count: usize, seed: u64, before: &[usize]) -> World {
    let mut world = placed(count, seed);
    world.before = before.iter().copied().collect();
    world.start();
    world.run(seconds(60));
    world
}

fn placed(count: usize, seed: u64) -> World {
    let mut world = World::new(count, seed, millis(40));
    for a in 0..count {
        for b in a + 1..count {
            world.set_rtt(a, b, millis(5 + 2 * (b - a) as u64));
        }
    }
    world
}

/// The sites above level 0, as one of them sees it.
fn top_at(world: &World, n: usize) -> BTreeSet<usize> {
    let areas = world.sites[n].machine.areas();
    let level = |other: usize| match other == n {
        true => areas.level,
        false => areas.sites.iter().find(|near| near.site == site_id(other)).map_or(0, |near| near.level),
    };
    (0..world.sites.len()).filter(|other| level(*other) > 0).collect()
}

/// The same, if all see it alike.
fn top(world: &World) -> BTreeSet<usize> {
    let first = top_at(world, 0);
    assert!((0..world.sites.len()).all(|n| top_at(world, n) == first), "sites disagree");
    first
}

fn all_read(world: &mut World, paying: &BTreeSet<usize>) {
    world.paying.clone_from(paying);
    (0..world.sites.len()).for_each(|n| world.reads(n));
    world.run(seconds(30));
}

#[test]
fn a_landmark_that_pays_makes_room_for_one_other_and_comes_back() {
    let mut world = settled(20, 3, &[]);
    world.join(2, bucket(5));
    let before = top(&world);
    for payer in before.clone() {
        all_read(&mut world, &[payer].into());
        let now = top(&world);
        assert_eq!((now.contains(&payer), now.len()), (false, before.len()));
        let new: Vec<usize> = now.difference(&before).copied().collect();
        assert_eq!(new.len(), 1, "{before:?} {now:?}");
        // It was told of what was there before it was a landmark.
        let told = |n: usize| world.sites[n].machine.members(bucket(5)).contains(&site_id(2));
        assert!(new.iter().all(|n| *n == 2 || told(*n)), "{new:?}");
        all_read(&mut world, &BTreeSet::new());
        assert_eq!(top(&world), before);
    }
}

#[test]
fn where_all_or_nearly_all_pay_three_are_landmarks_and_who_does_not_is_one() {
    let mut world = settled(20, 4, &[]);
    for free in 0..5usize {
        all_read(&mut world, &(free..20).collect());
        let top = top(&world);
        assert_eq!(top.len(), free.clamp(3, 4), "{free} do not pay");
        assert!((0..free.min(4)).filter(|n| top.contains(n)).count() >= free.min(4).min(top.len()));
        world.locate(9, free as u64, 7);
        world.run(seconds(6));
        assert_eq!(world.answer(free as u64), Some(Answer::Unknown { unasked: vec![] }), "{free} do not pay");
    }
}

/// The records arrive at one site after the other, and everybody asks meanwhile.
fn heard_one_by_one(seed: u64, paying: &BTreeSet<usize>) {
    let mut world = settled(20, seed, &[]);
    let member = (0..20).find(|n| !top(&world).contains(n)).unwrap();
    world.join(member, bucket(5));
    world.run(seconds(10));
    world.unaware = (0..20).collect();
    world.paying.clone_from(paying);
    let mut ticket = 0;
    let mut ask = |world: &mut World| {
        let first = ticket;
        for n in (0..20).filter(|n| *n != member) {
            world.locate(n, ticket, 5);
            world.locate(n, ticket + 1, 6);
            ticket += 2;
        }
        first..ticket
    };
    let mut asked = 0..0;
    for _ in 0..20 {
        let unaware: Vec<usize> = world.unaware.iter().copied().collect();
        let n = unaware[world.draw(unaware.len())];
        world.reads(n);
        asked = asked.start..ask(&mut world).end;
        let pause = world.draw(1500) as u64;
        world.run(millis(pause));
    }
    world.run(seconds(10));
    for number in asked {
        let answer = world.answer(number).unwrap();
        match number % 2 {
            0 => assert!(!matches!(answer, Answer::Unknown { .. }), "what is there is said not to be"),
            _ => assert!(!matches!(answer, Answer::Found { .. })),
        }
    }
    world.run(seconds(20));
    let last = ask(&mut world);
    world.run(seconds(10));
    for number in last {
        let right =
            if number % 2 == 0 { found(&[member]).unwrap() } else { Answer::Unknown { unasked: vec![] } };
        assert_eq!(world.answer(number), Some(right), "seed {seed}");
    }
}

#[test]
fn answers_are_honest_while_records_are_on_their_way() {
    for seed in 0..8 {
        let top = top(&settled(20, seed, &[]));
        heard_one_by_one(seed, &top.iter().copied().take(1).collect());
        heard_one_by_one(seed, &top);
        heard_one_by_one(seed, &(0..20).collect());
    }
}

/// Some sites never read it: they tell and ask other landmarks than the rest for as long as they are there.
#[test]
fn releases_that_do_not_read_who_pays_find_and_are_found() {
    for seed in 0..4 {
        let mut world = settled(20, seed, &[]);
        let drawn = top(&world);
        let low: Vec<usize> = (0..20).filter(|n| !drawn.contains(n)).collect();
        let (old, member, asker) = (low[0], low[1], low[2]);
        let payer = *drawn.first().unwrap();
        world = settled(20, seed, &[old]);
        all_read(&mut world, &[payer].into());
        assert!(top_at(&world, old).contains(&payer) && !top_at(&world, asker).contains(&payer));
        world.join(old, bucket(5));
        world.join(member, bucket(6));
        world.run(seconds(30));
        for (ticket, (n, of)) in
            [(asker, 5), (payer, 5), (old, 6), (asker, 7), (old, 7), (payer, 7)].into_iter().enumerate()
        {
            world.locate(n, ticket as u64, of);
        }
        world.run(seconds(10));
        let nobody = Some(Answer::Unknown { unasked: vec![] });
        let right = [found(&[old]), found(&[old]), found(&[member]), nobody.clone(), nobody.clone(), nobody];
        for (ticket, right) in right.into_iter().enumerate() {
            assert_eq!(world.answer(ticket as u64), right, "seed {seed}, question {ticket}");
        }
    }
}

/// A settled world in which one landmark pays, with these besides: a new landmark; a site that goes on drawing as if nobody
/// paid, of a release before or because no record reaches it; one that is like the rest.
struct Divided {
    world: World,
    new: usize,
    other: usize,
    asker: usize,
}

fn divided(seed: u64, is_before: bool) -> Divided {
    let drawn = top(&settled(20, seed, &[]));
    let payer = *drawn.first().unwrap();
    let low: Vec<usize> = (0..20).filter(|n| !drawn.contains(n)).collect();
    let mut world = settled(20, seed, &[]);
    all_read(&mut world, &[payer].into());
    let new = *top(&world).difference(&drawn).next().unwrap();
    let mut rest = low.into_iter().filter(|n| *n != new);
    let (other, asker) = (rest.next().unwrap(), rest.next().unwrap());
    world = settled(20, seed, if is_before { std::slice::from_ref(&other) } else { &[] });
    world.paying = [payer].into();
    world.unaware = [other].into();
    (0..20).filter(|n| *n != other).for_each(|n| world.reads(n));
    Divided { world, new, other, asker }
}

const NOBODY: Option<Answer> = Some(Answer::Unknown { unasked: Vec::new() });

impl Divided {
    fn asks(&mut self, n: usize, ticket: u64, of: u8) -> Option<Answer> {
        self.world.locate(n, ticket, of);
        self.world.run(seconds(6));
        self.world.answer(ticket)
    }
}

#[test]
fn a_site_of_a_release_before_draws_as_it_did_though_its_link_is_gone() {
    for seed in 0..4 {
        let mut divided = divided(seed, true);
        let (new, other, asker) = (divided.new, divided.other, divided.asker);
        divided.world.run(seconds(15));
        divided.world.cut(other, new);
        assert_eq!(divided.asks(asker, 1, 7), NOBODY, "seed {seed}: one link");
        assert_eq!(divided.asks(new, 2, 7), NOBODY, "seed {seed}: one link, at the landmark");
        divided.world.heal(other, new);
        divided.world.run(seconds(5));
        divided.world.stop(other);
        assert_eq!(divided.asks(asker, 3, 7), NOBODY, "seed {seed}: all links");
    }
}

#[test]
fn who_takes_no_records_is_waited_for_for_a_while_and_then_named() {
    for seed in 0..4 {
        let mut divided = divided(seed, false);
        let (other, asker) = (divided.other, divided.asker);
        divided.world.join(other, bucket(5));
        divided.world.run(seconds(20));
        assert_eq!(divided.asks(asker, 1, 7), Some(Answer::NotYetKnown), "seed {seed}");
        divided.world.run(seconds(40));
        assert_eq!(divided.asks(asker, 2, 7), NOBODY, "seed {seed}");
        assert_eq!(divided.asks(asker, 3, 5), found(&[other]), "seed {seed}: who has heard it knows");
        divided.world.isolate(other);
        divided.world.run(seconds(5));
        let apart = Some(Answer::Unreachable { sites: vec![site_id(other)] });
        assert_eq!(divided.asks(asker, 4, 5), apart, "seed {seed}");
    }
}

#[test]
fn a_landmark_that_some_site_does_not_tell_knows_no_members_without_asking() {
    for seed in 0..4 {
        for is_before in [true, false] {
            let mut divided = divided(seed, is_before);
            let (new, other) = (divided.new, divided.other);
            divided.world.join(other, bucket(5));
            divided.world.run(seconds(90));
            divided.world.join(new, bucket(5));
            let mut is_whole = false;
            for _ in 0..100 {
                let machine = &divided.world.sites[new].machine;
                let knows = machine.members(bucket(5)).contains(&site_id(other));
                is_whole = machine.knows_all_members(bucket(5));
                assert!(knows || !is_whole, "seed {seed}: all are known but one");
                divided.world.run(millis(20));
            }
            assert!(is_whole, "seed {seed}: it was told who they are");
        }
    }
}

/// Two new landmarks, near each other, that some site does not tell, though it tells those that are landmarks for all.
#[test]
fn whom_the_nearest_landmark_has_not_heard_another_may_have() {
    for seed in 0..4 {
        let drawn = top(&settled(20, seed, &[]));
        let payers: BTreeSet<usize> = drawn.iter().copied().take(2).collect();
        let mut world = settled(20, seed, &[]);
        all_read(&mut world, &payers);
        let new: Vec<usize> = top(&world).difference(&drawn).copied().collect();
        assert_eq!(new.len(), 2, "seed {seed}");
        let other = (0..20).find(|n| !drawn.contains(n) && !new.contains(n)).unwrap();
        world = placed(20, seed);
        world.set_rtt(new[0], new[1], millis(1));
        world.start();
        world.run(seconds(60));
        world.paying = payers;
        world.unaware = [other].into();
        (0..20).filter(|n| *n != other).for_each(|n| world.reads(n));
        world.join(other, bucket(5));
        world.run(seconds(90));
        new.iter().for_each(|n| world.join(*n, bucket(5)));
        world.run(seconds(20));
        for n in new {
            let machine = &world.sites[n].machine;
            assert!(machine.members(bucket(5)).contains(&site_id(other)), "seed {seed}");
            assert!(machine.knows_all_members(bucket(5)), "seed {seed}: the others were told");
            assert_eq!(machine.strangers(bucket(5)).len(), 19 - 2, "seed {seed}");
        }
    }
}
