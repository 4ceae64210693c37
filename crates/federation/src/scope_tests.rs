//! Whom the machine of scopes asks, what it counts, and when it gives up.

use super::*;

fn site(number: u8) -> SiteId {
    SiteId([number; 16])
}

fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
    numbers.iter().copied().map(site).collect()
}

fn reach(wanted: usize, others: &[u8]) -> Reach {
    to(Goal::anywhere(wanted), others)
}

fn to(goal: Goal, others: &[u8]) -> Reach {
    Reach::new(goal, Some(site(0)), others.iter().copied().map(site))
}

fn asks(reach: &mut Reach) -> Vec<SiteId> {
    asks_at(reach, 1)
}

fn asks_at(reach: &mut Reach, second: u64) -> Vec<SiteId> {
    std::iter::from_fn(|| reach.ask(Instant(second * 1_000_000_000))).collect()
}

/// So many of these sites, and nothing of any others.
fn of_area(copies: usize, numbers: &[u8]) -> Goal {
    Goal { demand: Demand::anywhere(0).and_in(copies, sites(numbers)), ..Goal::default() }
}

#[test]
fn who_is_slow_is_not_waited_for_alone() {
    let mut reach = reach(3, &[1, 2, 3, 4]).with_patience(Duration::from_secs(2));
    assert_eq!(asks_at(&mut reach, 1), [site(1), site(2)]);
    assert_eq!(
        (asks_at(&mut reach, 2), reach.next_wake(Instant(2_000_000_000))),
        (vec![], Some(Instant(3_000_000_000)))
    );
    reach.held(site(2));
    assert_eq!(asks_at(&mut reach, 3), [site(3)], "one is late, one is lacking");
    assert_eq!(asks_at(&mut reach, 4), []);
    reach.held(site(1));
    assert_eq!((reach.reached(), reach.places()), (Reached::Enough, 3), "late is not never");
}

#[test]
fn nobody_is_woken_for_when_nobody_is_left() {
    let mut reach = reach(2, &[1]).with_patience(Duration::from_secs(2));
    assert_eq!((asks(&mut reach), reach.next_wake(Instant(0))), (vec![site(1)], None));
    assert_eq!((asks_at(&mut reach, 9), reach.reached()), (vec![], Reached::Waiting));
    reach.failed(site(1));
    assert_eq!((reach.reached(), reach.places()), (Reached::Short, 1));
}

#[test]
fn as_many_are_asked_as_are_lacking_and_the_nearest_first() {
    let mut reach = reach(3, &[1, 2, 3, 4]);
    assert_eq!(asks(&mut reach), [site(1), site(2)]);
    reach.held(site(2));
    assert_eq!((asks(&mut reach), reach.reached()), (vec![], Reached::Waiting));
    reach.failed(site(1));
    assert_eq!(asks(&mut reach), [site(3)]);
    reach.held(site(3));
    assert_eq!((reach.reached(), reach.places()), (Reached::Enough, 3));
}

#[test]
fn who_is_short_of_sites_says_how_far_it_came() {
    let mut reach = reach(3, &[1, 2]);
    asks(&mut reach);
    reach.failed(site(1));
    assert_eq!(reach.reached(), Reached::Waiting);
    reach.held(site(2));
    assert_eq!((reach.reached(), reach.places(), reach.lack().all), (Reached::Short, 2, 1));
}

#[test]
fn a_site_counts_once_and_only_if_it_was_asked() {
    let mut reach = reach(3, &[1, 1, 0, 2]);
    reach.held(site(2));
    assert_eq!(reach.places(), 1);
    assert_eq!(asks(&mut reach), [site(1), site(2)]);
    reach.held(site(1));
    reach.held(site(1));
    reach.held(site(9));
    assert_eq!((reach.places(), reach.reached()), (2, Reached::Waiting));
}

#[test]
fn who_does_not_hold_it_does_not_count() {
    let mut reach = Reach::new(Goal::anywhere(1), None, [site(1)]);
    assert_eq!((reach.places(), reach.reached(), asks(&mut reach)), (0, Reached::Waiting, vec![site(1)]));
}

#[test]
fn one_site_is_reached_at_once() {
    assert_eq!(reach(1, &[1]).reached(), Reached::Enough);
}

