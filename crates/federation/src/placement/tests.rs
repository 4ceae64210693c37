//! Who is asked, in which order, and how much at once.

use super::*;
use skerry_base::{NodeId, Origin};

const BUCKET: BucketId = BucketId([9; 16]);

fn site(number: u8) -> SiteId {
    SiteId([number; 16])
}

fn dot(seq: u64) -> Dot {
    Dot { origin: Origin { node: NodeId([1; 16]), incarnation: 1 }, seq }
}

fn want(seq: u64, bytes: u64) -> Want {
    Want { dot: dot(seq), bytes, here: true, places: 0 }
}

fn candidate(number: u8, linked: bool) -> Candidate {
    Candidate { site: site(number), linked, distance: Duration::from_millis(number.into()) }
}

struct Table {
    machine: Placement,
    now: Instant,
}

impl Table {
    /// Site 1 with these others, all linked, the lower the nearer.
    fn new(others: &[u8]) -> Self {
        let mut table = Self { machine: Placement::new(site(1)), now: Instant(0) };
        let all = others.iter().chain(&[1]).map(|other| candidate(*other, true)).collect();
        table.take(Input::Sites(all, BTreeSet::new()));
        table
    }

    fn take(&mut self, input: Input) -> Vec<(u64, u8)> {
        let mut out = Vec::new();
        self.machine.handle(input, self.now, &mut out);
        let asks = out.iter().filter_map(|output| match output {
            Output::Ask(_, dot, site) => Some((dot.seq, site.0[0])),
            Output::Noted(..) => None,
        });
        asks.collect()
    }

    fn offer(&mut self, copies: usize, wants: Vec<Want>) -> Vec<(u64, u8)> {
        self.take(Input::Offer { bucket: BUCKET, demand: Demand::anywhere(copies), wants })
    }

    fn held(&mut self, seq: u64, by: u8) -> Vec<(u64, u8)> {
        self.take(Input::Held(BUCKET, dot(seq), site(by)))
    }

    fn failed(&mut self, seq: u64, by: u8, failure: Failure) -> Vec<(u64, u8)> {
        self.take(Input::Failed(BUCKET, dot(seq), site(by), failure))
    }
}

#[test]
fn the_nearest_are_asked_and_each_counts_once_it_said_so() {
    let mut table = Table::new(&[4, 2, 3]);
    assert_eq!(table.offer(3, vec![want(1, 10)]), [(1, 2), (1, 3)]);
    assert_eq!(table.offer(3, vec![want(1, 10)]), [], "what is on its way is not asked for again");
    assert_eq!(table.held(1, 2), []);
    assert_eq!(table.failed(1, 3, Failure::Version), [(1, 4)]);
    assert_eq!(table.held(1, 4), []);
    assert!(table.machine.is_idle());
    assert_eq!(table.machine.holders(BUCKET, dot(1)).collect::<Vec<_>>(), [site(2), site(4)]);
    assert_eq!(table.offer(3, vec![want(1, 10)]), [], "as many hold it as are to");
}

#[test]
fn a_site_that_cannot_rests_and_the_next_takes_over() {
    let mut table = Table::new(&[2, 3]);
    assert_eq!(table.offer(2, vec![want(1, 10), want(2, 10)]), [(1, 2), (2, 2)]);
    assert_eq!(table.failed(1, 2, Failure::Site), [(1, 3)]);
    assert_eq!(table.held(2, 2), []);
    assert_eq!(table.offer(2, vec![want(3, 10)]), [(3, 3)], "2 rests");
    table.now = table.machine.next_wake(table.now).unwrap_or_default();
    assert_eq!(table.offer(2, vec![want(4, 10)]), [(4, 2)]);
}

#[test]
fn the_most_endangered_first_then_the_oldest() {
    let mut table = Table::new(&[2]);
    table.take(Input::Known(BUCKET, site(3), [dot(1), dot(3)].into_iter().collect()));
    let all = (1..=4).map(|seq| want(seq, 10)).collect();
    assert_eq!(table.offer(3, all), [(2, 2), (4, 2), (1, 2), (3, 2)]);
}

