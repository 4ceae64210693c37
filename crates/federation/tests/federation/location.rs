//! A member is found whenever one can be reached; negatives are honest.

use skerry_base::{BucketId, SiteId};
use skerry_federation::{Answer, Input, Report, Ticket, limits};

use crate::world::{Weather, World, bucket, millis, seconds, site_id};

impl World {
    pub(crate) fn locate(&mut self, n: usize, ticket: u64, id: u8) {
        self.input(n, Input::Locate { ticket: Ticket(ticket), bucket: bucket(id) });
    }

    pub(crate) fn answer(&self, ticket: u64) -> Option<Answer> {
        self.located.get(&Ticket(ticket)).map(|(_, answer)| answer.clone())
    }
}

pub(crate) fn found(sites: &[usize]) -> Option<Answer> {
    Some(Answer::Found { sites: sites.iter().map(|n| site_id(*n)).collect::<Vec<SiteId>>() })
}

#[test]
fn what_was_published_is_known_without_asking() {
    let mut world = World::new(3, 1, millis(50));
    world.set_rtt(0, 1, millis(10));
    world.start();
    world.join(1, bucket(5));
    world.join(2, bucket(5));
    world.run(seconds(2));
    let sent = world.sites[0].sent;
    world.locate(0, 1, 5);
    assert_eq!(world.answer(1), found(&[1, 2]));
    assert_eq!(world.sites[0].sent, sent);
    world.leave(1, bucket(5));
    world.run(seconds(1));
    world.locate(0, 2, 5);
    assert_eq!(world.answer(2), found(&[2]));
}

#[test]
fn nobody_has_it() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    world.run(seconds(2));
    world.locate(0, 1, 5);
    world.run(millis(120));
    assert_eq!(world.answer(1), Some(Answer::Unknown { unasked: vec![] }));
    world.isolate(2);
    world.run(seconds(1));
    world.locate(0, 2, 5);
    world.run(millis(120));
    assert_eq!(world.answer(2), Some(Answer::Unknown { unasked: vec![site_id(2)] }));
    world.isolate(0);
    world.run(seconds(1));
    world.locate(0, 3, 5);
    assert_eq!(world.answer(3), Some(Answer::Unknown { unasked: vec![site_id(1), site_id(2)] }));
}

#[test]
fn a_member_that_cannot_be_reached_is_named() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    world.join(2, bucket(5));
    world.run(seconds(2));
    world.cut(0, 2);
    world.run(seconds(1));
    world.locate(0, 1, 5);
    world.run(seconds(5));
    assert_eq!(world.answer(1), Some(Answer::Unreachable { sites: vec![site_id(2)] }));
}

#[test]
fn after_a_restart_not_yet_and_then_found() {
    let mut world = World::new(3, 1, millis(200));
    world.start();
    world.join(2, bucket(5));
    world.run(seconds(2));
    // Everybody but the member forgets; the member's voice does not reach the asker for now.
    world.silence(2, 0);
    world.silence(2, 1);
    world.restart(0);
    world.restart(1);
    world.run(seconds(1));
    world.locate(0, 1, 5);
    world.run(seconds(5));
    assert_eq!(world.answer(1), Some(Answer::NotYetKnown));
    world.heal_all();
    world.run(seconds(20));
    world.locate(0, 2, 5);
    world.run(seconds(5));
    assert_eq!(world.answer(2), found(&[2]));
}

#[test]
fn a_landmark_passes_the_question_on() {
    let mut world = World::new(3, 1, millis(40));
    world.set_rtt(0, 2, millis(400));
    world.start();
    world.join(2, bucket(5));
    world.run(seconds(2));
    // The asker has forgotten; the near landmark has not, and the member answers the asker itself.
    world.restart(0);
    world.run(millis(90));
    world.locate(0, 1, 5);
    world.run(millis(900));
    assert_eq!(world.answer(1), found(&[2]));
}

#[test]
fn a_refuted_member_is_forgotten_until_it_says_so_again() {
    let mut world = World::new(3, 1, millis(40));
    world.start();
    world.join(2, bucket(5));
    world.run(seconds(2));
    world.input(0, Input::Refuted { bucket: bucket(5), site: site_id(2) });
    world.locate(0, 1, 5);
    world.run(seconds(5));
    assert_eq!(world.answer(1), found(&[2]), "it answers for itself");
}

#[test]
fn found_in_any_storm_that_leaves_a_way() {
    for seed in 0..12 {
        let count = 3 + seed as usize % 6;
        let mut world = World::new(count, seed, millis(60));
        world.weather = Weather::STORM;
        world.start();
        let holders: Vec<usize> = (1..count).filter(|n| *n == 1 || world.draw(3) == 0).collect();
        holders.iter().for_each(|n| world.join(*n, bucket(5)));
        world.run(seconds(1));
        for _ in 0..world.draw(12) {
            let (a, b) = (world.draw(count), world.draw(count));
            match world.draw(3) {
                0 if a != b => world.cut(a, b),
                1 => world.restart(a),
                _ => {}
            }
            let pause = millis(world.draw(3000) as u64);
            world.run(pause);
        }
        // One member stays within reach.
        world.heal(0, 1);
        world.run(seconds(30));
        world.locate(0, 1, 5);
        world.run(seconds(6));
        let answer = world.answer(1);
        assert!(
            matches!(&answer, Some(Answer::Found { sites }) if !sites.is_empty()),
            "seed {seed}: {answer:?}"
        );
    }
}

