//! What a write becomes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use skerry_base::NodeId;
use skerry_base::kv::{Batch, Overlay, Reducer, Tables};

use super::*;
use crate::Entry;
use crate::space::SpaceReducer;

const BUCKET: BucketId = BucketId([1; 16]);

/// A node that writes at a time.
struct Node {
    tables: Tables,
    origin: Origin,
    clock: HlcClock,
    wall: u64,
    /// Whether its wall may be taken for the present.
    expires: bool,
    versioning: Versioning,
}

impl Node {
    fn new(n: u8) -> Self {
        let origin = Origin { node: NodeId([n; 16]), incarnation: n.into() };
        let clock = HlcClock::default();
        Self {
            tables: Tables::default(),
            origin,
            clock,
            wall: 5_000,
            expires: true,
            versioning: Versioning::Off,
        }
    }

    fn propose(&mut self, ask: Ask, conditions: &Conditions) -> Result<Proposed, WriteRefusal> {
        let view = self.tables.clone();
        self.propose_over(&view, ask, conditions)
    }

    fn propose_over(
        &mut self,
        view: &dyn View,
        ask: Ask,
        conditions: &Conditions,
    ) -> Result<Proposed, WriteRefusal> {
        let intent = Intent {
            bucket: BUCKET,
            key: "k",
            origin: self.origin,
            site: SiteId([1; 16]),
            wall: WallTime(self.wall),
            present: self.expires.then_some(WallTime(self.wall)),
            versioning: self.versioning,
            writer: "w",
            scope: Scope::Site,
            home: None,
            placement: None,
            conditions,
            ask,
        };
        propose(view, intent, &mut self.clock)
    }

    fn apply(&mut self, entry: &Entry) {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), &self.tables, &mut batch).unwrap();
        self.tables.apply(&batch);
    }

    fn write(&mut self, ask: Ask) -> Record {
        self.wall += 1_000;
        match self.propose(ask, &Conditions::default()).unwrap() {
            Proposed::Write { record, .. } => {
                self.apply(&Entry::Write(record.clone()));
                *record
            }
            other => panic!("{other:?} is no write"),
        }
    }

    fn put(&mut self, etag: &str) -> Record {
        self.write(put(etag))
    }

    fn receive(&mut self, record: &Record) {
        self.apply(&Entry::Record(Box::new(record.clone())));
    }

    fn current(&self) -> Option<Record> {
        space::current(&self.tables, BUCKET, "k").unwrap()
    }

    fn lives(&self, record: &Record) -> bool {
        space::version(&self.tables, BUCKET, "k", VersionId::Dot(record.dot)).unwrap().is_some()
    }
}

fn put(etag: &str) -> Ask {
    Ask::Put(Box::new(Object { etag: etag.into(), modified: WallTime(7_400), ..Object::default() }))
}

fn one_of(etag: &str) -> Option<EtagTest> {
    Some(EtagTest::OneOf(vec![etag.into()]))
}

#[test]
fn seqs_are_dense_within_a_commit_group() {
    let mut node = Node::new(1);
    let below = node.tables.clone();
    let mut group = Batch::default();
    for seq in 1..=5 {
        let view = Overlay::new(&below, &group);
        let proposed = node.propose_over(&view, put(&seq.to_string()), &Conditions::default()).unwrap();
        let Proposed::Write { record, .. } = proposed else { panic!("no write") };
        assert_eq!(record.dot.seq, seq);
        assert_eq!(record.context.get(node.origin), seq - 1);
        let mut batch = Batch::default();
        SpaceReducer.reduce(&Entry::Write(record).encode(), &view, &mut batch).unwrap();
        group.writes.extend(batch.writes);
    }
}

