//! `skerry bucket create|list|info|set|join|leave|pin|unpin|prefetch|pins|home`: buckets and what S3 has no words for.

use clap::{Args, Subcommand, ValueEnum};
use skerry_node::admin_shapes::{
    AreaCopies, BucketCreate, BucketList, BucketPatch, BucketStatus, HomeRequest, HomeState, PinAct,
};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::{Place, Site};
use crate::verbs::{membership, pins};
use crate::words;

/// Buckets.
#[derive(Debug, Subcommand)]
pub(crate) enum Bucket {
    /// Make a bucket
    Create(Create),
    /// List buckets
    List(List),
    /// Show a bucket with its settings and figures
    Info(Info),
    /// Change settings of a bucket; what is not named stays
    Set(Set),
    /// Make a site a member of a bucket: it takes all records and follows them; or have it follow a prefix only
    ///
    /// With --prefix the site keeps the records of the keys that begin so, lists and reads them when it is cut off, and is no
    /// member: nobody counts on it. `bucket pin --prefix` below it keeps their payload as well. The first write here to any key
    /// of the bucket makes the site a member of the whole bucket: it takes all records, over a metered link as well, until
    /// `bucket leave` brings it back to its prefixes. With --writes through it never does: writes go to a member, and are
    /// refused while none can be reached.
    Join(membership::Join),
    /// Have a site leave a bucket, once others have all that it holds
    ///
    /// What only this site holds, records and payload, is handed to other members first; then it drops its own and asks others
    /// like any site that is no member. It waits while too few others can be reached, and goes on after a restart;
    /// `bucket join` keeps it a member after all. The home of a bucket stays: move the home first. A write here makes the
    /// site a member again, unless `bucket join --when never` was said.
    Leave(membership::Leave),
    /// Keep copies at a site of all that is below a prefix, and of what will come; the site becomes a member
    Pin(pins::Pin),
    /// Keep them no longer: they go with other copies
    Unpin(pins::Pin),
    /// Fetch copies to a site of all that is below a prefix, once
    Prefetch(pins::Prefetch),
    /// Show what is pinned or was prefetched at a site, and how far it is
    Pins(pins::Pins),
    /// Move a bucket's home, the site that decides its conditions
    ///
    /// Ask the home itself. The new one must be linked and have all of the bucket (it is asked to follow it, and waited
    /// for 5 s); else the home stays and decides on. A home that is lost for good is replaced by the site that keeps the register of names, with --destroyed: the
    /// lost site is expelled, and what it had decided and no other member has is lost. So is what a home still waits for
    /// that the lost site had given it: name that home with --to. --register moves the register.
    Home(Home),
}

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its name
    #[arg(value_parser = words::bucket_name)]
    name: String,
    /// Whom it belongs to; the first owner by default
    #[arg(long, value_parser = words::owner)]
    owner: Option<String>,
    /// Ask the register of names first, so that no cut-off site can have the same name; refused if it cannot be asked
    #[arg(long)]
    unique: bool,
    /// Copies wanted at distinct sites: N (by default 2 where the site knows of another one, else 1), 'N in AREA', 'N in each area', or several with commas
    #[arg(long, value_name = "COPIES", value_parser = words::said)]
    copies: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Whose home, and where to.
#[derive(Debug, Args)]
pub(crate) struct Home {
    /// The bucket's name
    #[arg(required_unless_present = "register", conflicts_with = "register")]
    name: Option<String>,
    /// The register of names instead of a bucket
    #[arg(long)]
    register: bool,
    /// Name of the site that shall decide
    #[arg(long, value_name = "SITE", value_parser = words::said)]
    to: String,
    /// Your word that this site, the home so far or the one that gave it away, is lost for good; it is expelled
    #[arg(long, value_name = "SITE", value_parser = words::said)]
    destroyed: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Where to look.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Its name
    name: String,
    #[command(flatten)]
    place: Place,
}

/// What to change.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Its name
    name: String,
    /// Whether every version of a key is kept
    #[arg(long, value_enum)]
    versioning: Option<Versioning>,
    /// What a write waits for: node, site, area, sites=N or durable; with ' or less' behind it: answered all the same
    #[arg(long, value_name = "SCOPE", value_parser = words::said)]
    ack_scope: Option<String>,
    /// Copies wanted at distinct sites: N, 'N in AREA', 'N in each area', or several: '3, 1 in oslo, 1 in bergen'
    #[arg(long, value_name = "COPIES", value_parser = words::said)]
    copies: Option<String>,
    /// The area that its payload moves to: copies there first, then those elsewhere are let go of; `all` for everywhere
    #[arg(long, value_name = "AREA", value_parser = words::said)]
    lives_in: Option<String>,
    /// Sites where its payload may lie, cached copies too, separated by commas; `all` for everywhere
    #[arg(long, value_name = "SITES", value_delimiter = ',', value_parser = words::said)]
    residency: Option<Vec<String>>,
    /// What a read of an unknown key does at a member that is behind the others
    #[arg(long, value_enum)]
    miss: Option<Miss>,
    /// When a read makes a site a member
    #[arg(long, value_enum)]
    join: Option<membership::Joins>,
    #[command(flatten)]
    place: Place,
}

