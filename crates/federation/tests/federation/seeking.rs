//! What is wanted comes with the answer: from the nearest member, within the bound, once.

use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use skerry_base::Instant;
use skerry_federation::{Answer, Input, Ticket};

use crate::location::found;
use crate::world::{World, bucket, millis, seconds, site_id};

/// What the machine itself takes, beside the way: a wake of the net.
const GRAIN: Duration = millis(1);

impl World {
    fn seek(&mut self, n: usize, ticket: u64, id: u8) {
        let wanted = Bytes::copy_from_slice(&ticket.to_be_bytes());
        self.input(n, Input::Seek { ticket: Ticket(ticket), bucket: bucket(id), wanted });
    }

    fn gift(&self, n: usize, ticket: u64) -> Option<&(Instant, Vec<usize>)> {
        self.gifts.get(&(n, Bytes::copy_from_slice(&ticket.to_be_bytes())))
    }

    /// When the first byte of what was wanted is there: given, or asked for of who was named first.
    fn first_byte(&self, n: usize, ticket: u64) -> Option<Instant> {
        let given = self.gift(n, ticket).map(|(at, _)| *at);
        let named = self.located.get(&Ticket(ticket)).and_then(|(at, answer)| match answer {
            Answer::Found { sites } => {
                let first = (0..self.sites.len()).find(|site| site_id(*site) == sites[0])?;
                Some(at.after(if first == n { Duration::ZERO } else { self.rtt(n, first) }))
            }
            _ => None,
        });
        given.into_iter().chain(named).min()
    }

    /// Sites at these distances from each other, that have settled.
    fn settled(count: usize, levels: u8, waves: bool, rtt: impl Fn(usize, usize) -> Duration) -> Self {
        let mut world = Self::mixed(count, 5, millis(40), (Some(levels), &[]));
        for a in 0..count {
            for b in a + 1..count {
                world.set_rtt(a, b, rtt(a, b));
            }
        }
        world.waves = waves;
        (0..count).for_each(|n| world.restart(n));
        world.start();
        world.run(seconds(30));
        world
    }

    /// Every site that is none of the members wants something of them. How late, by how far the nearest is; gifts in all.
    fn all_seek(&mut self, id: u8, members: &[usize], k: u32) -> (f64, usize, usize) {
        members.iter().for_each(|n| self.join(*n, bucket(id)));
        self.run(seconds(5));
        let (mut worst, mut gifts, mut asked) = (0.0_f64, 0, 0);
        for n in (0..self.sites.len()).filter(|n| !members.contains(n)) {
            let ticket = u64::from(id) << 32 | n as u64;
            let (begun, d) = (self.now, members.iter().map(|member| self.rtt(n, *member)).min().unwrap());
            self.seek(n, ticket, id);
            self.run(seconds(6));
            let took = self.first_byte(n, ticket).map(|at| at.since(begun));
            let bound = d.mul_f64(if self.waves { 1.5 } else { 1.0 } * f64::from(k));
            assert!(
                took.is_some_and(|took| took <= bound + GRAIN),
                "K = {k}, waves {}: site {n} has the first byte after {took:?}, members {members:?}, nearest at {d:?}",
                self.waves
            );
            worst = worst.max(took.unwrap().as_secs_f64() / d.as_secs_f64());
            gifts += self.gift(n, ticket).map_or(0, |(_, from)| from.len());
            asked += 1;
        }
        (worst, gifts, asked)
    }
}

fn plane(count: usize, seed: u64) -> impl Fn(usize, usize) -> Duration {
    let mut draw = StdRng::seed_from_u64(seed);
    let mut points: Vec<(f64, f64)> = (0..count).map(|_| (draw.random(), draw.random())).collect();
    // Some live next door to each other.
    for n in (1..count).step_by(3) {
        points[n] = (points[n - 1].0 + 0.002, points[n - 1].1);
    }
    move |a, b| {
        let ((x, y), (v, w)) = (points[a], points[b]);
        Duration::from_micros(1500 + (200_000.0 * (x - v).hypot(y - w)) as u64)
    }
}

fn line(a: usize, b: usize) -> Duration {
    millis(5 + 2 * a.abs_diff(b) as u64)
}