/// Scope `area`, the place of LOCAL_QUORUM: also where nobody of the area is left.
#[test]
fn nobody_outside_of_an_area_is_asked_for_it() {
    let mut reach = to(of_area(3, &[0, 2, 4, 5]), &[1, 2, 3, 4, 5]).with_patience(Duration::from_secs(2));
    assert_eq!(asks(&mut reach), [site(2), site(4)]);
    reach.failed(site(2));
    assert_eq!(asks(&mut reach), [site(5)]);
    reach.held(site(5));
    assert_eq!(asks_at(&mut reach, 9), [], "one is late, and the others are elsewhere");
    assert_eq!(reach.reached(), Reached::Waiting);
    reach.failed(site(4));
    assert_eq!((reach.reached(), reach.lack().areas, reach.places()), (Reached::Short, vec![1], 2));
}

/// Scope `durable` with copies in areas, the place of EACH_QUORUM.
#[test]
fn each_area_is_asked_for_what_it_lacks_and_then_anybody() {
    let demand = Demand::anywhere(4).and_in(1, sites(&[0, 1])).and_in(2, sites(&[4, 5, 6]));
    let mut reach = to(Goal { demand, ..Goal::default() }, &[1, 2, 4, 5, 6]);
    assert_eq!(asks(&mut reach), [site(4), site(5), site(1)], "the own area has one");
    reach.held(site(1));
    reach.held(site(4));
    reach.failed(site(5));
    assert_eq!(asks(&mut reach), [site(6)], "another one of that area, though the second site is nearer");
    assert_eq!((reach.lack().all, reach.lack().areas), (1, vec![0, 1]));
    reach.held(site(6));
    assert_eq!(reach.reached(), Reached::Enough);
}

#[test]
fn a_site_that_moved_counts_where_it_is() {
    let mut reach = to(of_area(2, &[0, 1]), &[1, 2]);
    assert_eq!(asks(&mut reach), [site(1)]);
    reach.revise(of_area(2, &[0, 2]));
    assert_eq!(asks(&mut reach), [site(2)], "who is asked is in another area now");
    reach.held(site(1));
    assert_eq!(reach.reached(), Reached::Waiting);
    reach.held(site(2));
    assert_eq!(reach.reached(), Reached::Enough);
    reach.revise(of_area(2, &[1, 2]));
    assert_eq!(reach.reached(), Reached::Enough, "whoever asks may have moved as well");
    reach.revise(of_area(2, &[0]));
    assert_eq!(reach.reached(), Reached::Short);
}

#[test]
fn who_was_asked_and_is_elsewhere_now_is_not_waited_for() {
    let mut reach = to(of_area(2, &[0, 1]), &[1, 2]);
    assert_eq!((asks(&mut reach), reach.reached()), (vec![site(1)], Reached::Waiting));
    reach.revise(of_area(2, &[0]));
    assert_eq!(reach.reached(), Reached::Short, "its answer would not help");
    reach.revise(Goal { uncounted: sites(&[1]), ..of_area(2, &[0, 1]) });
    assert_eq!(reach.reached(), Reached::Short, "nor where it is lost");
}

#[test]
fn the_nodes_of_a_site_are_one_place() {
    let together: Together = [(site(2), site(1))].into_iter().collect();
    let goal = Goal { together, ..of_area(3, &[0, 1, 2, 3]) };
    let mut reach = to(goal, &[1, 2, 3]).with_patience(Duration::from_secs(2));
    assert_eq!(asks(&mut reach), [site(1), site(3)], "of a site one node");
    reach.held(site(3));
    assert_eq!(asks_at(&mut reach, 9), [site(2)], "its other one where the first is late");
    reach.held(site(2));
    assert_eq!((reach.reached(), reach.places()), (Reached::Enough, 3));
    reach.held(site(1));
    assert_eq!(reach.places(), 3, "they burn together");
}

#[test]
fn who_is_lost_counts_no_more_and_is_not_asked() {
    let mut reach = reach(2, &[1, 2]);
    let gone = |numbers: &[u8]| Goal { uncounted: sites(numbers), ..Goal::anywhere(2) };
    reach.revise(gone(&[1]));
    assert_eq!(asks(&mut reach), [site(2)]);
    reach.held(site(2));
    reach.revise(gone(&[2]));
    assert_eq!((reach.reached(), reach.places(), asks(&mut reach)), (Reached::Waiting, 1, vec![site(1)]));
    reach.revise(gone(&[]));
    assert_eq!(reach.reached(), Reached::Enough, "it is back with its disk");
}
