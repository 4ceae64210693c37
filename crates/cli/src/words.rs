//! Words of the command line: times, sizes, names of sites; how they are read and how they are printed.

use std::time::Duration;

use skerry_base::calendar::Date;
use skerry_base::name;

/// Reads `500ms`, `30s`, `5m`, `24h`, `7d`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is no time; say 500ms, 30s, 5m, 24h or 7d"))?;
    let unit = text.get(digits.len()..).unwrap_or_default();
    let millis = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => return Err(format!("{unit:?} is no unit of time; say ms, s, m, h or d")),
    };
    millis.map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long"))
}

/// What is to name something: nothing is no name, and is refused before anybody is asked.
pub(crate) fn said(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty: say what is meant, or leave it out".into()),
        false => Ok(text.to_owned()),
    }
}

/// Who owns something, as a site takes it.
pub(crate) fn owner(text: &str) -> Result<String, String> {
    let owner = said(text)?;
    skerry_node::check_owner(&owner).map(|()| owner)
}

/// A name for an area, as a site takes it.
pub(crate) fn area_name(text: &str) -> Result<String, String> {
    let area = said(text)?;
    match skerry_node::is_area_name(&area) {
        true => Ok(area),
        false => Err("an area's name has 1 to 32 of a-z, 0-9 and single hyphens between them, and is none of each, all, none, in".into()),
    }
}

/// What is to say something. A variable that is set to nothing counts as said.
pub(crate) fn filled(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        // What it was is nothing: no secret is printed.
        true => Err("it is empty (SKERRY_ACCESS_KEY and SKERRY_SECRET_KEY may be set to nothing): everybody would have that key; \
                     say both, or neither"
            .into()),
        false => Ok(text.to_owned()),
    }
}

/// How long to wait for something: not nothing.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("0 leaves no time to answer; say 500ms, 30s or more".into()),
        time => Ok(time),
    }
}

/// What a site gives out is good for so long at most.
const LONGEST_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// How long something is good for: long enough to be carried to another machine.
pub(crate) fn lifetime(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_secs(1) => {
            Err(format!("{text} is over before anybody can use it; say 10m, 24h or 7d"))
        }
        time if time > LONGEST_LIFE => Err(format!("{text} is too long: an invitation lives up to 30 days")),
        time => Ok(time),
    }
}

/// `12 s`, `5 min`, `3 h`.
pub(crate) fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `0 B`, `640 KiB`, `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let power = (count.ilog2() / 10).min(5);
    let value = count as f64 / 1024_f64.powi(power as i32);
    let unit = units.get(power as usize - 1).copied().unwrap_or_default();
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// `1 site`, `3 sites`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The same in a zone, so many minutes east of UTC, as those read it who said times in it: `2026-11-21 22:40:05 +01:00`.
pub(crate) fn wall_in(zone_minutes: i16, milliseconds: u64) -> String {
    let text = wall(milliseconds.saturating_add_signed(i64::from(zone_minutes) * 60_000));
    if zone_minutes == 0 {
        return text;
    }
    let (sign, size) = (if zone_minutes < 0 { '-' } else { '+' }, zone_minutes.unsigned_abs());
    format!("{}{sign}{:02}:{:02}", text.trim_end_matches("UTC"), size / 60, size % 60)
}

/// `2026-11-21 21:40:05 UTC` from milliseconds since 1970.
pub(crate) fn wall(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let Date { year, month, day } = Date::of_days((seconds / 86_400).cast_signed());
    let rest = seconds % 86_400;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A name for a bucket, as S3 has it.
pub(crate) fn bucket_name(text: &str) -> Result<String, String> {
    name::check_form(text).map(|()| text.to_owned()).map_err(|_| {
        "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens, as in `photos-2026`".into()
    })
}

/// A name for a site.
pub(crate) fn site_name(text: &str) -> Result<String, String> {
    name::check_site_name(text).map(|()| text.to_owned()).map_err(|_| {
        "a site's name has 1 to 32 lower-case letters, digits and single hyphens, as in `lisbon-2`".into()
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert_eq!(lifetime("1s").unwrap(), Duration::from_secs(1));
        assert!(lifetime("0s").is_err() && lifetime("999ms").is_err());
        for wrong in ["", "s", "1y", "-1s", "1.5h", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_are_printed() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(20 << 20), "20 MiB");
        assert_eq!(bytes(u64::MAX), "16384 PiB");
        assert_eq!(span(Duration::from_millis(12)), "12 ms");
        assert_eq!(span(Duration::from_secs(3700)), "61 min");
        assert_eq!(count(1, "site"), "1 site");
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(wall(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(wall(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(wall(1_795_297_199_000), "2026-11-21 21:39:59 UTC");
    }

    #[test]
    fn bucket_names_are_checked() {
        assert!(bucket_name("pos--lisbon").is_ok() && bucket_name("a.b").is_ok());
        for wrong in ["", "ab", "Hey_", "hey_", "-ab", "ab.", "a..b", &"x".repeat(64)] {
            assert!(bucket_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn site_names_are_checked() {
        assert!(site_name("site-1").is_ok());
        for wrong in ["", "Site", "a--b", "-a", "a-", "a_b", &"x".repeat(33)] {
            assert!(site_name(wrong).is_err(), "{wrong}");
        }
    }
}