/// A ship has a link for an hour a day, and bodies that take longer: what is smaller has its copy each time, and each of them
/// its try.
#[test]
fn a_large_body_whose_way_breaks_off_keeps_nothing_else_waiting() {
    let mut table = Table::new(&[2]);
    let large = |seq| want(seq, 1 << 30);
    let mut first = Vec::new();
    for day in 1..=4_u64 {
        // The oldest first, as a look finds them: two large ones, and a small one of that day.
        let small = 10 + day;
        first.push(table.offer(2, vec![large(1), large(2), want(small, 5000)])[0].0);
        if day > 2 {
            first.extend(table.held(small, 2).iter().map(|(seq, _)| *seq));
        }
        let flies = *first.last().unwrap_or(&0);
        table.failed(flies, 2, Failure::Site);
        table.now = table.now.after(limits::REST);
    }
    assert_eq!(first, [1, 2, 13, 1, 14, 2]);
}

/// What comes later throws nothing out that waits, and is not asked for twice.
#[test]
fn further_versions_come_behind_those_that_wait() {
    let mut table = Table::new(&[2]);
    let large = |seq| want(seq, 5 << 20);
    assert_eq!(table.offer(2, vec![large(1), large(2), large(3)]), [(1, 2)]);
    let more =
        Input::More { bucket: BUCKET, demand: Demand::anywhere(2), wants: [1, 3, 9].map(large).into() };
    assert_eq!(table.take(more), []);
    assert_eq!(table.machine.pending(BUCKET), [1, 2, 3, 9].map(dot).into());
    assert_eq!(table.failed(1, 2, Failure::Version), [(2, 2)], "it had its turn");
    let mut asked = Vec::new();
    for seq in [2, 3, 9] {
        asked.extend(table.held(seq, 2));
    }
    assert_eq!(asked, [(3, 2), (9, 2)]);
    assert!(table.machine.is_idle());
    let larger = |seq| want(seq, 8 << 20);
    assert_eq!(table.offer(2, vec![larger(4), larger(5)]), [(4, 2)]);
    assert_eq!(table.offer(2, vec![larger(6)]), [], "what is offered anew takes the place of what waits");
    assert_eq!((table.held(4, 2), table.held(6, 2)), (vec![(6, 2)], vec![]));
}

#[test]
fn what_this_site_should_hold_and_does_not_comes_here_first() {
    let mut table = Table::new(&[2, 3]);
    table.take(Input::Known(BUCKET, site(3), [dot(1)].into_iter().collect()));
    let mine = Want { here: false, ..want(1, 10) };
    assert_eq!(table.offer(2, vec![mine]), [(1, 1)]);
    assert_eq!(table.held(1, 1), []);
    assert!(table.machine.is_idle());
}

#[test]
fn a_lost_site_holds_nothing_until_it_is_found_again() {
    let mut table = Table::new(&[2, 3]);
    table.offer(2, vec![want(1, 10)]);
    table.held(1, 2);
    let all = vec![candidate(1, true), candidate(2, true), candidate(3, true)];
    table.take(Input::Sites(all.clone(), [site(2)].into()));
    assert_eq!(table.machine.holders(BUCKET, dot(1)).count(), 0);
    assert_eq!(table.offer(2, vec![want(1, 10)]), [(1, 3)]);
    table.held(1, 3);
    table.take(Input::Sites(all, BTreeSet::new()));
    assert_eq!(table.machine.holders(BUCKET, dot(1)).count(), 2, "what it held is not forgotten");
}

#[test]
fn who_is_cut_off_is_not_asked_and_another_copies_instead() {
    let mut table = Table::new(&[2, 3]);
    table.offer(2, vec![want(1, 10)]);
    table.held(1, 2);
    let cut = vec![candidate(1, true), candidate(2, false), candidate(3, true)];
    table.take(Input::Sites(cut, BTreeSet::new()));
    assert_eq!(table.offer(2, vec![want(1, 10)]), [], "cut off is not lost");
    assert_eq!(table.offer(2, vec![want(2, 10)]), [(2, 3)]);
}