/// Draws who follows: one site, or several.
fn members(draw: &mut StdRng, count: usize) -> Vec<usize> {
    let mut members: Vec<usize> =
        (0..draw.random_range(1..=4)).map(|_| draw.random_range(0..count)).collect();
    members.sort_unstable();
    members.dedup();
    members
}

#[test]
fn the_first_byte_comes_within_the_bound() {
    for (levels, waves) in [(2, true), (2, false), (3, true), (3, false)] {
        let (mut worst, mut gifts, mut asked) = (0.0_f64, 0, 0);
        for seed in 0..3 {
            let count = 24;
            let mut world = match seed {
                0 => World::settled(count, levels, waves, line),
                _ => World::settled(count, levels, waves, plane(count, seed)),
            };
            let mut draw = StdRng::seed_from_u64(seed + 10);
            for id in 1..=5 {
                let members = members(&mut draw, count);
                let (late, given, questions) = world.all_seek(id, &members, levels.into());
                (worst, gifts, asked) = (worst.max(late), gifts + given, asked + questions);
            }
        }
        let each = gifts as f64 / f64::from(asked as u32);
        println!("K = {levels}, waves {waves}: first byte after {worst:.2} d at most, {each:.2} gifts each");
        // What is given in vain is bounded.
        assert!(each <= 2.0, "{each}");
    }
}

#[test]
fn whatever_fails_farther_away_the_first_byte_comes_within_the_bound() {
    for (levels, waves) in [(2, true), (3, true), (3, false)] {
        let mut world = World::settled(24, levels, waves, plane(24, 3));
        for (id, member) in [(1, 4), (2, 11), (3, 19)] {
            world.join(member, bucket(id));
            // Another one, that is known to many.
            world.join((member + 9) % 24, bucket(id));
        }
        world.run(seconds(5));
        for (id, member) in [(1, 4), (2, 11), (3, 19)] {
            for n in (0..24).filter(|n| *n != member && *n != (member + 9) % 24) {
                let d = world.rtt(n, member).min(world.rtt(n, (member + 9) % 24));
                let far: Vec<usize> = (0..24)
                    .filter(|other| *other != n)
                    .filter(|other| world.rtt(n, *other) > d * u32::from(levels))
                    .collect();
                for other in &far {
                    world.silence(*other, n);
                    world.silence(n, *other);
                }
                let (ticket, begun) = (u64::from(id) << 32 | n as u64, world.now);
                world.seek(n, ticket, id);
                world.run(millis(1500));
                far.iter().for_each(|other| world.heal(n, *other));
                let bound = d.mul_f64(if waves { 1.5 } else { 1.0 } * f64::from(levels));
                let took = world.first_byte(n, ticket).map(|at| at.since(begun));
                assert!(
                    took.is_some_and(|took| took <= bound + GRAIN),
                    "site {n}: {took:?}, nearest at {d:?}"
                );
            }
        }
    }
}

#[test]
fn a_member_that_is_known_is_not_taken_for_the_nearest() {
    let count = 20;
    // Who is of the top level does not depend on where it is.
    let levels = World::settled(count, 2, true, line);
    let is_top = |n: &usize| levels.sites[*n].machine.areas().level > 0;
    let low: Vec<usize> = (0..count).filter(|n| !is_top(n)).collect();
    let (far, asker, near) = (low[0], low[1], low[2]);
    // The asker is nearer to the far one than anybody of the top, and farther from the near one.
    let place = |n: usize| match n {
        n if n == far => 0_u64,
        n if n == asker => 150,
        n if n == near => 170,
        n if is_top(&n) => 175,
        n => 500 + n as u64,
    };
    let mut world = World::settled(count, 2, true, |a, b| millis(5 + place(a).abs_diff(place(b))));
    world.join(far, bucket(5));
    world.join(near, bucket(5));
    world.run(seconds(5));
    let known = world.sites[asker].machine.members(bucket(5));
    assert_eq!(known, [site_id(far)], "what it hears of");
    let begun = world.now;
    world.seek(asker, 1, 5);
    world.run(seconds(3));
    let took = world.first_byte(asker, 1).unwrap().since(begun);
    assert!(took <= world.rtt(asker, near) * 3 + GRAIN, "{took:?}");
    // Who asked knows now, and asks nobody.
    let sent = world.sites[asker].sent;
    world.seek(asker, 2, 5);
    assert_eq!(world.sites[asker].sent, sent);
    assert_eq!(world.answer(2), found(&[near, far]));
    // Until it cannot be reached: there may be another one.
    world.cut(asker, near);
    world.run(seconds(1));
    world.seek(asker, 3, 5);
    assert!(world.sites[asker].sent > sent + 1);
    world.run(seconds(3));
    let sites = vec![site_id(far)];
    assert_eq!(world.answer(3), Some(Answer::Given { sites }));
}