/// What a miss does.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Miss {
    /// Ask those who are ahead, while there is a link
    Ask,
    /// Answer from what is here
    Local,
}

/// Versioning as one can ask for it; it never goes back to off.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Versioning {
    /// Keep every version
    Enabled,
    /// Keep those there are, replace the newest
    Suspended,
}

/// The word of a value, as the admin face has it.
fn word(value: impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

impl Bucket {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::Create(create) => create.run(globals).await,
            Self::List(list) => list.run(globals).await,
            Self::Info(info) => info.run(globals).await,
            Self::Set(set) => set.run(globals).await,
            Self::Join(join) => join.run(globals).await,
            Self::Leave(leave) => leave.run(globals).await,
            Self::Pin(pin) => pin.run(PinAct::Pin, globals).await,
            Self::Unpin(pin) => pin.run(PinAct::Unpin, globals).await,
            Self::Prefetch(prefetch) => prefetch.run(globals).await,
            Self::Pins(pins) => pins.run(globals).await,
            Self::Home(home) => home.run(globals).await,
        }
    }
}

impl Create {
    async fn run(self, globals: Globals) -> Outcome {
        let (copies, copies_in) = copies(self.copies);
        let asked = BucketPatch { copies, copies_in: copies_in.clone(), ..BucketPatch::default() };
        skerry_node::check_settings(&asked).map_err(Failure::usage)?;
        let site = self.place.site(&globals).await?;
        let about = look::no_bucket(&site, &self.name);
        if look::dry_run(&globals, &format!("make the bucket {}", self.name), about).await? {
            return Ok(Exit::Done);
        }
        if let Some(owner) = &self.owner
            && !look::keys(&site).await?.iter().any(|key| key.enabled && key.owner == *owner)
        {
            output::note(&format!(
                "no access key belongs to {owner}: nobody opens this bucket before `skerry key create --owner {owner}`"
            ));
        }
        let (name, owner, unique) = (self.name, self.owner, self.unique);
        let request = BucketCreate { name, owner, unique, copies, copies_in };
        show(&site.client.post("/_skerry/v1/buckets", &request).await?, globals.json)
    }
}

impl Home {
    async fn run(self, globals: Globals) -> Outcome {
        let what = self.name.clone().unwrap_or_else(|| "the register of names".into());
        let site = self.place.site(&globals).await?;
        let expels = self.destroyed.as_ref().map(|lost| format!(", and expel {lost} for good"));
        let expels = expels.unwrap_or_default();
        let act = format!("move the home of {what} to {}{expels}", self.to);
        if look::dry_run(&globals, &act, self.look(&site)).await? {
            return Ok(Exit::Done);
        }
        if let Some(lost) = &self.destroyed {
            self.look(&site).await?;
            let question = format!("Is {lost} lost for good? It is expelled and never let in again.");
            output::confirm(&question, globals.yes)?;
        }
        let path = match &self.name {
            Some(name) => format!("/_skerry/v1/buckets/{}/home", segment(name)),
            None => "/_skerry/v1/register".into(),
        };
        let request = HomeRequest { site: self.to, destroyed: self.destroyed };
        let state: HomeState = site.client.post(&path, &request).await?;
        if globals.json {
            output::document("home", &state)?;
            return Ok(Exit::Done);
        }
        output::line(&format!("{} decides for {what}, epoch {}", state.site, state.epoch));
        if let Some(expelled) = state.expelled {
            output::line(&format!("{expelled} is expelled"));
        }
        if !state.unheard.is_empty() {
            let names = state.unheard.join(", ");
            output::line(&format!(
                "not heard: {names}; names that only they know of count once they are linked"
            ));
        }
        Ok(Exit::Done)
    }
}

impl Home {
    /// That everything that is named is there.
    async fn look(&self, site: &Site) -> Outcome<()> {
        if let Some(name) = &self.name {
            look::bucket(site, name).await?;
        }
        if let Some(lost) = &self.destroyed {
            look::site(site, lost).await?;
        }
        look::member(site, &self.to).await.map(drop)
    }
}

