//! What was seen, of thousands of lives: homes are handed over, replaced and passed on, buckets deleted and brought back.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use skerry_base::{NodeId, SiteId};

use super::super::tests::{Site, exchange, feed, life, object, system};
use super::super::{
    FIRST_EPOCH, HomeDocument, HomeRefusal, Known, Loss, Named, NodeEntry, SiteDocument, SiteState, Standing,
    TenureDocument, Turn, Within, document, hand_over, name_heir, open, replace_home, standing,
};
use super::*;
use crate::object::DOCUMENT_BYTES;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);
const BERGEN: SiteId = SiteId([2; 16]);
const BUCKET: BucketId = BucketId([9; 16]);
const WALL: WallTime = WallTime(5);

fn put(site: &mut Site, (key, object): (String, Object)) {
    site.write(system(), &key, Ask::Put(Box::new(object)));
}

fn admit(site: &mut Site, id: SiteId, state: SiteState) {
    let node = NodeEntry { node: NodeId(id.0), key: [0; 32], addresses: Vec::new() };
    let name = format!("site-{}", id.0[0]);
    let document = SiteDocument { name, nodes: vec![node], admissions: Vec::new(), state, joined: WALL };
    put(site, (SystemKey::Site(id).to_string(), document_object(&document, WALL)));
}

/// Oslo keeps the register and is the home of a bucket; both know both.
fn two() -> (Site, Site) {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    for id in [OSLO, BERGEN] {
        admit(&mut oslo, id, SiteState::Member);
    }
    for bucket in [system(), BUCKET] {
        name(&mut oslo, Named::first(bucket, OSLO, false, WALL));
    }
    exchange(&mut oslo, &mut bergen, &[]);
    (oslo, bergen)
}

fn name(site: &mut Site, named: Named) {
    site.put_all(named.blocks);
    site.put_all(vec![(named.key, named.object)]);
}

fn hand(site: &mut Site, bucket: BucketId, to: SiteId) -> usize {
    let of = (SiteId([site.id; 16]), &BTreeSet::new());
    let named = hand_over(&site.tables, system(), (bucket, to), of, WALL).unwrap().unwrap();
    let blocks = named.blocks.len();
    name(site, named);
    blocks
}

fn stands(site: &Site, bucket: BucketId) -> Standing {
    standing(&site.tables, system(), bucket, SiteId([site.id; 16])).unwrap()
}

/// Refused before: the document held all of it.
#[test]
fn a_home_of_many_lives_is_handed_over_and_its_heir_waits_for_all_of_them() {
    for lives in [200, 5000] {
        let (mut oslo, mut bergen) = two();
        oslo.lives(BUCKET, 0..lives, 3);
        assert!(hand(&mut oslo, BUCKET, BERGEN) > 0);
        feed(&oslo, &mut bergen, system());
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2));
        // All but one record of one life.
        bergen.lives(BUCKET, (0..lives).filter(|n| *n != lives / 2), 3);
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2));
        bergen.lives(BUCKET, [lives / 2], 2);
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2), "one record of {lives} lives is missing");
        bergen.lives(BUCKET, [lives / 2], 9);
        assert_eq!(stands(&bergen, BUCKET), Standing::Decides(2), "more than was seen is enough");
        // What was written down once is not again.
        assert_eq!(hand(&mut bergen, BUCKET, OSLO), 0);
        exchange(&mut oslo, &mut bergen, &[BUCKET]);
        assert_eq!(stands(&oslo, BUCKET), Standing::Decides(3));
        oslo.lives(BUCKET, lives..lives + 300, 1);
        assert_eq!(hand(&mut oslo, BUCKET, BERGEN), 2, "{lives}");
        feed(&oslo, &mut bergen, system());
        bergen.lives(BUCKET, lives..lives + 299, 1);
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(4));
        feed(&oslo, &mut bergen, BUCKET);
        assert_eq!(stands(&bergen, BUCKET), Standing::Decides(4));
    }
}

