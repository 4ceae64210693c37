//! Asks members for what is new below the prefixes that this site follows, and drops what it follows no more.
//!
//! Before: `workers`. Invariants: one question of each prefix on its way; what came is carried out in one commit, which looks
//! again whether the prefix is followed and the site is no member; a member that cannot answer is named, and the next is asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::SiteId;
use skerry_base::kv::{Table, View};
use skerry_federation::budget::Class;
use skerry_gateway::service::Outcome;
use skerry_model::bucket::all_buckets;
use skerry_model::space::{self, Asked, Below, Changes, Range, Step, Subscription};
use skerry_model::{Entry, Record};

use crate::drive::stored::Stored;
use crate::following::{Standing, joining};
use crate::paths::{members, refusal};
use crate::peers::PeerError;
use crate::peers::message::{AskedBelow, Question, Request, Response, ToldBelow};
use crate::site::{Site, entry, unreadable};
use crate::tasks::rest;

/// How long a question about changes may wait at a member.
const WAIT: Duration = Duration::from_secs(20);
/// After a question that nobody answered.
const AGAIN: Duration = Duration::from_secs(2);
/// All ranges are compared so often, whatever changes say.
const COMPARE: Duration = Duration::from_secs(6 * 3600);
/// Records dropped in one commit, and the pause between two of these.
const AT_ONCE: usize = 2048;
const PACE: Duration = Duration::from_millis(20);

/// Follows all prefixes, for ever.
pub(crate) async fn work(site: Arc<Site>) {
    while let Err(error) = joining::pick_up(&site).await {
        tracing::warn!(%error, "what was being decided when the site ended cannot be read");
        rest(AGAIN).await;
    }
    let mut turns = FuturesUnordered::new();
    let mut asking = BTreeSet::new();
    loop {
        let all: Vec<Below> = site.following.all().keys().cloned().collect();
        for below in all {
            if asking.insert(below.clone()) {
                turns.push(turn(site.clone(), below));
            }
        }
        tokio::select! {
            Some(below) = turns.next() => drop(asking.remove(&below)),
            () = site.following.wake.notified() => {}
        }
    }
}

async fn turn(site: Arc<Site>, below: Below) -> Below {
    match step(&site, &below).await {
        Ok(true) => {}
        Ok(false) => rest(AGAIN).await,
        Err(error) => {
            tracing::debug!(prefix = below.prefix, %error, "a followed prefix waits");
            let reason = error.message().to_owned();
            note(&site, &below, |standing| (standing.current, standing.reason) = (false, Some(reason)));
            // Words said meanwhile, such as its end, are heard at once.
            tokio::select! { () = rest(AGAIN) => {}, () = ends(&site, &below) => {} }
        }
    }
    below
}

/// Returns when a prefix is followed no more.
async fn ends(site: &Site, below: &Below) {
    let mut changes = site.changes.follow();
    let is_over = || site.following.all().get(below).is_none_or(|standing| standing.ends);
    while !is_over() && changes.changed().await.is_ok() {}
}

fn note(site: &Site, below: &Below, change: impl FnOnce(&mut Standing)) {
    if let Some(standing) = site.following.all().get_mut(below) {
        change(standing);
    }
}

/// One question; false if there is nothing to be done for a while.
pub(crate) async fn step(site: &Arc<Site>, below: &Below) -> Outcome<bool> {
    let place = below.clone();
    let Some(row) = site.read(move |view| space::subscription(view, &place).map_err(unreadable)).await?
    else {
        site.following.all().remove(below);
        return Ok(true);
    };
    if row.ends {
        drop_all(site, below).await?;
        return Ok(true);
    }
    if site.is_member(below.bucket) || site.leaving.sweeps(below.bucket) {
        return Ok(false);
    }
    if is_due(site, below, &row) {
        compare(site, below).await?;
        return Ok(true);
    }
    let Some(bucket) = site.bucket_of(below.bucket).await? else {
        return outlived(site, below).await;
    };
    let asking = members::nearest(site, &bucket).await?;
    let mut failed = Vec::new();
    for &member in &asking.sites {
        // It is asked for nothing once it is over.
        let asked = tokio::select! {
            asked = ask(site, below, member) => asked?,
            () = ends(site, below) => return Ok(true),
        };
        match asked {
            Ok(()) => return Ok(true),
            Err(why) => failed.push(why),
        }
    }
    asking.nobody(site, &failed.into())?;
    Err(refusal::unreachable("no other site is a member of the bucket"))
}

