//! Dates as HTTP and S3 write them, from and to milliseconds since 1970.
//!
//! Why here: conditions, listings and signatures need three spellings of one instant, and no clock.

use skerry_base::WallTime;
use skerry_base::calendar::Date;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The first year that can be told.
const EPOCH: u64 = 1970;

/// Days since 1970-01-01; `None` before it or for what is no date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(EPOCH..=9999).contains(&year) {
        return None;
    }
    let date = Date { year: year.cast_signed(), month: month.cast_signed(), day: day.cast_signed() };
    // A day that its month does not have would be one of the next.
    let days = Some(date.days()).filter(|&days| Date::of_days(days) == date)?;
    u64::try_from(days).ok()
}

/// The date of a time in seconds since 1970, as numbers to write.
fn date(seconds: u64) -> (u64, u64, u64) {
    let Date { year, month, day } = Date::of_days((seconds / 86_400).cast_signed());
    (year.cast_unsigned(), month.cast_unsigned(), day.cast_unsigned())
}

/// Appends a number of so many digits. Not by `format!`, which took 30 times as many instructions: a listing
/// writes a date for every key.
fn push(text: &mut String, number: u64, width: u32) {
    for place in (0..width).rev() {
        text.push((b'0' + (number / 10_u64.pow(place) % 10) as u8) as char);
    }
}

/// Appends hour, minute and second with something between them.
fn push_clock(text: &mut String, seconds: u64, between: &str) {
    let clock = seconds % 86_400;
    push(text, clock / 3600, 2);
    text.push_str(between);
    push(text, clock / 60 % 60, 2);
    text.push_str(between);
    push(text, clock % 60, 2);
}

/// Appends year, month and day with something between them.
fn push_day(text: &mut String, seconds: u64, between: &str) {
    let (year, month, day) = date(seconds);
    push(text, year, 4);
    text.push_str(between);
    push(text, month, 2);
    text.push_str(between);
    push(text, day, 2);
}

/// `Tue, 14 Nov 2023 22:13:20 GMT`.
pub fn http(time: WallTime) -> String {
    let seconds = time.0 / 1000;
    let (year, month, day) = date(seconds);
    let name = |names: &[&'static str], index: u64| names.get(index as usize).copied().unwrap_or("???");
    let mut text = String::with_capacity(29);
    text.push_str(name(&DAYS, seconds / 86_400 % 7));
    text.push_str(", ");
    push(&mut text, day, 2);
    text.push(' ');
    text.push_str(name(&MONTHS, month - 1));
    text.push(' ');
    push(&mut text, year, 4);
    text.push(' ');
    push_clock(&mut text, seconds, ":");
    text.push_str(" GMT");
    text
}

/// `2023-11-14T22:13:20.500Z`.
pub fn iso(time: WallTime) -> String {
    let (seconds, millis) = (time.0 / 1000, time.0 % 1000);
    let mut text = String::with_capacity(24);
    push_day(&mut text, seconds, "-");
    text.push('T');
    push_clock(&mut text, seconds, ":");
    text.push('.');
    push(&mut text, millis, 3);
    text.push('Z');
    text
}

/// `20231114T221320Z`, as signatures have it.
pub fn amz(time: WallTime) -> String {
    let seconds = time.0 / 1000;
    let mut text = String::with_capacity(16);
    push_day(&mut text, seconds, "");
    text.push('T');
    push_clock(&mut text, seconds, "");
    text.push('Z');
    text
}

/// Reads `20231114T221320Z`.
pub fn parse_amz(text: &str) -> Option<WallTime> {
    if text.len() != 16 || text.get(8..9) != Some("T") || text.get(15..) != Some("Z") {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten()
    };
    let days = days(number(0, 4)?, number(4, 6)?, number(6, 8)?)?;
    stamp(days, number(9, 11)?, number(11, 13)?, number(13, 15)?)
}

/// Reads the three forms of a date that RFC 9110 has recipients accept: `Tue, 14 Nov 2023 22:13:20 GMT`, and the obsolete
/// `Tuesday, 14-Nov-23 22:13:20 GMT` and `Tue Nov 14 22:13:20 2023`.
pub fn parse_http(text: &str) -> Option<WallTime> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        [_, day, month, year, time, "GMT" | "UTC" | "+0000" | "-0000"] => {
            of(year.parse().ok()?, month, day, time)
        }
        [_, date, time, "GMT" | "UTC"] => {
            let mut fields = date.split('-');
            let (day, month, year) = (fields.next()?, fields.next()?, fields.next()?);
            let short: u64 = Some(year).filter(|year| year.len() == 2)?.parse().ok()?;
            // No clock here to count fifty years from: as everybody reads two digits, 1970 to 2069.
            let year = if short < 70 { 2000 + short } else { 1900 + short };
            if fields.next().is_some() { None } else { of(year, month, day, time) }
        }
        [_, month, day, time, year] => of(year.parse().ok()?, month, day, time),
        _ => None,
    }
}