/// Whoever hands over records under this life's own next dots swallows no write.
#[test]
fn a_write_steps_over_records_that_were_handed_over_as_its_own() {
    let mut node = Node::new(1);
    let first = node.put("first");
    for seq in [2, 3] {
        let dot = Dot { seq, ..first.dot };
        let forged = Record { dot, key: "other".into(), context: Vector::new(), ..first.clone() };
        node.receive(&forged);
    }
    for seq in [4, 5] {
        let written = node.put(&seq.to_string());
        assert_eq!(written.dot.seq, seq);
        assert_eq!(node.current(), Some(written), "acknowledged, and there");
    }
}

#[test]
fn conditions() {
    let c = Conditions::default();
    let object = Object { etag: "e".into(), size: 0, modified: WallTime(7_400), ..Object::default() };
    let holds = |conditions: &Conditions| conditions.check(Some(&object)).is_ok();
    assert!(c.is_empty() && holds(&c) && c.check(None).is_ok());
    for (conditions, with, without) in [
        (Conditions { if_match: one_of("e"), ..c.clone() }, true, false),
        (Conditions { if_match: one_of("f"), ..c.clone() }, false, false),
        (Conditions { if_match: Some(EtagTest::Any), ..c.clone() }, true, false),
        (Conditions { if_none_match: Some(EtagTest::Any), ..c.clone() }, false, true),
        (Conditions { if_none_match: one_of("e"), ..c.clone() }, false, true),
        (Conditions { if_none_match: one_of("f"), ..c.clone() }, true, true),
        (Conditions { unmodified_since: Some(WallTime(7_000)), ..c.clone() }, true, true),
        (Conditions { unmodified_since: Some(WallTime(6_999)), ..c.clone() }, false, true),
        (Conditions { modified_at: Some(WallTime(7_999)), ..c.clone() }, true, false),
        (Conditions { modified_at: Some(WallTime(8_000)), ..c.clone() }, false, false),
        (Conditions { size: Some(0), ..c.clone() }, true, false),
        (Conditions { size: Some(1), ..c.clone() }, false, false),
    ] {
        assert_eq!((holds(&conditions), conditions.check(None).is_ok()), (with, without), "{conditions:?}");
    }
}

#[test]
fn conditions_see_what_a_read_sees() {
    let mut node = Node::new(1);
    let create = Conditions { if_none_match: Some(EtagTest::Any), ..Conditions::default() };
    let replace = Conditions { if_match: one_of("a"), ..Conditions::default() };
    let missing = node.propose(put("a"), &replace);
    assert!(matches!(missing, Err(WriteRefusal::NoSuchKey)));
    node.put("a");
    assert!(matches!(node.propose(put("b"), &create), Err(WriteRefusal::Precondition("If-None-Match"))));
    assert!(matches!(node.propose(put("b"), &replace), Ok(Proposed::Write { .. })));
    node.write(Ask::Delete);
    assert!(matches!(node.propose(put("b"), &create), Ok(Proposed::Write { .. })));
    assert!(matches!(node.propose(Ask::Delete, &replace), Err(WriteRefusal::NoSuchKey)));
}

/// An object of these bytes that was taken in at a time.
fn put_at(etag: &str, modified: u64) -> Object {
    Object { etag: etag.into(), modified: WallTime(modified), ..Object::default() }
}

#[test]
fn a_put_that_is_tried_again_makes_no_version() {
    let propose =
        |node: &mut Node, object| node.propose(Ask::Put(Box::new(object)), &Conditions::default()).unwrap();
    let at = 10 * REPEATED_MS;
    let mut node = Node::new(1);
    let first = node.write(Ask::Put(Box::new(put_at("a", at))));
    let same = Proposed::Same(Box::new(first));
    for modified in [at, at + 1, at + REPEATED_MS, at - REPEATED_MS] {
        assert_eq!(propose(&mut node, put_at("a", modified)), same, "{modified}");
    }
    // A file that was touched: its time must move, or `sync` sends it for ever. Nor may a clock that was ahead hold it up.
    for modified in [at + REPEATED_MS + 1, at - REPEATED_MS - 1] {
        let Proposed::Write { record, .. } = propose(&mut node, put_at("a", modified)) else {
            panic!("{modified} was swallowed")
        };
        assert_eq!(record.object().unwrap().modified, WallTime(modified));
        assert!(record.context.covers(Dot { origin: node.origin, seq: 1 }), "it replaces the first");
    }
    node.write(Ask::Delete);
    assert!(matches!(propose(&mut node, put_at("a", at)), Proposed::Write { .. }));
}