#[test]
fn no_more_at_once_than_the_limits_say() {
    let mut table = Table::new(&[2, 3]);
    let large = (1..=20).map(|seq| want(seq, 5 << 20)).collect();
    assert_eq!(table.offer(2, large), [(1, 2)], "of a site of which nothing is known yet");
    assert_eq!(table.held(1, 2), [(2, 2), (3, 2)], "it took that at once");
    assert_eq!(table.held(2, 2), [(4, 2)]);
    let mut table = Table::new(&[2, 3]);
    let small = (1..=3000).map(|seq| want(seq, 10)).collect();
    let asks = table.offer(2, small);
    let of = |number| asks.iter().filter(|(_, site)| *site == number).count();
    assert_eq!((of(2), of(3)), (limits::ASKS_OF_ONE_SITE, limits::ASKS_AT_ONCE - limits::ASKS_OF_ONE_SITE));
    let huge = Want { bytes: u64::MAX / 4, ..want(9000, 0) };
    assert_eq!(Table::new(&[2]).offer(2, vec![huge]), [(9000, 2)], "one at least, however large");
}

/// Sites that take so many bytes a second, one version after the other; the most that was on its way to each, and what each has.
fn copied(rates: &[(u8, u64)], copies: usize, seconds: u64) -> BTreeMap<u8, (u64, u64)> {
    const SIZE: u64 = 1 << 20;
    let others: Vec<u8> = rates.iter().map(|(site, _)| *site).collect();
    let mut table = Table::new(&others);
    let mut coming: BTreeMap<u8, std::collections::VecDeque<(u64, u64)>> = BTreeMap::new();
    let mut found: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    let mut asks = table.offer(copies, (1..=1500).map(|seq| want(seq, SIZE)).collect());
    for second in 1..=seconds {
        table.now = Instant(second * 1_000_000_000);
        for (site, rate) in rates {
            let mut gives = *rate;
            while let Some((seq, left)) = coming.entry(*site).or_default().front_mut() {
                let bytes = gives.min(*left);
                (*left, gives) = (*left - bytes, gives - bytes);
                if *left > 0 {
                    break;
                }
                let seq = *seq;
                coming.entry(*site).or_default().pop_front();
                found.entry(*site).or_default().1 += SIZE;
                asks.extend(table.held(seq, *site));
            }
        }
        for (seq, site) in std::mem::take(&mut asks) {
            let coming = coming.entry(site).or_default();
            coming.push_back((seq, SIZE));
            let most = &mut found.entry(site).or_default().0;
            *most = (*most).max(coming.len() as u64 * SIZE);
        }
    }
    found
}

#[test]
fn a_slow_site_has_little_on_its_way_and_keeps_the_others_from_nothing() {
    let found = copied(&[(2, 20_000), (3, 10 << 20)], 3, 600);
    assert!(found[&2].0 <= limits::WINDOW_FIRST, "{found:?}");
    assert!(found[&2].1 >= 20_000 * 500, "{found:?}: and is never idle");
    assert!(found[&3].1 >= 1400 << 20, "{found:?}: the fast one has all but what is on its way");
    // What it is asked for once it is known how slow it is.
    let mut pace = Pace::default();
    for second in (0..10).map(|n| n * 50) {
        pace.asked(1 << 20, Instant(second * 1_000_000_000));
        pace.landed(1 << 20, true, Instant((second + 50) * 1_000_000_000));
    }
    pace.asked(1 << 20, Instant(0));
    assert!(!pace.has_room(1) && pace.counted(u64::MAX) == limits::WINDOW_MIN);
}

