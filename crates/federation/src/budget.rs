//! What a metered uplink may still carry in this period, and who goes first when it runs out.
//!
//! Why here: which bytes leave a site now is a decision between sites. Pure: bytes counted on the wire and the time
//! come in, permission comes out. Nothing is asked of a clock that is not trusted: it moves no period.
//!
//! Invariants: a period never begins twice, also when the clock goes back; a class that is refused is refused for
//! every less important one; what is refused says from when on it may go again.

use serde::{Deserialize, Serialize};
use skerry_base::WallTime;
use skerry_base::calendar::Date;
use skerry_base::codec::Versioned;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The last day of a month that every month has.
const LAST_RESET_DAY: u8 = 28;

/// What crosses between sites, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Conditional operations and deletes.
    Decision,
    /// Records: what makes sites agree.
    Record,
    /// Somebody waits for it.
    Read,
    /// Copies that nobody waits for.
    Copy,
}

impl Class {
    /// All, the most important first.
    pub const ALL: [Self; 4] = [Self::Decision, Self::Record, Self::Read, Self::Copy];

    /// Percent of the budget at which it stops. The distances are what the more important ones need to go on for a
    /// while: a month's records and conditional operations of a small site are a few percent of what reads take.
    pub const fn stops_at_percent(self) -> u64 {
        match self {
            Self::Decision => 100,
            Self::Record => 98,
            Self::Read => 95,
            Self::Copy => 80,
        }
    }
}

/// How often the budget begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Period {
    /// At midnight.
    Day,
    /// At midnight of a day of the month.
    #[default]
    Month,
}

/// What an operator said of an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of a period, both directions, everything on the wire.
    pub bytes: u64,
    /// Of which length.
    pub period: Period,
    /// The day of the month on which it begins anew: 1 to 28.
    pub reset_day: u8,
    /// Copies go only from the first hour to the second (0 to 23; past midnight if the second is less).
    pub hours: Option<(u8, u8)>,
    /// The zone of days and hours: minutes east of UTC.
    pub zone_minutes: i16,
}

/// Why a plan cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No bytes.
    #[error("a budget has at least 1 MB: to send nothing at all, cut the link")]
    TooSmall,
    /// Not a day that every month has.
    #[error("the reset day is 1 to {LAST_RESET_DAY}, so that every month has it")]
    ResetDay,
    /// Not two different hours.
    #[error("hours are two different ones of 0 to 23, as 22-6")]
    Hours,
    /// Farther than any zone.
    #[error("a zone is at most 14 hours from UTC")]
    Zone,
}

/// Less is a slip of the pen. Not all above it is enough: at rest one of 60 sites takes 28 MB a month.
const LEAST_BYTES: u64 = 1_000_000;
/// The farthest zone there is.
const ZONE_MINUTES: u16 = 14 * 60;

/// Whether something may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Now.
    Go,
    /// Not before this time: the budget of the period is used up for it.
    Spent(WallTime),
    /// Not before this time: its hours have not come.
    Closed(WallTime),
}

/// The account of an uplink: what is remembered over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// When the period began.
    pub since: WallTime,
    /// Bytes carried in it.
    pub used: u64,
}

impl Versioned for Account {
    const NAME: &'static str = "account of an uplink";
    const VERSION: u8 = 1;
}

impl Versioned for Plan {
    const NAME: &'static str = "budget of an uplink";
    const VERSION: u8 = 1;
}

impl Plan {
    /// Whether it can be.
    pub const fn check(&self) -> Result<(), PlanError> {
        if self.bytes < LEAST_BYTES {
            return Err(PlanError::TooSmall);
        }
        if self.reset_day < 1 || self.reset_day > LAST_RESET_DAY {
            return Err(PlanError::ResetDay);
        }
        if let Some((from, to)) = self.hours
            && (from > 23 || to > 23 || from == to)
        {
            return Err(PlanError::Hours);
        }
        if self.zone_minutes.unsigned_abs() > ZONE_MINUTES {
            return Err(PlanError::Zone);
        }
        Ok(())
    }

    /// Bytes of a month.
    pub const fn month_bytes(&self) -> u64 {
        match self.period {
            Period::Day => self.bytes.saturating_mul(30),
            Period::Month => self.bytes,
        }
    }

    fn local(&self, at: WallTime) -> i64 {
        i64::try_from(at.0).unwrap_or(i64::MAX / 2) + i64::from(self.zone_minutes) * MINUTE_MS
    }

    fn global(&self, local: i64) -> WallTime {
        WallTime(u64::try_from(local - i64::from(self.zone_minutes) * MINUTE_MS).unwrap_or(0))
    }

