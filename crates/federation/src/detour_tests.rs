//! One chunk's way, by hand; many together are simulated.

use super::*;

const fn site(n: u8) -> SiteId {
    SiteId([n; 16])
}

const fn near(n: u8, rtt_ms: u64) -> Near {
    Near { site: site(n), rtt: Some(Duration::from_millis(rtt_ms)), is_paid: false }
}

const fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

const fn rest(ms: u64) -> Next {
    Next::Rest(Some(at(ms)))
}

fn step(detour: &mut Detour, near: &[Near], now: Instant) -> Next {
    detour.step(|| near.to_vec(), now)
}

/// A chunk of site 9, which is asked at once.
fn begun(rtt_ms: u64) -> Detour {
    let mut detour = Detour::new(near(9, rtt_ms), None);
    assert_eq!(step(&mut detour, &[], at(0)), Next::Ask(site(9)));
    detour
}

#[test]
fn who_is_silent_is_asked_whether_it_is_there_and_then_gone_round_nearest_first() {
    let (mut detour, others) = (begun(50), [near(3, 80), near(2, 20)]);
    assert_eq!(step(&mut detour, &others, at(0)), rest(1000));
    assert_eq!(step(&mut detour, &others, at(1000)), Next::Ping(site(9)));
    assert_eq!(step(&mut detour, &others, at(1000)), rest(2000));
    assert_eq!(step(&mut detour, &others, at(2000)), Next::Ask(site(2)));
    assert_eq!(step(&mut detour, &others, at(2000)), rest(3000));
    detour.ended(site(2));
    assert_eq!(step(&mut detour, &others, at(2020)), Next::Ask(site(3)));
    detour.ended(site(3));
    assert_eq!(step(&mut detour, &others, at(2100)), Next::Rest(None), "the holder itself may still answer");
    assert_eq!(step(&mut detour, &others, at(4100)), Next::Rest(None));
    assert_eq!(step(&mut detour, &others, at(4200)), Next::Ask(site(2)), "and they may have a link by now");
    detour.ended(site(2));
    assert_eq!(step(&mut detour, &others, at(4220)), Next::Ask(site(3)));
    detour.ended(site(3));
    assert_eq!(step(&mut detour, &others, at(4300)), Next::Rest(None));
    detour.ended(site(9));
    assert_eq!(step(&mut detour, &others, at(9000)), Next::Over);
}

#[test]
fn as_long_as_it_answers_nobody_else_is_asked_and_a_long_way_has_more_time() {
    let (mut detour, others) = (begun(400), [near(2, 20)]);
    assert_eq!(step(&mut detour, &others, at(0)), rest(1600));
    for ms in (1400..10_000).step_by(1400) {
        detour.answered(site(9), at(ms));
        assert_eq!(step(&mut detour, &others, at(ms)), rest(ms + 1600));
    }
    detour.answered(site(2), at(10_800));
    assert_eq!(
        step(&mut detour, &others, at(11_600)),
        Next::Ping(site(9)),
        "what others say is no sign of it"
    );
    assert_eq!(step(&mut detour, &others, at(13_300)), Next::Ask(site(2)));
}

#[test]
fn who_talks_and_does_not_answer_is_gone_round_after_once_more_the_time() {
    let (mut detour, others) = (begun(50), [near(2, 20)]);
    for ms in (0..3000).step_by(100) {
        detour.heard(site(9), at(ms));
        let next = step(&mut detour, &others, at(ms));
        match ms {
            1000 => assert_eq!(next, Next::Ping(site(9))),
            _ => assert!(matches!(next, Next::Rest(Some(until)) if until > at(ms)), "{next:?} at {ms}"),
        }
    }
    assert_eq!(step(&mut detour, &others, at(3000)), Next::Ask(site(2)));

    let mut detour = begun(50);
    assert_eq!(step(&mut detour, &others, at(1000)), Next::Ping(site(9)));
    detour.heard(site(9), at(1500));
    assert_eq!(step(&mut detour, &others, at(2499)), rest(2500));
    assert_eq!(step(&mut detour, &others, at(2500)), Next::Ask(site(2)), "silent again since");

    let mut detour = begun(50);
    assert_eq!(step(&mut detour, &others, at(1000)), Next::Ping(site(9)));
    detour.answered(site(9), at(1500));
    assert_eq!(
        step(&mut detour, &others, at(1500)),
        rest(2500),
        "and then it is asked again whether it is there"
    );
}