#[test]
fn nobody_to_ask_is_no_loop_and_no_queue() {
    let mut table = Table::new(&[]);
    assert_eq!(table.offer(2, (1..=100).map(|seq| want(seq, 10)).collect()), []);
    assert!(table.machine.is_idle());
    assert_eq!(table.held(7, 2), [], "an answer to no question: a write that waited for its scope");
    assert_eq!(table.machine.holders(BUCKET, dot(7)).count(), 1);
}

#[test]
fn the_nodes_of_one_site_are_asked_for_one_copy_and_count_once() {
    // 2 and 3 are nodes of one site, 4 is one of this site.
    let mut table = Table::new(&[4, 2, 3, 5]);
    table.machine.set_together([(site(3), site(2)), (site(4), site(1))].into_iter().collect());
    assert_eq!(table.offer(3, vec![want(1, 10)]), [(1, 2), (1, 5)]);
    table.failed(1, 2, Failure::Version);
    assert_eq!(table.held(1, 5), [(1, 3)], "its other node can as well");
    table.held(1, 3);
    assert!(table.machine.is_idle());
    for holder in [2, 4] {
        table.machine.learn_one(BUCKET, dot(2), site(holder));
    }
    table.machine.learn_one(BUCKET, dot(2), site(3));
    assert_eq!(table.machine.places(BUCKET, dot(2), false), 2);
    assert_eq!(table.machine.places(BUCKET, dot(2), true), 2, "its own place has it already");
    assert_eq!(table.offer(3, vec![want(2, 10)]), [(2, 5)]);
}

#[test]
fn what_a_node_has_lost_comes_back_to_it_though_its_neighbour_has_it() {
    // 4 is a node of this site.
    let mut table = Table::new(&[4, 5]);
    table.machine.set_together([(site(4), site(1))].into_iter().collect());
    for holder in [4, 5] {
        table.machine.learn_one(BUCKET, dot(1), site(holder));
    }
    assert_eq!(table.offer(2, vec![Want { here: false, ..want(1, 10) }]), [(1, 1)]);
    assert_eq!(table.held(1, 1), []);
    assert_eq!(table.offer(2, vec![want(1, 10)]), []);
    // And meanwhile nobody is released who is needed for it.
    let stake = Stake { mine: true, here: false, copies: 2 };
    let keeps = table.machine.spare(BUCKET, site(5), &Demand::anywhere(2), [(dot(1), stake)]);
    assert_eq!(keeps, [dot(1)].into_iter().collect());
}

#[test]
fn of_a_forgotten_bucket_nobody_else_is_asked() {
    let mut table = Table::new(&[2, 3]);
    assert_eq!(table.offer(2, vec![want(1, 10)]), [(1, 2)]);
    table.machine.forget(BUCKET);
    assert_eq!(table.failed(1, 2, Failure::Version), []);
    assert!(table.machine.is_idle());
}

#[test]
fn who_wants_to_let_go_is_counted_on_no_more_unless_it_is_needed_or_being_asked() {
    let mut table = Table::new(&[2, 3, 4]);
    table.take(Input::Known(BUCKET, site(4), (1..=4).map(dot).collect()));
    table.take(Input::Known(BUCKET, site(2), [dot(1)].into_iter().collect()));
    // 4 is being asked to hold version 5, as 2 and 3 are.
    let asked = table.offer(4, vec![want(5, 10)]);
    assert!(asked.contains(&(5, 4)), "{asked:?}");
    let stake = |mine| Stake { mine, here: true, copies: 2 };
    let versions = [(1, true), (2, true), (3, false), (5, false)].map(|(seq, mine)| (dot(seq), stake(mine)));
    let keeps = table.machine.spare(BUCKET, site(4), &Demand::default(), versions);
    assert_eq!(keeps, [2, 5].map(dot).into_iter().collect(), "too few others hold 2; 5 is on its way there");
    let known: Vec<bool> =
        (1..=4).map(|seq| table.machine.holders(BUCKET, dot(seq)).any(|other| other == site(4))).collect();
    assert_eq!(known, [false, true, false, true], "4 was not asked about");
    assert_eq!(table.machine.places(BUCKET, dot(1), false), 1);
}

