//! What is kept, for whom and how much.
#![expect(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;

use super::{Hot, LONGEST, PLACES, ROWS};

fn found(hot: &Hot, key: &str, seq: u64) {
    let ticket = hot.ticket(seq, || seq).unwrap();
    hot.found(key.as_bytes(), &Bytes::from_static(b"row"), (seq, ticket));
}

#[test]
fn what_is_asked_for_twice_is_kept_for_readings_from_then_on() {
    let hot = Hot::default();
    found(&hot, "a", 7);
    assert_eq!(hot.get(b"a", 7), None, "once is not hot");
    found(&hot, "a", 8);
    assert_eq!((hot.get(b"a", 7), hot.get(b"b", 9)), (None, None));
    assert_eq!(hot.get(b"a", 8), Some(Bytes::from_static(b"row")));
    hot.begin();
    hot.drop_row(b"a");
    hot.end();
    assert_eq!(hot.get(b"a", 9), None);
}

#[test]
fn nothing_is_kept_that_a_group_may_have_overtaken() {
    let hot = Hot::default();
    found(&hot, "a", 7);
    assert!(hot.ticket(7, || 8).is_none(), "one was applied since the reading began");
    let before = hot.ticket(8, || 8).unwrap();
    hot.begin();
    assert!(hot.ticket(8, || 8).is_none(), "one is under way");
    hot.found(b"a", &Bytes::from_static(b"old"), (8, before));
    hot.end();
    hot.found(b"a", &Bytes::from_static(b"old"), (8, before));
    assert_eq!(hot.get(b"a", 9), None);
}

#[test]
fn after_a_group_that_did_not_end_nothing_is_kept_until_the_next_has() {
    let hot = Hot::default();
    hot.begin();
    assert!(hot.ticket(8, || 8).is_none());
    hot.begin();
    assert!(hot.ticket(8, || 8).is_none(), "the next is under way");
    hot.end();
    assert!(hot.ticket(9, || 9).is_some());
}

#[test]
fn what_is_asked_for_once_pushes_nothing_out_and_memory_is_bounded() {
    let hot = Hot::default();
    for _ in 0..2 {
        found(&hot, "a", 7);
    }
    (0..10 * PLACES).for_each(|number| found(&hot, &format!("cold {number}"), 7));
    assert!(hot.get(b"a", 7).is_some());
    for number in 0..10 * PLACES {
        (0..2).for_each(|_| found(&hot, &format!("warm {number}"), 7));
    }
    let rows = |place: &std::sync::Mutex<super::Place>| place.lock().unwrap().rows.iter().flatten().count();
    let kept: usize = hot.places.iter().map(rows).sum();
    assert!(kept > PLACES * ROWS / 2 && kept <= PLACES * ROWS, "{kept}");
    let long = Bytes::from(vec![1; LONGEST]);
    let ticket = hot.ticket(7, || 7).unwrap();
    (0..2).for_each(|_| hot.found(b"long", &long, (7, ticket)));
    assert_eq!(hot.get(b"long", 7), None);
}

/// 200 objects, asked for in turn: name, version and chunk of each.
#[test]
fn hot_rows_that_meet_do_not_push_each_other_out() {
    let (hot, rows) = (Hot::default(), 600);
    let mut hits = 0;
    for turn in 0..12 {
        for number in 0..rows {
            let key = format!("row {number}");
            match hot.get(key.as_bytes(), 7) {
                Some(_) => hits += u32::from(turn >= 2),
                None => found(&hot, &key, 7),
            }
        }
    }
    assert!(hits > 10 * rows * 9 / 10, "{hits} of {}", 10 * rows);
}
