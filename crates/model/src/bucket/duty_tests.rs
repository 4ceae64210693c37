//! Words about sites that were said in many places, and what a site says to them.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::hex;
use skerry_base::{SiteId, WallTime, codec};

use super::super::tests::{Site, exchange, system};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);

impl Site {
    fn assign(&mut self, duty: Duty) -> u64 {
        let at = SiteId([self.id; 16]);
        let word = DutyDocument {
            site: OSLO,
            epoch: 0,
            duty,
            abandon_uploads: false,
            said: WallTime(self.wall),
            at,
        };
        if let Some((key, object)) = assign_duty(&self.tables, system(), word).unwrap() {
            self.write(system(), &key, Ask::Put(Box::new(object)));
        }
        self.on_duty().epoch
    }

    fn report(&mut self, epoch: u64, empty: bool) -> bool {
        let report = DutyReport { epoch, empty, said: WallTime(self.wall), ..DutyReport::default() };
        let said = report_duty(&self.tables, system(), OSLO, &report).unwrap();
        if let Some((key, object)) = said.clone() {
            self.write(system(), &key, Ask::Put(Box::new(object)));
        }
        said.is_some()
    }

    fn on_duty(&self) -> OnDuty {
        duty(&self.tables, system(), OSLO).unwrap()
    }
}

#[test]
fn nobody_ever_said_anything() {
    let oslo = Site::new(1, "oslo");
    assert_eq!(oslo.on_duty(), OnDuty::default());
    assert!(oslo.on_duty().serves() && !oslo.on_duty().is_empty());
}

#[test]
fn a_word_is_heard_once_and_a_repeat_is_none() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    assert_eq!(bergen.assign(Duty::Freeze), 1);
    assert_eq!(bergen.assign(Duty::Freeze), 1, "it says what holds already");
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!((oslo.on_duty().duty, oslo.on_duty().epoch), (Duty::Freeze, 1));
    assert_eq!(oslo.assign(Duty::Serve), 2);
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(bergen.on_duty().serves());
}

#[test]
fn of_words_said_during_a_cut_the_stricter_holds_everywhere() {
    for (one, other) in [(Duty::Freeze, Duty::Drain), (Duty::Drain, Duty::Freeze)] {
        let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
        oslo.assign(one);
        bergen.assign(other);
        exchange(&mut oslo, &mut bergen, &[]);
        for site in [&oslo, &bergen] {
            assert_eq!((site.on_duty().duty, site.on_duty().epoch), (Duty::Drain, 1));
        }
        // A later word that has seen both wins, whatever it says.
        assert_eq!(oslo.assign(Duty::Serve), 2);
        exchange(&mut oslo, &mut bergen, &[]);
        assert!(bergen.on_duty().serves());
    }
}

#[test]
fn a_report_counts_for_the_word_that_it_answers_only() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    assert!(!oslo.report(0, true), "nobody asked");
    oslo.assign(Duty::Drain);
    assert!(oslo.report(1, true) && oslo.on_duty().is_empty());
    assert!(!oslo.report(1, true), "said already");
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(bergen.on_duty().is_empty());
    bergen.assign(Duty::Serve);
    bergen.assign(Duty::Drain);
    assert!(!bergen.on_duty().is_empty(), "the site has not answered this word");
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(!oslo.report(1, true), "an answer to a former word is none");
    assert!(oslo.report(3, false) && !oslo.on_duty().is_empty());
    assert!(oslo.report(3, true) && oslo.on_duty().is_empty());
    assert!(oslo.report(3, false) && !oslo.on_duty().is_empty(), "what was said is taken back");
}

#[test]
fn a_frozen_site_is_never_empty() {
    let mut oslo = Site::new(1, "oslo");
    oslo.assign(Duty::Freeze);
    oslo.report(1, true);
    assert!(!oslo.on_duty().is_empty());
}

/// Fixtures of version 1: must decode for ever.
#[test]
fn v1_fixtures() {
    let word = DutyDocument {
        site: OSLO,
        epoch: 3,
        duty: Duty::Drain,
        abandon_uploads: true,
        said: WallTime(5),
        at: SiteId([2; 16]),
    };
    let fixture = format!("01{}03020105{}", "01".repeat(16), "02".repeat(16));
    assert_eq!(hex::text(&codec::encode(&word)), fixture);
    assert_eq!(codec::decode::<DutyDocument>(&codec::encode(&word)).unwrap(), word);
    let report = DutyReport {
        epoch: 3,
        empty: false,
        records: 1,
        bodies: 2,
        bytes: 3,
        homes: 4,
        uploads: 5,
        ends: Some(WallTime(9)),
        waits_for: "x".into(),
        said: WallTime(7),
    };
    assert_eq!(hex::text(&codec::encode(&report)), "01030001020304050109017807");
    assert_eq!(codec::decode::<DutyReport>(&codec::encode(&report)).unwrap(), report);
}

/// A drain that waits for weeks moves when it will be done with each look: that is no record at every site.
#[test]
fn when_it_will_be_done_is_no_news_where_nothing_came_nearer() {
    let mut oslo = Site::new(1, "oslo");
    let epoch = oslo.assign(Duty::Drain);
    let report = |bytes: u64, ends: u64, wall: u64| DutyReport {
        epoch,
        bodies: 1,
        bytes,
        ends: Some(WallTime(ends)),
        said: WallTime(wall),
        ..DutyReport::default()
    };
    let said = report_duty(&oslo.tables, system(), OSLO, &report(100, 10, 1)).unwrap();
    let (key, object) = said.unwrap();
    oslo.write(system(), &key, Ask::Put(Box::new(object)));
    assert!(report_duty(&oslo.tables, system(), OSLO, &report(100, 20, 2)).unwrap().is_none());
    assert!(report_duty(&oslo.tables, system(), OSLO, &report(90, 20, 3)).unwrap().is_some());
}
