//! An object that is not here, in one round trip: record and first bytes from the nearest member.
//!
//! Before: `get.rs`. After: `peers`, which other sites answer in `answer.rs`. Invariants: at most two sites
//! are asked at once; what came is verified, stored and then judged by the tables here, so that a stale answer
//! cannot bring back what this site knows to be dead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::absence::Absence;
use skerry_gateway::service::{Outcome, Selection, ServiceError};
use skerry_model::body::{Step, Walk};
use skerry_model::{Object, Record, space};

use super::dead::{self, Denied, Said};
use super::get::{Found, Wanted};
use super::members::{self, Asking, Failed};
use super::refusal;
use super::seek::Offer;
use super::source::Chunks;
use crate::peers::gifts::Gift;
use crate::peers::message::{self, Part, Read, Request, Response, Which};
use crate::peers::{Answer, PeerError};
use crate::site::{Site, entry, unreadable};

/// How long the nearest has before the next is asked as well.
const HEAD_START: Duration = Duration::from_millis(300);

/// Asks members, the nearest first; stores what they answer.
pub(crate) fn read<'a>(
    site: &'a Arc<Site>,
    wanted: &'a Wanted,
    part: Part,
    here: &'a Found,
    asking: (Asking, Offer),
) -> BoxFuture<'a, Outcome<Found>> {
    Box::pin(async move {
        let known = match here {
            Found::Object(record) | Found::Marker(record) => Some(record.dot),
            Found::Nothing => None,
        };
        let part = self::part(site, wanted, part, here);
        match race(site, asking, &question(wanted, part), matches!(here, Found::Nothing)).await? {
            Some(Heard::Object(member, found, answer)) => {
                take(site, wanted, part, known, Taken { member, found, answer }).await
            }
            Some(Heard::Nothing(denied)) => nothing(site, wanted, &denied).await,
            // Nobody else is a member: what there is, is here.
            None if site.is_member(wanted.bucket.id) => Ok(here.clone()),
            None => Ok(Found::Nothing),
        }
    })
}

/// What of the body is to come along.
pub(crate) fn part(site: &Site, wanted: &Wanted, part: Part, here: &Found) -> Part {
    // What is here already need not come again: ask for the record alone.
    // What may not lie here is streamed chunk by chunk instead.
    let elsewhere = matches!(here, Found::Object(_)) || !wanted.bucket.may_lie_at(site.id);
    if elsewhere { Part::Nothing } else { part }
}

/// What is wanted, as others are asked for it.
pub(crate) fn wanted(wanted: &Wanted, part: Part) -> Read {
    Read {
        bucket: wanted.bucket.id,
        key: wanted.key.clone(),
        which: wanted.version.map_or(Which::Current, super::write::which),
        part,
    }
}

/// Asks for what is wanted.
pub(crate) fn question(wanted: &Wanted, part: Part) -> Request {
    Request::Read(self::wanted(wanted, part))
}

/// Nobody has it; what this site knows itself still counts: a delete marker, and what whoever said so has not seen, such as a
/// write that went from here to another site a moment ago.
async fn nothing(site: &Arc<Site>, wanted: &Wanted, denied: &Denied) -> Outcome<Found> {
    let local = wanted.clone();
    let mut found = site.read(move |view| local.local(view)).await?;
    if let (Some(_), Some(marker)) = (wanted.version, denied.marker)
        && !matches!(found, Found::Marker(_))
    {
        // It was named, and such an answer does not carry it: without its record it could not be told from nothing, nor erased.
        dead::keep_named(site, wanted, (denied.member, marker)).await?;
        let local = wanted.clone();
        found = site.read(move |view| local.local(view)).await?;
        if !matches!(found, Found::Marker(_)) {
            let member = site.peers.roster.name(denied.member);
            return Err(refusal::unreachable(format!(
                "{member} has the delete marker and did not show it; try again, or ask there"
            )));
        }
    }
    if matches!(found, Found::Marker(_)) || site.is_complete(wanted.bucket.id) {
        return Ok(found);
    }
    dead::denied(site, wanted, denied).await?;
    let local = wanted.clone();
    let left = site.read(move |view| local.local(view)).await?;
    Ok(dead::unless_newer(left, &denied.vector))
}

