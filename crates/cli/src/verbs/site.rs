//! `skerry site …`: the sites of the federation, as the site that is asked knows them.
//!
//! SITE is the site that is spoken of; whom to ask is said by --dir or --endpoint, and any site answers.

mod loss;
mod replace;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use skerry_node::admin_shapes::{
    AddressRequest, AreaRequest, DutyRequest, ExpelRequest, Expelled, REGISTER, RenameRequest, SiteList,
    SiteStatus,
};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::{Place, Site as Asked};
use crate::progress::Waiting;
use crate::reach::dialable;
use crate::words;

pub(super) use replace::progress;

/// Sites.
#[derive(Debug, Subcommand)]
pub(crate) enum Site {
    /// List all sites that were ever admitted
    List(List),
    /// Show one site
    Show(Show),
    /// Take no more writes at a site, for maintenance; reads go on
    ///
    /// Writes are refused with 409 and the reason; conditional writes of buckets whose home it is, too, everywhere. Said
    /// at any site; a site that is cut off hears it when its link is back.
    Freeze(Duty),
    /// Empty a site, so that it can be switched off and nothing is lost
    ///
    /// It takes no more writes (plain PUTs are handed to another site), hands over the buckets whose home it is and has
    /// others hold what only it holds. Goes on after restarts and cuts; `empty` in `skerry site show` or `skerry status`
    /// means that it may be switched off.
    Drain(Drain),
    /// Take a frozen or drained site into service again
    Resume(Duty),
    /// Give a site another name; its id, key and buckets stay
    ///
    /// Asked at a site that holds an admin key: the first one, unless the key was carried elsewhere.
    Rename(Rename),
    /// Say where a site is dialled, beside what it says itself
    ///
    /// A site that comes back at another address says so itself once it reaches one of the others. This is for one that
    /// reaches nobody.
    Address(Address),
    /// Say which area a site stands in: a town, a ship, a data centre
    ///
    /// Buckets may want copies in areas, or live in one: see `skerry bucket set --copies`, `--lives-in`. Said at any site;
    /// above what the site's configuration says, whose restart does not take it back.
    Area(Area),
    /// Expel a site for ever: lost, stolen or sold
    ///
    /// Whoever hears of it refuses its certificate and counts what it held no more; its disk may still say what it knew.
    Expel(Expel),
    /// Have a new machine take the place of a site that is gone for ever
    ///
    /// The new one has joined as any site does (`skerry invite`, `skerry join`) and takes over the homes of the gone one,
    /// follows its buckets, takes its name and its area, and holds copies. Said at any site but the gone one, which is refused
    /// for ever afterwards. It goes on by itself; `skerry site list` at the new site says how far it is.
    Replace(replace::Replace),
    /// Say that the disks of a site are gone
    ///
    /// Ask another site. First it lists what no other site has: a sum, then (with --dry-run at once, else afterwards)
    /// bucket, key, version and size of each. Then everybody learns that the site is lost: its copies count no more and
    /// others are made, and a read of what only it had gets the newest older version, with the header x-skerry-lost, or
    /// 404 with the reason. Nothing is deleted. If the site comes back with its disk it cancels the declaration by itself.
    /// Homes are not moved: see `skerry bucket home --destroyed`.
    DeclareLost(loss::DeclareLost),
    /// Take that back: what the site holds counts again
    ///
    /// Needed only where the site came back with another disk, or where the word was wrong and the site is still away.
    DeclareFound(loss::DeclareFound),
}

/// Whom to ask.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The site: its name, its id, or the eight characters of it that lists show
    #[arg(value_name = "SITE", value_parser = words::said)]
    target: String,
    #[command(flatten)]
    place: Place,
}

/// Of which site.
#[derive(Debug, Args)]
pub(crate) struct Duty {
    /// The site: its name or its id
    #[arg(value_name = "SITE", value_parser = words::said)]
    target: String,
    #[command(flatten)]
    place: Place,
}

/// Another name.
#[derive(Debug, Args)]
pub(crate) struct Rename {
    #[command(flatten)]
    of: Duty,
    /// The new name
    #[arg(value_name = "NEW", value_parser = words::site_name)]
    new: String,
}

