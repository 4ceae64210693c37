//! Who is taken for a copy and who for a restart, and what many sites make of what they see.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use core::time::Duration;
use skerry_base::codec;

const NODE: NodeId = NodeId([9; 16]);

fn site(number: u8) -> Clones {
    Clones::resume(NodeId([number; 16]), Findings::default())
}

fn at(seconds: u64) -> Instant {
    Instant(0).after(Duration::from_secs(seconds))
}

fn linked(life: u64, for_ms: u64) -> Linked {
    Linked { life, for_ms }
}

fn found(by: u8, kept: u64, refused: u64) -> Found {
    Found { by: NodeId([by; 16]), kept, refused }
}

#[test]
fn another_life_is_asked_about_and_a_refused_one_is_not() {
    let none = BTreeSet::new();
    assert_eq!(door(None, 1, &none), Door::Open);
    assert_eq!(door(Some(1), 1, &none), Door::Open);
    assert_eq!(door(Some(1), 2, &none), Door::Ask);
    assert_eq!(door(Some(1), 2, &[2].into()), Door::Shut);
    assert_eq!(door(None, 2, &[2].into()), Door::Shut, "though nobody else is linked now");
    assert_eq!(door(None, 3, &[2].into()), Door::Open, "it was started anew");
}

#[test]
fn who_is_linked_for_longer_is_kept() {
    let mut one = site(1);
    assert!(one.prove(NODE, linked(7, 5000), linked(8, 4000)));
    assert!(!one.prove(NODE, linked(8, 9000), linked(7, 1)), "it was decided");
    assert_eq!(one.refused(NODE), [8].into());
    assert!(!one.prove(NODE, linked(7, 1), linked(7, 2)), "one life is no pair");
    let mut other = site(2);
    assert!(other.prove(NODE, linked(7, 5000), linked(8, 6000)));
    assert_eq!(other.refused(NODE), [7].into());
}

#[test]
fn sites_that_decided_apart_agree_once_they_hear_each_other() {
    let (mut one, mut other) = (site(1), site(2));
    assert!(one.prove(NODE, linked(7, 10), linked(8, 5)));
    assert!(other.prove(NODE, linked(8, 10), linked(7, 5)));
    assert!(!one.hear(&other.word(&BTreeMap::new(), at(0)), at(0)).1, "its own holds");
    assert!(other.hear(&one.word(&BTreeMap::new(), at(0)), at(0)).1);
    assert_eq!((one.refused(NODE), other.refused(NODE)), ([8].into(), [8].into()));
}

#[test]
fn whom_a_refused_one_was_preferred_to_is_served() {
    // 7 was kept and started again as 9, while 8 had slipped into its place at another site.
    assert_eq!(refused(&[found(1, 7, 8), found(2, 8, 9)]), [8].into());
    assert_eq!(refused(&[found(1, 7, 8), found(2, 8, 9), found(3, 9, 10)]), [8, 10].into());
    // A ring: the lowest is kept, and nobody who ran beside it.
    assert_eq!(refused(&[found(1, 1, 2), found(2, 2, 3), found(3, 3, 1)]), [2, 3].into());
    assert_eq!(refused(&[]), BTreeSet::new());
}

#[test]
fn other_lives_elsewhere_are_suspected_until_they_are_decided_about() {
    let (mut one, mut other) = (site(1), site(2));
    assert!(!one.set_linked(&[(NODE, 7)].into(), at(0)));
    other.set_linked(&[(NODE, 8)].into(), at(5));
    let word = other.word(&BTreeMap::new(), at(8));
    let (suspects, is_news) = one.hear(&word, at(9));
    let (here, there) = (linked(7, 9000), linked(8, 3000));
    assert_eq!((suspects, is_news), (vec![Suspicion { node: NODE, here, there }], false));
    assert!(one.prove(NODE, here, there));
    assert_eq!(one.hear(&word, at(10)), (Vec::new(), false));
    // A link that falls says nothing; one that comes back has been known ever since.
    one.set_linked(&BTreeMap::new(), at(11));
    assert_eq!(one.linked(NODE, at(12)), None);
    one.set_linked(&[(NODE, 7)].into(), at(13));
    assert_eq!(one.linked(NODE, at(13)), Some(linked(7, 13_000)));
    assert!(one.set_linked(&[(NODE, 9)].into(), at(14)));
    assert_eq!(one.linked(NODE, at(15)), Some(linked(9, 1000)), "a restart begins anew");
}

#[test]
fn what_others_tell_is_bounded_and_nonsense_is_passed_over() {
    let mut one = site(1);
    let told = |life| (NODE, found(2, life, life + 1));
    let word = Word { found: (0..1000).map(told).collect(), ..Word::default() };
    assert!(one.hear(&word, at(0)).1);
    assert_eq!(one.found(NODE).len(), FOUND);
    assert!(one.prove(NODE, linked(5000, 2), linked(5001, 1)), "what was found here finds room");
    assert_eq!(one.found(NODE).len(), FOUND);
    let senseless = Word { found: vec![(NODE, found(0, 3, 3))], ..Word::default() };
    assert!(!one.hear(&senseless, at(0)).1);
}

#[test]
fn what_was_found_outlives_the_process() {
    let mut one = site(1);
    assert!(one.prove(NODE, linked(7, 2), linked(8, 1)));
    let again = Clones::resume(NodeId([1; 16]), one.findings());
    assert_eq!(again.refused(NODE), [8].into());
    assert_eq!(again.all_refused(), [(NODE, [8].into())].into());
}

/// Fixture of version 1: must decode for ever.
#[test]
fn version_1_is_what_it_was() {
    let findings = Findings(vec![(NodeId([1; 16]), found(2, 3, 300))]);
    let bytes = codec::encode(&findings);
    let expected = [&[1, 1][..], &[1; 16], &[2; 16], &[3, 0xac, 2]].concat();
    assert_eq!(bytes, expected);
    assert_eq!(codec::decode::<Findings>(&bytes).unwrap(), findings);
}
