//! Periods against a calendar that counts days one by one, and the order in which classes stop.

use proptest::prelude::*;

use super::*;

const DAY: u64 = DAY_MS as u64;
const HOUR: u64 = HOUR_MS as u64;

fn plan() -> Plan {
    Plan { bytes: 2_000_000_000, period: Period::Month, reset_day: 1, hours: None, zone_minutes: 0 }
}

/// Midnight UTC of a date, counted up from 1970.
fn midnight(year: u64, month: u64, of_month: u64) -> WallTime {
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let lengths = |year: u64| [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    let months: u64 = lengths(year).iter().take(month as usize - 1).sum();
    WallTime((years + months + of_month - 1) * DAY)
}

#[test]
fn a_month_begins_on_its_day_in_its_zone() {
    let noon = |year, month, day| WallTime(midnight(year, month, day).0 + 12 * HOUR);
    let first = plan();
    assert_eq!(first.began(noon(2026, 11, 22)), midnight(2026, 11, 1));
    assert_eq!(first.ends(noon(2026, 11, 22)), midnight(2026, 12, 1));
    assert_eq!(first.ends(noon(2026, 12, 31)), midnight(2027, 1, 1));
    let late = Plan { reset_day: 28, ..plan() };
    assert_eq!(late.began(noon(2028, 2, 28)), midnight(2028, 2, 28));
    assert_eq!(late.began(noon(2028, 1, 3)), midnight(2027, 12, 28));
    assert_eq!(late.ends(noon(2028, 1, 3)), midnight(2028, 1, 28));
    // Two hours east the month is two hours old when it begins in Greenwich.
    let east = Plan { zone_minutes: 120, ..plan() };
    assert_eq!(east.ends(noon(2026, 11, 22)).0, midnight(2026, 12, 1).0 - 2 * HOUR);
    assert_eq!(east.began(WallTime(midnight(2026, 12, 1).0 - HOUR)).0, midnight(2026, 12, 1).0 - 2 * HOUR);
    let day = Plan { period: Period::Day, ..plan() };
    assert_eq!(day.began(noon(2026, 11, 22)), midnight(2026, 11, 22));
    assert_eq!(day.ends(noon(2026, 2, 28)), midnight(2026, 3, 1));
}

#[test]
fn a_budget_counts_from_when_it_was_said() {
    let now = WallTime(midnight(2026, 11, 22).0 + 12 * HOUR);
    let mut budget = Budget::default();
    budget.set(Some(plan()), now);
    budget.carried(5, WallTime(now.0 + HOUR), true);
    assert_eq!(budget.account(), Account { since: now, used: 5 }, "nobody counted before");
    budget.set(Some(Plan { period: Period::Day, ..plan() }), WallTime(now.0 + 2 * HOUR));
    assert_eq!(budget.account(), Account { since: now, used: 5 });
    budget.carried(7, midnight(2026, 11, 23), true);
    assert_eq!(budget.account(), Account { since: midnight(2026, 11, 23), used: 7 });
}

#[test]
fn copies_that_are_spent_return_at_their_hours() {
    let now = WallTime(midnight(2026, 11, 22).0 + 12 * HOUR);
    let by_day = Plan { hours: Some((8, 18)), ..plan() };
    let budget = Budget::new(Some(by_day), Account { since: midnight(2026, 11, 1), used: 2_000_000_000 });
    let eight = WallTime(midnight(2026, 12, 1).0 + 8 * HOUR);
    assert_eq!(budget.may(Class::Copy, now), Verdict::Spent(eight), "not at midnight, when they are closed");
    assert_eq!(budget.may(Class::Read, now), Verdict::Spent(midnight(2026, 12, 1)));
    let over = Budget::new(Some(by_day), Account { since: midnight(2026, 12, 1), used: 0 });
    assert_eq!(over.may(Class::Copy, eight), Verdict::Go);
}

/// A receiver of time that slipped for a moment, and one that slips back for a moment.
#[test]
fn a_clock_that_slipped_ahead_freezes_no_budget() {
    let now = |hours: u64| WallTime(midnight(2026, 11, 22).0 + hours * HOUR);
    let mut budget = Budget::new(Some(plan()), Account::default());
    budget.carried(1_000_000_000, now(0), true);
    budget.carried(1, midnight(2027, 11, 22), true);
    for hour in 0..3 {
        budget.carried(500, now(hour), true);
    }
    assert_eq!(budget.account(), Account { since: midnight(2026, 11, 1), used: 1501 });
    budget.carried(7, midnight(2026, 12, 3), true);
    assert_eq!(budget.account(), Account { since: midnight(2026, 12, 1), used: 7 }, "the next one begins");
    // Back for a moment: nothing begins twice.
    budget.carried(5, midnight(2026, 10, 3), true);
    budget.carried(5, midnight(2026, 12, 4), true);
    assert_eq!(budget.account(), Account { since: midnight(2026, 12, 1), used: 17 });
}

#[test]
fn classes_stop_in_their_order_and_go_again_with_the_period() {
    let now = WallTime(midnight(2026, 11, 22).0 + 5 * HOUR);
    let mut budget = Budget::new(Some(plan()), Account::default());
    let mut stopped = Vec::new();
    for _ in 0..=100 {
        for class in Class::ALL {
            match budget.may(class, now) {
                Verdict::Go => assert!(!stopped.contains(&class)),
                Verdict::Spent(until) => {
                    assert_eq!(until, midnight(2026, 12, 1));
                    if !stopped.contains(&class) {
                        stopped.push(class);
                    }
                }
                Verdict::Closed(_) => unreachable!("there are no hours"),
            }
        }
        budget.carried(20_000_000, now, true);
    }
    assert_eq!(stopped, [Class::Copy, Class::Read, Class::Record, Class::Decision]);
    budget.carried(0, midnight(2026, 12, 1), true);
    assert!(Class::ALL.iter().all(|class| budget.may(*class, midnight(2026, 12, 1)) == Verdict::Go));
}

#[test]
fn a_clock_that_goes_back_or_is_not_trusted_begins_no_period() {
    let november = WallTime(midnight(2026, 11, 22).0 + 1);
    let mut budget = Budget::new(Some(plan()), Account::default());
    budget.carried(1_900_000_000, november, true);
    budget.carried(0, midnight(2027, 5, 1), false);
    budget.carried(0, midnight(1970, 2, 1), true);
    assert_eq!(budget.account().used, 1_900_000_000);
    // The clock of a box without a battery: the end is that of the period counted, not one of 1970.
    assert_eq!(budget.may(Class::Copy, midnight(1970, 2, 1)), Verdict::Spent(midnight(2026, 12, 1)));
}

#[test]
fn copies_wait_for_their_hours_also_past_midnight() {
    let budget =
        Budget::new(Some(Plan { hours: Some((22, 6)), zone_minutes: -60, ..plan() }), Account::default());
    let day = midnight(2026, 11, 22).0;
    // 22 to 6 an hour west of Greenwich is 23 to 7 there.
    for (hour, opens) in [(0, None), (6, None), (7, Some(23)), (12, Some(23)), (22, Some(23)), (23, None)] {
        let now = WallTime(day + hour * HOUR);
        let expected = opens.map_or(Verdict::Go, |opens| Verdict::Closed(WallTime(day + opens * HOUR)));
        assert_eq!(budget.may(Class::Copy, now), expected, "{hour}");
        assert_eq!(budget.may(Class::Read, now), Verdict::Go);
    }
    let morning = Budget::new(Some(Plan { hours: Some((1, 5)), ..plan() }), Account::default());
    assert_eq!(
        morning.may(Class::Copy, WallTime(day + 5 * HOUR)),
        Verdict::Closed(WallTime(day + 25 * HOUR))
    );
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(plan().check(), Ok(()));
    assert_eq!(Plan { bytes: 0, ..plan() }.check(), Err(PlanError::TooSmall));
    for day in [0, 29, 31, 255] {
        assert_eq!(Plan { reset_day: day, ..plan() }.check(), Err(PlanError::ResetDay));
    }
    for hours in [(3, 3), (24, 1), (1, 24)] {
        assert_eq!(Plan { hours: Some(hours), ..plan() }.check(), Err(PlanError::Hours));
    }
    assert_eq!(Plan { zone_minutes: 841, ..plan() }.check(), Err(PlanError::Zone));
}

prop_compose! {
    fn any_plan()(
        bytes in 1_000_000_u64..u64::MAX,
        day in any::<bool>(),
        reset_day in 1_u8..=28,
        hours in prop::option::of((0_u8..24, 0_u8..24)),
        zone_minutes in -840_i16..=840,
    ) -> Plan {
        let period = if day { Period::Day } else { Period::Month };
        Plan { bytes, period, reset_day, hours: hours.filter(|(from, to)| from != to), zone_minutes }
    }
}

proptest! {
    #[test]
    fn periods_tile_time(plan in any_plan(), at in DAY * 80..DAY * 365 * 200) { // the period before began after 1970
        let (began, ends) = (plan.began(WallTime(at)), plan.ends(WallTime(at)));
        prop_assert!(began.0 <= at && at < ends.0, "{began:?} {at} {ends:?}");
        let days = (ends.0 - began.0) / DAY;
        prop_assert_eq!((ends.0 - began.0) % DAY, 0);
        let lengths = if plan.period == Period::Day { 1..=1 } else { 28..=31 };
        prop_assert!(lengths.contains(&days), "{}", days);
        prop_assert_eq!(plan.began(ends), ends);
        prop_assert_eq!(plan.ends(WallTime(began.0.saturating_sub(1))), began);
    }

    /// Whatever is carried at whatever times: what may go is a prefix of the order, nothing that was refused says a time
    /// in the past, and at that time it may go if nothing else crossed.
    #[test]
    fn the_order_holds_and_every_refusal_ends(
        plan in any_plan(),
        steps in prop::collection::vec((0_u64..u64::MAX / 1000, 0_u64..DAY * 20, any::<bool>()), 1..40),
    ) {
        let mut budget = Budget::new(Some(plan), Account::default());
        let mut now = DAY * 365 * 50;
        for (bytes, passed, trusted) in steps {
            now += passed;
            let (at, since) = (WallTime(now), budget.account().since);
            budget.carried(bytes % (plan.bytes / 3 + 1), at, trusted);
            prop_assert!(budget.account().since >= since);
            let spent: Vec<bool> =
                Class::ALL.iter().map(|class| matches!(budget.may(*class, at), Verdict::Spent(_))).collect();
            prop_assert!(spent.is_sorted(), "{spent:?}");
            for class in Class::ALL {
                if let Verdict::Spent(until) | Verdict::Closed(until) = budget.may(class, at) {
                    prop_assert!(until > at);
                    let mut later = budget;
                    later.carried(0, until, true);
                    let open = match later.may(class, until) {
                        Verdict::Closed(until) => until,
                        _ => until,
                    };
                    later.carried(0, open, true);
                    prop_assert_eq!(later.may(class, open), Verdict::Go);
                }
            }
        }
    }

    /// What a class took never exceeds its share by more than what crossed at once.
    #[test]
    fn a_class_stops_at_its_share(sizes in prop::collection::vec(1_u64..50_000_000, 1..200)) {
        let mut budget = Budget::new(Some(plan()), Account::default());
        let now = midnight(2026, 11, 22);
        for class in Class::ALL.into_iter().rev() {
            for &size in &sizes {
                if budget.may(class, now) == Verdict::Go {
                    prop_assert!(budget.left(class) > 0);
                    budget.carried(size, now, true);
                } else {
                    prop_assert_eq!(budget.left(class), 0);
                }
            }
            let most = 20_000_000 * class.stops_at_percent() + 50_000_000;
            prop_assert!(budget.account().used <= most, "{class:?}");
        }
    }
}