/// What is followed of a deleted bucket ends by itself: no name says any more what is to go. One that has no name at the moment
/// is waited for.
async fn outlived(site: &Arc<Site>, below: &Below) -> Outcome<bool> {
    let (system, bucket) = (site.system, below.bucket);
    let all = site.read(move |view| all_buckets(view, system).map_err(unreadable)).await?;
    if all.iter().any(|resolved| resolved.claim.bucket == bucket) {
        return Ok(false);
    }
    end(site, below).await?;
    tracing::info!(prefix = below.prefix, "the bucket of a followed prefix is no more");
    Ok(true)
}

/// From now on nothing is answered from what goes.
pub(super) async fn end(site: &Arc<Site>, below: &Below) -> Outcome<()> {
    let place = below.clone();
    let propose = move |view: &dyn View| {
        let row = space::subscription(view, &place).map_err(unreadable)?;
        let ends = row.map(|row| space::followed(&place, Some(&row.ending())));
        Ok(((), ends.iter().map(entry).collect()))
    };
    note(site, below, |standing| (standing.ends, standing.complete) = (true, false));
    site.commit(site.system, (), propose).await
}

/// Whether it is time to compare all ranges. After a start it is once it was due anyway.
fn is_due(site: &Site, below: &Below, row: &Subscription) -> bool {
    let now = site.clock.now();
    let mut all = site.following.all();
    let Some(standing) = all.get_mut(below) else { return false };
    let since = *standing.compared.get_or_insert(now);
    let is_due = row.complete && row.ranges.is_none() && now.since(since) >= COMPARE;
    if is_due {
        standing.compared = Some(now);
    }
    is_due
}

async fn compare(site: &Arc<Site>, below: &Below) -> Outcome<()> {
    let place = below.clone();
    let propose = move |view: &dyn View| {
        let row = space::subscription(view, &place).map_err(unreadable)?;
        let compared = row.map(|mut row| {
            row.compare();
            space::followed(&place, Some(&row))
        });
        Ok(((), compared.iter().map(entry).collect()))
    };
    site.commit(site.system, (), propose).await
}

/// Asks one member; why it was of no help, if so.
async fn ask(site: &Arc<Site>, below: &Below, member: SiteId) -> Outcome<Result<(), String>> {
    let known = site
        .following
        .all()
        .get(below)
        .map(|standing| (standing.lives.get(&member).copied(), standing.width));
    let known = known.unwrap_or((None, space::COMPARED));
    let place = below.clone();
    let next = move |view: &dyn View| {
        let row = space::subscription(view, &place).map_err(unreadable)?;
        row.map(|row| space::next(view, &place, &row, known).map_err(unreadable)).transpose()
    };
    let Some(next) = site.read(next).await? else { return Ok(Ok(())) };
    let is_current = site.following.all().get(below).is_some_and(|standing| standing.current);
    let begun = site.clock.now();
    let question = match &next {
        Step::End => return Ok(Ok(())),
        Step::Range(asked) => Question::Range(asked.clone()),
        Step::Changes(seen, loose) => {
            // What is not known to be current asks first and waits then.
            let wait_ms = if is_current { WAIT.as_millis() as u32 } else { 0 };
            Question::Changes { seen: seen.clone(), loose: *loose, wait_ms }
        }
    };
    let (bucket, prefix) = (below.bucket, below.prefix.clone());
    let request = Request::Below(Box::new(AskedBelow { bucket, prefix, question }));
    let name = || site.peers.roster.name(member);
    match site.peers.call_as(Class::Record, member, &request).await.map(|answer| answer.response) {
        Ok(Response::Below(told)) => {
            let at_rest = is_current && told.is_nothing();
            if !took(site, below, (member, next), *told).await? {
                rest(AGAIN).await;
            }
            // One that has no room for questions that wait answers at once.
            if at_rest && site.clock.now().since(begun) < AGAIN {
                rest(AGAIN).await;
            }
            Ok(Ok(()))
        }
        Ok(Response::NotMember) => {
            site.refuted(bucket, member);
            Ok(Err(format!("{} is no member", name())))
        }
        Ok(Response::Joining) => Ok(Err(format!("{} has not everything itself yet", name()))),
        Ok(Response::Refused { message, .. }) => Ok(Err(format!("{}: {message}", name()))),
        Ok(_) => Ok(Err(format!("{} answered something else", name()))),
        Err(PeerError::Senseless(_) | PeerError::Frame(_) | PeerError::Io(_)) if site.linked(member) => {
            Ok(Err(format!(
                "{} does not answer about prefixes: update it, it may be of an older release",
                name()
            )))
        }
        Err(error) => Ok(Err(format!("{}: {error}", name()))),
    }
}