/// Other addresses.
#[derive(Debug, Args)]
pub(crate) struct Address {
    #[command(flatten)]
    of: Duty,
    /// Where to dial it, best first, as host:port
    #[arg(value_name = "HOST:PORT", required_unless_present = "clear", value_parser = dialable)]
    addresses: Vec<String>,
    /// Take back what was said before: only what it says itself counts
    #[arg(long, conflicts_with = "addresses")]
    clear: bool,
}

/// Which area.
#[derive(Debug, Args)]
pub(crate) struct Area {
    #[command(flatten)]
    of: Duty,
    /// The area's name
    #[arg(value_name = "AREA", required_unless_present = "none", value_parser = words::area_name)]
    area: Option<String>,
    /// It stands in none
    #[arg(long, conflicts_with = "area")]
    none: bool,
}

/// What to expel.
#[derive(Debug, Args)]
pub(crate) struct Expel {
    #[command(flatten)]
    of: Duty,
}

/// What to empty.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    of: Duty,
    /// Uploads in parts that nobody completed may be lost; else the site waits for them
    #[arg(long)]
    abandon_uploads: bool,
    /// Wait until it is empty, at most this long: 0 only if it is, 4 if it goes on, 5 if somebody called it back
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    wait: Option<Duration>,
}

impl Site {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::List(list) => list.run(globals).await,
            Self::Show(show) => show.run(globals).await,
            Self::Freeze(duty) => {
                let request = DutyRequest { duty: "freeze".into(), abandon_uploads: false };
                told(duty.say(&globals, "freeze", request).await?.as_ref(), &globals)
            }
            Self::Drain(drain) => drain.run(globals).await,
            Self::Resume(duty) => {
                let request = DutyRequest { duty: "serve".into(), abandon_uploads: false };
                told(duty.say(&globals, "resume", request).await?.as_ref(), &globals)
            }
            Self::Rename(rename) => rename.run(globals).await,
            Self::Address(address) => address.run(globals).await,
            Self::Area(area) => area.run(globals).await,
            Self::Expel(expel) => expel.run(globals).await,
            Self::Replace(verb) => verb.run(globals).await,
            Self::DeclareLost(verb) => verb.run(globals).await,
            Self::DeclareFound(verb) => verb.run(globals).await,
        }
    }
}

impl List {
    async fn run(self, globals: Globals) -> Outcome {
        let list: SiteList = self.place.site(&globals).await?.client.get("/_skerry/v1/sites").await?;
        if globals.json {
            output::document("sites", &list)?;
            return Ok(Exit::Done);
        }
        let heading = ["SITE", "STATE", "DUTY", "LINK", "RTT", "HEARD", "UNACKED", "HOME OF", "ADDRESS"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(list.sites.iter().map(|site| row(&list.sites, site)));
        output::line(&output::table(&rows));
        for site in &list.sites {
            if let Some(recovery) = &site.recovery {
                output::line(&format!("in the place of {}: {}", look::called(site), progress(recovery)));
            }
        }
        Ok(Exit::Done)
    }
}

fn row(all: &[SiteStatus], site: &SiteStatus) -> Vec<String> {
    vec![
        look::called_among(all, site),
        state(site),
        site.duty.clone(),
        site.link.clone(),
        site.rtt_ms.map_or("-".into(), |rtt| format!("{rtt:.1} ms")),
        ago(site.heard_ms),
        unsent(site),
        words::count(site.homes.len() as u64, "bucket"),
        site.addresses.first().cloned().unwrap_or_else(|| "-".into()),
    ]
}

fn state(site: &SiteStatus) -> String {
    let state = match site.replaced_by.as_str() {
        "" => site.state.clone(),
        by => format!("{} by {by}", site.state),
    };
    // Who belongs no more is lost in any case.
    match site.lost_ms.filter(|_| site.state == "member") {
        Some(since) => format!("{state}, lost since {}", words::wall(since)),
        None => state,
    }
}

fn ago(millis: Option<u64>) -> String {
    millis.map_or("-".into(), |millis| words::span(Duration::from_millis(millis)))
}

/// What the site that was asked has and this one is not known to have.
fn unsent(site: &SiteStatus) -> String {
    match site.unsent_records {
        0 => "-".into(),
        records => format!("{records} ({})", words::bytes(site.unsent_bytes)),
    }
}

impl Show {
    async fn run(self, globals: Globals) -> Outcome {
        let asked = self.place.site(&globals).await?;
        let path = format!("/_skerry/v1/sites/{}", segment(&look::meant(&asked, &self.target).await?));
        let site: SiteStatus = asked.client.get(&path).await?;
        if globals.json {
            output::document("site", &site)?;
        } else {
            output::line(&output::table(&facts(&site)));
        }
        Ok(Exit::Done)
    }
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "-".to_owned() } else { list.join(", ") }
}

