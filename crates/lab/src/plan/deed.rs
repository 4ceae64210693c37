//! What a step of a scenario does to the network, and when: directions between sites are cut and healed, once or again and
//! again.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use skerry_scenario::refusal::Refusal;
use toml::Spanned;

use super::cell::Source;

/// How often one event may repeat.
const TIMES: u64 = 1000;

/// Something done to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// After the step's start.
    pub at: Duration,
    /// What.
    pub deed: Deed,
}

/// Directions that are cut or healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// Whether they are cut.
    pub is_cut: bool,
    /// Which.
    pub reach: Reach,
}

/// Some of the directions between sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All that lead to a site or away from it.
    Site(String),
    /// The one from the first to the second.
    Way(String, String),
    /// Those between two.
    Both(String, String),
}

impl Reach {
    fn parse(text: &str) -> Self {
        let halves =
            |sign| text.split_once(sign).map(|(one, other): (&str, &str)| (one.into(), other.into()));
        if let Some((one, other)) = halves("<>") {
            return Self::Both(one, other);
        }
        halves(">").map_or_else(|| Self::Site(text.into()), |(from, to)| Self::Way(from, to))
    }

    /// The sites that it names.
    pub fn sites(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            Self::Site(site) => (site, None),
            Self::Way(from, to) | Self::Both(from, to) => (from, Some(to)),
        };
        std::iter::once(one).chain(other).map(String::as_str)
    }

    /// Its directions, as numbers of the sites from and to.
    pub fn ways(&self, sites: &[String]) -> Vec<(usize, usize)> {
        let number = |name: &String| sites.iter().position(|site| site == name);
        let both = |(one, other)| [(one, other), (other, one)];
        match self {
            Self::Site(site) => {
                let site = number(site);
                let others = (0..sites.len()).filter(|other| site != Some(*other));
                others.filter_map(|other| Some(both((site?, other)))).flatten().collect()
            }
            Self::Way(from, to) => number(from).zip(number(to)).into_iter().collect(),
            Self::Both(one, other) => {
                number(one).zip(number(other)).map_or_else(Vec::new, |pair| both(pair).into())
            }
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cut { "cut " } else { "heal " })?;
        match &self.reach {
            Reach::Site(site) => f.write_str(site),
            Reach::Way(from, to) => write!(f, "{from}>{to}"),
            Reach::Both(one, other) => write!(f, "{one}<>{other}"),
        }
    }
}

/// An event as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventEntry {
    at: Spanned<String>,
    cut: Option<String>,
    heal: Option<String>,
    #[serde(rename = "for")]
    lasts: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
    times: Option<Spanned<u64>>,
}

/// What the events of a step do, in order of time.
pub(super) fn all(source: Source<'_>, events: &[Spanned<EventEntry>]) -> Result<Vec<Timed>, Refusal> {
    let mut all = Vec::new();
    for event in events {
        all.extend(timed(source, event)?);
    }
    all.sort_by_key(|event| event.at);
    Ok(all)
}

fn timed(source: Source<'_>, event: &Spanned<EventEntry>) -> Result<Vec<Timed>, Refusal> {
    let entry = event.get_ref();
    let refuse = |reason: &str| source.refuse(event.span(), reason.into());
    let begin = span(source, &entry.at)?;
    let deed = |is_cut, reach: &str| Deed { is_cut, reach: Reach::parse(reach) };
    let deed = match (&entry.cut, &entry.heal) {
        (Some(reach), None) => deed(true, reach),
        (None, Some(reach)) => deed(false, reach),
        _ => {
            return Err(refuse(
                "an event cuts or heals: { at = \"3s\", cut = \"site-2\" }, or one direction \"site-1>site-2\", or both \
                 between two sites \"site-1<>site-2\"",
            ));
        }
    };
    if matches!(&deed.reach, Reach::Way(one, other) | Reach::Both(one, other) if one == other) {
        return Err(refuse("a direction leads from one site to another"));
    }
    let Some(lasts) = &entry.lasts else {
        return match entry.every.is_some() || entry.times.is_some() {
            true => Err(refuse("what repeats says how long it lasts: for = \"2s\"")),
            false => Ok(vec![Timed { at: begin, deed }]),
        };
    };
    if !deed.is_cut {
        return Err(refuse("a cut lasts for a time; a heal stays"));
    }
    let lasts = span(source, lasts)?;
    let (every, times) = match (&entry.every, &entry.times) {
        (Some(every), Some(times)) => (span(source, every)?, *times.get_ref()),
        (None, None) => (Duration::MAX, 1),
        _ => return Err(refuse("what repeats says how often: every = \"10s\", times = 6")),
    };
    if lasts.is_zero() || lasts >= every || !(1..=TIMES).contains(&times) {
        return Err(refuse(
            "a cut lasts for less than the time until the next one, and there are 1 to 1000 of them",
        ));
    }
    let heal = Deed { is_cut: false, ..deed.clone() };
    let starts = (0..times as u32).map(|number| begin + every.saturating_mul(number));
    let pair = |at| [Timed { at, deed: deed.clone() }, Timed { at: at + lasts, deed: heal.clone() }];
    Ok(starts.flat_map(pair).collect())
}

fn span(source: Source<'_>, text: &Spanned<String>) -> Result<Duration, Refusal> {
    let no_time =
        || source.refuse(text.span(), format!("{:?} is no time; say it as 500ms or 3s", text.get_ref()));
    let (number, factor) = match text.get_ref().strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (text.get_ref().strip_suffix('s').ok_or_else(no_time)?, 1000.0),
    };
    let ms = number.parse::<f64>().map_err(|_| no_time())? * factor;
    let is_within = (0.0..=3_600_000.0).contains(&ms);
    is_within.then(|| Duration::from_micros((ms * 1000.0) as u64)).ok_or_else(no_time)
}