enum Heard {
    Object(SiteId, Box<message::Found>, Answer),
    Nothing(Denied),
}

/// An answer that is to be stored.
pub(crate) struct Taken {
    pub(crate) member: SiteId,
    pub(crate) found: Box<message::Found>,
    pub(crate) answer: Answer,
}

/// The first useful answer; none if nobody has to be asked. That there is nothing is believed once everything that is known to
/// be missing here was seen by somebody who said so. `is_unknown`: nothing is here that says so.
async fn race(
    site: &Arc<Site>,
    (mut asking, mut offer): (Asking, Offer),
    question: &Request,
    is_unknown: bool,
) -> Outcome<Option<Heard>> {
    let (mut failed, mut joining) = (Failed::default(), Vec::new());
    let mut absent = None;
    let mut absence = Absence::new(asking.missing.clone());
    let mut rest: VecDeque<SiteId> = asking.sites.iter().copied().collect();
    while !rest.is_empty() {
        let pair: Vec<SiteId> = rest.drain(..rest.len().min(2)).collect();
        let promised = std::mem::take(&mut asking.promised);
        let answers = match given(&mut offer, promised).await {
            Some(gift) => vec![heard(gift)],
            None => asked_or_given(site, &mut offer, &pair, question).await,
        };
        // The second is not waited for when the first was of use.
        let unheard = pair.iter().filter(|member| answers.iter().all(|(heard, _)| heard != *member));
        unheard.rev().for_each(|member| rest.push_front(*member));
        rest.retain(|member| answers.iter().all(|(heard, _)| heard != member));
        for (member, answer) in answers {
            let name = || site.peers.roster.name(member);
            match answer.map(|answer| (answer.response.clone(), answer)) {
                Ok((Response::Object(found), answer)) => {
                    return Ok(Some(Heard::Object(member, found, answer)));
                }
                Ok((Response::NoObject { marker, vector }, _)) => {
                    absence.denied(member, &vector);
                    absent = Some(Denied { member, marker, vector });
                }
                Ok((Response::NotMember, _)) => {
                    absence.left(member);
                    site.refuted(asking.bucket, member);
                }
                Ok((Response::Joining, _)) => {
                    joining.push(member);
                    failed.push(members::joining(site, member));
                }
                Ok((Response::Refused { code, message }, _)) => failed.refused(&code, message),
                Ok(_) => failed.push(format!("{} answered something else", name())),
                Err(error) => failed.push(format!("{}: {error}", name())),
            }
        }
        if absence.is_settled()
            && let Some(denied) = absent
        {
            return Ok(Some(Heard::Nothing(denied)));
        }
        if absent.is_some() {
            rest.retain(|member| absence.wants(*member));
        }
    }
    // That nobody else is a member is no word of what is lacking here: records may lie at sites that are none.
    if is_unknown && absent.is_none() && site.is_member(asking.bucket) && !site.is_complete(asking.bucket) {
        failed.push(members::incomplete(site, asking.bucket));
    }
    if absent.is_none() && !asking.unknown {
        // Each may take as long as an answer may.
        for member in joining.into_iter().take(2) {
            if let Some(heard) = kept(site, member, question).await {
                return Ok(Some(heard));
            }
        }
    }
    asking.nobody(site, &failed)?;
    Ok(absent.map(Heard::Nothing))
}

/// What a member gives that is taking the bucket's records, or takes them anew: nobody else who can be reached says anything.
async fn kept(site: &Site, member: SiteId, question: &Request) -> Option<Heard> {
    let Request::Read(read) = question else { return None };
    let request = Request::Kept(Box::new(Read { part: Part::Nothing, ..read.clone() }));
    let answer = site.peers.call(member, &request).await.ok()?;
    match answer.response.clone() {
        Response::Object(found) => Some(Heard::Object(member, found, answer)),
        _ => None,
    }
}

