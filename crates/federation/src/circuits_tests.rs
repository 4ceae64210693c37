//! One site's choices, by hand; many sites together are simulated.

use super::*;

const fn site(n: u8) -> SiteId {
    SiteId([n; 16])
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

/// Site 1 with direct links to these, each so many milliseconds away.
fn circuits(roster: &[u8], near: &[(u8, u64)]) -> Circuits {
    let mut circuits = Circuits::new(site(1));
    circuits.set_roster(roster.iter().copied().map(site), at(0));
    for (number, rtt) in near {
        circuits.link_up(site(*number), 0, ms(*rtt), at(0));
    }
    circuits
}

fn step(circuits: &mut Circuits, seconds: u64) -> Vec<Output> {
    let mut out = Vec::new();
    circuits.step(at(seconds), &mut out);
    out
}

fn ask(relay: u8, target: u8) -> Output {
    Output::Ask { relay: site(relay), target: site(target), most: MOST_HOPS }
}

fn dial(relay: u8, target: u8) -> Output {
    Output::Dial { relay: site(relay), target: site(target), most: MOST_HOPS }
}

const fn way(hops: u8, rtt_ms: u32) -> Result<Way, Why> {
    Ok(Way { hops, rtt_micros: rtt_ms * 1000 })
}

#[test]
fn the_shortest_of_what_is_offered_is_dialled_and_then_the_next() {
    let mut circuits = circuits(&[1, 2, 3, 4, 9], &[(2, 10), (3, 50), (4, 20)]);
    assert_eq!(step(&mut circuits, 1), [], "a direct link is waited for");
    assert_eq!(step(&mut circuits, 2), [ask(2, 9), ask(4, 9), ask(3, 9)], "nearest first");
    circuits.answered(site(9), site(2), way(2, 1), at(2));
    circuits.answered(site(9), site(3), way(1, 10), at(2));
    assert_eq!(step(&mut circuits, 2), [], "one has not answered");
    circuits.answered(site(9), site(4), way(1, 50), at(2));
    assert_eq!(step(&mut circuits, 2), [dial(3, 9)], "60 ms over one site before 70, and before two sites");
    circuits.dialled(site(9), site(3), Err(Why::Silent), at(3));
    assert_eq!(step(&mut circuits, 3), [dial(4, 9)]);
    circuits.dialled(site(9), site(4), Ok(()), at(3));
    circuits.link_up(site(9), 1, ms(70), at(3));
    assert_eq!((step(&mut circuits, 9999), circuits.next_wake()), (vec![], None));
}

#[test]
fn who_is_late_has_refused_and_pauses_grow() {
    let mut circuits = circuits(&[1, 2, 9], &[(2, 10)]);
    assert_eq!(step(&mut circuits, 2), [ask(2, 9)]);
    assert_eq!(circuits.next_wake(), Some(at(12)));
    assert_eq!(step(&mut circuits, 12), [], "the round is over");
    assert_eq!(circuits.tried(site(9)), [(site(2), Why::Silent)]);
    assert_eq!(circuits.next_wake(), Some(at(14)));
    let mut waits = Vec::new();
    let mut now = 14;
    for _ in 0..12 {
        assert_eq!(step(&mut circuits, now), [ask(2, 9)]);
        circuits.answered(site(9), site(2), Err(Why::Apart), at(now));
        assert_eq!(step(&mut circuits, now), []);
        let next = circuits.next_wake().map_or(0, |next| next.0 / 1_000_000_000);
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits, [4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300]);
    assert_eq!(circuits.tried(site(9)), [(site(2), Why::Apart)]);
    // Another neighbour is another chance at once.
    circuits.set_roster([1, 2, 3, 9].map(site), at(now));
    circuits.link_up(site(3), 0, ms(5), at(now));
    assert_eq!(step(&mut circuits, now + 2), [ask(3, 9), ask(2, 9)]);
}

#[test]
fn a_site_that_nobody_has_heard_of_is_searched_for_once_an_hour_until_it_is() {
    let mut circuits = circuits(&[1, 2, 9], &[(2, 10)]);
    circuits.lives(site(9), false, at(1));
    step(&mut circuits, 2);
    circuits.answered(site(9), site(2), Err(Why::Apart), at(2));
    step(&mut circuits, 2);
    step(&mut circuits, 4);
    circuits.answered(site(9), site(2), Err(Why::Apart), at(4));
    step(&mut circuits, 4);
    assert_eq!(circuits.next_wake(), Some(at(4 + 3600)));
    circuits.lives(site(9), true, at(100));
    assert_eq!(step(&mut circuits, 102), [ask(2, 9)]);
}

#[test]
fn who_is_reached_by_several_sites_is_looked_for_by_fewer() {
    let mut circuits = circuits(&[1, 2, 9], &[(2, 10)]);
    circuits.link_up(site(9), 3, ms(100), at(5));
    assert_eq!(step(&mut circuits, 299), []);
    let asked = [Output::Ask { relay: site(2), target: site(9), most: 2 }];
    assert_eq!(step(&mut circuits, 305), asked);
    circuits.answered(site(9), site(2), way(3, 10), at(305));
    assert_eq!(step(&mut circuits, 305), [], "no better than what stands");
    assert_eq!(step(&mut circuits, 605), asked);
    circuits.answered(site(9), site(2), way(1, 10), at(605));
    assert_eq!(step(&mut circuits, 605), [Output::Dial { relay: site(2), target: site(9), most: 2 }]);
}

#[test]
fn only_neighbours_are_asked_and_answers_that_nobody_asked_for_are_nothing() {
    let mut circuits = circuits(&[1, 2, 3, 9], &[(2, 10)]);
    circuits.link_up(site(3), 1, ms(5), at(0));
    circuits.answered(site(9), site(3), way(1, 1), at(1));
    assert_eq!(step(&mut circuits, 2), [ask(2, 9)]);
    circuits.answered(site(9), site(2), way(0, 1), at(2));
    assert_eq!((step(&mut circuits, 2), circuits.tried(site(9))), (vec![], vec![(site(2), Why::Far)]));
    circuits.dialled(site(9), site(2), Ok(()), at(2));
    circuits.dialled(site(8), site(2), Ok(()), at(2));
}

#[test]
fn a_relay_says_why_not() {
    let mut relay = circuits(&[1, 2, 3, 4, 9], &[(2, 10), (3, 30)]);
    relay.link_up(site(4), 2, ms(40), at(0));
    let ends = |one: u8, other: u8| (site(one), site(other));
    assert_eq!(relay.way(ends(2, 3), 3, Ok(())), way(1, 30));
    assert_eq!(relay.way(ends(2, 4), 3, Ok(())), way(3, 40));
    assert_eq!(relay.way(ends(2, 4), 2, Ok(())), Err(Why::Far));
    assert_eq!(relay.way(ends(4, 2), 3, Ok(())), Err(Why::Far), "who asks is no neighbour");
    assert_eq!(relay.way(ends(2, 9), 3, Ok(())), Err(Why::Apart));
    assert_eq!(relay.way(ends(2, 7), 3, Ok(())), Err(Why::Unable));
    assert_eq!(relay.way(ends(2, 2), 3, Ok(())), Err(Why::Unable));
    assert_eq!(relay.way(ends(2, 3), 3, Err(Why::Off)), Err(Why::Off));
    assert_eq!(relay.way(ends(2, 3), 200, Ok(())), way(1, 30));
}

#[test]
fn room_is_taken_and_given_back() {
    let mut relay = circuits(&[1, 2, 3, 4], &[(2, 10), (3, 30), (4, 30)]);
    let numbers: Vec<u64> = (0..CARRIED_PER_SITE)
        .filter_map(|_| relay.begin((site(2), site(3)), 1, Ok(())).ok())
        .map(|(n, _)| n)
        .collect();
    assert_eq!((numbers.len(), relay.carried()), (CARRIED_PER_SITE, CARRIED_PER_SITE));
    assert_eq!(relay.begin((site(4), site(3)), 1, Ok(())), Err(Why::Full));
    relay.end(numbers[0]);
    relay.end(numbers[0]);
    assert!(relay.begin((site(4), site(3)), 1, Ok(())).is_ok());
}

#[test]
fn so_many_searches_at_once() {
    let roster: Vec<u8> = (1..=40).collect();
    let mut circuits = circuits(&roster, &[(2, 10)]);
    assert_eq!(step(&mut circuits, 5).len(), SEARCHES);
    assert_eq!(step(&mut circuits, 5), []);
    circuits.answered(site(3), site(2), Err(Why::Apart), at(5));
    assert_eq!(step(&mut circuits, 5), [ask(2, 11)], "the round of one is over: the next begins");
}
