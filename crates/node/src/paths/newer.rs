//! Reads that ask for more than what is here: at least one write (`x-skerry-token`), or what anybody knows
//! (`x-skerry-read: latest`).
//!
//! Before: `get.rs`. After: `far.rs`, `peers`. Invariants: an answer to a token has seen its write, or there is none:
//! 409 says whose write is missing; `latest` is what all members that answered know together, and 409 when none did.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId, Vector};
use skerry_gateway::service::{Outcome, ReadMode};
use skerry_model::{Record, space};

use super::dead::{self, Denied, Said};
use super::get::{Found, Wanted};
use super::members::Failed;
use super::{far, heard, members, refusal, within};
use crate::peers::message::{Part, Request, Response};
use crate::site::{Site, unreadable};

/// How long one member may take to say what it knows.
const SAY: Duration = Duration::from_secs(5);

async fn here(site: &Arc<Site>, wanted: &Wanted) -> Outcome<Found> {
    let local = wanted.clone();
    site.read(move |view| local.local(view)).await
}

/// What a reader has seen of this bucket, by its token.
pub(crate) fn goal(mode: &ReadMode, bucket: BucketId) -> Outcome<Vector> {
    let ReadMode::After(token) = mode else { return Ok(Vector::new()) };
    let (of, dot) = super::write::parse_token(token).ok_or_else(members::bad_token)?;
    Ok(Vector::from_iter((of == bucket).then_some((dot.origin, dot.seq))))
}

/// At least as new as the write of this token: from its site or another that has seen it. None if the write is here, at
/// once or while others were asked: then a plain read is new enough, and it knows whether this site may say "there is
/// nothing": that a write has arrived says nothing of other keys.
pub(crate) async fn after(
    site: &Arc<Site>,
    wanted: &Wanted,
    part: Part,
    token: &str,
) -> Outcome<Option<Found>> {
    let (bucket, dot) = super::write::parse_token(token).ok_or_else(members::bad_token)?;
    // Before the record is read: what had arrived by then is in what is read.
    let covered = move |view: &dyn View| space::vector_entry(view, bucket, dot.origin).map_err(unreadable);
    if site.read(covered).await? >= dot.seq {
        return Ok(None);
    }
    let found = here(site, wanted).await?;
    if matches!(&found, Found::Object(record) if record.dot == dot) {
        // It came ahead of its feed: another node of the site may have acknowledged more since.
        let asks = within::asks(site, &ReadMode::Local) && !site.reads_for_site(wanted.bucket.id);
        let goal = Vector::from_iter([(dot.origin, dot.seq)]);
        let later = if asks { within::find(site, wanted, &goal).await? } else { None };
        return Ok(Some(later.unwrap_or(found)));
    }
    let arrives = async {
        let goal = Vector::from_iter([(dot.origin, dot.seq)]);
        if site.is_member(bucket) { heard::seen(site, bucket, &goal).await.ok() } else { None }
    };
    tokio::select! {
        Some(()) = arrives => Ok(None),
        Some(asked) = ask(site, wanted, part, (&found, dot)) => asked.map(Some),
        else => Err(missing(site, dot)),
    }
}

fn missing(site: &Site, dot: Dot) -> skerry_gateway::service::ServiceError {
    let writer = site.peers.roster.site(dot.origin.node);
    let writer = writer.map_or_else(|| "a site that is gone".into(), |writer| site.peers.roster.name(writer));
    refusal::unreachable(format!(
        "the write of this token, made at {writer}, has not arrived here, and no site that has seen it can be reached; \
         try again when the link is back, or read without the token what is here"
    ))
}

/// Asks the site of the write, then the other members, for an answer that has seen it; none if there is none.
async fn ask(
    site: &Arc<Site>,
    wanted: &Wanted,
    part: Part,
    (found, dot): (&Found, Dot),
) -> Option<Outcome<Found>> {
    let writer = site.peers.roster.site(dot.origin.node);
    let mut sites =
        members::nearest(site, &wanted.bucket).await.map(|asking| asking.sites).unwrap_or_default();
    if let Some(writer) = writer.filter(|writer| site.linked(*writer)) {
        sites.retain(|member| *member != writer);
        sites.insert(0, writer);
    }
    for member in sites {
        let Ok(answer) = site.peers.call(member, &far::question(wanted, part)).await else { continue };
        let response = answer.response.clone();
        let by_all =
            || async { writer == Some(member) && has_all(site, member, wanted.bucket.id, dot).await };
        let is_object = matches!(response, Response::Object(_));
        if !(has_seen(&response, dot) || is_object && by_all().await) {
            continue;
        }
        return match response {
            Response::Object(found) => {
                let taken = far::Taken { member, found, answer };
                Some(far::take(site, wanted, part, None, taken).await)
            }
            Response::NoObject { marker, vector } => {
                let denied = Denied { member, marker, vector };
                let kept = dead::denied(site, wanted, &denied).await;
                Some(kept.map(|()| dead::unless_newer(found.clone(), &denied.vector)))
            }
            _ => None,
        };
    }
    None
}