#[test]
fn the_register_of_many_lives_is_handed_over() {
    let (mut oslo, mut bergen) = two();
    oslo.lives(system(), 0..5000, 3);
    assert_eq!(hand(&mut oslo, system(), BERGEN), 28, "blocks");
    assert_eq!(stands(&oslo, system()), Standing::Elsewhere(BERGEN));
    feed(&oslo, &mut bergen, system());
    assert_eq!(stands(&bergen, system()), Standing::Decides(2));
}

/// The home document may come ahead of its blocks, and a block may be lost.
#[test]
fn an_heir_without_a_block_waits_and_the_register_replaces_nobody_by_a_guess() {
    let (mut oslo, mut bergen) = two();
    oslo.lives(BUCKET, 0..400, 3);
    bergen.lives(BUCKET, 0..400, 3);
    hand(&mut oslo, BUCKET, BERGEN);
    let home = super::super::home(&oslo.tables, system(), BUCKET).unwrap().unwrap();
    let document =
        space::current(&oslo.tables, system(), &SystemKey::Home(BUCKET).to_string()).unwrap().unwrap();
    bergen.apply(&crate::Entry::Record(Box::new(document)));
    assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2));
    let heard = space::vector(&oslo.tables, BUCKET).unwrap();
    let loss =
        Loss { bucket: system(), lost: OSLO, to: BERGEN, heard: &Vector::new(), fellows: &BTreeSet::new() };
    let named = replace_home(&bergen.tables, system(), loss, BERGEN, WALL).unwrap();
    name(&mut bergen, named);
    let loss = Loss { bucket: BUCKET, lost: OSLO, to: BERGEN, heard: &heard, fellows: &BTreeSet::new() };
    let refused = replace_home(&bergen.tables, system(), loss, BERGEN, WALL);
    assert!(matches!(refused, Err(HomeRefusal::Unread(BERGEN))), "{refused:?}");
    let blocks = seen_blocks(&oslo.tables, system(), BUCKET, &[home.seen]).unwrap();
    assert_eq!(blocks.len(), 3);
    for block in &blocks {
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2));
        bergen.apply(&crate::Entry::Record(Box::new(block.clone())));
    }
    assert_eq!(stands(&bergen, BUCKET), Standing::Decides(2));
}

#[test]
fn a_lost_home_of_many_lives_is_replaced() {
    for lives in [200, 5000] {
        let (mut oslo, mut bergen) = two();
        oslo.lives(BUCKET, 0..lives, 3);
        hand(&mut oslo, BUCKET, BERGEN);
        exchange(&mut oslo, &mut bergen, &[BUCKET]);
        let mut heard = space::vector(&bergen.tables, BUCKET).unwrap();
        heard.advance(life(lives + 1), 4);
        let loss = Loss { bucket: BUCKET, lost: BERGEN, to: OSLO, heard: &heard, fellows: &BTreeSet::new() };
        let named = replace_home(&oslo.tables, system(), loss, OSLO, WALL).unwrap();
        assert!(named.blocks.is_empty(), "what is there is built upon");
        name(&mut oslo, named);
        assert_eq!(stands(&oslo, BUCKET), Standing::Behind(3));
        oslo.lives(BUCKET, [lives + 1], 4);
        assert_eq!(stands(&oslo, BUCKET), Standing::Decides(3));
    }
}

