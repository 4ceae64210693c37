//! Who may go when, and whether what it leaves behind is at as many sites as was promised.

use skerry_base::NodeId;

use super::*;

const BUCKET: BucketId = BucketId([7; 16]);

fn site(n: u8) -> SiteId {
    SiteId([n; 16])
}

fn origin() -> Origin {
    Origin { node: NodeId([1; 16]), incarnation: 1 }
}

fn upto(seq: u64) -> Vector {
    Vector::from_iter([(origin(), seq)])
}

fn stays(seq: u64) -> Standing {
    Standing::Stays { vector: upto(seq), loose: Vec::new() }
}

fn holds(seq: u64) -> Own {
    Own { vector: upto(seq), loose: Vec::new() }
}

fn judged(said: &[(u8, Standing)], own: &Own, copies: usize, members: &[u8]) -> Verdict {
    let mut departures = Departures::default();
    assert!(departures.begin(BUCKET) && !departures.begin(BUCKET));
    let round = departures.ask(BUCKET).unwrap_or_default();
    for (number, standing) in said {
        assert!(departures.said(BUCKET, round, site(*number), standing.clone()));
    }
    let members = members.iter().copied().map(site).collect();
    departures.attempt(BUCKET).map_or(Verdict::Wait(Wait::default()), |it| it.judge(own, copies, &members))
}

fn waits(verdict: &Verdict) -> Wait {
    match verdict {
        Verdict::Go => Wait { have: usize::MAX, ..Wait::default() },
        Verdict::Wait(wait) => wait.clone(),
    }
}

#[test]
fn what_a_write_was_answered_for_is_left_behind_and_what_the_bucket_wants_as_far_as_it_can_be() {
    let sites = |numbers: &[u8]| -> BTreeSet<SiteId> { numbers.iter().copied().map(site).collect() };
    let apart = Together::default();
    let wish = Demand::anywhere(2).and_in(1, sites(&[5, 6]));
    let all = sites(&[2, 3, 4, 5]);
    let met = |promised, near: &[u8], holders: &[u8]| {
        left_behind(&wish, promised, &sites(near), &all, &apart).is_met(&sites(holders), &apart)
    };
    assert!(met(0, &[2, 3, 5], &[2, 5]) && !met(0, &[2, 3, 5], &[2, 3]), "one of them in its area");
    assert!(met(0, &[2, 3], &[2, 3]), "nobody of the area can be asked: those who stay see to it");
    assert!(met(0, &[2], &[2]) && !met(0, &[], &[]), "nobody who could be asked has it");
    assert!(
        !met(3, &[2], &[2]) && !met(3, &[2], &[2, 3]),
        "of what was promised the silent ones are waited for"
    );
    assert!(met(3, &[2], &[2, 3, 4]));
    assert!(met(9, &[2], &[2, 3, 4, 5]), "there are no more");
    let nodes: Together = [(site(3), site(2))].into_iter().collect();
    let behind = left_behind(&Demand::anywhere(1), 2, &all, &all, &nodes);
    assert!(!behind.is_met(&sites(&[2, 3]), &nodes) && behind.is_met(&sites(&[2, 4]), &nodes));
}

#[test]
fn two_nodes_of_one_site_have_everything_once() {
    let mut departures = Departures::default();
    assert!(departures.begin(BUCKET));
    let round = departures.ask(BUCKET).unwrap_or_default();
    for number in [2, 3] {
        assert!(departures.said(BUCKET, round, site(number), stays(9)));
    }
    let attempt = departures.attempt(BUCKET).unwrap_or_default();
    let members = [2, 3, 4].map(site).into();
    assert_eq!(attempt.judge(&holds(9), 2, &members), Verdict::Go);
    let attempt = attempt.with([(site(3), site(2))].into_iter().collect());
    let verdict = attempt.judge(&holds(9), 2, &members);
    let waits = Wait { have: 1, wanted: 2, silent: vec![site(4)], ..Wait::default() };
    assert_eq!(verdict, Verdict::Wait(waits), "one fire takes both");
    assert!(!attempt.is_near(&holds(9), 2, &members, 3));
    let both = [2, 3].map(site).into();
    assert_eq!(attempt.judge(&holds(9), 2, &both), Verdict::Go, "there is no other site");
}