#[test]
fn with_versioning_each_put_makes_a_version() {
    let mut node = Node::new(1);
    node.versioning = Versioning::Enabled;
    let (first, second) = (node.put("a"), node.put("a"));
    assert_ne!(first.dot, second.dot);
    assert!(node.lives(&first) && node.lives(&second));
    node.versioning = Versioning::Suspended;
    let third = node.put("a");
    let again = node.propose(put("a"), &Conditions::default()).unwrap();
    assert_eq!(again, Proposed::Same(Box::new(third)));
}

#[test]
fn an_equal_document_is_written_once() {
    let document = |modified| Object { document: Some("d".into()), ..put_at("", modified) };
    let mut node = Node::new(1);
    let first = node.write(Ask::Put(Box::new(document(1))));
    let later = Ask::Put(Box::new(document(100 * REPEATED_MS)));
    let same = Proposed::Same(Box::new(first));
    assert_eq!(node.propose(later, &Conditions::default()).unwrap(), same);
}

#[test]
fn nothing_to_delete() {
    let mut node = Node::new(1);
    let nothing = |node: &mut Node, ask| node.propose(ask, &Conditions::default()).unwrap();
    assert_eq!(nothing(&mut node, Ask::Delete), Proposed::Nothing);
    assert_eq!(nothing(&mut node, Ask::Erase(VersionId::Null)), Proposed::Nothing);
    node.put("a");
    let gone = node.write(Ask::Delete);
    assert_eq!(nothing(&mut node, Ask::Delete), Proposed::Same(Box::new(gone)), "its scope is tried again");
    node.versioning = Versioning::Enabled;
    assert!(matches!(nothing(&mut node, Ask::Delete), Proposed::Write { .. }));
    let note = Ask::Note { target: VersionId::Dot(Dot::default()), topic: 1, content: Bytes::new() };
    assert!(matches!(node.propose(note, &Conditions::default()), Err(WriteRefusal::NoSuchVersion)));
}

#[test]
fn versions_come_back_when_the_newest_is_erased() {
    let mut node = Node::new(1);
    let null = node.put("a");
    node.versioning = Versioning::Enabled;
    let one = node.put("b");
    let marker = node.write(Ask::Delete);
    assert!(node.current().unwrap().is_delete());
    node.write(Ask::Erase(VersionId::Dot(marker.dot)));
    assert_eq!(node.current().unwrap(), one);
    node.write(Ask::Erase(VersionId::Dot(one.dot)));
    assert_eq!(node.current().unwrap(), null);
    node.versioning = Versioning::Suspended;
    let replaced = node.put("c");
    assert!(!node.lives(&null), "a suspended write replaces the null version");
    node.write(Ask::Erase(VersionId::Null));
    assert_eq!(node.current(), None);
    node.receive(&null);
    node.receive(&replaced);
    assert_eq!(node.current(), None, "what the erased version had replaced stays dead");
    let erases = 3;
    assert_eq!(space::sums(&node.tables, BUCKET).unwrap().records, erases, "nothing else is remembered");
}

#[test]
fn an_erase_that_comes_first_refuses_its_target() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    near.versioning = Versioning::Enabled;
    let target = near.put("a");
    let erase = near.write(Ask::Erase(VersionId::Dot(target.dot)));
    far.receive(&erase);
    far.receive(&target);
    assert_eq!(far.current(), None);
    assert!(!far.lives(&target));
}

