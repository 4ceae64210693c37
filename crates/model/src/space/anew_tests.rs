//! A lost entry that a later one covers: dead as long as the vector stands, and back from others once it was taken back.

#![expect(clippy::unwrap_used, reason = "tests")]
use skerry_base::Dot;
use skerry_base::kv::Tables;

use super::super::tests::{BUCKET, apply, origin, put, store};
use super::super::{
    Below, DotRange, Incoming, Subscription, Verdict, accept, dots_in, followed, loose, subscription, take,
    vector,
};
use super::*;
use crate::record::{Record, Statement};

fn apply_all(tables: &mut Tables, entries: &[Entry]) {
    entries.iter().for_each(|entry| {
        apply(tables, entry);
    });
}

fn upto(seqs: &[(u8, u64)]) -> Vector {
    seqs.iter().map(|(n, seq)| (origin(*n), *seq)).collect()
}

fn stored(tables: &Tables) -> Vec<u64> {
    dots_in(tables, BUCKET, DotRange::ALL, 99).unwrap().into_iter().map(|dot| dot.seq).collect()
}

/// A node whose frame of 2 is gone: its later own write covers it.
fn damaged() -> Tables {
    let mut tables = Tables::default();
    for seq in [1, 3, 4] {
        apply(&mut tables, &Entry::Write(Box::new(put(1, seq, &format!("key {seq}")))));
    }
    tables
}

#[test]
fn what_was_lost_is_dead_until_the_vector_is_taken_back_and_comes_again_from_others() {
    let mut tables = damaged();
    assert_eq!(accept(&tables, &put(1, 2, "key 2")).unwrap(), Verdict::Dead, "the fault");
    let entries = anew(&tables, BUCKET).unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!((vector(&tables, BUCKET).unwrap(), stored(&tables)), (Vector::new(), vec![1, 3, 4]));
    assert!(is_anew(&tables, BUCKET).unwrap());
    assert_eq!(accept(&tables, &put(1, 2, "key 2")).unwrap(), Verdict::New);
    // Another one has 2 and 3; there 1 was deleted, and the tombstone is gone. Of 4 it has not heard.
    let records = vec![put(1, 2, "key 2"), put(1, 3, "key 3")];
    let (base, upto_there) = (Vector::new(), upto(&[(1, 3)]));
    let incoming =
        Incoming { bucket: BUCKET, source: origin(9), base, records, upto: upto_there, more: false };
    let entries = take(&tables, incoming).unwrap().unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!(
        stored(&tables),
        [2, 3, 4],
        "what was lost is here, what was deleted is not, what nobody has is"
    );
    assert_eq!(loose(&tables, BUCKET).unwrap().len(), 1);
    let entries = whole_again(&tables, BUCKET).unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!(vector(&tables, BUCKET).unwrap(), upto(&[(1, 4)]));
    assert!(loose(&tables, BUCKET).unwrap().is_empty() && !is_anew(&tables, BUCKET).unwrap());
    assert!(whole_again(&tables, BUCKET).unwrap().is_empty(), "once");
}

#[test]
fn beginning_anew_twice_forgets_nothing_of_the_first_time() {
    let mut tables = damaged();
    for _ in 0..2 {
        let entries = anew(&tables, BUCKET).unwrap();
        apply_all(&mut tables, &entries);
    }
    apply(&mut tables, &Entry::Write(Box::new(put(2, 1, "of the next life"))));
    let entries = anew(&tables, BUCKET).unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!(all_anew(&tables).unwrap(), [(BUCKET, upto(&[(1, 4), (2, 1)]))].into());
    assert_eq!(followed_whole(&tables).unwrap(), [BUCKET].into(), "though nothing is vouched for");
    apply(&mut tables, &not_anew(BUCKET));
    assert!(all_anew(&tables).unwrap().is_empty());
}

#[test]
fn every_bucket_that_is_vouched_for_is_found() {
    let mut tables = damaged();
    let others =
        [BucketId([0; 16]), BucketId([7; 16]), BucketId([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])];
    for bucket in others {
        for n in [1, 2] {
            apply(&mut tables, &Entry::Vector { bucket, upto: upto(&[(n, 5)]) });
        }
    }
    // One that is followed by a prefix only, which vouches as well; and a record that nobody vouches for.
    let below = Below { bucket: BucketId([8; 16]), prefix: "a/".into() };
    let row = Subscription { upto: upto(&[(1, 9)]), complete: true, ..Subscription::default() };
    apply(&mut tables, &followed(&below, Some(&row)));
    store(&mut tables, Record { bucket: BucketId([9; 16]), ..put(1, 1, "read once") });
    let expected: BTreeSet<BucketId> = others.into_iter().chain([BUCKET, below.bucket]).collect();
    assert_eq!(vouched(&tables).unwrap(), expected);
    let whole: BTreeSet<BucketId> = others.into_iter().chain([BUCKET]).collect();
    assert_eq!(followed_whole(&tables).unwrap(), whole);
    let entries = anew(&tables, below.bucket).unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!(subscription(&tables, &below).unwrap(), Some(Subscription::default()));
}

#[test]
fn an_erase_that_was_lost_kills_again_when_it_comes() {
    let mut tables = damaged();
    let entries = anew(&tables, BUCKET).unwrap();
    apply_all(&mut tables, &entries);
    let target = Dot { origin: origin(1), seq: 1 };
    let erase = Record { statement: Statement::Erase { target }, ..put(1, 2, "key 1") };
    let incoming = Incoming {
        bucket: BUCKET,
        source: origin(9),
        base: Vector::new(),
        records: vec![erase, put(1, 3, "key 3"), put(1, 4, "key 4")],
        upto: upto(&[(1, 4)]),
        more: false,
    };
    let entries = take(&tables, incoming).unwrap().unwrap();
    apply_all(&mut tables, &entries);
    assert_eq!(stored(&tables), [2, 3, 4]);
}

#[test]
fn a_loss_is_heard_of_once_and_one_before_it_is_another() {
    let mut tables = damaged();
    assert!(!is_new_loss(&tables, &[]).unwrap());
    assert!(is_new_loss(&tables, &[(6, 7)]).unwrap());
    let entry = begun_anew(&tables, &[(6, 7)]).unwrap();
    apply(&mut tables, &entry);
    assert!(!is_new_loss(&tables, &[(6, 7)]).unwrap());
    for lost in [[(6, 7), (1, 2)], [(6, 7), (9, 12)], [(6, 8), (6, 7)]] {
        assert!(is_new_loss(&tables, &lost).unwrap(), "{lost:?}");
    }
    let entry = begun_anew(&tables, &[(1, 2), (9, 12)]).unwrap();
    apply(&mut tables, &entry);
    assert!(!is_new_loss(&tables, &[(1, 2), (6, 7), (10, 11)]).unwrap());
}

/// Fixtures of version 1: must decode for ever.
#[test]
fn v1_fixtures() {
    let lost = Lost(vec![(6, 300)]);
    assert_eq!(codec::encode(&lost), [1, 1, 6, 0xac, 2]);
    assert_eq!(codec::decode::<Lost>(&codec::encode(&lost)).unwrap(), lost);
    let former = Former(upto(&[(2, 300)]));
    let bytes = codec::encode(&former);
    assert_eq!(bytes, [&[1, 1][..], &[2; 16], &[1, 0xac, 2]].concat());
    assert_eq!(codec::decode::<Former>(&bytes).unwrap(), former);
}
