//! `skerry link cut|heal SITE`: fault injection. The site loses every connection to other sites, not its clients.
//! `skerry link budget SITE`: what its links may carry, where they are metered.

use clap::{Args, Subcommand};
use skerry_node::admin_shapes::{LinkRequest, LinkState, UplinkBudget, UplinkRequest, UplinkState};
use skerry_node::config::Size;
use skerry_node::config::kinds::Setting;

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::{Place, Site};
use crate::words;

/// Cut and heal the links of a site.
#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Drop every connection of a site to other sites and open none; its clients are served
    Cut(Cut),
    /// Connect it again
    Heal(Cut),
    /// Show, set or lift the budget of a site's links to other sites
    ///
    /// All links together, both directions. At its end copies stop first (at 80 %), then reads of what is elsewhere (95 %), then records (98 %), then conditional operations and deletes.
    Budget(Budget),
}

/// What is cut or healed.
#[derive(Debug, Args)]
pub(crate) struct Cut {
    #[command(flatten)]
    which: Which,
    /// Only between the site and this one, as if nothing joined the two; others may carry their link
    #[arg(long, value_name = "OTHER", value_parser = words::said)]
    from: Option<String>,
}

/// What the links of a site may carry.
#[derive(Debug, Args)]
pub(crate) struct Budget {
    #[command(flatten)]
    which: Which,
    /// Bytes per month or day, as 2GB/month; 1MB at least
    #[arg(long, value_name = "SIZE/PERIOD", value_parser = allowance)]
    bytes: Option<(u64, &'static str)>,
    /// Day of the month on which it begins anew, 1 to 28
    #[arg(long, value_name = "DAY", default_value_t = 1, requires = "bytes")]
    reset_day: u8,
    /// Copies cross at these hours only, as 22-6
    #[arg(long, value_name = "FROM-TO", value_parser = hours, requires = "bytes")]
    hours: Option<(u8, u8)>,
    /// Zone of days and hours: UTC or +HH:MM
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone, allow_hyphen_values = true, requires = "bytes")]
    zone: i16,
    /// Lift the budget
    #[arg(long, conflicts_with = "bytes")]
    none: bool,
}

fn allowance(text: &str) -> Result<(u64, &'static str), String> {
    let (size, period) = text.split_once('/').ok_or("a budget is a size and a period, as 2GB/month")?;
    let period = match period.trim() {
        "month" => "month",
        "day" => "day",
        other => return Err(format!("the period is month or day, not {other}")),
    };
    Ok((Size::parse(size)?.0, period))
}

fn hours(text: &str) -> Result<(u8, u8), String> {
    let pair = text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    pair.ok_or_else(|| format!("hours are two of 0 to 23, as 22-6, not {text}"))
}

fn zone(text: &str) -> Result<i16, String> {
    let wrong = || format!("a zone is UTC or +HH:MM, as +01:00 or -03:30, not {text}");
    if text.eq_ignore_ascii_case("utc") {
        return Ok(0);
    }
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let number =
        |text: &str, most: i16| text.parse::<i16>().ok().filter(|number| (0..=most).contains(number));
    match (number(hours, 14), number(minutes, 59)) {
        (Some(hours), Some(minutes)) => Ok(sign * (hours * 60 + minutes)),
        _ => Err(wrong()),
    }
}

impl Budget {
    async fn run(self, globals: Globals) -> Outcome {
        let site = self.which.site(&globals)?;
        let which = &self.which;
        let budget = self.bytes.map(|(bytes, period)| UplinkBudget {
            bytes,
            period: period.into(),
            reset_day: self.reset_day,
            hours: self.hours,
            zone_minutes: self.zone,
        });
        if let Some(budget) = &budget {
            skerry_node::check_budget(budget).map_err(Failure::usage)?;
        }
        let path = "/_skerry/v1/link/budget";
        let state: UplinkState = if budget.is_none() && !self.none {
            which.check(&site, &globals).await?;
            site.client.get(path).await?
        } else {
            let what = if self.none { "lift the budget of" } else { "set the budget of" };
            let act = format!("{what} the links of {}", which.target);
            which.check(&site, &globals).await?;
            let about = async { site.client.get::<UplinkState>(path).await.map(drop) };
            if look::dry_run(&globals, &act, about).await? {
                return Ok(Exit::Done);
            }
            site.client.post(path, &UplinkRequest { budget }).await?
        };
        if globals.json {
            output::document("budget", &state)?;
        } else {
            output::line(&told(&which.target, &state));
        }
        Ok(Exit::Done)
    }
}

