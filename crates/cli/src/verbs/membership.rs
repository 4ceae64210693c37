//! `skerry bucket join|leave`: whether a site is a member of a bucket.

use std::time::Duration;

use clap::{Args, ValueEnum};
use skerry_node::admin_shapes::{
    BucketStatus, FollowedPrefix, JoinRequest, LeaveRequest, MembershipState, StatusReport,
};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::{Place, Site};
use crate::progress::Waiting;
use crate::verbs::status;
use crate::words;

/// How often a site that leaves is asked how far it is.
const AGAIN: Duration = Duration::from_millis(300);

/// After how many of these it is asked whether anybody still lets it in.
const OUTCAST_EVERY: u32 = 10;

/// Which bucket, and when.
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// Its name
    name: String,
    /// Only say when a read makes this site a member, whatever the bucket says; `bucket` for as it says
    #[arg(long, value_enum)]
    when: Option<When>,
    /// Follow only the keys that begin so: the site keeps their records and is no member
    #[arg(long, value_name = "PREFIX", conflicts_with = "when")]
    prefix: Option<String>,
    /// With --prefix: what a write here does
    #[arg(long, value_enum, requires = "prefix")]
    writes: Option<Writes>,
    #[command(flatten)]
    place: Place,
}

/// Which bucket.
#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// Its name
    name: String,
    /// Follow the keys that begin so no more; what is here of them goes
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Begin and return; `skerry bucket info` tells how far it is
    #[arg(long)]
    no_wait: bool,
    /// Wait at most this long: 4 if it goes on by itself; else until it has left
    #[arg(long, value_name = "TIME", value_parser = words::duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,
    #[command(flatten)]
    place: Place,
}

/// When a read makes a site a member.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Joins {
    /// The first read of a bucket whose records are few (4 MiB)
    OnRead,
    /// The first read
    Always,
    /// No read: `bucket join` and writes do
    Manual,
    /// Nothing does: writes are handed to a member
    Never,
}

/// The same for one site.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum When {
    /// The first read of a bucket whose records are few (4 MiB)
    OnRead,
    /// The first read
    Always,
    /// No read: `bucket join` and writes do
    Manual,
    /// Nothing does: writes are handed to a member
    Never,
    /// As the bucket says
    Bucket,
}

/// What a write does at a site that follows a prefix.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Writes {
    /// It is accepted and makes the site a member of the whole bucket
    Join,
    /// It is written at the nearest member; refused while none can be reached
    Through,
}

fn path(name: &str, verb: &str) -> String {
    format!("/_skerry/v1/buckets/{}/{verb}", segment(name))
}

impl Join {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let when = self.when.and_then(|when| when.to_possible_value());
        let when = when.map(|value| value.get_name().to_owned());
        let writes = self.writes.and_then(|writes| writes.to_possible_value());
        let writes = writes.map(|value| value.get_name().to_owned());
        let act = match &when {
            _ if self.prefix.is_some() => {
                let prefix = self.prefix.as_deref().unwrap_or_default();
                let writes = writes.as_deref().map_or("", written);
                format!("follow the keys of {} below {prefix:?}{writes}", self.name)
            }
            Some(when) => format!("set when a read makes this site a member of {}: {when}", self.name),
            None => format!("follow the bucket {}", self.name),
        };
        let site = self.place.site(&globals).await?;
        let about = async { look::bucket(&site, &self.name).await.map(drop) };
        if look::dry_run(&globals, &act, about).await? {
            return Ok(Exit::Done);
        }
        let request = JoinRequest { when, prefix: self.prefix, writes };
        let state = site.client.post(&path(&self.name, "join"), &request).await?;
        show(&state, globals.json)
    }
}

impl Leave {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let act = match &self.prefix {
            Some(prefix) => format!("follow the keys of {} below {prefix:?} no more", self.name),
            None => format!("leave the bucket {}", self.name),
        };
        let site = self.place.site(&globals).await?;
        let about = self.look(&site);
        if look::dry_run(&globals, &act, about).await? {
            return Ok(Exit::Done);
        }
        if self.prefix.is_none() {
            refuse_outcast(&site).await?;
        }
        let request = LeaveRequest { prefix: self.prefix.clone() };
        let begun: MembershipState = site.client.post(&path(&self.name, "leave"), &request).await?;
        if self.prefix.is_some() {
            return show(&begun, globals.json);
        }
        if self.no_wait {
            return show(&begun, globals.json);
        }
        let waiting = Waiting::telling(&format!("{} leaves {}", begun.site, begun.bucket), globals.json);
        let left = self.wait(&site, begun, &waiting);
        let state = match self.wait {
            None => left.await?,
            Some(longest) => match tokio::time::timeout(longest, left).await {
                Ok(state) => state?,
                Err(_) => return Err(self.goes_on(&site).await?),
            },
        };
        drop(waiting);
        show(&state, globals.json)
    }

    /// What the site would refuse.
    async fn look(&self, site: &Site) -> Outcome<()> {
        let bucket = look::bucket(site, &self.name).await?;
        if let Some(prefix) = &self.prefix {
            let is_followed = bucket.prefixes.iter().any(|followed| followed.prefix == *prefix);
            let why = || format!("{} below {prefix:?} is not followed here", self.name);
            return if is_followed { Ok(()) } else { Err(look::refused(site, why())) };
        }
        refuse_outcast(site).await?;
        let report: StatusReport = site.client.get("/_skerry/v1/status").await?;
        match stays(&bucket, &report.site_name) {
            Some(why) => Err(look::refused(site, why)),
            None => Ok(()),
        }
    }

    /// Why the waiting ended and the leaving did not.
    async fn goes_on(&self, site: &Site) -> Outcome<Failure> {
        let now: MembershipState = site.client.get(&path(&self.name, "leave")).await?;
        let message = format!("{}; it goes on by itself, `bucket join` ends it", progress(&now));
        Ok(Failure { exit: Exit::Partial, message })
    }

    /// Until it has left; Ctrl-C ends the waiting, not the leaving.
    async fn wait(
        &self,
        site: &Site,
        mut state: MembershipState,
        waiting: &Waiting,
    ) -> Outcome<MembershipState> {
        for asked in 1_u32.. {
            if state.standing != "leaving" {
                break;
            }
            waiting.say(progress(&state));
            tokio::time::sleep(AGAIN).await;
            state = site.client.get(&path(&self.name, "leave")).await?;
            if asked.is_multiple_of(OUTCAST_EVERY) {
                refuse_outcast(site).await?;
            }
        }
        match state.standing.as_str() {
            "member" | "joining" => Err(Failure::refused(format!(
                "{} is a member of {}, not let go: `skerry bucket join` was said meanwhile, or something was written here",
                state.site, state.bucket
            ))),
            _ => Ok(state),
        }
    }
}

