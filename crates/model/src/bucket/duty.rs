//! Duties: whether a site takes writes, stands still for maintenance, or is emptied before it is switched off.
//!
//! A duty is said by an operator at any site and is a document of the system bucket, so all sites hear it, a restart
//! forgets nothing, and two words that were said during a cut come to the same at every site. What the site itself says
//! to it (heard, so much left, empty) is a document of its own, which only that site writes.
//!
//! Invariants: epochs rise with every word; of words of one epoch the stricter wins; a site is *empty* only if its own
//! report says so of the duty that holds now.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, WallTime};

use super::system::{SystemKey, document, document_object, each_document};
use crate::merge::Rank;
use crate::object::Object;
use crate::space::{self, SpaceError};

/// What a site is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Duty {
    /// Everything.
    #[default]
    Serve,
    /// Reads only: its operator maintains it.
    Freeze,
    /// Reads, and handing all it holds to others, so that it can be switched off.
    Drain,
}

/// An operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DutyDocument {
    /// Whose.
    pub site: SiteId,
    /// Counts the words about this site.
    pub epoch: u64,
    /// What it is to do.
    pub duty: Duty,
    /// Uploads that nobody completed may be lost with the site.
    pub abandon_uploads: bool,
    /// When it was said.
    pub said: WallTime,
    /// At which site.
    pub at: SiteId,
}

impl Versioned for DutyDocument {
    const NAME: &'static str = "duty document";
    const VERSION: u8 = 1;
}

/// What a site says to the last word that it has heard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DutyReport {
    /// The epoch of that word.
    pub epoch: u64,
    /// Everything that it held is held by others: it may be switched off.
    pub empty: bool,
    /// Records that no other site was known to have.
    pub records: u64,
    /// Versions whose body no other site was known to hold.
    pub bodies: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Buckets whose conditions it still decided.
    pub homes: u64,
    /// Uploads that nobody completed.
    pub uploads: u64,
    /// When it will be done, if that can be told.
    pub ends: Option<WallTime>,
    /// What holds it up, for people; empty if nothing does.
    pub waits_for: String,
    /// When it said so.
    pub said: WallTime,
}

impl Versioned for DutyReport {
    const NAME: &'static str = "duty report";
    const VERSION: u8 = 1;
}

/// What holds of a site, and what it said to that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnDuty {
    /// The duty; everything if nobody ever said otherwise.
    pub duty: Duty,
    /// The epoch of the word; 0 if there is none.
    pub epoch: u64,
    /// The word.
    pub word: Option<DutyDocument>,
    /// What the site said to just that word; none if it has not heard it, as far as is known here.
    pub report: Option<DutyReport>,
}

impl OnDuty {
    /// Whether it takes writes and copies of others.
    pub fn serves(&self) -> bool {
        self.duty == Duty::Serve
    }

    /// Whether what it holds counts no more, because it is about to go.
    pub fn leaves(&self) -> bool {
        self.duty == Duty::Drain
    }

    /// Whether it said that it may be switched off.
    pub fn is_empty(&self) -> bool {
        self.leaves() && self.report.as_ref().is_some_and(|report| report.empty)
    }

    /// Whether uploads that nobody completed may be lost.
    pub fn abandons_uploads(&self) -> bool {
        self.word.as_ref().is_some_and(|word| word.abandon_uploads)
    }
}

/// The word that holds of a site: the highest epoch, and the strictest of it.
pub fn duty(view: &dyn View, system: BucketId, site: SiteId) -> Result<OnDuty, SpaceError> {
    let mut best: Option<((u64, Duty, Rank), DutyDocument)> = None;
    for head in &space::heads(view, system, &SystemKey::Duty(site).to_string())? {
        let Some(found) = document::<DutyDocument>(head)?.filter(|found| found.site == site) else {
            continue;
        };
        let order = (found.epoch, found.duty, Rank::of(head));
        if best.as_ref().is_none_or(|(known, _)| order > *known) {
            best = Some((order, found));
        }
    }
    let Some((_, word)) = best else { return Ok(OnDuty::default()) };
    let report = report(view, system, site)?.filter(|report| report.epoch == word.epoch);
    Ok(OnDuty { duty: word.duty, epoch: word.epoch, word: Some(word), report })
}

/// The duties of all sites about which anything was ever said.
pub fn duties(view: &dyn View, system: BucketId) -> Result<BTreeMap<SiteId, OnDuty>, SpaceError> {
    let mut said = Vec::new();
    each_document(view, system, "duty/", &mut |key, _| {
        if let SystemKey::Duty(site) = key {
            said.push(site);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    said.into_iter().map(|site| Ok((site, duty(view, system, site)?))).collect()
}

fn report(view: &dyn View, system: BucketId, site: SiteId) -> Result<Option<DutyReport>, SpaceError> {
    let record = space::current(view, system, &SystemKey::DutyReport(site).to_string())?;
    Ok(record.as_ref().map(document::<DutyReport>).transpose()?.flatten())
}

/// The next word about a site: key and object; none if it says what holds already.
pub fn assign_duty(
    view: &dyn View,
    system: BucketId,
    word: DutyDocument,
) -> Result<Option<(String, Object)>, SpaceError> {
    let now = duty(view, system, word.site)?;
    if now.duty == word.duty && now.abandons_uploads() == word.abandon_uploads {
        return Ok(None);
    }
    let next = DutyDocument { epoch: now.epoch.saturating_add(1), ..word };
    Ok(Some((SystemKey::Duty(next.site).to_string(), document_object(&next, next.said))))
}

/// What a site says to the word that holds: key and object; none if another word holds by now, or it said the same.
pub fn report_duty(
    view: &dyn View,
    system: BucketId,
    site: SiteId,
    report: &DutyReport,
) -> Result<Option<(String, Object)>, SpaceError> {
    let now = duty(view, system, site)?;
    // When it will be done moves with each moment in which nothing comes nearer: that alone is no news for all sites.
    let as_now = |said: &DutyReport| DutyReport { said: report.said, ends: report.ends, ..said.clone() };
    let same = now.report.as_ref().is_some_and(|said| as_now(said) == *report);
    if now.epoch != report.epoch || now.epoch == 0 || same {
        return Ok(None);
    }
    Ok(Some((SystemKey::DutyReport(site).to_string(), document_object(report, report.said))))
}

#[cfg(test)]
#[path = "duty_tests.rs"]
mod tests;
