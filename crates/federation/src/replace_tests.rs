//! When a newcomer is done, and when it is not, whatever was said in which order.

use skerry_base::{NodeId, Origin};

use super::*;

const BUCKET: BucketId = BucketId([7; 16]);
const OTHER: BucketId = BucketId([8; 16]);

fn site(n: u8) -> SiteId {
    SiteId([n; 16])
}

fn upto(seq: u64) -> Vector {
    Vector::from_iter([(Origin { node: NodeId([1; 16]), incarnation: 1 }, seq)])
}

fn told(said: &[(BucketId, Option<u64>)]) -> Said {
    told_after(0, said)
}

/// By a site that has let go of so many buckets.
fn told_after(left: u64, said: &[(BucketId, Option<u64>)]) -> Said {
    let stays = Stays { life: 1, left };
    Said::Told(said.iter().map(|(bucket, seq)| (*bucket, seq.map(upto))).collect(), stays)
}

fn among(sites: &[u8]) -> Recovery {
    let mut recovery = Recovery::new(BTreeSet::new());
    recovery.live(sites.iter().copied().map(site).collect());
    recovery
}

/// Everybody says this in one round.
fn round(recovery: &mut Recovery, said: &[(u8, Said)]) {
    let (number, _, open) = recovery.questions();
    assert_eq!(open.len(), said.len(), "everybody is asked");
    for (from, said) in said {
        assert!(recovery.said(number, site(*from), said.clone()));
    }
}

fn here(seq: u64, whole: bool) -> BTreeMap<BucketId, Own> {
    [(BUCKET, Own::Member { vector: upto(seq), whole })].into()
}

#[test]
fn two_rounds_that_agree_about_all_buckets_say_what_there_is() {
    let mut recovery = among(&[2, 3]);
    let say = [(2, told(&[(BUCKET, Some(5))])), (3, told(&[(BUCKET, Some(6))]))];
    for rounds in 0..3 {
        assert!(!recovery.is_settled(), "the bucket was not known to all before round {rounds}");
        round(&mut recovery, &say);
    }
    assert!(recovery.is_settled());
    let outside = recovery.judge(&[(BUCKET, Own::Outside)].into());
    assert_eq!((outside.join, outside.missing, outside.is_done), (vec![BUCKET], 6, false));
    let behind = recovery.judge(&here(5, true));
    assert_eq!((behind.missing, behind.complete, behind.is_done), (1, 0, false));
    let taken = recovery.judge(&here(6, false));
    assert_eq!((taken.whole, taken.alone.len(), taken.is_done), (vec![BUCKET], 0, false));
    assert!(recovery.judge(&here(6, true)).is_done);
    assert!(!recovery.judge(&BTreeMap::new()).is_done, "its claim is not known here");
}

#[test]
fn what_was_handed_over_between_two_answers_is_asked_for_again() {
    let mut recovery = among(&[2, 3]);
    let say = [(2, told(&[(BUCKET, Some(5))])), (3, told(&[(BUCKET, Some(2))]))];
    round(&mut recovery, &say);
    round(&mut recovery, &say);
    // 2 leaves and hands all to 3, which has answered already.
    round(&mut recovery, &[(3, told(&[(BUCKET, Some(2))])), (2, told(&[(BUCKET, None)]))]);
    assert!(!recovery.is_settled());
    let after = [(3, told(&[(BUCKET, Some(5))])), (2, told(&[(BUCKET, None)]))];
    round(&mut recovery, &after);
    assert!(recovery.is_settled());
    assert_eq!(recovery.judge(&here(2, true)).missing, 3);
}

#[test]
fn nobody_is_taken_for_silent_who_may_have_something() {
    let mut recovery = among(&[2, 3]);
    for _ in 0..3 {
        let (number, ..) = recovery.questions();
        recovery.said(number, site(2), told(&[(BUCKET, Some(5))]));
        recovery.said(number, site(3), Said::Not(Why::NotHeard));
    }
    let progress = recovery.judge(&here(5, true));
    assert_eq!((progress.waits, progress.is_done), (vec![(site(3), Why::NotHeard)], false));
    // Declared lost: nobody waits for it any more.
    recovery.live([site(2)].into());
    for _ in 0..3 {
        round(&mut recovery, &[(2, told(&[(BUCKET, Some(5))]))]);
    }
    assert!(recovery.judge(&here(5, true)).is_done);
}

#[test]
fn what_only_a_lost_site_said_is_not_waited_for() {
    let mut recovery = among(&[2, 3]);
    let say = [(2, told(&[(BUCKET, Some(5))])), (3, told(&[(BUCKET, Some(9)), (OTHER, Some(1))]))];
    for _ in 0..3 {
        round(&mut recovery, &say);
    }
    let mut own = here(5, true);
    own.insert(OTHER, Own::Member { vector: Vector::new(), whole: false });
    let before = recovery.judge(&own);
    assert_eq!((before.missing, before.alone.len()), (5, 0));
    recovery.live([site(2)].into());
    assert!(!recovery.is_settled(), "it may have given something to one that had answered");
    for _ in 0..2 {
        round(&mut recovery, &say[..1]);
    }
    let after = recovery.judge(&own);
    assert_eq!((after.missing, after.alone), (0, vec![OTHER]), "nobody else has records of it");
}