impl List {
    async fn run(self, globals: Globals) -> Outcome {
        let list: BucketList = self.place.site(&globals).await?.client.get("/_skerry/v1/buckets").await?;
        if globals.json {
            output::document("buckets", &list)?;
            return Ok(Exit::Done);
        }
        let mut rows = vec![
            ["BUCKET", "OWNER", "OBJECTS", "SIZE", "CONFLICTS", "HERE", "MEMBERS"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(list.buckets.iter().map(row));
        output::line(&output::table(&rows));
        Ok(Exit::Done)
    }
}

fn row(bucket: &BucketStatus) -> Vec<String> {
    vec![
        bucket.name.clone(),
        bucket.owner.clone(),
        bucket.objects.to_string(),
        words::bytes(bucket.bytes),
        bucket.conflicts.to_string(),
        here(bucket),
        bucket.members.join(" "),
    ]
}

/// What the site that is asked is to a bucket, in a few words.
fn here(bucket: &BucketStatus) -> String {
    match &bucket.prefixes[..] {
        [first, rest @ ..] if bucket.standing == "none" => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!("below {:?}{more}, writes {}", first.prefix, first.writes)
        }
        _ if bucket.standing == "none" => "-".into(),
        _ => bucket.standing.clone(),
    }
}

impl Info {
    async fn run(self, globals: Globals) -> Outcome {
        let site = self.place.site(&globals).await?;
        show(&site.client.get(&format!("/_skerry/v1/buckets/{}", segment(&self.name))).await?, globals.json)
    }
}

impl Set {
    async fn run(self, globals: Globals) -> Outcome {
        let (copies, copies_in) = copies(self.copies);
        let patch = BucketPatch {
            versioning: self.versioning.and_then(word),
            ack_scope: self.ack_scope,
            copies,
            copies_in,
            lives_in: self.lives_in,
            residency: self.residency.map(|names| if names == ["all"] { Vec::new() } else { names }),
            miss: self.miss.and_then(word),
            join: self.join.and_then(word),
            ..BucketPatch::default()
        };
        if patch == BucketPatch::default() {
            return Err(Failure::usage(
                "set what? Name at least one of --versioning, --ack-scope, --copies, --lives-in, --residency, --miss, --join",
            ));
        }
        skerry_node::check_settings(&patch).map_err(Failure::usage)?;
        let site = self.place.site(&globals).await?;
        let about = async {
            for resident in patch.residency.iter().flatten() {
                look::member(&site, resident).await?;
            }
            look::bucket(&site, &self.name).await.map(drop)
        };
        refuse_unreachable_scope(&site, patch.ack_scope.as_deref()).await?;
        if look::dry_run(&globals, &format!("change settings of {}", self.name), about).await? {
            return Ok(Exit::Done);
        }
        let path = format!("/_skerry/v1/buckets/{}", segment(&self.name));
        let now: BucketStatus = site.client.patch(&path, &patch).await?;
        let few = too_few(now.copies, now.residency.len() as u64);
        show(&now, globals.json)?;
        few.iter().for_each(|few| output::note(few));
        Ok(Exit::Done)
    }
}

/// Refuses a scope that no write would reach: each would be kept, and answered 409.
async fn refuse_unreachable_scope(site: &Site, scope: Option<&str>) -> Outcome<()> {
    let Some(wanted) = scope.and_then(sites_of) else { return Ok(()) };
    let members = look::members(site).await?;
    if wanted <= members {
        return Ok(());
    }
    let there = words::count(members, "site");
    Err(Failure::refused(format!(
        "sites={wanted} wants more sites than there are ({there}): every write would be refused. Say at most {members}, or \
         'sites={wanted} or less'"
    )))
}

/// How many sites a scope insists on.
fn sites_of(scope: &str) -> Option<u64> {
    scope.trim().strip_prefix("sites=")?.trim().parse().ok()
}

/// What cannot come about where its payload may lie.
fn too_few(copies: u32, residents: u64) -> Option<String> {
    (residents > 0 && residents < u64::from(copies)).then(|| {
        let there = words::count(residents, "site");
        format!("{copies} copies are wanted and payload may lie at {there}: the others will not be made")
    })
}

/// A number, which every release understands, or words about areas.
fn copies(said: Option<String>) -> (Option<u32>, Option<String>) {
    match said.as_deref().map(str::trim).map(str::parse::<u32>) {
        None => (None, None),
        Some(Ok(number)) => (Some(number), None),
        Some(Err(_)) => (None, said),
    }
}

/// How many copies are wanted, and where.
fn wanted(bucket: &BucketStatus) -> String {
    match bucket.copies_in.as_str() {
        "" => bucket.copies.to_string(),
        areas => format!("{} in all; {areas}", bucket.copies),
    }
}

/// What areas lack of it.
fn lacking(bucket: &BucketStatus) -> String {
    let all: Vec<String> = bucket.areas.iter().map(area).collect();
    if all.is_empty() { "-".into() } else { all.join("; ") }
}

/// What an area has of what is wanted there.
pub(crate) fn area(area: &AreaCopies) -> String {
    let AreaCopies { area: name, copies, sites, lacking_versions: versions, lacking_bytes, .. } = area;
    let bytes = words::bytes(*lacking_bytes);
    match (sites < copies, versions) {
        (true, _) => {
            format!("{name} has {} for {copies} copies: {bytes} lack some", words::count(*sites, "site"))
        }
        (false, 0) => format!("{name} has all copies of what this site sees to"),
        (false, _) => format!("{name} lacks copies of {} ({bytes})", words::count(*versions, "version")),
    }
}

/// Where it lives, and what has still to go from the site that is asked.
fn lives_in(bucket: &BucketStatus) -> String {
    let area = if bucket.lives_in.is_empty() { "all" } else { &bucket.lives_in };
    match &bucket.surplus {
        surplus if surplus.versions == 0 => area.to_owned(),
        surplus => format!(
            "{area}; {} ({}) too many here: {}",
            words::count(surplus.versions, "version"),
            words::bytes(surplus.bytes),
            surplus.reason
        ),
    }
}

fn home(bucket: &BucketStatus) -> String {
    let home = match bucket.home_epoch {
        0 => return "none named yet: conditions are refused".into(),
        1 => bucket.home.clone(),
        epoch => format!("{} (epoch {epoch})", bucket.home),
    };
    match bucket.home_heir.as_str() {
        "" => home,
        heir => format!("{home}, on its way to {heir}"),
    }
}

/// What dies with one site; with one copy nobody counts it.
fn unprotected(bucket: &BucketStatus) -> String {
    match (bucket.copies, bucket.copies_in.as_str()) {
        (0 | 1, "") => "not counted with copies = 1: what only one site has dies with it".into(),
        _ => words::bytes(bucket.unprotected_bytes),
    }
}

fn pinned(bucket: &BucketStatus) -> String {
    let pins: Vec<String> =
        bucket.pins.iter().map(|pin| format!("{:?}: {}", pin.prefix, pins::state(pin))).collect();
    if pins.is_empty() { "nothing".into() } else { pins.join("; ") }
}

fn followed(bucket: &BucketStatus) -> String {
    let prefixes: Vec<String> = bucket.prefixes.iter().map(membership::followed).collect();
    match bucket.standing.as_str() {
        "none" if prefixes.is_empty() => "nothing".into(),
        _ if prefixes.is_empty() => "the whole bucket".into(),
        _ => prefixes.join("; "),
    }
}

fn join(bucket: &BucketStatus) -> String {
    match bucket.join_here.as_str() {
        "" => bucket.join.clone(),
        here => format!("{} ({here} at this site)", bucket.join),
    }
}

fn show(bucket: &BucketStatus, json: bool) -> Outcome {
    if json {
        output::document("bucket", bucket)?;
        return Ok(Exit::Done);
    }
    let rows = [
        ("name", bucket.name.clone()),
        ("id", bucket.id.clone()),
        ("owner", bucket.owner.clone()),
        ("made", words::wall(bucket.created_ms)),
        ("objects", format!("{} ({})", bucket.objects, words::bytes(bucket.bytes))),
        ("versioning", bucket.versioning.clone()),
        ("ack scope", bucket.ack_scope.clone()),
        ("copies", wanted(bucket)),
        ("areas", lacking(bucket)),
        ("lives in", lives_in(bucket)),
        ("unprotected", unprotected(bucket)),
        ("follow", bucket.follow.clone()),
        ("residency", if bucket.residency.is_empty() { "all".into() } else { bucket.residency.join(", ") }),
        ("miss", bucket.miss.clone()),
        ("conflicts", bucket.conflicts.to_string()),
        ("home", home(bucket)),
        ("join", join(bucket)),
        ("pinned here", pinned(bucket)),
        ("followed here", followed(bucket)),
        ("this site", bucket.standing.clone()),
        ("members", bucket.members.join(", ")),
    ];
    output::line(&output::table(&rows.map(|(name, value)| vec![name.to_owned(), value])));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::{sites_of, too_few};

    #[test]
    fn what_cannot_come_about_is_seen() {
        assert_eq!(sites_of("sites=9"), Some(9));
        for open in ["durable", "node", "sites=9 or less", "sites=x"] {
            assert_eq!(sites_of(open), None, "{open}");
        }
        assert!(too_few(3, 1).is_some_and(|few| few.contains("3 copies") && few.contains("1 site:")));
        assert_eq!((too_few(3, 0), too_few(3, 3)), (None, None), "no residency, or enough");
    }
}