#[test]
fn it_goes_when_as_many_as_the_bucket_wants_copies_have_all() {
    let both = [(2, stays(5)), (3, stays(6))];
    assert_eq!(judged(&both, &holds(5), 2, &[2, 3]), Verdict::Go);
    assert_eq!(judged(&both[..1], &holds(5), 1, &[2, 3]), Verdict::Go);
    let wait = waits(&judged(&both[..1], &holds(5), 2, &[2, 3]));
    assert_eq!((wait.have, wait.wanted, wait.silent), (1, 2, vec![site(3)]));
    let wait = waits(&judged(&both, &holds(6), 2, &[2, 3]));
    assert_eq!((wait.have, wait.behind), (1, vec![site(2)]));
    // More copies than there are sites: all of them.
    assert_eq!(judged(&both, &holds(5), 9, &[2, 3]), Verdict::Go);
}

#[test]
fn the_only_member_stays() {
    assert_eq!(waits(&judged(&[], &holds(5), 1, &[])).wanted, 0);
    assert_eq!(waits(&judged(&[(2, Standing::Absent)], &holds(0), 1, &[2])).wanted, 0);
    let wait = waits(&judged(&[(2, Standing::Leaves)], &holds(0), 1, &[2]));
    assert_eq!((wait.wanted, wait.leaving), (0, vec![site(2)]));
    assert_eq!(waits(&judged(&[(2, Standing::Joins)], &holds(0), 1, &[2])).behind, vec![site(2)]);
}

#[test]
fn loose_records_are_handed_over_as_well() {
    let loose = |seqs: &[u64]| (origin(), Some(seqs.to_vec()));
    let own = Own { vector: upto(3), loose: vec![loose(&[5, 7])] };
    let with = |covered, seqs: &[u64]| {
        let print = seqs.iter().map(|seq| Dot { origin: origin(), seq: *seq }).collect();
        let loose = vec![Loose { origin: origin(), covered, print }];
        [(2, Standing::Stays { vector: upto(covered), loose })]
    };
    assert_ne!(judged(&[(2, stays(3))], &own, 1, &[2]), Verdict::Go);
    assert_ne!(judged(&with(3, &[5]), &own, 1, &[2]), Verdict::Go);
    assert_eq!(judged(&with(3, &[5, 7]), &own, 1, &[2]), Verdict::Go);
    assert_eq!(judged(&with(5, &[7]), &own, 1, &[2]), Verdict::Go, "the vector covers one of them");
    assert_eq!(judged(&[(2, stays(7))], &own, 1, &[2]), Verdict::Go);
    let many = Own { loose: vec![(origin(), None)], ..own };
    assert_ne!(judged(&with(3, &[5, 7]), &many, 1, &[2]), Verdict::Go);
}

#[test]
fn near_is_who_lacks_little() {
    let mut departures = Departures::default();
    departures.begin(BUCKET);
    let round = departures.ask(BUCKET).unwrap_or_default();
    departures.said(BUCKET, round, site(2), stays(5));
    departures.said(BUCKET, round, site(3), Standing::Joins);
    let members = [site(2), site(3)].into();
    let attempt = departures.attempt(BUCKET).unwrap_or_default();
    assert!(attempt.is_near(&holds(8), 1, &members, 3) && !attempt.is_near(&holds(9), 1, &members, 3));
    assert!(!attempt.is_near(&holds(5), 2, &members, 3), "one of two is still joining");
}

#[test]
fn what_an_earlier_round_heard_counts_no_more() {
    let mut departures = Departures::default();
    departures.begin(BUCKET);
    let first = departures.ask(BUCKET).unwrap_or_default();
    let second = departures.ask(BUCKET).unwrap_or_default();
    assert!(!departures.said(BUCKET, first, site(2), stays(9)));
    assert!(departures.said(BUCKET, second, site(2), stays(9)));
    departures.end(BUCKET);
    assert!(!departures.said(BUCKET, second, site(2), stays(9)) && !departures.is_going(BUCKET));
    assert_eq!(departures.ask(BUCKET), None);
}