#[test]
fn writes_that_go_on_do_not_move_the_goal_away() {
    let mut recovery = among(&[2]);
    for seq in 5..50 {
        round(&mut recovery, &[(2, told(&[(BUCKET, Some(seq))]))]);
    }
    assert_eq!(recovery.judge(&here(0, true)).missing, 7, "as it was when two rounds agreed first");
    // The member has another disk: what it had is not to be had, what it has is.
    round(&mut recovery, &[(2, told(&[(BUCKET, Some(1))]))]);
    round(&mut recovery, &[(2, told(&[(BUCKET, Some(1))]))]);
    assert_eq!(recovery.judge(&here(0, true)).missing, 1);
}

#[test]
fn an_answer_to_an_earlier_round_or_of_a_stranger_counts_for_nothing() {
    let mut recovery = among(&[2]);
    let (number, about, open) = recovery.questions();
    assert_eq!((about, open), (vec![], vec![site(2)]));
    assert!(!recovery.said(number, site(4), told(&[(BUCKET, Some(1))])));
    assert!(recovery.said(number, site(2), told(&[(BUCKET, Some(1))])));
    assert!(!recovery.said(number, site(2), told(&[])));
    assert_eq!(recovery.questions().1, vec![BUCKET], "everybody is asked about it from now on");
    recovery.live([site(2), site(3)].into());
    assert!(!recovery.is_settled());
}

#[test]
fn without_anybody_else_it_ends_with_what_is_here() {
    let mut recovery = among(&[]);
    recovery.found([BUCKET]);
    for _ in 0..3 {
        recovery.live(BTreeSet::new());
    }
    let progress = recovery.judge(&here(0, false));
    assert_eq!((progress.whole, progress.alone), (vec![BUCKET], vec![BUCKET]));
    let refused = recovery.judge(&[(BUCKET, Own::Refused)].into());
    assert_eq!((refused.refused, refused.is_done), (vec![BUCKET], true));
}

#[test]
fn no_end_is_told_before_there_is_a_rate() {
    let mut pace = Pace::default();
    let at = |seconds: u64| Instant(seconds * 1_000_000_000);
    assert_eq!(pace.left(100, at(0)), None);
    assert_eq!(pace.left(200, at(1)), None, "more became known");
    assert_eq!(pace.left(150, at(2)), None, "too soon to say");
    assert_eq!(pace.left(100, at(11)), Some(Duration::from_secs(10)));
    assert_eq!(pace.left(0, at(12)), None);
}

/// What one has goes to and fro between two that answer just when they have nothing.
#[test]
fn who_let_go_of_a_bucket_between_its_answers_is_asked_again() {
    let mut recovery = among(&[2, 3]);
    for left in 0..5 {
        let nothing = || told_after(left, &[(BUCKET, None)]);
        round(&mut recovery, &[(2, nothing()), (3, nothing())]);
        assert!(!recovery.is_settled());
    }
    for _ in 0..2 {
        round(
            &mut recovery,
            &[(2, told_after(5, &[(BUCKET, Some(4))])), (3, told_after(5, &[(BUCKET, None)]))],
        );
    }
    assert_eq!(recovery.judge(&here(0, false)).missing, 4);
}

#[test]
fn a_bucket_whose_claim_is_gone_ends_as_lost_once_nobody_names_it() {
    let mut recovery = among(&[2, 3]);
    let says = [(2, told(&[(BUCKET, Some(5))])), (3, told(&[]))];
    for _ in 0..3 {
        round(&mut recovery, &says);
    }
    let unheard = [(BUCKET, Own::Unheard)].into();
    assert!(!recovery.judge(&unheard).is_done, "its claim is on the way");
    recovery.live([site(3)].into());
    for _ in 0..2 {
        round(&mut recovery, &says[1..]);
    }
    let progress = recovery.judge(&unheard);
    assert_eq!((progress.is_done, progress.alone), (true, vec![BUCKET]));
}

#[test]
fn who_has_what_is_missing_and_is_silent_is_named() {
    let mut recovery = among(&[2, 3]);
    let says = [(2, told(&[(BUCKET, Some(5))])), (3, told(&[(BUCKET, Some(9))]))];
    for _ in 0..3 {
        round(&mut recovery, &says);
    }
    let (number, ..) = recovery.questions();
    recovery.said(number, site(3), Said::Not(Why::Silent));
    let progress = recovery.judge(&here(5, false));
    assert_eq!((progress.missing, progress.waits), (4, vec![(site(3), Why::Silent)]));
}