#[test]
fn a_holder_that_talks_is_asked_whether_it_hears_before_the_chunk_is_asked_of_it_again() {
    let (mut detour, others) = gone_round();
    for ms in (100..6000).step_by(100) {
        detour.heard(site(9), at(ms));
        detour.answered(site(2), at(ms));
        let next = step(&mut detour, &others, at(ms));
        let is_asked = ms >= 2000 && ms % 1000 == 0;
        assert_eq!(next == Next::Ping(site(9)), is_asked, "{next:?} at {ms}");
        assert!(is_asked || matches!(next, Next::Rest(_)), "{next:?} at {ms}");
    }
    detour.answered(site(9), at(6000));
    assert_eq!(step(&mut detour, &others, at(6000)), Next::Ask(site(9)));
}

#[test]
fn who_looks_late_still_waits_for_the_answer_to_its_question() {
    let mut detour = begun(0);
    assert_eq!(step(&mut detour, &[near(2, 1)], at(30_000)), Next::Ping(site(9)));
    assert_eq!(step(&mut detour, &[near(2, 1)], at(30_000)), rest(31_000));
}

#[test]
fn without_a_link_others_are_asked_at_once_and_no_more_than_some() {
    let (mut detour, others) = (begun(50), [1, 2, 3, 4, 5, 6].map(|n| near(n, u64::from(n))));
    detour.ended(site(9));
    for n in 1..=4 {
        assert_eq!(step(&mut detour, &others, at(0)), Next::Ask(site(n)));
        detour.ended(site(n));
    }
    assert_eq!(step(&mut detour, &others, at(0)), Next::Over);
}

#[test]
fn who_has_helped_is_asked_first_while_it_has_a_link() {
    let known = Some(near(3, 90));
    let mut detour = Detour::new(near(9, 50), known);
    assert_eq!(step(&mut detour, &[near(2, 1), near(3, 90)], at(0)), Next::Ping(site(9)), "it may be back");
    assert_eq!(step(&mut detour, &[near(2, 1), near(3, 90)], at(0)), Next::Ask(site(3)));
    detour.ended(site(3));
    assert_eq!(step(&mut detour, &[near(2, 1), near(3, 90)], at(0)), Next::Ask(site(9)));
    let mut detour = Detour::new(near(9, 50), known);
    step(&mut detour, &[], at(0));
    assert_eq!(step(&mut detour, &[near(2, 1)], at(0)), Next::Ask(site(9)));
}

#[test]
fn links_that_are_paid_for_are_taken_only_where_there_is_no_other_way() {
    let paid = |n| Near { is_paid: true, ..near(n, 1) };
    let mut detour = begun(50);
    step(&mut detour, &[], at(1000));
    assert_eq!(
        step(&mut detour, &[paid(2)], at(2000)),
        Next::Rest(None),
        "the question may still be answered"
    );
    detour.ended(site(9));
    assert_eq!(step(&mut detour, &[paid(2), near(3, 500)], at(1000)), Next::Ask(site(3)));
    detour.ended(site(3));
    assert_eq!(step(&mut detour, &[paid(2)], at(1000)), Next::Ask(site(2)));

    let mut detour = Detour::new(paid(9), None);
    step(&mut detour, &[], at(0));
    step(&mut detour, &[], at(1000));
    assert_eq!(step(&mut detour, &[near(2, 1)], at(2000)), Next::Rest(None), "what comes twice is paid for");
}