#[test]
fn losers_are_kept_until_listed_and_thirty_days_old() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    let loser = near.put("a");
    near.wall += 10_000;
    far.wall += 20_000;
    let winner = far.put("b");
    near.receive(&winner);
    assert_eq!(near.current().unwrap(), winner);
    let first = near.put("c");
    assert_eq!(first.keeps, [Kept { dot: loser.dot, since: first.clock }]);
    assert!(near.lives(&loser) && !near.lives(&winner));
    let listed = space::conflict(&near.tables, BUCKET, "k").unwrap().unwrap();
    assert_eq!((listed.current, listed.losers[0].kept_since), (first.dot, Some(first.clock)));
    near.wall += KEEP_LOSERS_MS + 60_000;
    let unlisted = near.put("d");
    assert_eq!(unlisted.keeps, first.keeps, "30 days old, but nobody saw it");
    let key = listed_fact(BUCKET, loser.dot);
    near.apply(&Entry::Local { key, value: Some(Bytes::new()) });
    assert!(near.put("e").keeps.is_empty());
    assert!(!near.lives(&loser));
    assert_eq!(space::conflict(&near.tables, BUCKET, "k").unwrap(), None);
}

#[test]
fn listed_losers_stay_thirty_days() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    let loser = near.put("a");
    far.wall += 20_000;
    near.receive(&far.put("b"));
    let key = listed_fact(BUCKET, loser.dot);
    near.apply(&Entry::Local { key, value: Some(Bytes::new()) });
    near.put("c");
    near.wall += KEEP_LOSERS_MS - 60_000;
    near.write(Ask::Delete);
    assert!(near.lives(&loser));
    near.wall += 120_000;
    near.put("d");
    assert!(!near.lives(&loser));
}

/// A stamp follows its predecessor's, whose writer's clock may be months ahead; a clock may be wrong itself, and known to be.
#[test]
fn no_stamp_and_no_doubtful_clock_ends_a_listed_loser() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    let loser = near.put("a");
    far.wall += 20_000;
    near.receive(&far.put("b"));
    let first = near.put("c");
    let key = listed_fact(BUCKET, loser.dot);
    near.apply(&Entry::Local { key, value: Some(Bytes::new()) });
    far.receive(&loser);
    far.receive(&first);
    far.wall += 5 * KEEP_LOSERS_MS;
    near.receive(&far.put("months ahead"));
    let second = near.put("d");
    assert!(second.clock.wall().0 > first.clock.wall().0 + KEEP_LOSERS_MS);
    assert!(near.lives(&loser), "the stamp alone is old");
    near.wall += 5 * KEEP_LOSERS_MS;
    near.expires = false;
    near.put("e");
    assert!(near.lives(&loser), "the clock is not to be believed");
    near.expires = true;
    near.put("f");
    assert!(!near.lives(&loser));
}

#[test]
fn a_delete_hides_only_what_it_has_seen() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    let first = near.put("a");
    far.receive(&first);
    let unseen = near.put("b");
    far.wall += 60_000;
    let delete = far.write(Ask::Delete);
    assert!(delete.clock > unseen.clock);
    near.receive(&delete);
    far.receive(&unseen);
    for node in [near, far] {
        assert_eq!(node.current().unwrap(), unseen);
        let conflict = space::conflict(&node.tables, BUCKET, "k").unwrap().unwrap();
        assert!(conflict.losers[0].is_delete, "that somebody deleted it is listed");
    }
}

