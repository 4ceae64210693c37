//! When a question is looked at again: never in the past, never beyond its bound.

use super::*;

fn question(searched: Duration) -> Question {
    let opened = Instant(7);
    let said = Asked { due: opened, tries: 1, reply: Some(Reply::NotHere), passed_on: None };
    Question {
        bucket: BucketId([1; 16]),
        wire: 1,
        opened,
        asked: BTreeMap::from([(SiteId([2; 16]), said)]),
        apart: BTreeSet::new(),
        one_level: false,
        wanted: Some(Bytes::from_static(b"k")),
        searches_until: Some(opened.after(searched)),
        heard: None,
        gives: false,
    }
}

#[test]
fn a_question_that_searches_on_is_not_due_before_that_is_over() {
    let question = question(limits::WAIT + Duration::from_millis(600));
    let now = question.waited().after(Duration::from_millis(100));
    assert!(question.is_searching(now) && question.all_replied());
    assert!(question.next_wake() > now, "the thread would spin");
    assert!(!question.is_searching(question.next_wake()), "and then it is over");
}

#[test]
fn no_member_is_so_far_that_a_question_stays_open_beyond_its_bound() {
    let question = question(Duration::from_secs(30));
    assert_eq!(question.next_wake(), question.deadline());
    assert!(!question.is_searching(question.deadline()));
}