/// Whether the site of a write has it still, of which what it answers need say nothing. One that was set back may not.
async fn has_all(site: &Site, writer: SiteId, bucket: BucketId, dot: Dot) -> bool {
    let answer = site.peers.call(writer, &Request::Size { bucket }).await;
    answer.is_ok_and(|answer| matches!(&answer.response, Response::Size { vector, .. } if vector.covers(dot)))
}

/// Whether what was answered has seen a write.
fn has_seen(response: &Response, dot: Dot) -> bool {
    match response {
        Response::NoObject { vector, .. } => vector.covers(dot),
        Response::Object(found) => {
            let seen = |bytes| {
                Record::decode(bytes).is_ok_and(|record| record.dot == dot || record.context.covers(dot))
            };
            std::iter::once(&found.record).chain(&found.heads).any(|bytes| seen(bytes))
        }
        _ => false,
    }
}

/// What the members that answered said together.
#[derive(Default)]
struct Heard {
    answered: usize,
    failed: Failed,
    /// What those said that have it.
    said: Vec<Said>,
    /// Those that have nothing.
    denied: Vec<Denied>,
    /// What those have seen that have nothing.
    without: Vector,
}

/// What all members that answer know together.
pub(crate) async fn latest(site: &Arc<Site>, wanted: &Wanted) -> Outcome<Found> {
    let id = wanted.bucket.id;
    let sweeps = site.leaving.sweeps(id);
    let asking = members::nearest(site, &wanted.bucket).await?;
    let question = far::question(wanted, Part::Nothing);
    let said = |member: SiteId| {
        let question = &question;
        async move { (member, tokio::time::timeout(SAY, site.peers.call(member, question)).await) }
    };
    let mut heard = Heard::default();
    for (member, answer) in join_all(asking.sites.iter().copied().map(said)).await {
        match answer {
            Ok(Ok(answer)) => heard.hear(site, wanted, member, answer.response).await?,
            Ok(Err(error)) => heard.failed.push(format!("{}: {error}", site.peers.roster.name(member))),
            Err(_) => heard.failed.push(format!("{} does not answer", site.peers.roster.name(member))),
        }
    }
    if heard.answered == 0 {
        asking.nobody(site, &heard.failed)?;
    }
    let found = dead::judged(site, wanted, &heard.said).await?;
    match &found {
        // What was heard went with the rest of a bucket that is being left.
        Found::Nothing if !heard.said.is_empty() && site.outlives(id, &wanted.key, sweeps) => {
            return Err(refusal::just_left());
        }
        Found::Object(record) if heard.without.covers(record.dot) => {}
        _ => return Ok(found),
    }
    // It is dead elsewhere; a member waits for what killed it.
    if !site.is_complete(id) {
        for denied in &heard.denied {
            dead::denied(site, wanted, denied).await?;
        }
        return Ok(dead::unless_newer(found, &heard.without));
    }
    heard::seen(site, id, &heard.without).await?;
    here(site, wanted).await
}

impl Heard {
    async fn hear(
        &mut self,
        site: &Arc<Site>,
        wanted: &Wanted,
        member: SiteId,
        response: Response,
    ) -> Outcome<()> {
        match response {
            Response::Object(found) => {
                let bytes = std::iter::once(&found.record).chain(&found.heads);
                let records = bytes.map(|bytes| far::admitted(wanted, bytes)).collect::<Outcome<Vec<_>>>()?;
                self.said.push(Said::of(member, &records));
                far::keep(site, wanted.bucket.id, (), records).await?;
                members::follow_if_small(site, &wanted.bucket, found.bucket_bytes).await;
                self.answered += 1;
            }
            Response::NoObject { marker, vector } => {
                self.without.merge(&vector);
                self.denied.push(Denied { member, marker, vector });
                self.answered += 1;
            }
            Response::NotMember => site.refuted(wanted.bucket.id, member),
            Response::Joining => self.failed.push(members::joining(site, member)),
            Response::Refused { code, message } => self.failed.refused(&code, message),
            _ => self.failed.push(format!("{} answered something else", site.peers.roster.name(member))),
        }
        Ok(())
    }
}