#[test]
fn thousands_of_buckets_are_published_and_told_once() {
    let mut world = World::new(2, 1, millis(40));
    world.start();
    for n in 0..10_000u32 {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        world.join(1, skerry_base::BucketId(id));
    }
    world.run(seconds(60));
    let mut id = [0; 16];
    id[..4].copy_from_slice(&9_999u32.to_be_bytes());
    assert_eq!(world.sites[0].machine.members(skerry_base::BucketId(id)), vec![site_id(1)]);
    let before = world.sites[1].sent_bytes;
    world.cut(0, 1);
    world.run(seconds(2));
    world.heal(0, 1);
    world.run(seconds(10));
    let bytes = world.sites[1].sent_bytes - before;
    println!("a reconnection with 10,000 memberships unchanged: {bytes} bytes");
    assert!(bytes < 1_000, "{bytes}");
}

#[test]
fn a_burnt_member_counts_its_lives_anew_and_is_heard() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    world.join(2, bucket(5));
    world.join(2, bucket(6));
    world.run(seconds(2));
    world.restart(2);
    world.restart(2);
    world.run(seconds(2));
    world.begin_anew(2);
    world.run(seconds(1));
    world.join(2, bucket(6));
    world.run(seconds(2));
    world.locate(0, 1, 6);
    assert_eq!(world.answer(1), found(&[2]), "what it has said since is believed");
    world.locate(0, 2, 5);
    world.run(seconds(5));
    assert_eq!(world.answer(2), Some(Answer::Unknown { unasked: vec![] }), "what it has lost is forgotten");
}

#[test]
fn a_member_that_was_set_back_into_a_life_of_the_same_number_is_heard() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    world.join(2, bucket(4));
    world.join(2, bucket(5));
    world.leave(2, bucket(4));
    world.join(2, bucket(6));
    world.run(seconds(2));
    world.locate(0, 1, 6);
    assert_eq!(world.answer(1), found(&[2]));
    // The same life once more, with other memberships; then with the same, said in another order.
    world.begin_anew(2);
    world.join(2, bucket(6));
    world.run(seconds(2));
    world.leave(2, bucket(6));
    world.join(2, bucket(4));
    world.run(seconds(2));
    world.locate(0, 2, 4);
    assert_eq!(world.answer(2), found(&[2]));
    for lost in [5, 6] {
        world.locate(0, u64::from(lost), lost);
        world.run(seconds(5));
        assert_eq!(world.answer(lost.into()), Some(Answer::Unknown { unasked: vec![] }), "bucket {lost}");
    }
}

#[test]
fn a_burnt_site_is_alive_again_whatever_its_lives_were() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    (0..300).for_each(|_| world.restart(2));
    world.run(seconds(5));
    world.stop(2);
    world.run(seconds(300));
    assert!(!world.alive.contains(&(0, site_id(2))));
    world.begin_anew(2);
    world.run(seconds(60));
    for at in [0, 1] {
        assert!(world.alive.contains(&(at, site_id(2))), "at {at}");
    }
}

/// What is beyond the bound is said, and not published: who counted on it would be wrong.
#[test]
fn a_bucket_beyond_the_bound_is_reported_and_nobody_is_told_of_it() {
    let mut world = World::new(2, 1, millis(20));
    world.start();
    world.run(seconds(1));
    let id = |n: u32| BucketId([[0; 4], [1; 4], [2; 4], n.to_be_bytes()].concat().try_into().unwrap());
    // One is the system bucket.
    for n in 1..limits::BUCKETS as u32 {
        world.join(0, id(n));
    }
    let said = |world: &World, bucket: BucketId| {
        world.reports.iter().any(|(_, report)| *report == Report::NotFollowed { bucket })
    };
    assert!(!said(&world, id(1)) && !said(&world, id(limits::BUCKETS as u32 - 1)));
    let last = id(limits::BUCKETS as u32);
    world.join(0, last);
    assert!(said(&world, last));
    world.run(seconds(10));
    assert!(world.sites[1].machine.members(id(7)).contains(&site_id(0)));
    assert!(world.sites[1].machine.members(last).is_empty());
}

/// A site that is away while this one is started anew may be a member that nobody here remembers.
#[test]
fn not_all_are_heard_before_who_is_away_has_said_of_what_it_is_a_member() {
    let mut world = World::new(3, 1, millis(20));
    world.start();
    (0..2).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    let heard = |world: &World| world.sites[0].machine.has_heard_all(bucket(1));
    assert!(heard(&world), "one that follows nothing says so, too");
    world.stop(1);
    world.run(seconds(300));
    assert!(heard(&world), "it has said that it is a member, and what it has seen");
    world.restart(0);
    world.run(seconds(300));
    assert!(!heard(&world));
    world.restart(1);
    world.run(seconds(5));
    assert!(heard(&world));
}