fn facts(site: &SiteStatus) -> Vec<Vec<String>> {
    let recovery = site.recovery.as_ref().map(|recovery| ("its place", progress(recovery)));
    let facts = [
        ("name", site.name.clone()),
        ("id", site.site.clone()),
        ("state", state(site)),
        ("duty", duty(site)),
        ("joined", words::wall(site.joined_ms)),
        ("link", site.link.clone()),
        ("heard", ago(site.heard_ms)),
        ("unacked", unsent(site)),
        ("addresses", or_none(&site.addresses)),
        ("area", area(site)),
        ("home of", or_none(&site.homes.iter().map(|home| in_words(home).to_owned()).collect::<Vec<_>>())),
    ];
    facts.into_iter().chain(recovery).map(|(name, value)| vec![name.to_owned(), value]).collect()
}

/// The duty of a site, and how far it is with it.
fn duty(site: &SiteStatus) -> String {
    let mut said = site.duty.clone();
    if !site.duty_heard {
        said += " (it has not answered yet)";
    }
    let Some(drain) = site.drain.as_ref().filter(|_| site.duty == "draining") else { return said };
    said += &format!(
        ": {} ({}), {}, {} and {} to go",
        words::count(drain.bodies, "version"),
        words::bytes(drain.bytes),
        words::count(drain.records, "record"),
        words::count(drain.homes, "home"),
        words::count(drain.uploads, "upload"),
    );
    if let Some(ends) = drain.ends_ms {
        said += &format!("; empty at about {}", words::wall(ends));
    }
    if !drain.waits_for.is_empty() {
        said += &format!("; waits: {}", drain.waits_for);
    }
    said
}

fn told(site: Option<&SiteStatus>, globals: &Globals) -> Outcome {
    let Some(site) = site else { return Ok(Exit::Done) };
    if globals.json {
        output::document("site", site)?;
    } else {
        output::line(&format!("{}: {}", site.name, duty(site)));
    }
    Ok(Exit::Done)
}

impl Rename {
    async fn run(self, globals: Globals) -> Outcome {
        let act = format!("rename {} to {}", self.of.target, self.new);
        let asked = self.of.place.site(&globals).await?;
        let meant = look::member(&asked, &self.of.target).await?;
        look::free_name(&asked, &self.new, Some(&meant)).await?;
        if output::dry_run(globals.dry_run, &act, globals.json)? {
            return Ok(Exit::Done);
        }
        let path = format!("/_skerry/v1/sites/{}/name", segment(&self.of.target));
        let site: SiteStatus = asked.client.post(&path, &RenameRequest { name: self.new }).await?;
        if globals.json {
            output::document("site", &site)?;
        } else {
            output::line(&format!("{} is called {} now", self.of.target, site.name));
        }
        Ok(Exit::Done)
    }
}

impl Address {
    async fn run(self, globals: Globals) -> Outcome {
        let act = match self.clear {
            true => format!("dial {} only where it says itself", self.of.target),
            false => format!("have {} dialled at {}", self.of.target, self.addresses.join(", ")),
        };
        let asked = self.of.place.site(&globals).await?;
        let about = async { look::member(&asked, &self.of.target).await.map(drop) };
        if look::dry_run(&globals, &act, about).await? {
            return Ok(Exit::Done);
        }
        let path = format!("/_skerry/v1/sites/{}/address", segment(&self.of.target));
        let request = AddressRequest { addresses: self.addresses };
        let site: SiteStatus = asked.client.post(&path, &request).await?;
        if globals.json {
            output::document("site", &site)?;
        } else {
            output::line(&format!("{} is dialled at {}", site.name, or_none(&site.addresses)));
        }
        Ok(Exit::Done)
    }
}

fn area(site: &SiteStatus) -> String {
    if site.area.is_empty() { "-".to_owned() } else { site.area.clone() }
}