/// What one of them has given; waited for as long as the nearest has where one said that it gives.
async fn given(offer: &mut Offer, promised: bool) -> Option<Gift> {
    let gift = match offer.given.take() {
        Some(gift) => Some(gift),
        None if promised => tokio::time::timeout(HEAD_START, offer.coming.as_mut()?.next()).await.ok(),
        None => None,
    };
    gift.filter(Gift::is_answer)
}

fn heard(gift: Gift) -> (SiteId, Result<Answer, PeerError>) {
    (gift.member, Ok(gift.answer))
}

/// Asks, while something may still be given.
async fn asked_or_given(
    site: &Arc<Site>,
    offer: &mut Offer,
    pair: &[SiteId],
    question: &Request,
) -> Vec<(SiteId, Result<Answer, PeerError>)> {
    let Some(coming) = &mut offer.coming else { return both(site, pair, question).await };
    let mut asked = std::pin::pin!(both(site, pair, question));
    loop {
        tokio::select! {
            biased;
            gift = coming.next() => if gift.is_answer() {
                return vec![heard(gift)];
            },
            answers = &mut asked => return answers,
        }
    }
}

/// Asks the first, and the second too if the first is slow; what came, the useful answer first.
async fn both(
    site: &Arc<Site>,
    pair: &[SiteId],
    question: &Request,
) -> Vec<(SiteId, Result<Answer, PeerError>)> {
    let [first, second] = pair else {
        let Some(&only) = pair.first() else { return Vec::new() };
        return vec![(only, site.peers.call(only, question).await)];
    };
    let asked = site.peers.call(*first, question).fuse();
    let mut asked = std::pin::pin!(asked);
    if let Ok(answer) = tokio::time::timeout(HEAD_START, &mut asked).await {
        let mut answers = vec![(*first, answer)];
        if !useful(&answers) {
            answers.push((*second, site.peers.call(*second, question).await));
        }
        return answers;
    }
    let other = site.peers.call(*second, question).fuse();
    let mut other = std::pin::pin!(other);
    let mut answers = Vec::new();
    for _ in 0..2 {
        tokio::select! {
            answer = &mut asked => answers.insert(0, (*first, answer)),
            answer = &mut other => answers.insert(0, (*second, answer)),
        }
        if useful(&answers) {
            break;
        }
    }
    answers
}

fn useful(answers: &[(SiteId, Result<Answer, PeerError>)]) -> bool {
    answers.iter().any(|(_, answer)| {
        matches!(answer, Ok(Answer { response: Response::Object(_) | Response::NoObject { .. }, .. }))
    })
}

/// Stores record and chunks; the version as the tables here see it then.
pub(crate) fn take<'a>(
    site: &'a Arc<Site>,
    wanted: &'a Wanted,
    part: Part,
    known: Option<Dot>,
    taken: Taken,
) -> BoxFuture<'a, Outcome<Found>> {
    Box::pin(async move {
        let Taken { member, found, mut answer } = taken;
        let bucket = &wanted.bucket;
        // Also after a restart: what is kept now may be swept with the rest of a bucket that was left.
        let sweeps = site.leaving.sweeps(bucket.id);
        let record = admitted(wanted, &found.record)?;
        let heads = found.heads.iter().map(|head| admitted(wanted, head)).collect::<Outcome<Vec<_>>>()?;
        let said = Said::of(member, heads.iter().chain([&record]));
        if known != Some(record.dot) {
            let records = heads.into_iter().chain([record.clone()]).collect();
            keep(site, bucket.id, (), records).await?;
        }
        if let Some(object) = record.object()
            && !found.inline.is_empty()
        {
            let selection = selection(part, object)?;
            let chunks = Chunks::new(site, bucket, member);
            let (mut walk, mut came) = (Walk::new(object.chunks.clone(), selection.bytes), 0);
            for &length in &found.inline {
                let Some(Step::Tree(chunk) | Step::Leaf(chunk, _)) = walk.next() else { break };
                let (errand, of) = (chunks.errand(), (chunk.id, length));
                let bytes = match site.peers.receive(&mut answer, errand, bucket.id, of).await {
                    Ok(bytes) => bytes,
                    // The record is here: the rest is asked for as that of any other body.
                    Err(error) if error.is_apart() => {
                        tracing::debug!(%error, "the link broke within the first bytes of an object");
                        break;
                    }
                    Err(error) => return Err(refusal::malformed(error)),
                };
                came += 1;
                if chunk.kind == skerry_base::ChunkKind::Tree {
                    walk.supply(&bytes).map_err(refusal::malformed)?;
                }
                chunks.keep(chunk.kind, bytes).await;
            }
            if came == found.inline.len() {
                site.peers.keep_object_stream(answer);
            }
        }
        members::follow_if_small(site, bucket, found.bucket_bytes).await;
        let again = Wanted { version: Some(space::VersionId::Dot(record.dot)), ..wanted.clone() };
        let judged = match dead::judged(site, wanted, &[said]).await? {
            Found::Nothing => site.read(move |view| again.local(view)).await?,
            found => found,
        };
        match judged {
            // What a site that leaves drops meanwhile is answered all the same.
            Found::Nothing if site.outlives(bucket.id, &wanted.key, sweeps) => Ok(Found::of(Some(record))),
            judged => Ok(judged),
        }
    })
}