/// Sites 2 and 3 in an area, 4 near and outside: more waits than two of them take at once.
#[test]
fn a_busy_area_sends_nothing_to_others() {
    let mut table = Table::new(&[4, 2, 3]);
    let demand = Demand::anywhere(2).and_in(2, [site(2), site(3)].into());
    let wants: Vec<Want> = (1..=60).map(|seq| want(seq, 10)).collect();
    let mut asks: std::collections::VecDeque<_> =
        table.take(Input::Offer { bucket: BUCKET, demand, wants }).into();
    let mut landed = 0;
    while let Some((seq, by)) = asks.pop_front() {
        assert_ne!(by, 4, "{seq}: nobody outside is asked while the area can be");
        landed += 1;
        asks.extend(table.held(seq, by));
    }
    assert_eq!(landed, 120);
    assert!(table.machine.is_idle());
}

/// Sites 2 and 3 in an area and slow, 4 outside: a bucket that waits for them keeps no other one from 4.
#[test]
fn a_busy_area_keeps_no_other_bucket_waiting() {
    for (size, plain) in [(10, BucketId([1; 16])), (10, BucketId([10; 16])), (5 << 20, BucketId([10; 16]))] {
        let mut table = Table::new(&[2, 3, 4]);
        let demand = Demand::anywhere(2).and_in(2, [site(2), site(3)].into());
        let wants: Vec<Want> = (1..=1000).map(|seq| want(seq, size)).collect();
        let slow = table.take(Input::Offer { bucket: BUCKET, demand, wants });
        assert!(slow.iter().all(|(_, by)| *by != 4) && !slow.is_empty());
        assert!(!table.machine.is_hungry(BUCKET) && table.machine.is_hungry(plain));
        let four = Demand::anywhere(2).and_in(1, [site(4)].into());
        let wants: Vec<Want> = (5001..=5010).map(|seq| want(seq, 10)).collect();
        let asks = table.take(Input::Offer { bucket: plain, demand: four, wants });
        let mut asked: Vec<_> = asks.into_iter().filter(|(seq, _)| *seq > 5000).collect();
        // Room comes with the first that land: what is on its way already is not called back.
        for (seq, by) in slow.into_iter().take(20) {
            asked.extend(table.held(seq, by).into_iter().filter(|(seq, _)| *seq > 5000));
        }
        assert_eq!(asked.len(), 10, "{size} {plain}: {asked:?}");
        assert!(asked.iter().all(|(_, by)| *by == 4));
    }
}

/// What a site at its cap was not given the next one has at once, and small bodies may still fit there.
#[test]
fn a_site_at_its_cap_is_left_alone_for_a_long_while_for_what_is_as_large() {
    let mut table = Table::new(&[2, 3]);
    assert_eq!(table.offer(2, vec![want(1, 5000), want(2, 9000)]), [(1, 2), (2, 2)]);
    assert_eq!(table.failed(2, 2, Failure::Capped), [(2, 3)]);
    assert_eq!(table.failed(1, 2, Failure::Capped), [(1, 3)]);
    table.held(1, 3);
    table.held(2, 3);
    table.machine.took(site(2), 9000, Instant(0));
    assert_eq!(table.machine.capped(table.now), [site(2)].into());
    assert_eq!(table.offer(2, vec![want(3, 5000), want(4, 4999)]), [(3, 3), (4, 2)]);
    table.held(3, 3);
    table.held(4, 2);
    assert!(
        table.machine.is_capped(site(2), 5000, table.now),
        "a smaller one that fitted says nothing of it"
    );
    table.now = table.now.after(limits::REST);
    assert_eq!(table.offer(2, vec![want(5, 5000)]), [(5, 3)], "it is no passing failure");
    table.held(5, 3);
    table.now = table.machine.next_wake(table.now).unwrap_or_default();
    assert_eq!(table.now, Instant(0).after(limits::CAPPED));
    assert_eq!(table.offer(2, vec![want(6, 5000)]), [(6, 2)]);
    assert_eq!(table.failed(6, 2, Failure::Capped), [(6, 3)]);
    table.held(6, 3);
    assert_eq!(
        table.machine.next_wake(table.now),
        Some(table.now.after(2 * limits::CAPPED)),
        "twice as long"
    );
    table.now = table.now.after(2 * limits::CAPPED);
    assert_eq!(table.offer(2, vec![want(7, 6000)]), [(7, 2)]);
    table.held(7, 2);
    assert_eq!(table.machine.capped(table.now), BTreeSet::new(), "it took one of that size");
}

