//! `skerry site replace GONE --by NEW`: a new machine in the place of a site that is gone for ever.

use clap::Args;
use skerry_node::admin_shapes::{RecoveryStatus, ReplaceRequest, ReplacedSite, SiteStatus};

use super::{Duty, Follows, in_words};
use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::Site;
use crate::words;

/// Who takes whose place.
#[derive(Debug, Args)]
pub(crate) struct Replace {
    #[command(flatten)]
    of: Duty,
    /// The site that takes its place: its name or its id
    #[arg(long, value_name = "NEW", value_parser = words::said)]
    by: String,
    /// The new site keeps its own name
    #[arg(long)]
    keep_name: bool,
}

impl Replace {
    pub(super) async fn run(self, globals: Globals) -> Outcome {
        let Self { of, by, keep_name } = self;
        let target = &of.target;
        let asked = of.place.site(&globals).await?;
        let gone = look::site(&asked, target).await?;
        let act = format!("have {by} take the place of {target}");
        // Said once more, whoever took the place may be called otherwise by now.
        if gone.state != "replaced" {
            let newcomer = look::member(&asked, &by).await?;
            if globals.dry_run {
                may_be_replaced(&asked, &gone, &newcomer)?;
            }
        }
        // Said once more, the newcomer may be called as the gone one was: it loses nothing.
        let is_gone = gone.link != "alive" && !gone.here;
        let homes = if is_gone { gone.homes } else { Vec::new() };
        let follows = Follows { homes, exposed_keys: look::working_keys(&asked).await? };
        if follows.before(&globals, &act, target)? {
            return Ok(Exit::Done);
        }
        let question = format!(
            "Is {target} destroyed for ever, and is {by} to take its place? Every site that hears of it refuses {target} \
             for ever; what only it had is lost."
        );
        output::confirm(&question, globals.yes)?;
        let path = format!("/_skerry/v1/sites/{}/replace", segment(target));
        let request = ReplaceRequest { by: by.clone(), keep_name };
        let done: ReplacedSite = asked.client.post(&path, &request).await?;
        if globals.json {
            output::document("replaced", &done)?;
            return Ok(Exit::Done);
        }
        say(target, &by, &done);
        Ok(Exit::Done)
    }
}

/// What the site would refuse: who answers is not gone.
fn may_be_replaced(asked: &Site, gone: &SiteStatus, newcomer: &SiteStatus) -> Outcome<()> {
    if newcomer.site != gone.site && (gone.link == "alive" || gone.here) {
        let message = format!("{} is not gone: it answers", gone.name);
        return Err(Failure::refused(format!("{}: {message}", asked.client.endpoint)));
    }
    Ok(())
}

fn say(target: &str, by: &str, done: &ReplacedSite) {
    output::line(&format!(
        "{by} takes the place of {target}; it goes on by itself: skerry site show {}",
        done.site.site
    ));
    if done.by.name != by {
        output::note(&format!("{by} is called {} now", done.by.name));
    }
    if !done.name_kept.is_empty() {
        output::note(&format!("{} keeps its name: {}", done.by.name, done.name_kept));
    }
    if !done.homes_wait.is_empty() {
        let homes = words::count(done.site.homes.len() as u64, "home");
        let named: Vec<&str> = done.site.homes.iter().map(|home| in_words(home)).collect();
        output::note(&format!("{homes} ({}) wait: {}", named.join(", "), done.homes_wait));
    }
    if !done.exposed_keys.is_empty() {
        output::note(&format!(
            "the disk of {target} could open the secrets of {}: if it may be in other hands make new ones and disable {}",
            words::count(done.exposed_keys.len() as u64, "access key"),
            done.exposed_keys.join(", "),
        ));
    }
}

/// How far it is.
pub(in crate::verbs) fn progress(recovery: &RecoveryStatus) -> String {
    let mut said = match recovery.done_ms {
        Some(done) => format!("done since {}", words::wall(done)),
        None => "going on".to_owned(),
    };
    said += &format!(
        "; {} of {} homes moved; {} of {} buckets complete",
        recovery.homes_moved, recovery.homes, recovery.buckets_complete, recovery.buckets
    );
    if recovery.done_ms.is_none() {
        let bytes = words::bytes(recovery.missing_bytes);
        said += &format!(
            ", {} ({bytes}) missing as far as known",
            words::count(recovery.missing_records, "record")
        );
        said += &match recovery.ends_ms {
            Some(ends) => format!(", here at about {}", words::wall(ends)),
            None => ", end unknown".to_owned(),
        };
    }
    if !recovery.homes_wait.is_empty() {
        said += &format!("; homes wait: {}", recovery.homes_wait);
    }
    for (what, list) in [
        ("waits", &recovery.waits_for),
        ("not followed here (residency or join)", &recovery.refused),
        ("nobody else has records of", &recovery.lost),
    ] {
        if !list.is_empty() {
            said += &format!("; {what}: {}", list.join(", "));
        }
    }
    said
}