/// Of nodes that started so often, and an heir elsewhere.
#[test]
fn tenures_of_many_lives_open_and_pass_on() {
    for lives in [200, 5000] {
        let (mut oslo, _) = two();
        oslo.lives(BUCKET, 0..lives, 3);
        // The lives of this test are those of 60 nodes, which are of this site.
        let nodes = (0..60).map(|n| NodeEntry { node: life(n).node, key: [0; 32], addresses: Vec::new() });
        let of = SiteDocument {
            name: "oslo".into(),
            nodes: nodes.take(20).collect(),
            admissions: Vec::new(),
            state: SiteState::Member,
            joined: WALL,
        };
        put(&mut oslo, (SystemKey::Site(OSLO).to_string(), document_object(&of, WALL)));
        let nodes = BTreeSet::from([OSLO, SiteId([3; 16])]);
        let within = Within { me: OSLO, view: 4, reads: true, live: nodes.clone(), nodes, owner: OSLO };
        let opened = open(&oslo.tables, system(), BUCKET, (&within, WALL)).unwrap();
        let (tenure, blocks) = opened.unwrap();
        assert_eq!(blocks.is_empty(), lives == 200, "a third of them are of this site");
        say(&mut oslo, &tenure, blocks);
        let known = Known::load(&oslo.tables, system(), BUCKET).unwrap().unwrap();
        assert!(known.is_ready);
        assert_eq!(known.turn(&within), Turn::Decide(FIRST_EPOCH));
        let Turn::Pass(said) = known.give(&within, BERGEN) else { panic!("{known:?}") };
        let (said, blocks) = said.fitted(&oslo.tables, system(), WALL).unwrap();
        assert!(blocks.is_empty(), "what it opened with");
        say(&mut oslo, &said, blocks);
        let named = name_heir(&oslo.tables, system(), &said, (&within, WALL)).unwrap().unwrap().unwrap();
        assert_eq!(named.document.site, BERGEN);
        assert!(!named.blocks.is_empty());
        let mut bergen = Site::new(2, "bergen");
        name(&mut oslo, named);
        feed(&oslo, &mut bergen, system());
        bergen.lives(BUCKET, 1..lives, 3);
        assert_eq!(stands(&bergen, BUCKET), Standing::Behind(2));
        bergen.lives(BUCKET, [0], 3);
        assert_eq!(stands(&bergen, BUCKET), Standing::Decides(2));
    }
}

fn say(site: &mut Site, tenure: &TenureDocument, blocks: Blocks) {
    site.put_all(blocks);
    site.put_all(vec![tenure.written(WALL)]);
}

#[test]
fn a_bucket_of_many_lives_is_deleted_and_comes_back_by_what_that_had_not_seen() {
    for lives in [200, 5000] {
        let (mut oslo, mut bergen) = two();
        let bucket = oslo.create("photos", "ann");
        exchange(&mut oslo, &mut bergen, &[]);
        oslo.lives(bucket, 0..lives, 3);
        bergen.lives(bucket, 0..lives - 1, 3);
        oslo.write(bucket, "old", object());
        feed(&oslo, &mut bergen, bucket);
        oslo.write(bucket, "old", Ask::Delete);
        oslo.lives(bucket, [lives], 3);
        oslo.delete("photos").unwrap();
        feed(&oslo, &mut bergen, system());
        assert_eq!(bergen.revive(), 0, "what is visible there is what was deleted");
        feed(&oslo, &mut bergen, bucket);
        assert_eq!(bergen.revive(), 0, "and now it is gone");
        bergen.write(bucket, "new", object());
        assert_eq!(bergen.revive(), 1);
        exchange(&mut oslo, &mut bergen, &[bucket]);
        assert_eq!(oslo.id_of("photos"), Some(bucket));
    }
}

/// Settings may leave no room for what the deletion of a bucket had seen.
#[test]
fn a_bucket_with_long_settings_and_many_lives_is_deleted() {
    let mut oslo = Site::new(1, "oslo");
    let bucket = oslo.create("photos", "ann");
    let mut claim = oslo.find("photos").unwrap().claim;
    claim.config.more = vec![("a".into(), "b".repeat(1500))];
    oslo.put_claim(super::super::Claimed::new(&claim, WALL));
    oslo.lives(bucket, 0..100, 3);
    oslo.delete("photos").unwrap();
    assert_eq!(oslo.id_of("photos"), None);
}