impl Area {
    async fn run(self, globals: Globals) -> Outcome {
        let name = self.area.filter(|_| !self.none).unwrap_or_default();
        let act = match name.as_str() {
            "" => format!("have {} stand in no area", self.of.target),
            name => format!("have {} stand in {name}", self.of.target),
        };
        let asked = self.of.place.site(&globals).await?;
        let about = async { look::member(&asked, &self.of.target).await.map(drop) };
        if look::dry_run(&globals, &act, about).await? {
            return Ok(Exit::Done);
        }
        let path = format!("/_skerry/v1/sites/{}/area", segment(&self.of.target));
        let site: SiteStatus = asked.client.post(&path, &AreaRequest { area: name }).await?;
        if globals.json {
            output::document("site", &site)?;
        } else {
            output::line(&format!("{} stands in: {}", site.name, area(&site)));
        }
        Ok(Exit::Done)
    }
}

impl Expel {
    async fn run(self, globals: Globals) -> Outcome {
        let target = &self.of.target;
        let asked = self.of.place.site(&globals).await?;
        let meant = look::member(&asked, target).await?;
        if meant.here {
            let message = "this site cannot expel itself: say it at another one";
            return Err(Failure::refused(format!("{}: {message}", asked.client.endpoint)));
        }
        let follows = Follows { homes: meant.homes, exposed_keys: look::working_keys(&asked).await? };
        if follows.before(&globals, &format!("expel {target}"), target)? {
            return Ok(Exit::Done);
        }
        let question = format!(
            "Expel {target}? Every site that hears of it refuses it for ever; what only it has is lost to the others."
        );
        output::confirm(&question, globals.yes)?;
        let path = format!("/_skerry/v1/sites/{}/expel", segment(target));
        let done: Expelled = asked.client.post(&path, &ExpelRequest {}).await?;
        if globals.json {
            output::document("expelled", &done)?;
            return Ok(Exit::Done);
        }
        output::line(&format!("{target} is expelled"));
        for home in &done.site.homes {
            let (did, what) = match home.as_str() {
                REGISTER => ("kept the register of names".to_owned(), "--register"),
                home => (format!("decided the conditions of {home}"), home),
            };
            output::note(&format!("it {did}: skerry bucket home {what} --to SITE --destroyed {target}"));
        }
        if !done.exposed_keys.is_empty() {
            output::note(&format!(
                "its disk could open the secrets of {}: make new ones, which it cannot open, and disable {}",
                words::count(done.exposed_keys.len() as u64, "access key"),
                done.exposed_keys.join(", "),
            ));
        }
        Ok(Exit::Done)
    }
}

/// What follows for ever when a site belongs no more.
struct Follows {
    /// The buckets whose conditions it decides.
    homes: Vec<String>,
    /// The access keys whose secrets its disk could open.
    exposed_keys: Vec<String>,
}

impl Follows {
    /// Says it before anybody is asked whether to do it; true if this is a dry run.
    fn before(&self, globals: &Globals, act: &str, target: &str) -> Outcome<bool> {
        if globals.json {
            let body = json!({ "would": act, "homes": self.homes, "exposed_keys": self.exposed_keys });
            if globals.dry_run {
                output::document("dry-run", &body)?;
            }
            return Ok(globals.dry_run);
        }
        for home in &self.homes {
            output::note(&match home.as_str() {
                REGISTER => {
                    format!("{target} keeps the register of names: another site is to be named for it")
                }
                home => {
                    format!("{target} decides the conditions of {home}: another site is to be named for it")
                }
            });
        }
        if !self.exposed_keys.is_empty() {
            output::note(&format!(
                "the disk of {target} can open the secrets of {}: {}",
                words::count(self.exposed_keys.len() as u64, "access key"),
                self.exposed_keys.join(", "),
            ));
        }
        output::dry_run(globals.dry_run, act, false)
    }
}