    /// When the period around this time began.
    pub fn began(&self, at: WallTime) -> WallTime {
        let day = self.local(at).div_euclid(DAY_MS);
        let first = match self.period {
            Period::Day => day,
            Period::Month => {
                let (today, reset) = (Date::of_days(day), i64::from(self.reset_day));
                let month = if today.day >= reset { today.month } else { today.month - 1 };
                Date { month, day: reset, ..today }.days()
            }
        };
        self.global(first * DAY_MS)
    }

    /// When the next one begins.
    pub fn ends(&self, at: WallTime) -> WallTime {
        let first = self.local(self.began(at)).div_euclid(DAY_MS);
        let next = match self.period {
            Period::Day => first + 1,
            Period::Month => {
                let began = Date::of_days(first);
                Date { month: began.month + 1, ..began }.days()
            }
        };
        self.global(next * DAY_MS)
    }

    /// When copies may go: this time itself if their hours have come.
    fn opens(&self, at: WallTime) -> WallTime {
        let Some((from, to)) = self.hours else { return at };
        let local = self.local(at);
        let (from, to) = (i64::from(from) * HOUR_MS, i64::from(to) * HOUR_MS);
        let time = local.rem_euclid(DAY_MS);
        let open = if from < to { (from..to).contains(&time) } else { time >= from || time < to };
        if open {
            return at;
        }
        // Closed: so the opening is ahead, today or (if it was earlier today) tomorrow.
        let today = local - time + from;
        self.global(if time < from { today } else { today + DAY_MS })
    }
}

/// The uplink of a site: a plan, if it is metered, and what it carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    plan: Option<Plan>,
    account: Account,
    /// Since when the clock has shown a time before the period that is counted.
    behind: Option<WallTime>,
}

/// So long a clock must have gone on before a period that is counted until that is taken for the slip of a clock that it
/// was: one that goes back for a moment begins nothing.
const SLIP_MS: u64 = HOUR_MS as u64;

impl Budget {
    /// As remembered.
    pub const fn new(plan: Option<Plan>, account: Account) -> Self {
        Self { plan, account, behind: None }
    }

    /// What was said of it.
    pub const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// What it carried.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Says it anew; what was carried in the period goes on to count.
    pub fn set(&mut self, plan: Option<Plan>, now: WallTime) {
        let was_counted = self.plan.is_some();
        self.plan = plan;
        if let Some(plan) = plan {
            // What was counted under a plan of other periods began when the running one of the new plan did, at the latest.
            // Before the first plan nothing was counted, whatever crossed in the period so far.
            let counted = plan.began(now).max(self.account.since).min(now);
            self.account.since = if was_counted { counted } else { now };
        } else {
            self.account = Account::default();
        }
    }

    /// So many bytes crossed. `trusted`: the clock may begin a period; a clock that goes back never does.
    pub fn carried(&mut self, bytes: u64, now: WallTime, trusted: bool) {
        let Some(plan) = self.plan else { return };
        let began = plan.began(now);
        if trusted && began > self.account.since {
            (self.account, self.behind) = (Account { since: began, used: 0 }, None);
        } else if trusted {
            self.look_back(began, now);
        }
        self.account.used = self.account.used.saturating_add(bytes);
    }

    /// A clock that had slipped ahead has begun a period that is long in coming: the one under way is counted again, with all
    /// that was counted since.
    fn look_back(&mut self, began: WallTime, now: WallTime) {
        if self.account.since.0 <= now.0.saturating_add(SLIP_MS) {
            self.behind = None;
            return;
        }
        match self.behind.filter(|first| *first <= now) {
            None => self.behind = Some(now),
            Some(first) if now.0 - first.0 >= SLIP_MS => {
                (self.account.since, self.behind) = (began, None);
            }
            Some(_) => {}
        }
    }

    /// Whether something of this class may cross now.
    pub fn may(&self, class: Class, now: WallTime) -> Verdict {
        let Some(plan) = &self.plan else { return Verdict::Go };
        let stops = u128::from(plan.bytes) * u128::from(class.stops_at_percent()) / 100;
        if u128::from(self.account.used) >= stops {
            // The period under way, also when the clock shows an earlier one.
            let ends = plan.ends(now.max(self.account.since));
            // With the new period their hours need not have come.
            return Verdict::Spent(if class == Class::Copy { plan.opens(ends) } else { ends });
        }
        match class {
            Class::Copy if plan.opens(now) > now => Verdict::Closed(plan.opens(now)),
            _ => Verdict::Go,
        }
    }

    /// Bytes that something of this class may still take in this period; all there are without a plan.
    pub fn left(&self, class: Class) -> u64 {
        let Some(plan) = &self.plan else { return u64::MAX };
        let stops = u128::from(plan.bytes) * u128::from(class.stops_at_percent()) / 100;
        u64::try_from(stops).unwrap_or(u64::MAX).saturating_sub(self.account.used)
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