#[test]
fn a_member_gives_once_and_says_that_it_is_there() {
    let mut world = World::new(3, 1, millis(20));
    world.start();
    world.run(seconds(4));
    world.join(1, bucket(5));
    world.run(seconds(1));
    // Site 0 does not know it.
    world.input(0, Input::Refuted { bucket: bucket(5), site: site_id(1) });
    world.said.clear();
    world.seek(0, 1, 5);
    world.run(millis(25));
    world.check(&["0>1 seek", "0>2 seek", "1>0 giving", "2>1 seek on", "2>0 passed on"]);
    assert_eq!(world.answer(1), Some(Answer::Given { sites: vec![site_id(1)] }));
    world.run(seconds(1));
    assert_eq!(world.gift(0, 1).unwrap().1, [1], "once, though two landmarks asked it");
    world.check(&["1>0 member"]);
    assert_eq!(world.sites[1].machine.stats().given, 1);
}

#[test]
fn who_does_not_know_the_word_is_asked_and_answers_as_ever() {
    // The member, its landmark, or the asker is of a release before.
    for old in 0..3 {
        let mut world = World::new(3, 1, millis(20));
        world.mute_of_wants.insert(old);
        (0..3).for_each(|n| world.restart(n));
        world.start();
        world.run(seconds(4));
        world.join(1, bucket(5));
        world.run(seconds(1));
        world.input(0, Input::Refuted { bucket: bucket(5), site: site_id(1) });
        world.cut(0, 2);
        world.run(seconds(1));
        world.seek(0, 1, 5);
        world.run(seconds(2));
        let expected = if old == 2 { Some(Answer::Given { sites: vec![site_id(1)] }) } else { found(&[1]) };
        assert_eq!(world.answer(1), expected, "site {old} is of a release before");
        assert_eq!(world.gift(0, 1).is_some(), old == 2);
    }
}

#[test]
fn old_landmarks_and_members_among_levels_are_found_all_the_same() {
    for old in [vec![3, 9, 15], (0..20).step_by(2).collect(), (0..20).collect()] {
        let mut world = World::mixed(20, 4, millis(40), (None, &[]));
        for a in 0..20 {
            (a + 1..20).for_each(|b| world.set_rtt(a, b, line(a, b)));
        }
        world.mute_of_wants.extend(&old);
        (0..20).for_each(|n| world.restart(n));
        world.start();
        world.run(seconds(30));
        world.join(7, bucket(5));
        world.run(seconds(5));
        for n in (0..20).filter(|n| *n != 7) {
            world.seek(n, n as u64, 5);
            world.run(seconds(6));
            assert!(world.first_byte(n, n as u64).is_some(), "from {n} with {old:?} of a release before");
        }
    }
}

#[test]
fn a_question_that_waits_for_a_member_is_answered_by_its_coming() {
    let mut world = World::new(3, 1, millis(20));
    world.start();
    world.run(seconds(4));
    world.seek(0, 1, 5);
    world.run(millis(5));
    world.join(1, bucket(5));
    world.run(seconds(2));
    let answer = world.answer(1).unwrap();
    assert!(matches!(answer, Answer::Found { .. } | Answer::Given { .. }), "{answer:?}");
    world.seek(2, 2, 9);
    world.run(seconds(2));
    assert_eq!(world.answer(2), Some(Answer::Unknown { unasked: vec![] }));
    assert!(world.gift(2, 2).is_none());
}