/// A budget for people.
fn told(site: &str, state: &UplinkState) -> String {
    let Some(budget) = &state.budget else {
        return format!("the links of {site} are not metered");
    };
    // In the zone in which the budget was said, as refusals have it.
    let wall = |at| words::wall_in(budget.zone_minutes, at);
    let mut lines = vec![format!(
        "{site}: {} of {} a {} crossed since {}; the next {} begins {}",
        words::bytes(state.used_bytes),
        words::bytes(budget.bytes),
        budget.period,
        wall(state.since_ms),
        budget.period,
        wall(state.ends_ms.unwrap_or_default()),
    )];
    for class in &state.classes {
        let when = class.not_before_ms.map_or("may cross".into(), |at| format!("not before {}", wall(at)));
        lines.push(format!("  {}: {when}", class.name));
    }
    lines.join("\n")
}

/// Which site.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The site itself: one of the directory, or the one that listens at --endpoint. It is told directly, by nobody else
    #[arg(value_name = "SITE", value_parser = words::said)]
    target: String,
    #[command(flatten)]
    place: Place,
}

impl Link {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let (Cut { which, from }, cut) = match self {
            Self::Cut(which) => (which, true),
            Self::Heal(which) => (which, false),
            Self::Budget(budget) => return budget.run(globals).await,
        };
        let site = which.site(&globals)?;
        let verb = if cut { "cut" } else { "heal" };
        which.check(&site, &globals).await?;
        let about = async {
            match &from {
                Some(other) => look::site(&site, other).await.map(drop),
                None => look::keys(&site).await.map(drop),
            }
        };
        if look::dry_run(&globals, &format!("{verb} the links of {}", which.target), about).await? {
            return Ok(Exit::Done);
        }
        let one = from.is_some();
        let state: LinkState = site.client.post("/_skerry/v1/link", &LinkRequest { cut, from }).await?;
        if globals.json {
            let (cut, apart) = (state.cut, &state.apart);
            let document = serde_json::json!({ "site": which.target, "cut": cut, "apart": apart });
            output::document("link", &document)?;
        } else if one {
            let apart = if state.apart.is_empty() { "no site".into() } else { state.apart.join(", ") };
            output::line(&format!("{} is kept apart from {apart}", which.target));
        } else {
            let word =
                if state.cut { "is cut off from the other sites" } else { "is linked to the other sites" };
            output::line(&format!("{} {word}", which.target));
        }
        if one || state.cut == cut {
            Ok(Exit::Done)
        } else {
            Err(Failure::failed(format!("{} did not {verb}", which.target)))
        }
    }
}

/// Where a site is told to cut its links, of one that is not there.
fn local(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Refused => {
            let hint = "this is said at the site itself: its --dir, or its --endpoint with SKERRY_TOKEN";
            Failure { message: format!("{}; {hint}", failure.message), ..failure }
        }
        _ => failure,
    }
}

impl Which {
    /// The site of the directory that is named, or who listens at the endpoint.
    fn site(&self, globals: &Globals) -> Outcome<Site> {
        let sites = self.place.sites(&self.named(globals)).map_err(local)?;
        sites.into_iter().next().ok_or_else(|| Failure::refused(format!("there is no site {}", self.target)))
    }

    /// Before anything is done: at the endpoint another site may listen than the one that is named.
    async fn check(&self, site: &Site, globals: &Globals) -> Outcome<()> {
        self.place.check(site, &self.named(globals)).await.map_err(local)
    }

    fn named(&self, globals: &Globals) -> Globals {
        Globals { only_site: Some(self.target.clone()), ..globals.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_told_in_its_own_zone() {
        let budget = UplinkBudget {
            bytes: 2_000_000_000,
            period: "month".into(),
            reset_day: 1,
            hours: None,
            zone_minutes: 60,
        };
        // The first of December in a zone that is an hour ahead of UTC.
        let state =
            UplinkState { budget: Some(budget), ends_ms: Some(1_796_079_600_000), ..UplinkState::default() };
        let said = told("oslo", &state);
        assert!(said.ends_with("the next month begins 2026-12-01 00:00:00 +01:00"), "{said}");
        assert_eq!(words::wall_in(-210, 1_796_079_600_000), "2026-11-30 19:30:00 -03:30");
    }

    #[test]
    fn budgets_hours_and_zones_are_read_or_refused_with_what_would_do() {
        assert_eq!(allowance("2GB/month"), Ok((2_000_000_000, "month")));
        assert_eq!(allowance("64 MiB/day"), Ok((64 << 20, "day")));
        for text in ["2GB", "2GB/week", "lots/month", "/day"] {
            assert!(allowance(text).is_err(), "{text}");
        }
        assert_eq!(hours("22-6"), Ok((22, 6)));
        for text in ["22", "x-6", "22-", "-1-5"] {
            assert!(hours(text).is_err_and(|error| error.contains("22-6")), "{text}");
        }
        assert_eq!((zone("utc"), zone("+01:00"), zone("-03:30")), (Ok(0), Ok(60), Ok(-210)));
        for text in ["1", "+1", "+25:00", "+01:60", "Europe/Berlin", "", "+-1:00"] {
            assert!(zone(text).is_err_and(|error| error.contains("+HH:MM")), "{text}");
        }
    }
}
