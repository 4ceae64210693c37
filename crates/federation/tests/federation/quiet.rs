//! Rest: what sites say to each other when nothing happens.

use std::time::Duration;

use skerry_federation::rest;

use crate::world::{World, bucket, millis, seconds, site_id};

/// A day.
const DAY: Duration = Duration::from_secs(86_400);

/// What crosses a site's links at rest, in both directions, in bytes a second.
struct Rest {
    /// Messages alone.
    bare: f64,
    /// With what carries them.
    carried: f64,
    /// And with what links ask by themselves.
    all: f64,
}

/// Sites of which some pay for what crosses, settled, with so many buckets.
fn settled(count: usize, buckets: u8, metered: &[usize]) -> World {
    let mut world = World::new(count, 7, millis(30));
    let every = rest::every(2_000_000_000, count as u64 - 1);
    world.metered = metered.iter().map(|n| (*n, every)).collect();
    world.paying = metered.iter().copied().collect();
    world.start();
    for n in 0..count {
        for id in 0..buckets {
            if count <= 3 || (n + usize::from(id)) % 10 == 0 {
                world.join(n, bucket(id));
            }
        }
    }
    world.put(0, bucket(0), 1);
    world.run(seconds(1500));
    world
}

/// At one site over a span: both directions, of messages, with what carries them, and with what its links ask.
fn at_rest(world: &mut World, n: usize, span: Duration) -> Rest {
    let counted = |world: &World| {
        let site = &world.sites[n];
        (site.sent_bytes + site.got_bytes, site.sent + site.got)
    };
    let before = counted(world);
    world.run(span);
    let after = counted(world);
    let (bytes, messages) = (after.0 - before.0, after.1 - before.1);
    let every = |other: usize| world.rests.get(&(n, other)).copied().flatten().unwrap_or(rest::OFTEN);
    let others = (0..world.sites.len()).filter(|other| *other != n);
    let asked: u64 = others.map(|other| rest::keep_alives(1, every(other), span)).sum();
    let carried = rest::carried(messages, bytes);
    let per = |bytes: u64| bytes as f64 / span.as_secs_f64();
    Rest { bare: per(bytes), carried: per(carried), all: per(carried + asked) }
}

fn print(what: &str, Rest { bare, carried, all }: &Rest) {
    println!("{what}: {bare:.1} B/s of messages, {carried:.1} with TCP and TLS, {all:.1} with keep-alives");
}

#[test]
fn three_sites_at_rest() {
    let found = at_rest(&mut settled(3, 20, &[]), 1, seconds(3600));
    print("3 sites, 20 buckets, both directions", &found);
    assert!(found.all <= 100.0, "{}", found.all);
}

#[test]
fn sixty_sites_at_rest() {
    let found = at_rest(&mut settled(60, 20, &[]), 7, seconds(3600));
    print("60 sites, 20 buckets, both directions", &found);
    assert!(found.all <= 500.0, "{}", found.all);
}

/// A month at a metered site among sixty, everything counted, in MB.
fn month(n: usize, what: &str, span: Duration) -> f64 {
    month_of(&mut settled(60, 20, &[n]), n, what, span)
}

fn month_of(world: &mut World, n: usize, what: &str, span: Duration) -> f64 {
    let found = at_rest(world, n, span);
    print(what, &found);
    let month = found.all * rest::MONTH.as_secs_f64() / 1e6;
    println!("a month: {month:.1} MB, {:.0} bytes a day", found.all * DAY.as_secs_f64());
    month
}

/// The goal.
fn takes_a_megabyte_a_day(span: Duration) {
    let month = month(7, "one of 60 sites, metered", span);
    assert!(month <= 30.0, "{month}");
}

/// The one that everybody would tell and ask if it did not pay.
#[test]
fn who_would_be_a_landmark_among_sixty_takes_no_more() {
    let world = settled(60, 0, &[]);
    let landmarks = (0..60).filter(|n| world.sites[*n].machine.areas().level > 0);
    // Of those that are equally far all ask the first.
    let payer = landmarks.min().unwrap();
    let mut world = settled(60, 20, &[payer]);
    for n in 0..60 {
        let areas = world.sites[n].machine.areas();
        let near = areas.sites.iter().find(|near| near.site == site_id(payer));
        assert_eq!(near.map_or(areas.level, |near| near.level), 0, "at site {n}");
    }
    let month =
        month_of(&mut world, payer, "one of 60 sites, metered, which would be a landmark", seconds(3600));
    assert!(month <= 30.0, "{month}");
}