/// The instant of a year, the name of a month, a day and `22:13:20`.
fn of(year: u64, month: &str, day: &str, time: &str) -> Option<WallTime> {
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    // What lies before the first day that can be told is that day: the zero of a clock of Go is of the year 1.
    let is_early = year < EPOCH;
    let days = days(year.max(EPOCH), month, day.parse().ok()?)?;
    let mut fields = time.split(':').map(|field| field.parse::<u64>().ok());
    let found = stamp(days, fields.next()??, fields.next()??, fields.next()??);
    let found = if is_early { found.map(|_| WallTime(0)) } else { found };
    if fields.next().is_some() { None } else { found }
}

fn stamp(days: u64, hour: u64, minute: u64, second: u64) -> Option<WallTime> {
    (hour < 24 && minute < 60 && second < 61)
        .then_some(WallTime((days * 86_400 + hour * 3600 + minute * 60 + second) * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_instant() {
        let time = WallTime(1_700_000_000_500);
        assert_eq!(http(time), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(iso(time), "2023-11-14T22:13:20.500Z");
        assert_eq!(amz(time), "20231114T221320Z");
        assert_eq!(http(WallTime(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 * 2 {
            let time = WallTime(day * 86_400_000 + 3_723_000);
            assert_eq!(parse_amz(&amz(time)), Some(time));
            assert_eq!(parse_http(&http(time)), Some(time));
        }
    }

    #[test]
    fn obsolete_forms_are_read() {
        let time = Some(WallTime(784_111_777_000));
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            // As mail has it, and with it Python, by which boto3 writes a date that its caller set.
            assert_eq!(parse_http(&text.replace("1994 08:49:37 GMT", "1994 08:49:37 -0000")), time, "{text}");
            assert_eq!(parse_http(text), time, "{text}");
        }
        assert_eq!(parse_http("Tuesday, 14-Nov-23 22:13:20 GMT"), Some(WallTime(1_700_000_000_000)));
        assert_eq!(parse_http("Tue Nov 14 22:13:20 2023"), Some(WallTime(1_700_000_000_000)));
    }

    #[test]
    fn nonsense_is_no_date() {
        for text in [
            "",
            "20231314T221320Z",
            "2023111aT221320Z",
            "20231114T251320Z",
            "20231114 221320Z",
            "20230229T221320Z",
            "20231131T221320Z",
            "20231300T221320Z",
            "é0231114T22132Z",
        ] {
            assert_eq!(parse_amz(text), None, "{text}");
        }
        for text in [
            "",
            "Tue, 14 Nov 2023",
            "Tue, 14 Foo 2023 22:13:20 GMT",
            "Tue, 14 Nov 2023 22:13 GMT",
            "Tue, 14 Nov 2023 22:13:20:01 GMT",
            "Tue, 14 Nov 2023 22:13:20 CET",
            "Tuesday, 14-Nov-2023 22:13:20 GMT",
            "Tuesday, 14-Nov-23-1 22:13:20 GMT",
            "Tuesday, 14-11-23 22:13:20 GMT",
            "Tue Nov 14 22:13:20",
            "Tue Nov 32 22:13:20 2023",
            "Tue, 31 Feb 2023 22:13:20 GMT",
        ] {
            assert_eq!(parse_http(text), None, "{text}");
        }
    }
}