#[test]
fn a_delete_that_keeps_losers_is_the_version_called_null() {
    for versioning in [Versioning::Off, Versioning::Suspended] {
        let (mut one, mut two) = (Node::new(1), Node::new(2));
        (one.versioning, two.versioning) = (versioning, versioning);
        let (first, second) = (one.put("x"), two.put("y"));
        one.receive(&second);
        let current = one.current().unwrap();
        let loser = if current.dot == first.dot { second } else { first };
        let deleted = one.write(Ask::Delete);
        assert!(one.lives(&loser) && one.current().is_some_and(|now| now.dot == deleted.dot));
        let null = space::null_version(&one.tables, BUCKET, "k").unwrap();
        // Where there never were versions a delete is none, and taking it away would bring back what lost.
        let has_versions = versioning == Versioning::Suspended;
        assert_eq!(null.map(|null| null.dot), has_versions.then_some(deleted.dot));
        let asked = one.propose(Ask::Erase(VersionId::Null), &Conditions::default()).unwrap();
        assert_eq!(matches!(asked, Proposed::Nothing), !has_versions, "{asked:?}");
        if has_versions {
            let erased = one.write(Ask::Erase(VersionId::Null));
            assert_eq!(erased.target(), Some(deleted.dot));
            assert!(one.lives(&loser), "a loser is kept for thirty days");
        }
    }
}

#[test]
fn more_conflicts_than_can_be_kept_stay_beside() {
    let mut node = Node::new(0);
    let rivals: Vec<Record> = (1..=30).map(|n| Node::new(n).put(&n.to_string())).collect();
    rivals.iter().for_each(|rival| node.receive(rival));
    let listed = space::conflict(&node.tables, BUCKET, "k").unwrap().unwrap();
    assert_eq!((listed.losers.len(), listed.more), (16, 13));
    let write = node.put("mine");
    assert_eq!(write.keeps.len(), 16);
    assert!(
        rivals.iter().filter(|rival| !node.lives(rival)).count() == 1,
        "only what was current is replaced"
    );
    let heads = space::heads(&node.tables, BUCKET, "k").unwrap();
    assert_eq!((heads[0].dot, heads.len()), (write.dot, 1 + 13));
    write.check().unwrap();
}

#[test]
fn folding_takes_the_oldest_kept() {
    let mut node = Node::new(0);
    let mut folded = Vec::new();
    let mut losers = Vec::new();
    for n in 1..=20 {
        node.wall += 60_000;
        let mut rival = Node::new(n);
        rival.wall = node.wall + 1_000 * u64::from(n);
        losers.push(node.put(&n.to_string()).dot);
        node.receive(&rival.put("rival"));
        node.wall += 1_000;
        let Proposed::Write { record, folded: now } =
            node.propose(put(&format!("own {n}")), &Conditions::default()).unwrap()
        else {
            panic!("no write")
        };
        record.check().unwrap();
        node.apply(&Entry::Write(record));
        folded.extend(now);
    }
    assert_eq!(folded, losers[..folded.len()], "oldest first");
    assert!(folded.len() >= 4 - 1);
}

#[test]
fn long_contexts_are_cut_to_what_still_covers_something() {
    let mut node = Node::new(0);
    let mut first = Vec::new();
    for life in 1..=300 {
        node.origin.incarnation = life;
        let record = node.put(&life.to_string());
        assert!(record.context.len() <= CONTEXT_ORIGINS, "{}", record.context.len());
        record.check().unwrap();
        first.push(record);
    }
    let heads = space::heads(&node.tables, BUCKET, "k").unwrap();
    assert_eq!(heads.len(), 1);
    for late in &first {
        node.receive(late);
    }
    assert_eq!(space::heads(&node.tables, BUCKET, "k").unwrap(), heads, "what was cut off is not forgotten");
}

#[test]
fn a_clock_from_the_future_does_not_move_the_own_one() {
    let (mut near, mut far) = (Node::new(1), Node::new(2));
    far.wall += 1_000_000_000;
    let future = far.put("a");
    near.receive(&future);
    let successor = near.put("b");
    assert_eq!(successor.clock, future.clock.next());
    assert_eq!(near.current().unwrap(), successor);
    near.wall += 1_000;
    assert_eq!(near.clock.stamp(WallTime(near.wall), None).wall(), WallTime(near.wall));
}
