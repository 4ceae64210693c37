//! Days since 1970 and their dates in the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date
//! algorithms").
//!
//! Why here: the gateway writes and reads dates, an uplink's budget begins anew on a day of the month, the command line
//! prints times. Zones, names and what is accepted from outside are theirs.
//!
//! Invariants: any number of days has a date and any date a number of days; what is out of range carries over.

/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01: years that begin in March put the leap day last.
const SHIFT_DAYS: i64 = 719_468;

/// A day of the calendar. Read from days it is in range; written by hand it may name a month 0 or 13, or a day 31 of any
/// month, by which the neighbours are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Year; 0 is the one before 1.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: i64,
    /// Day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// The date so many days after 1970-01-01.
    pub const fn of_days(days: i64) -> Self {
        let shifted = days.saturating_add(SHIFT_DAYS);
        let (era, of_era) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let (month, carry) = if from_march < 10 { (from_march + 3, 0) } else { (from_march - 9, 1) };
        Self { year: era * 400 + year + carry, month, day }
    }

    /// Days since 1970-01-01; before it they are negative. A year too far for any number of days is as far as it can be told.
    pub const fn days(self) -> i64 {
        let months = self.year.saturating_mul(12).saturating_add(self.month).saturating_sub(3);
        let (year, from_march) = (months.div_euclid(12), months.rem_euclid(12));
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = of_era * 365 + of_era / 4 - of_era / 100 + (153 * from_march + 2) / 5;
        era.saturating_mul(ERA_DAYS)
            .saturating_add(of_year - SHIFT_DAYS)
            .saturating_add(self.day.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn date(year: i64, month: i64, day: i64) -> Date {
        Date { year, month, day }
    }

    #[test]
    fn days_that_others_know() {
        for (days, known) in [
            (0, date(1970, 1, 1)),
            (-1, date(1969, 12, 31)),
            (11_016, date(2000, 2, 29)),
            (19_675, date(2023, 11, 14)),
            (2_932_896, date(9999, 12, 31)),
            (-719_162, date(1, 1, 1)),
            (-719_528, date(0, 1, 1)),
        ] {
            assert_eq!((Date::of_days(days), known.days()), (known, days));
        }
    }

    /// Counted forward by the rule that everybody learns, over an era before and two after 1970.
    #[test]
    fn every_day_follows_the_one_before() {
        let mut today = Date::of_days(-ERA_DAYS);
        for days in -ERA_DAYS..2 * ERA_DAYS {
            assert_eq!((Date::of_days(days), today.days()), (today, days));
            let is_leap = today.year % 4 == 0 && (today.year % 100 != 0 || today.year % 400 == 0);
            let length = match today.month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            today = match today {
                Date { year, month: 12, day: 31 } => date(year + 1, 1, 1),
                Date { year, month, day } if day == length => date(year, month + 1, 1),
                Date { year, month, day } => date(year, month, day + 1),
            };
        }
    }

    #[test]
    fn what_is_out_of_range_carries_over() {
        for (written, meant) in [
            (date(2026, 13, 5), date(2027, 1, 5)),
            (date(2026, 0, 5), date(2025, 12, 5)),
            (date(2026, -11, 5), date(2025, 1, 5)),
            (date(2026, 2, 31), date(2026, 3, 3)),
            (date(2028, 2, 30), date(2028, 3, 1)),
            (date(2026, 3, 0), date(2026, 2, 28)),
        ] {
            assert_eq!(Date::of_days(written.days()), meant);
        }
    }

    #[test]
    fn far_years_are_as_far_as_can_be_told() {
        let far = date(292_277_026, 8, 15);
        assert_eq!(Date::of_days(far.days()), far);
        for days in [i64::MAX, i64::MIN] {
            let year = Date::of_days(days).year;
            assert_eq!(year / 1_000_000_000_000, days.signum() * 25_252);
            for beyond in [date(days, 1, 1), date(days, days, days), date(2026, 1, days)] {
                assert!(Date::of_days(beyond.days()).year.abs_diff(year) < 3000, "{beyond:?}");
            }
        }
    }
}
