//! A site of several nodes: writes that are durable at all of its live nodes, and reads that have seen them, through any
//! node.
//!
//! Before: `scope.rs` with a version that is durable here; `get.rs` and `list.rs` with what is asked for. After:
//! [`crate::nodes`], which asks the other nodes. Invariants: an answer names the scope that it has; a write that nobody
//! asked scope `site` for goes on in scope `node` when the site's nodes cannot have it in time, and one that asked is
//! refused and kept; payload of a large body is at the other nodes before its record is asked for, so that nobody is
//! found late for its size.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::Vector;
use skerry_base::kv::Overlay;
use skerry_base::limits::{CHUNK_BYTES, JOURNAL_BODY_BYTES};
use skerry_federation::budget::Class;
use skerry_federation::site_view::Seats;
use skerry_gateway::service::{ErrorKind, Outcome, ReadMode, Receipt, RequestContext, ServiceError};
use skerry_model::record::Scope;
use skerry_model::{Record, space};

use super::bucket::Bucket;
use super::dead::{self, Said};
use super::get::{Found, Wanted};
use super::write::Written;
use super::{far, refusal, scope, seen};
use crate::copies::look::is_here;
use crate::nodes::{self, Load};
use crate::peers::message::{Hold, List, Page, Request};
use crate::site::{Site, unreadable};

/// How long a body waits for others on their way to the other nodes where nobody asked for scope `site`: as long as a node that
/// is slow may hold up a site.
const LINE: Duration = Duration::from_secs(2);
/// How often it is looked whether a node that takes a large body still counts.
const LOOK: Duration = Duration::from_millis(100);

/// The scope that a write has, `site` if all of the site's live nodes have it, else `node`; `insists`: else it is refused.
pub(crate) async fn reach(
    site: &Arc<Site>,
    insists: bool,
    bucket: &Bucket,
    written: &Written,
) -> Outcome<Scope> {
    let reached = match written {
        // Whoever knows that there is nothing has said so in `nothing`.
        Written::Nothing => Err("this node does not read for the site now".into()),
        // Nobody asked for it, and it could only come to nothing.
        Written::Record(_) if !insists && !site.nodes.can_settle(site.clock.since_boot()) => {
            Err("this node hears no majority of the site's nodes".into())
        }
        // As it was decided.
        Written::Record(record) if site.nodes.has_settled_whole(bucket.id, record.dot) => Ok(()),
        Written::Record(record) => match nodes::hindrance(site) {
            Some(why) => Err(why),
            None => settle(site, insists, bucket, record).await?,
        },
    };
    match reached {
        Ok(()) => Ok(Scope::Site),
        Err(why) if !insists || bucket.config.accept_less => {
            tracing::debug!(bucket = bucket.name, why, "a write is this node's, not the site's");
            Ok(Scope::Node)
        }
        Err(why) => Err(short(site, &why, refusal::kept(bucket.versioning))),
    }
}

/// What is answered where there was nothing to delete; `is_sites` as it was before it was looked for.
pub(crate) fn nothing(context: &RequestContext, is_sites: bool) -> Outcome<Receipt> {
    if !is_sites && context.scope.as_deref() == Some("site") {
        let message = "this node has nothing to delete, and does not read for its site now: try again, or ask for the scope \
                       node";
        return Err(ServiceError::new(ErrorKind::ScopeNotReached, message));
    }
    Ok(Written::Nothing.receipt(told(is_sites)))
}

/// `then`: what may be done about it.
pub(super) fn short(site: &Site, why: &str, then: &str) -> ServiceError {
    let message = format!(
        "the write is kept and durable at {}, not at all live nodes of its site ({why}); it reaches them when it can; {then}; \
         or ask for the scope node next time",
        site.called()
    );
    ServiceError::new(ErrorKind::ScopeNotReached, message)
}

/// Has a version that is durable here held by all live nodes of the site. One whose body has not come to all of them in time is not
/// asked for: whoever is slow with it would be found late, and left out of the view.
async fn settle(
    site: &Arc<Site>,
    insists: bool,
    bucket: &Bucket,
    record: &Record,
) -> Outcome<Result<(), String>> {
    let staged = site.peers.waits().staged;
    let hold = match tokio::time::timeout(staged, bring(site, insists, bucket, record)).await {
        Ok(brought) => brought?,
        Err(_) => Err(format!("its body has not come to all of them within {} s", staged.as_secs())),
    };
    let hold = match hold {
        Ok(hold) => hold,
        Err(why) => return Ok(Err(why)),
    };
    Ok(nodes::settle(site, Load::Version(hold), None).await.map_err(|why| why.to_string()))
}

/// A version as others are asked to hold it; its body, if that is large, is at the other nodes.
async fn bring(
    site: &Arc<Site>,
    insists: bool,
    bucket: &Bucket,
    record: &Record,
) -> Outcome<Result<Hold, String>> {
    let size = record.object().map_or(0, |object| object.size);
    let is_large = size > JOURNAL_BODY_BYTES as u64;
    // A few at a time: of hundreds that share the way each would come too late, be given up, and have been sent for nothing. What
    // was made elsewhere may have to come here first, however far that is.
    let room = match is_large && record.site == site.id {
        true => match site
            .staging
            .wait_for(along(size), if insists { site.peers.waits().staged } else { LINE })
            .await
        {
            Some(room) => Some(room?),
            None => return Ok(Err("many bodies are on their way to the other nodes".into())),
        },
        false => None,
    };
    let mut hold = match version(site, bucket, record).await? {
        Ok(hold) => hold,
        Err(why) => return Ok(Err(format!("it is not here: {why}"))),
    };
    if is_large {
        if let (Some(room), Some(first)) = (room, hold.payload.first_mut()) {
            *first = room.attach(std::mem::take(first));
        }
        let ahead = hold.clone();
        hold.payload.clear();
        stage(site, ahead).await;
    }
    Ok(Ok(hold))
}