/// Fixtures of version 1 must decode for ever. Never regenerate them.
#[test]
fn a_block_is_pinned() {
    let seen =
        Seen::of(&Vector::from_iter([(life(1), 300), (life(2), u64::MAX)])).joined(&Seen::naming(Some(7)));
    let document = SeenDocument { bucket: BUCKET, seen };
    let hex = skerry_base::hex::text(&codec::encode(&document));
    assert_eq!(hex, include_str!("fixtures/seen.v1.hex").trim());
    assert_eq!(codec::decode::<SeenDocument>(&codec::encode(&document)).unwrap(), document);
    assert_eq!(document.seen.blocks().collect::<Vec<_>>(), [7], "a vector has no entry that names a block");
}

/// What a release before makes of the documents: the same type, and no look at blocks.
#[test]
fn a_release_before_waits_where_it_cannot_read_what_was_seen() {
    let (mut oslo, _) = two();
    oslo.lives(BUCKET, 0..300, 3);
    hand(&mut oslo, BUCKET, BERGEN);
    let record =
        space::current(&oslo.tables, system(), &SystemKey::Home(BUCKET).to_string()).unwrap().unwrap();
    let home = document::<HomeDocument>(&record).unwrap().unwrap();
    assert!(!home.seen.is_included_in(&space::vector(&oslo.tables, BUCKET).unwrap()));
}

/// A block that says something else than its name is none.
#[test]
fn what_is_not_a_block_is_not_read_as_one() {
    let (mut oslo, _) = two();
    oslo.lives(BUCKET, 0..300, 3);
    let seen = Seen::of(&space::vector(&oslo.tables, BUCKET).unwrap());
    let (said, blocks) = seen.fitted(&oslo.tables, (system(), BUCKET), INLINE_BYTES, WALL).unwrap();
    let nothing = document_object(&SeenDocument { bucket: BUCKET, seen: Seen::default() }, WALL);
    for (key, _) in &blocks {
        put(&mut oslo, (key.clone(), nothing.clone()));
    }
    assert!(!said.resolved(&oslo.tables, system(), BUCKET).unwrap().is_whole());
    oslo.wall += 1000;
    oslo.put_all(blocks);
    assert_eq!(said.resolved(&oslo.tables, system(), BUCKET).unwrap(), seen);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written down in whatever order says the same when it is read, fits, and is not written down twice for ever.
    #[test]
    fn what_is_read_is_what_was_seen(
        rounds in prop::collection::vec((0u64..900, 1u64..700, 1u64..1 << 40, any::<bool>()), 1..8),
    ) {
        let mut site = Site::new(1, "oslo");
        let of = (system(), BUCKET);
        let mut vector = Vector::new();
        for (from, count, each, begins_anew) in rounds {
            if begins_anew {
                vector = Vector::new();
            }
            for n in from..from + count {
                vector.advance(life(n), each + n);
            }
            let seen = Seen::of(&vector);
            let (said, blocks) = seen.fitted(&site.tables, of, INLINE_BYTES, WALL).unwrap();
            prop_assert!(said.bytes() <= INLINE_BYTES);
            prop_assert!(blocks.iter().all(|(_, object)| object.document.as_ref().unwrap().len() <= DOCUMENT_BYTES));
            let least = seen.bytes().div_ceil(BLOCK_BYTES);
            prop_assert!(blocks.len() <= least + 1, "{} of {least}", blocks.len());
            site.put_all(blocks);
            prop_assert_eq!(said.resolved(&site.tables, system(), BUCKET).unwrap(), seen.clone());
            let records = seen_blocks(&site.tables, system(), BUCKET, std::slice::from_ref(&said)).unwrap();
            prop_assert!(records.len() <= 3 * least + 5, "{} of {least}", records.len());
            let (again, blocks) = said.fitted(&site.tables, of, 0, WALL).unwrap();
            site.put_all(blocks);
            prop_assert_eq!(again.resolved(&site.tables, system(), BUCKET).unwrap(), seen);
            prop_assert_eq!(codec::encode(&SeenDocument { bucket: BUCKET, seen: said.clone() }).len(), 17 + said.bytes());
        }
    }
}