#[test]
fn a_metered_site_among_sixty_takes_a_megabyte_a_day() {
    takes_a_megabyte_a_day(seconds(3600));
}

#[test]
#[ignore = "ten minutes"]
fn the_same_over_a_whole_day() {
    takes_a_megabyte_a_day(DAY);
}

/// All know that it lives, and it knows who died: by way of the others, as it is not asked.
#[test]
fn a_metered_site_is_known_to_live() {
    let mut world = settled(20, 4, &[7]);
    let metered = site_id(7);
    for n in 0..20 {
        assert!(n == 7 || world.sites[n].machine.is_alive(metered), "at site {n}");
        let rests = world.rests.get(&(n, 7)).copied().flatten();
        assert!(n == 7 || rests == world.metered.get(&7).copied(), "at site {n}: {rests:?}");
    }
    // One that has no link to it hears from others that it lives.
    world.cut(7, 3);
    world.run(seconds(600));
    assert!(world.sites[3].machine.is_alive(metered));
    // Who dies without a word is dead for it too, though nobody is asked over its links; and is met again.
    (0..20).filter(|n| *n != 5).for_each(|n| {
        world.silence(5, n);
        world.silence(n, 5);
    });
    world.run(seconds(600));
    assert!(!world.sites[7].machine.is_alive(site_id(5)));
    world.heal_all();
    world.run(seconds(300));
    assert!(world.sites[7].machine.is_alive(site_id(5)));
    assert!(world.sites[3].machine.is_alive(metered));
}

/// On levels all must agree, also who has no link to a site that pays: what is said over links changes none.
#[test]
fn what_is_said_over_links_changes_no_levels() {
    let levels = |metered: &[usize]| {
        let mut world = World::new(20, 7, millis(30));
        world.metered = metered.iter().map(|n| (*n, rest::SELDOM)).collect();
        world.start();
        world.run(seconds(300));
        let level = |n: usize| world.sites[n].machine.areas().level;
        (0..20).map(level).collect::<Vec<u8>>()
    };
    let plain = levels(&[]);
    let top: Vec<usize> = (0..20).filter(|n| plain[*n] > 0).collect();
    assert!(!top.is_empty());
    assert_eq!(levels(&top), plain);
}

#[test]
fn a_dead_site_is_noticed_and_met_again() {
    let mut world = World::new(4, 7, millis(30));
    world.start();
    world.run(seconds(60));
    let all_alive =
        |world: &World| (0..4).all(|n| (0..4).all(|m| world.sites[n].machine.is_alive(site_id(m))));
    assert!(all_alive(&world));
    // A cut between two is not a death: the others vouch.
    world.cut(0, 1);
    world.run(seconds(600));
    assert!(all_alive(&world));
    world.heal(0, 1);
    world.stop(3);
    world.run(seconds(120));
    assert!((0..3).all(|n| !world.sites[n].machine.is_alive(site_id(3))));
    world.restart(3);
    world.run(seconds(60));
    assert!(all_alive(&world));
}

#[test]
fn silence_without_a_closed_link_is_noticed() {
    let mut world = World::new(3, 7, millis(30));
    world.start();
    world.run(seconds(60));
    (0..2).for_each(|n| {
        world.silence(2, n);
        world.silence(n, 2);
    });
    world.run(seconds(120));
    assert!((0..2).all(|n| !world.sites[n].machine.is_alive(site_id(2))));
    world.heal_all();
    world.run(seconds(180));
    assert!((0..3).all(|n| (0..3).all(|m| world.sites[n].machine.is_alive(site_id(m)))));
}

/// Nothing is said at rest but that nothing differs: it is remembered of whom, for tombstones go by it.
#[test]
fn who_starts_anew_learns_at_rest_what_others_have() {
    let mut world = World::new(3, 7, millis(30));
    world.start();
    world.put(0, crate::world::SYSTEM, 1);
    world.run(seconds(30));
    world.restart(1);
    world.run(seconds(60));
    let seen = world.sites[1].machine.seen(crate::world::SYSTEM);
    assert!(seen.len() == 2 && seen.iter().all(|(_, vector)| vector.len() == 1), "{seen:?}");
}
