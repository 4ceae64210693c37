//! Who lets go of what, and who keeps it.

use core::time::Duration;

use skerry_base::{NodeId, Origin};

use super::*;

const BUCKET: BucketId = BucketId([9; 16]);

fn site(number: u8) -> SiteId {
    SiteId([number; 16])
}

fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
    numbers.iter().copied().map(site).collect()
}

fn dot(seq: u64) -> Dot {
    Dot { origin: Origin { node: NodeId([1; 16]), incarnation: 1 }, seq }
}

fn copy(seq: u64, writer: u8, copies: usize) -> Copy {
    Copy { dot: dot(seq), writer: site(writer), copies }
}

fn spans(seqs: &[u64]) -> Spans {
    seqs.iter().copied().map(dot).collect()
}

fn word(holds: &[u64], keeps: &[u64]) -> Word {
    Word { holds: spans(holds), keeps: spans(keeps) }
}

struct Table {
    machine: Trim,
    now: Instant,
}

impl Table {
    fn new(me: u8) -> Self {
        Self { machine: Trim::new(site(me)), now: Instant(0) }
    }

    fn take(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.machine.handle(input, self.now, &mut out);
        out
    }

    /// A round about these with these others, of whom all count.
    fn round(&mut self, copies: Vec<Copy>, others: &[u8]) -> Vec<Output> {
        assert_eq!(self.take(Input::Mark(BUCKET, Demand::default(), copies)), []);
        let asked = self.take(Input::Ask { others: sites(others), counted: sites(others) });
        assert_eq!(asked.len(), others.len());
        asked
    }

    fn said(&mut self, by: u8, word: Word) -> Vec<Output> {
        self.take(Input::Said(site(by), word))
    }
}

#[test]
fn the_order_is_the_writer_and_then_the_ring_behind_it() {
    let ranked = |writer: u8| {
        let mut all = [1, 2, 3, 4].map(site);
        all.sort_by_cached_key(|one| Demand::anywhere(2).rank(site(writer), *one));
        all.map(|site| site.0[0])
    };
    assert_eq!(ranked(1), [1, 2, 3, 4]);
    assert_eq!(ranked(3), [3, 4, 1, 2]);
    assert_eq!(ranked(9), [1, 2, 3, 4], "a writer that is no more has its place");
}

#[test]
fn the_last_of_three_lets_go_once_two_before_it_said_that_they_hold_it() {
    let mut table = Table::new(3);
    table.round(vec![copy(1, 1, 2), copy(2, 1, 2)], &[1, 2]);
    assert!(table.machine.leaves_out(BUCKET, dot(1)), "from the mark on it is not said to be held");
    assert_eq!(table.said(1, word(&[1, 2], &[])), []);
    assert_eq!(table.said(2, word(&[1], &[])), [Output::Release(BUCKET, vec![dot(1)])]);
    assert!(!table.machine.leaves_out(BUCKET, dot(2)), "what stays is held again");
    let over = Output::Over(BUCKET, End::Done { released: 1, stay: 1 });
    assert_eq!(table.take(Input::Released(vec![dot(1)])), [over]);
    assert!(table.machine.is_idle());
}

#[test]
fn who_stands_among_the_first_keeps_it_whatever_others_hold() {
    // 2 is the second of what 1 wrote; 3 and 4 hold it as well.
    let mut table = Table::new(2);
    table.round(vec![copy(1, 1, 2)], &[1, 3, 4]);
    table.said(1, word(&[1], &[]));
    table.said(3, word(&[1], &[]));
    let stays = Output::Over(BUCKET, End::Done { released: 0, stay: 1 });
    assert_eq!(table.said(4, word(&[1], &[])), [stays]);
}

#[test]
fn one_that_is_silent_keeps_everything_and_so_does_the_end_of_a_round() {
    let mut table = Table::new(3);
    table.round(vec![copy(1, 1, 1)], &[1, 2]);
    table.said(1, word(&[1], &[]));
    assert_eq!(table.take(Input::Silent(site(2))), [Output::Over(BUCKET, End::Silent(sites(&[2])))]);
    assert!(!table.machine.leaves_out(BUCKET, dot(1)));
    table.round(vec![copy(1, 1, 1)], &[1, 2]);
    table.said(2, word(&[], &[]));
    table.now = table.machine.next_wake().unwrap_or_default();
    assert_eq!(table.take(Input::Wake), [Output::Over(BUCKET, End::Silent(sites(&[1])))]);
    assert_eq!(table.said(1, word(&[1], &[])), [], "an answer to a round that is over");
    assert!(table.now >= Instant(0).after(Duration::from_secs(1)));
}