#[test]
fn what_was_found_out_is_believed_for_a_while_and_until_the_holder_answers() {
    let mut detours = Detours::default();
    detours.learn(site(9), site(2), 70, at(0));
    assert_eq!(detours.known(site(9), 70, at(1)), Some(site(2)));
    assert_eq!(detours.known(site(9), 71, at(1)), None, "it answers again");
    detours.learn(site(9), site(2), 70, at(9_000));
    assert_eq!(detours.known(site(9), 70, at(10_000)), None, "then it is asked itself again");
    detours.learn(site(9), site(3), 70, at(10_000));
    assert_eq!(detours.known(site(9), 70, at(10_001)), Some(site(3)));
    detours.forget(site(9));
    assert_eq!(detours.known(site(9), 70, at(10_001)), None);
}

#[test]
fn of_all_that_wait_for_a_holder_one_looks_for_a_way_and_tells_the_others() {
    let mut detours = Detours::default();
    assert!(detours.may_look(site(9), 1) && detours.may_look(site(9), 1));
    assert!(!detours.may_look(site(9), 2) && detours.may_look(site(8), 2));
    detours.looked(site(9), 2);
    assert!(!detours.may_look(site(9), 2), "who does not look cannot end it");
    detours.looked(site(9), 1);
    assert!(detours.may_look(site(9), 2));

    let mut detour = begun(50);
    step(&mut detour, &[], at(1000));
    assert_eq!(step(&mut detour, &[], at(2000)), Next::Rest(None));
    detour.tell(near(3, 80));
    assert_eq!(step(&mut detour, &[near(3, 80)], at(2100)), Next::Ask(site(3)));
}

/// A holder without a link, whose chunk the nearest other fetches.
fn gone_round() -> (Detour, [Near; 2]) {
    let (mut detour, others) = (begun(50), [near(3, 80), near(2, 20)]);
    detour.ended(site(9));
    assert_eq!(step(&mut detour, &others, at(0)), Next::Ask(site(2)));
    (detour, others)
}

#[test]
fn a_holder_that_is_back_is_asked_beside_who_fetches_and_that_one_is_waited_for_on() {
    let (mut detour, others) = gone_round();
    detour.answered(site(9), at(500));
    assert_eq!(step(&mut detour, &others, at(500)), rest(750), "it was asked a moment ago");
    detour.answered(site(2), at(1900));
    assert_eq!(step(&mut detour, &others, at(2000)), Next::Ask(site(9)));
    detour.ended(site(9));
    assert_eq!(step(&mut detour, &others, at(2010)), rest(2260), "no third one is asked beside it");
    detour.ended(site(2));
    assert_eq!(step(&mut detour, &others, at(2020)), Next::Ask(site(3)));
}

#[test]
fn nobody_is_left_only_once_a_holder_that_is_back_was_asked() {
    let (mut detour, others) = gone_round();
    detour.heard(site(9), at(500));
    detour.ended(site(2));
    assert_eq!(step(&mut detour, &others, at(600)), Next::Ask(site(3)));
    detour.ended(site(3));
    assert_eq!(step(&mut detour, &others, at(700)), Next::Ask(site(9)));
    detour.ended(site(9));
    assert_eq!(step(&mut detour, &others, at(710)), Next::Over);
}

#[test]
fn who_talks_and_comes_no_further_is_not_waited_for_alone() {
    let (mut detour, others) = gone_round();
    let (given, end) = (10_000, 10_000 + FETCHES.as_millis() as u64);
    for ms in (200..end).step_by(200) {
        detour.answered(site(2), at(ms));
        if ms == given {
            detour.gave(site(2), at(ms));
        }
        assert_eq!(step(&mut detour, &others, at(ms)), rest(ms + 250), "at {ms}");
    }
    assert_eq!(step(&mut detour, &others, at(end)), Next::Ask(site(3)));
}