#[test]
fn what_was_under_way_when_a_site_refused_says_nothing_of_its_cap() {
    let mut table = Table::new(&[2, 3]);
    assert_eq!(table.offer(2, vec![want(1, 5000), want(2, 5000)]), [(1, 2), (2, 2)]);
    table.now = Instant(5);
    assert_eq!(table.failed(2, 2, Failure::Capped), [(2, 3)]);
    table.now = Instant(9);
    table.held(1, 2);
    assert_eq!(table.machine.capped(table.now), [site(2)].into());
    table.machine.took(site(2), 5000, Instant(4));
    assert_eq!(table.machine.capped(table.now), [site(2)].into());
    table.machine.took(site(2), 5000, Instant(6));
    assert_eq!(table.machine.capped(table.now), BTreeSet::new());
}

#[test]
fn a_new_link_ends_what_a_cap_said_and_one_more_is_never_asked_because_of_it() {
    let mut table = Table::new(&[2]);
    assert_eq!(table.offer(2, vec![want(1, 10)]), [(1, 2)]);
    assert_eq!(table.failed(1, 2, Failure::Capped), [], "nobody else is there");
    assert_eq!(table.offer(2, vec![want(1, 10)]), []);
    assert!(table.machine.is_idle(), "the next look finds it");
    assert_eq!(table.take(Input::Met(site(2))), []);
    assert_eq!(table.offer(2, vec![want(1, 10)]), [(1, 2)]);
    table.held(1, 2);
    assert_eq!(table.machine.places(BUCKET, dot(1), true), 2);
    // Whoever is at its cap goes on counting for what it holds.
    table.machine.refused_by_cap(site(2), 0, table.now);
    assert_eq!(table.machine.places(BUCKET, dot(1), true), 2);
    assert_eq!(table.offer(2, vec![want(1, 10)]), []);
    for _ in 0..10 {
        table.now = table.machine.next_wake(table.now).unwrap_or_default();
        table.machine.refused_by_cap(site(2), 0, table.now);
    }
    assert_eq!(table.machine.next_wake(table.now), Some(table.now.after(limits::CAPPED_AT_MOST)));
}

#[test]
fn what_one_knows_of_caps_another_one_begins_with() {
    let mut table = Table::new(&[2, 3]);
    table.machine.refused_by_cap(site(2), 10, table.now);
    let other = Placement::new(site(1)).with_caps_of(&table.machine);
    assert_eq!(other.capped(table.now), [site(2)].into());
    table.machine = other;
    let all = [1, 2, 3].map(|number| candidate(number, true)).to_vec();
    table.take(Input::Sites(all, BTreeSet::new()));
    assert_eq!(table.offer(2, vec![want(1, 10), want(2, 9)]), [(1, 3), (2, 2)]);
}

/// No link to itself ever ends what its own cap said.
#[test]
fn a_custodian_at_its_own_cap_looks_again_soon() {
    let mut table = Table::new(&[2]);
    table.take(Input::Known(BUCKET, site(2), [dot(1)].into_iter().collect()));
    let mine = || vec![Want { here: false, ..want(1, 10) }];
    for _ in 0..4 {
        assert_eq!(table.offer(2, mine()), [(1, 1)]);
        assert_eq!(table.failed(1, 1, Failure::Capped), []);
        assert_eq!(table.offer(2, mine()), []);
        table.now = table.now.after(limits::REST);
    }
}