#[test]
fn what_one_counts_on_stays_and_so_does_what_somebody_wants_held() {
    let mut table = Table::new(4);
    table.round(vec![copy(1, 1, 1), copy(2, 1, 1), copy(3, 1, 1)], &[1, 2]);
    table.said(2, word(&[1, 2, 3], &[1]));
    assert!(table.machine.wanted(BUCKET, dot(2)));
    assert_eq!(table.said(1, word(&[1, 2, 3], &[])), [Output::Release(BUCKET, vec![dot(3)])]);
    assert!(!table.machine.wanted(BUCKET, dot(3)), "it is on its way out");
    assert!(table.machine.wanted(BucketId([8; 16]), dot(3)), "of another bucket");
    let over = Output::Over(BUCKET, End::Done { released: 0, stay: 3 });
    assert_eq!(table.take(Input::Released(Vec::new())), [over], "the disk could not let go");
}

#[test]
fn whose_copy_does_not_count_must_answer_and_is_no_reason() {
    let mut table = Table::new(3);
    table.take(Input::Mark(BUCKET, Demand::default(), vec![copy(1, 1, 2)]));
    table.take(Input::Ask { others: sites(&[1, 2]), counted: sites(&[1]) });
    table.said(2, word(&[1], &[]));
    let stays = Output::Over(BUCKET, End::Done { released: 0, stay: 1 });
    assert_eq!(table.said(1, word(&[1], &[])), [stays]);
}

#[test]
fn the_nodes_of_one_site_count_once_and_own_ones_not_at_all() {
    // 1 and 2 are nodes of one site, 4 and 5 of another.
    let together: Together = [(site(2), site(1)), (site(5), site(4))].into_iter().collect();
    let mut table = Table::new(5);
    table.machine.set_together(together);
    let surplus =
        |copies| table.machine.is_surplus(&Demand::default(), &copy(1, 1, copies), [1, 2, 4].map(site));
    assert!(surplus(1) && !surplus(2));
    table.take(Input::Mark(BUCKET, Demand::default(), vec![copy(1, 1, 2), copy(2, 4, 1)]));
    assert!(!table.machine.leaves_out(BUCKET, dot(2)), "written at its own place");
    table.take(Input::Ask { others: sites(&[1, 2, 3, 4]), counted: sites(&[1, 2, 3, 4]) });
    for by in [1, 2, 4] {
        table.said(by, word(&[1, 2], &[]));
    }
    let stays = Output::Over(BUCKET, End::Done { released: 0, stay: 1 });
    assert_eq!(table.said(3, word(&[], &[])), [stays], "one other place holds it");
}

#[test]
fn with_each_mark_what_was_said_before_is_another_life_s() {
    let mut table = Table::new(3);
    assert_eq!(table.machine.word(BUCKET), 0);
    table.round(vec![copy(1, 1, 1)], &[1]);
    assert_eq!(table.machine.word(BUCKET), 1);
    assert_eq!(
        table.take(Input::Mark(BUCKET, Demand::default(), vec![copy(2, 1, 1)])),
        [],
        "one round at a time"
    );
    assert!(!table.machine.leaves_out(BUCKET, dot(2)));
    assert_eq!(table.take(Input::GiveUp), [Output::Over(BUCKET, End::GivenUp)]);
    assert_eq!((table.machine.word(BUCKET), table.machine.word(BucketId([8; 16]))), (1, 0));
}

#[test]
fn what_an_area_needs_stays_and_a_bucket_that_moves_is_left_by_its_writer() {
    let area = || Demand::anywhere(2).and_in(2, sites(&[3, 4]));
    let mut table = Table::new(4);
    table.take(Input::Mark(BUCKET, area(), vec![copy(1, 1, 2)]));
    table.take(Input::Ask { others: sites(&[1, 2, 3]), counted: sites(&[1, 2, 3]) });
    for by in [1, 2] {
        table.said(by, word(&[1], &[]));
    }
    let stays = || Output::Over(BUCKET, End::Done { released: 0, stay: 1 });
    assert_eq!(table.said(3, word(&[1], &[])), [stays()], "three before it, and one of the area");
    let mut writer = Table::new(1);
    let mut round = |demand: Demand, by_4: &[u64]| {
        writer.take(Input::GiveUp);
        writer.take(Input::Mark(BUCKET, demand, vec![copy(1, 1, 2)]));
        let asked = writer.take(Input::Ask { others: sites(&[3, 4]), counted: sites(&[3, 4]) });
        assert_eq!(asked.len(), 2);
        writer.said(3, word(&[1], &[]));
        writer.said(4, word(by_4, &[]))
    };
    let none = Output::Over(BUCKET, End::Done { released: 0, stay: 0 });
    assert_eq!(round(area(), &[1]), [none], "its own is not even marked");
    assert_eq!(round(area().moving(), &[]), [stays()], "not before the area has two");
    assert_eq!(round(area().moving(), &[1]), [Output::Release(BUCKET, vec![dot(1)])]);
}