/// What of a body is sent along, about.
fn along(size: u64) -> usize {
    usize::try_from(size).map_or(CHUNK_BYTES, |size| size.min(CHUNK_BYTES))
}

/// A small version that is here, body and all, for others to hold; none if it is large, or not here whole.
pub(crate) async fn small(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<Option<Hold>> {
    let is_small = record.object().is_none_or(|object| object.size <= JOURNAL_BODY_BYTES as u64);
    match is_small && has_it(site, bucket, record).await? {
        true => scope::question(site, bucket, record).await.map(Some),
        false => Ok(None),
    }
}

/// A version that is here, for others to hold. What was made elsewhere may not be here before, nor its payload.
pub(crate) async fn version(
    site: &Arc<Site>,
    bucket: &Bucket,
    record: &Record,
) -> Outcome<Result<Hold, scope::Unheld>> {
    let hold = scope::question(site, bucket, record).await?;
    if record.site != site.id && !has_it(site, bucket, record).await? {
        let own = Request::Hold(hold.clone());
        if let Err(why) = scope::held_by(site, Class::Read, site.id, &own).await {
            return Ok(Err(why));
        }
    }
    Ok(Ok(hold))
}

/// Whether a version is here, as far as it still counts, and its body.
async fn has_it(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<bool> {
    let (store, id, record) = (site.store.clone(), bucket.id, record.clone());
    let look = move || {
        let is_new = space::accept(&store.view(), &record).map_err(unreadable)? == space::Verdict::New;
        Ok(!is_new && record.object().is_none_or(|object| is_here(&store, id, object)))
    };
    tokio::task::spawn_blocking(look).await.map_err(super::refusal::task)?
}

/// Brings a large body to the other nodes. Whoever says that it cannot take it is found late when the record is asked for.
async fn stage(site: &Arc<Site>, mut hold: Hold) {
    let (mut begun, mut done) = (Seats::NONE, Seats::NONE);
    let mut asked = FuturesUnordered::new();
    loop {
        let holders = site.nodes.other_holders();
        for seat in holders.minus(begun).iter() {
            begun = begun.with(seat);
            let hold = hold.clone();
            asked.push(async move {
                nodes::hold_ahead(site, seat, hold).await;
                seat
            });
        }
        // Who comes later fetches all of it: the room of what is sent along is free again once these have that.
        hold.payload.clear();
        if holders.is_within(done) {
            return;
        }
        if let Ok(Some(seat)) = tokio::time::timeout(LOOK, asked.next()).await {
            done = done.with(seat);
        }
    }
}

/// Whether reads at this site say whose they are.
pub(crate) fn says(site: &Site, mode: &ReadMode) -> bool {
    site.nodes.are_several() && *mode == ReadMode::Local
}

/// Whether a node that has no lease asks one that has: what it does not have may have been acknowledged.
pub(crate) fn asks(site: &Site, mode: &ReadMode) -> bool {
    site.nodes.are_several() && *mode != ReadMode::Latest
}

/// What a site of several nodes has of a key; none if no node with a lease can be asked: then this one answers for itself. That
/// one has nothing is an answer to a reader who has seen this goal if it has seen that, too.
pub(crate) async fn find(site: &Arc<Site>, wanted: &Wanted, goal: &Vector) -> Outcome<Option<Found>> {
    let id = wanted.bucket.id;
    let Some((node, heard)) = nodes::heads(site, id, &wanted.key, wanted.version, goal).await else {
        return Ok(None);
    };
    let said = Said::of(node, &heard);
    let (is_nothing, exists) = (heard.is_empty(), heard.iter().any(|record| record.object().is_some()));
    let (local, heads) = (wanted.clone(), heard.clone());
    let found = site.read(move |view| {
        let (_, merged) = seen::laid_over(view, id, &heads)?;
        local.local(&Overlay::new(view, &merged))
    });
    let found = match found.await? {
        // What was heard went with the rest of a bucket that is being left.
        Found::Nothing if exists && site.stamps.is_out(id) => return Ok(None),
        found if is_nothing => own(site, found),
        found => found,
    };
    let shows = match &found {
        Found::Marker(_) if is_nothing => true,
        Found::Object(record) | Found::Marker(record) => said.alive.contains(&record.dot),
        Found::Nothing => true,
    };
    // Mostly: and nothing of it is kept here. A read would be a write for each time, and none where the disk is full; and it might
    // bring a record whose body is nowhere but at the node that was asked.
    if shows {
        return Ok(Some(found));
    }
    if !is_nothing {
        far::keep(site, id, (), heard).await?;
    }
    // What that node did not say it has not heard of, or it has seen it die. Who cannot ask answers for itself.
    Ok(match dead::judged(site, wanted, &[said]).await {
        Ok(found) if is_nothing => Some(own(site, found)),
        found => found.ok(),
    })
}

/// The site has nothing: of what is here only this node's own writes are not known to be dead.
fn own(site: &Site, found: Found) -> Found {
    let me = site.peers.net().node();
    match found {
        Found::Object(record) if record.dot.origin.node == me => Found::Object(record),
        Found::Marker(record) => Found::Marker(record),
        _ => Found::Nothing,
    }
}

/// A page of a bucket that this node does not read for the site; none if no node with a lease can be asked.
pub(crate) async fn page(site: &Arc<Site>, list: &List, versions: bool, goal: &Vector) -> Option<Page> {
    nodes::page(site, list, versions, goal).await
}

/// What a read says of itself.
pub(crate) fn told(is_sites: bool) -> String {
    scope::name(if is_sites { Scope::Site } else { Scope::Node })
}