/// Carries out an answer; false if it goes on nothing that is here.
async fn took(
    site: &Arc<Site>,
    below: &Below,
    (member, next): (SiteId, Step),
    told: ToldBelow,
) -> Outcome<bool> {
    let mut same = None;
    let (current, life, taken) = match (&next, told) {
        (Step::Changes(seen, _), ToldBelow::Changes { source, far, records, upto, more, loose }) => {
            let changes = Changes { far, records: admitted(below, &records)?, upto, more, loose };
            let current = !far && !more;
            let seen = seen.clone();
            let take = move |view: &dyn View, below: &Below| {
                space::take_changes(view, below, (source, &seen), changes)
            };
            (current, Some(source), commit(site, below, take).await?)
        }
        (Step::Range(asked), ToldBelow::Range { same: is_same, records, upto, end }) => {
            same = Some(is_same);
            if !is_ahead(asked, end.as_deref()) {
                return Err(refusal::malformed("a range that was not asked for"));
            }
            let range = Range { same: is_same, records: admitted(below, &records)?, upto, end };
            let asked: Asked = asked.clone();
            let take = move |view: &dyn View, below: &Below| space::take_range(view, below, &asked, range);
            (false, None, commit(site, below, take).await?)
        }
        _ => return Err(refusal::malformed("another answer than was asked for")),
    };
    let (is_member, now) = (site.is_member(below.bucket), site.clock.now());
    note(site, below, |standing| {
        // Another life of the member, or a member by now: what it was asked for counts no more.
        standing.lives.extend(life.map(|life| (member, life)));
        standing.width = same.map_or(standing.width, |same| space::compares(standing.width, same));
        if let Some(complete) = taken.filter(|_| !is_member) {
            (standing.complete, standing.current, standing.near) = (complete, current, Some(member));
            (standing.reason, standing.heard) = (None, Some(now));
        }
    });
    Ok(taken.is_some())
}

/// Whether a range goes on behind what was asked, and no further.
fn is_ahead(asked: &Asked, end: Option<&str>) -> bool {
    let Some(end) = end else { return true };
    asked.after.as_deref().is_none_or(|after| after < end) && asked.to.as_deref().is_none_or(|to| end <= to)
}

fn admitted(below: &Below, records: &[Bytes]) -> Outcome<Vec<Record>> {
    let admit = |bytes: &Bytes| {
        let record = Record::admit(bytes).map_err(refusal::malformed)?;
        match record.bucket == below.bucket && below.has(&record.key) {
            true => Ok(record),
            false => Err(refusal::malformed("a record of another key")),
        }
    };
    records.iter().map(admit).collect()
}

/// Whether the prefix is whole with it; none if nothing was carried out.
async fn commit(
    site: &Arc<Site>,
    below: &Below,
    take: impl FnOnce(&dyn View, &Below) -> Result<Option<Vec<Entry>>, space::SpaceError> + Send + 'static,
) -> Outcome<Option<bool>> {
    let place = below.clone();
    let propose = move |view: &dyn View| {
        // A member takes what feeds bring; what is left of a former membership goes first.
        for what in [Stored::Member, Stored::Left] {
            let found = view.get(Table::Local, &what.key(place.bucket));
            if found.map_err(|error| unreadable(error.into()))?.is_some() {
                return Ok((None, Vec::new()));
            }
        }
        let Some(entries) = take(view, &place).map_err(unreadable)? else { return Ok((None, Vec::new())) };
        let whole = space::completes(&place, &entries).map_err(unreadable)?;
        Ok((Some(whole), entries.iter().map(entry).collect()))
    };
    site.commit(below.bucket, (), propose).await
}

/// What is here of a prefix that is followed no more goes, unless the site is a member of the bucket by now.
async fn drop_all(site: &Arc<Site>, below: &Below) -> Outcome<()> {
    loop {
        let place = below.clone();
        let propose = move |view: &dyn View| {
            let member = view.get(Table::Local, &Stored::Member.key(place.bucket));
            let stays = member.map_err(|error| unreadable(error.into()))?.is_some();
            let dots = if stays {
                Vec::new()
            } else {
                space::left_below(view, &place, AT_ONCE).map_err(unreadable)?
            };
            let is_over = dots.is_empty();
            let next = match is_over {
                true => space::followed(&place, None),
                false => Entry::Drop { bucket: place.bucket, dots },
            };
            Ok((is_over, vec![entry(&next).freeing()]))
        };
        if site.commit(below.bucket, (), propose).await? {
            site.following.all().remove(below);
            tracing::info!(prefix = below.prefix, "a prefix is followed no more, and its records are gone");
            return Ok(());
        }
        rest(PACE).await;
    }
}
