//! Words about lost sites: the same everywhere, whatever was said during a cut.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::codec;
use skerry_base::{NodeId, SiteId, WallTime};

use super::super::tests::{Site, exchange, system};
use super::super::{NodeEntry, SiteDocument, SystemKey, document_object};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);
const BERGEN: SiteId = SiteId([2; 16]);
const TROMSO: SiteId = SiteId([3; 16]);

impl Site {
    fn enter(&mut self, site: SiteId, state: SiteState) {
        let node = NodeEntry { node: NodeId(site.0), key: [0; 32], addresses: Vec::new() };
        let name = format!("site-{}", site.0[0]);
        let (nodes, admissions, joined) = (vec![node], Vec::new(), WallTime(1));
        let document = SiteDocument { name, nodes, admissions, state, joined };
        let key = SystemKey::Site(site).to_string();
        self.write(system(), &key, Ask::Put(Box::new(document_object(&document, WallTime(0)))));
    }

    fn say(&mut self, of: SiteId, lost: bool) -> Result<Option<LossDocument>, LossRefusal> {
        let (me, wall) = (SiteId([self.id; 16]), WallTime(self.wall));
        let word = declare_loss(&self.tables, system(), (of, lost), me, wall)?;
        Ok(word.map(|word| {
            self.write(system(), &word.key, Ask::Put(Box::new(word.object)));
            word.document
        }))
    }

    fn come_back(&mut self, lives: &[u64]) -> Option<LossDocument> {
        let (me, wall) = (SiteId([self.id; 16]), WallTime(self.wall));
        let word = take_back_loss(&self.tables, system(), me, lives.iter().copied(), wall).unwrap()?;
        self.write(system(), &word.key, Ask::Put(Box::new(word.object)));
        Some(word.document)
    }

    fn lost(&self) -> Vec<SiteId> {
        let all = losses(&self.tables, system()).unwrap();
        all.into_iter().filter(|(_, said)| said.is_lost()).map(|(site, _)| site).collect()
    }
}

/// Three sites that know each other, each by a word of its own.
fn three() -> [Site; 3] {
    let mut sites = [Site::new(1, "oslo"), Site::new(2, "bergen"), Site::new(3, "tromso")];
    for (site, id) in sites.iter_mut().zip([OSLO, BERGEN, TROMSO]) {
        site.enter(id, SiteState::Member);
    }
    let [oslo, bergen, tromso] = &mut sites;
    exchange(oslo, bergen, &[]);
    exchange(bergen, tromso, &[]);
    exchange(oslo, bergen, &[]);
    sites
}

#[test]
fn a_loss_is_heard_everywhere_and_taken_back_by_word() {
    let [mut oslo, mut bergen, _] = three();
    let said = oslo.say(TROMSO, true).unwrap().unwrap();
    assert_eq!((said.count, said.by, said.is_lost()), (1, OSLO, true));
    assert_eq!(said.lives, [1], "the lives that had been heard of");
    assert_eq!(oslo.say(TROMSO, true).unwrap(), None, "it is so already");
    assert_eq!(bergen.lost(), [], "who has not heard does not know");
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(bergen.lost(), [TROMSO]);
    let found = bergen.say(TROMSO, false).unwrap().unwrap();
    assert_eq!((found.count, found.since, found.cause), (2, said.since, LossCause::Said));
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.lost(), []);
    assert_eq!(loss(&oslo.tables, system(), TROMSO).unwrap(), Some(found), "that it was is not forgotten");
    assert_eq!(oslo.say(TROMSO, false).unwrap(), None);
}

/// The same said on two islands is said once; what was said later of what had been heard wins, whatever the clocks.
#[test]
fn words_of_islands_agree() {
    let [mut oslo, mut bergen, mut tromso] = three();
    oslo.say(TROMSO, true).unwrap();
    bergen.wall = 1 << 40;
    bergen.say(TROMSO, true).unwrap();
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!((oslo.lost(), bergen.lost()), (vec![TROMSO], vec![TROMSO]));
    oslo.say(TROMSO, false).unwrap();
    oslo.say(TROMSO, true).unwrap();
    bergen.say(TROMSO, false).unwrap();
    exchange(&mut oslo, &mut bergen, &[]);
    for site in [&oslo, &bergen] {
        assert_eq!(site.lost(), [TROMSO], "3 is more than 2");
        assert_eq!(loss(&site.tables, system(), TROMSO).unwrap().unwrap().count, 3);
    }
    exchange(&mut bergen, &mut tromso, &[]);
    assert_eq!(tromso.lost(), [TROMSO], "it hears it of itself, months later");
}

#[test]
fn a_site_comes_back_by_itself_only_with_the_disk_that_was_meant() {
    let [mut oslo, mut bergen, mut tromso] = three();
    assert_eq!(tromso.come_back(&[1]), None, "nobody said that it is lost");
    oslo.say(TROMSO, true).unwrap();
    exchange(&mut oslo, &mut tromso, &[]);
    assert_eq!(tromso.come_back(&[7, 8]), None, "another disk under the same name");
    assert_eq!(tromso.lost(), [TROMSO]);
    let back = tromso.come_back(&[9, 1]).unwrap();
    assert_eq!((back.count, back.cause, back.by), (2, LossCause::Returned, TROMSO));
    assert_eq!(tromso.come_back(&[9, 1]), None);
    exchange(&mut tromso, &mut bergen, &[]);
    exchange(&mut bergen, &mut oslo, &[]);
    assert_eq!((oslo.lost(), bergen.lost()), (vec![], vec![]));
}

#[test]
fn what_cannot_be_declared_is_refused() {
    let [mut oslo, ..] = three();
    assert!(matches!(oslo.say(OSLO, true), Err(LossRefusal::Myself)));
    assert!(matches!(oslo.say(SiteId([9; 16]), true), Err(LossRefusal::NoSite)));
    assert!(matches!(oslo.say(OSLO, false), Ok(None)));
    oslo.enter(BERGEN, SiteState::Expelled);
    assert!(matches!(oslo.say(BERGEN, true), Err(LossRefusal::Gone)));
    assert!(matches!(oslo.say(BERGEN, false), Err(LossRefusal::Gone)));
}

#[test]
fn counts_only_rise() {
    assert_eq!((next_count(0, true), next_count(0, false)), (Some(1), None));
    assert_eq!((next_count(1, true), next_count(1, false)), (None, Some(2)));
    assert_eq!(next_count(u64::MAX, false), Some(u64::MAX));
}

/// Fixture of version 1: must decode for ever. Never regenerate it.
#[test]
fn v1_fixture() {
    let document = LossDocument {
        count: 3,
        since: WallTime(300),
        said: WallTime(301),
        by: SiteId([4; 16]),
        lives: vec![1, 300],
        cause: LossCause::Returned,
    };
    let bytes = codec::encode(&document);
    let hex = skerry_base::hex::text(&bytes);
    assert_eq!(hex, format!("0103ac02ad02{}0201ac0201", "04".repeat(16)));
    assert_eq!(codec::decode::<LossDocument>(&bytes).unwrap(), document);
}