/// What keeps a site in a bucket, in the words of the site.
fn stays(bucket: &BucketStatus, site: &str) -> Option<String> {
    let name = &bucket.name;
    let is_member = bucket.members.iter().any(|member| member == site);
    match (is_member, bucket.home == site, bucket.members.len()) {
        (false, ..) => None,
        (_, true, _) => Some(format!(
            "{site} is the home of {name}: it decides its conditions. Move the home first: `skerry bucket home {name} --to SITE`"
        )),
        (_, _, 1) => Some(format!(
            "{site} is the only member of {name}: {} objects ({} bytes) would be lost. Let another site join it first: `skerry bucket \
             join {name}` there",
            bucket.objects, bucket.bytes
        )),
        _ => None,
    }
}

/// Refuses where nobody takes what the site would hand over, ever.
async fn refuse_outcast(site: &Site) -> Outcome<()> {
    let report: StatusReport = site.client.get("/_skerry/v1/status").await?;
    if !status::is_out(&report) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{} is refused by {}: it was expelled or replaced (or joined just now), nobody takes what it would hand over, and it cannot leave",
        report.site_name,
        status::refusing(&report).join(", ")
    )))
}

fn progress(state: &MembershipState) -> String {
    let left = match state.versions {
        0 => String::new(),
        versions => format!(", {versions} versions ({}) to hand over", words::bytes(state.bytes)),
    };
    let reason = match state.reason.as_str() {
        "" => "asking the other members what they hold",
        reason => reason,
    };
    format!("{} leaves {}{left}: {reason}", state.site, state.bucket)
}

const MEMBER: &str = "asleep: the site is a member of the whole bucket";

/// What a write does at a site that follows a prefix.
fn written(writes: &str) -> &'static str {
    match writes {
        "through" => ", writes to the bucket go to members",
        _ => ", the first write to the bucket makes the site a member of all of it",
    }
}

/// A followed prefix in words.
pub(crate) fn followed(prefix: &FollowedPrefix) -> String {
    let FollowedPrefix { prefix: keys, state, records, at_least, bytes, writes, reason, .. } = prefix;
    let more = if *at_least { "more than " } else { "" };
    let held = format!("{more}{} ({})", words::count(*records, "record"), words::bytes(*bytes));
    let state = match state.as_str() {
        "taking" => "taking what members have",
        "ending" => "being dropped",
        "member" => MEMBER,
        other => other,
    };
    let does = if state == MEMBER { "" } else { written(writes) };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{keys:?}: {state}, {held} here{does}{reason}")
}

fn show(state: &MembershipState, json: bool) -> Outcome {
    if json {
        output::document("membership", state)?;
        return Ok(Exit::Done);
    }
    let (site, bucket) = (&state.site, &state.bucket);
    let what = match state.standing.as_str() {
        "member" => format!("{site} is a member of {bucket}"),
        "joining" if state.reason.is_empty() => {
            format!("{site} follows {bucket} and is taking what the other members have")
        }
        "joining" => format!("{site} follows {bucket}, and waits: {}", state.reason),
        "leaving" => progress(state),
        _ => format!("{site} is no member of {bucket}"),
    };
    output::line(&what);
    state.prefixes.iter().for_each(|prefix| output::line(&followed(prefix)));
    let whose = if state.join_here { "said for this site" } else { "as the bucket says" };
    output::line(&format!("join: {} ({whose})", state.join));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn who_is_home_or_alone_stays() {
        let bucket = |home: &str, members: &[&str]| BucketStatus {
            name: "photos".into(),
            home: home.into(),
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            ..BucketStatus::default()
        };
        let said = stays(&bucket("oslo", &["bergen", "oslo"]), "oslo").unwrap();
        assert!(said.contains("Move the home first"), "{said}");
        let said = stays(&bucket("", &["oslo"]), "oslo").unwrap();
        assert!(said.contains("only member"), "{said}");
        assert_eq!(stays(&bucket("bergen", &["bergen", "oslo"]), "oslo"), None);
        assert_eq!(stays(&bucket("bergen", &["bergen"]), "oslo"), None, "it is no member");
    }
}