/// Stores records that no feed has brought: ahead of the vector, which leaves them alone.
pub(crate) async fn keep<P: Send + 'static>(
    site: &Site,
    bucket: BucketId,
    pins: P,
    records: Vec<Record>,
) -> Outcome<()> {
    let propose = move |view: &dyn View| {
        let entries = space::keep(view, bucket, records).map_err(unreadable)?;
        Ok(((), entries.iter().map(entry).collect()))
    };
    site.commit(bucket, pins, propose).await
}

pub(crate) fn admitted(wanted: &Wanted, bytes: &[u8]) -> Outcome<Record> {
    let record = Record::admit(bytes).map_err(refusal::malformed)?;
    if record.bucket == wanted.bucket.id && record.key == wanted.key {
        return Ok(record);
    }
    Err(refusal::malformed("a record of another key"))
}

/// Which bytes a part stands for.
pub(crate) fn selection(part: Part, object: &Object) -> Outcome<Selection> {
    use skerry_gateway::service::ByteRange;
    let size = object.size;
    match part {
        Part::Nothing => Ok(Selection { bytes: 0..0, size, partial: false, parts: None }),
        Part::Whole => Ok(Selection::whole(size)),
        Part::Between(first, last) => ByteRange::Between { first, last }.select(size),
        Part::From(first) => ByteRange::From(first).select(size),
        Part::Last(length) => ByteRange::Last(length).select(size),
        Part::Number(number) => Selection::part(number, &super::shape::parts(object), size),
    }
}

/// The first bytes of a body that are sent along: which chunks, as far as they are here.
pub(crate) fn first_chunks(
    store: &skerry_storage::Store,
    record: &Record,
    part: Part,
) -> Result<Vec<bytes::Bytes>, ServiceError> {
    first_chunks_within(store, record, part, u64::MAX)
}

/// The same of so many bytes together at most.
pub(crate) fn first_chunks_within(
    store: &skerry_storage::Store,
    record: &Record,
    part: Part,
    most: u64,
) -> Result<Vec<bytes::Bytes>, ServiceError> {
    let Some(object) = record.object() else { return Ok(Vec::new()) };
    let Ok(selection) = selection(part, object) else { return Ok(Vec::new()) };
    let mut walk = Walk::new(object.chunks.clone(), selection.bytes);
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < skerry_base::limits::CHUNK_BYTES {
        let Some(Step::Tree(chunk) | Step::Leaf(chunk, _)) = walk.next() else { break };
        if (bytes as u64).saturating_add(u64::from(chunk.stored)) > most {
            break;
        }
        let Ok(content) = store.read_chunk(record.bucket, chunk.id, 0..u32::MAX) else { break };
        if chunk.kind == skerry_base::ChunkKind::Tree {
            walk.supply(&content).map_err(refusal::malformed)?;
        }
        bytes += content.len();
        found.push(content);
    }
    Ok(found)
}