impl Duty {
    /// What became of it; none for a dry run.
    async fn say(&self, globals: &Globals, verb: &str, request: DutyRequest) -> Outcome<Option<SiteStatus>> {
        let asked = self.place.site(globals).await?;
        let about = async { look::member(&asked, &self.target).await.map(drop) };
        if look::dry_run(globals, &format!("{verb} {}", self.target), about).await? {
            return Ok(None);
        }
        let path = format!("/_skerry/v1/sites/{}/duty", segment(&self.target));
        let told: SiteStatus = asked.client.post(&path, &request).await?;
        if told.duty_heard {
            return Ok(Some(told));
        }
        // Most sites answer at once; one that is cut off is not waited for.
        let answered = tokio::time::timeout(ANSWER, answer_to(&asked, &told)).await;
        Ok(Some(answered.ok().and_then(Result::ok).unwrap_or(told)))
    }
}

/// A home as one says it.
fn in_words(home: &str) -> &str {
    if home == REGISTER { "the register of names" } else { home }
}

/// The site once it has answered the word that it was told.
async fn answer_to(asked: &Asked, told: &SiteStatus) -> Outcome<SiteStatus> {
    let path = format!("/_skerry/v1/sites/{}", segment(&told.site));
    loop {
        let now: SiteStatus = asked.client.get(&path).await?;
        if now.duty_heard && now.duty_epoch == told.duty_epoch {
            return Ok(now);
        }
        tokio::time::sleep(ANSWER_POLL).await;
    }
}

/// How long a site that was told something is waited for, and how often it is looked whether it has answered.
const ANSWER: Duration = Duration::from_secs(1);
const ANSWER_POLL: Duration = Duration::from_millis(50);

/// How often a site is asked whether it is empty.
const POLL: Duration = Duration::from_millis(500);

impl Drain {
    async fn run(self, globals: Globals) -> Outcome {
        let request = DutyRequest { duty: "drain".into(), abandon_uploads: self.abandon_uploads };
        let mut site = self.of.say(&globals, "drain", request).await?;
        if let Some((longest, said)) = self.wait.zip(site.as_ref().map(|site| site.duty_epoch)) {
            let asked = self.of.place.site(&globals).await?;
            let waiting = Waiting::new("draining", globals.json);
            let polled = tokio::time::timeout(longest, self.until_empty(&asked, said, &waiting)).await;
            drop(waiting);
            site = match polled {
                Ok(site) => Some(site?),
                Err(_) => {
                    let path = format!("/_skerry/v1/sites/{}", segment(&self.of.target));
                    let now: SiteStatus = asked.client.get(&path).await?;
                    let message = format!("{}: {}; it goes on by itself", now.name, duty(&now));
                    return Err(Failure { exit: Exit::Partial, message });
                }
            };
        }
        told(site.as_ref(), &globals)
    }

    async fn until_empty(&self, asked: &Asked, said: u64, waiting: &Waiting) -> Outcome<SiteStatus> {
        let path = format!("/_skerry/v1/sites/{}", segment(&self.of.target));
        let mut ticks = tokio::time::interval(POLL);
        loop {
            ticks.tick().await;
            let now: SiteStatus = asked.client.get(&path).await?;
            if is_emptied(&now, said)? {
                return Ok(now);
            }
            waiting.say(duty(&now));
        }
    }
}

/// Whether a site that was told with this word to empty itself is empty. Refused if it was told something else since:
/// who waits is about to switch it off.
fn is_emptied(now: &SiteStatus, said: u64) -> Outcome<bool> {
    match now.duty.as_str() {
        // Another site answers than the one that took the word, and has not heard of it yet.
        _ if now.duty_epoch < said => Ok(false),
        "empty" => Ok(true),
        "draining" => Ok(false),
        other => Err(Failure::refused(format!(
            "{} is not empty, do not switch it off: somebody called it back meanwhile, it is {other:?}",
            now.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_a_site_that_says_so_is_empty() {
        let site = |duty: &str, duty_epoch| SiteStatus {
            name: "oslo".into(),
            duty: duty.into(),
            duty_epoch,
            ..SiteStatus::default()
        };
        assert!(is_emptied(&site("empty", 3), 3).unwrap());
        assert!(!is_emptied(&site("draining", 3), 3).unwrap());
        for before in ["serves", "empty", "frozen"] {
            assert!(!is_emptied(&site(before, 2), 3).unwrap(), "{before}: of before the word");
        }
        for since in ["serves", "frozen"] {
            let refused = is_emptied(&site(since, 4), 3).unwrap_err();
            assert!(refused.exit == Exit::Refused && refused.message.contains("called it back"), "{since}");
        }
    }
}
