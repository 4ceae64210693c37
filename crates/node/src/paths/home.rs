//! Who decides the conditions of a bucket: known, or named by the register of names before anything is decided.
//!
//! Before: `write.rs` with a condition. After: `skerry_model::bucket::standing`, asked again on the commit thread.
//! Invariants: what is not named is refused with the reason; the register is asked at most once for a bucket, and
//! answers from its own store alone; naming a home costs a bucket's creation nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, Vector, WallTime};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{
    self as model, HomeDocument, HomeRefusal, Loss, Named, Naming, SiteDocument, SiteState, Standing,
    SystemKey, Turn,
};
use skerry_model::{Object, Record, space};

use super::bucket::{Bucket, Declared};
use super::register::{self, Ungiven, Wished};
use super::{heir, refusal, tenure};
use crate::peers::message::{NameHome, Part, Read, Request, Response, Which};
use crate::site::{Site, unreadable};

/// How many nodes that keep the register one after the other are asked for a home.
const ASKED: u32 = 3;

/// The bucket with its named home. One that nobody has named is asked for where names are kept.
pub(crate) fn named<'a>(site: &'a Arc<Site>, bucket: Bucket) -> BoxFuture<'a, Outcome<Bucket>> {
    Box::pin(async move {
        if bucket.epoch.is_some() {
            return Ok(bucket);
        }
        let (system, id) = (site.system, bucket.id);
        let mut register = register::keeper(site).await?;
        let mut named = named_by(site, register, id).await;
        // Another node of this site takes the place of one that is gone.
        for _ in 1..ASKED {
            let next = register::keeper(site).await?;
            if named.is_ok() || next == register {
                break;
            }
            (register, named) = (next, named_by(site, next, id).await);
        }
        let read = move |view: &dyn View| model::home(view, system, id).map_err(unreadable);
        match (site.read(read).await?, named) {
            (Some(HomeDocument { site: home, epoch, .. }), _) => {
                Ok(Bucket { home, epoch: Some(epoch), ..bucket })
            }
            // Who claimed the bucket may have heard more.
            (None, Err(_)) if bucket.home != site.id && site.linked(bucket.home) => Ok(bucket),
            (None, named) => Err(unnamed(site, &bucket, register, named.err())),
        }
    })
}

async fn named_by(site: &Arc<Site>, keeper: Option<SiteId>, bucket: BucketId) -> Outcome<()> {
    match keeper {
        Some(keeper) if keeper == site.id => name_here(site, bucket, Vec::new()).await.map(drop),
        Some(keeper) => ask(site, keeper, bucket).await,
        None => Err(refusal::unreachable("which site keeps it has not been heard here yet")),
    }
}

fn unnamed(
    site: &Site,
    bucket: &Bucket,
    register: Option<SiteId>,
    why: Option<ServiceError>,
) -> ServiceError {
    let who = register.map_or_else(|| "the site".into(), |register| site.peers.roster.name(register));
    let why = why.map(|why| format!(" ({})", why.message())).unwrap_or_default();
    let message = format!(
        "nobody can decide a condition in {} yet: another island may have made the same bucket, and {who}, which \
         keeps the register of names, has not named its home{why}; write without the condition, or try again when \
         the link is back; a bucket that is made with --unique or named after its site has a home from the start",
        bucket.name
    );
    ServiceError::new(ErrorKind::HomeNotNamed, message)
}

/// This site keeps the register: it names the home of a bucket that it knows, or hears of now.
pub(crate) async fn name_here(
    site: &Arc<Site>,
    bucket: BucketId,
    claims: Vec<Record>,
) -> Outcome<Vec<Record>> {
    let system = site.system;
    if register::name(site, vec![bucket], claims).await.map_err(Ungiven::into_error)? > 0 {
        tracing::info!(%bucket, "the home of a bucket is named");
    }
    site.read(move |view| records(view, system, &SystemKey::Home(bucket).to_string())).await
}

fn records(view: &dyn View, system: BucketId, key: &str) -> Outcome<Vec<Record>> {
    space::heads(view, system, key).map_err(unreadable)
}

async fn ask(site: &Arc<Site>, register: SiteId, bucket: BucketId) -> Outcome<()> {
    let system = site.system;
    let claims = move |view: &dyn View| {
        let all = model::list_buckets(view, system, None).map_err(unreadable)?;
        let claim = all.into_iter().find(|found| found.claim.bucket == bucket);
        let Some(found) = claim else { return Ok(Vec::new()) };
        let key = SystemKey::Claim { name: found.claim.name, bucket }.to_string();
        records(view, system, &key)
    };
    let claims = site.read(claims).await?.iter().map(|claim| claim.encode().into()).collect();
    let request = Request::NameHome(NameHome { bucket, claims });
    match register::ask(site, register, &request).await.map_err(refusal::unreachable)? {
        Response::Records(records) => keep(site, records).await,
        Response::Refused { code, message } => Err(refusal::relayed(&code, message)),
        _ => Err(refusal::unreachable("it answered something else")),
    }
}

/// Keeps records of the system bucket that another site sent.
pub(crate) async fn keep(site: &Arc<Site>, records: Vec<Bytes>) -> Outcome<()> {
    let heard = admitted(site, &records)?;
    site.declare_after("", heard, |_, _| Ok(((), None))).await
}

/// Records of the system bucket, as other sites send them.
pub(crate) fn admitted(site: &Site, records: &[Bytes]) -> Outcome<Vec<Record>> {
    let mut heard = Vec::new();
    for bytes in records {
        let record = Record::admit(bytes).map_err(refusal::malformed)?;
        if record.bucket == site.system {
            heard.push(record);
        }
    }
    Ok(heard)
}

/// Answers another site as the register.
pub(crate) async fn answer(site: &Arc<Site>, request: NameHome) -> Outcome<Response> {
    let mut claims = admitted(site, &request.claims)?;
    claims.retain(|claim| match SystemKey::parse(&claim.key) {
        Some(SystemKey::Claim { bucket, .. }) => bucket == request.bucket,
        _ => false,
    });
    let named = name_here(site, request.bucket, claims).await?;
    Ok(Response::Records(named.iter().map(|record| record.encode().into()).collect()))
}

/// What this site may do about a condition.
pub(crate) enum Turned {
    /// It does.
    Decides {
        /// In this epoch of the home.
        epoch: u64,
        /// To be answered once all holders of this view of the site have it, if its nodes keep homes among them.
        within: Option<tenure::Made>,
    },
    /// Something else is to be done first.
    Not(Turn),
}

/// Whether this site decides, on the commit thread.
pub(crate) fn turn(view: &dyn View, of: &Standpoint, bucket: BucketId) -> Outcome<Turned> {
    for of in [of.system, bucket] {
        if space::is_anew(view, of).map_err(unreadable)? {
            return Err(crate::anew::lost_some());
        }
    }
    match &of.within {
        Some(site) => tenure::turn(view, site, bucket),
        None => epoch(view, of, bucket).map(|epoch| Turned::Decides { epoch, within: None }),
    }
}

fn epoch(view: &dyn View, site: &Standpoint, bucket: BucketId) -> Outcome<u64> {
    let refuse = |kind, message: &str| Err(ServiceError::new(kind, message));
    match model::standing(view, site.system, bucket, site.me).map_err(unreadable)? {
        Standing::Decides(epoch) => Ok(epoch),
        Standing::Behind(_) => refuse(
            ErrorKind::HomeUnreachable,
            "the bucket's home moved to this site, which has not yet all that the former home decided; try again \
             when it has arrived",
        ),
        Standing::Elsewhere(_) => {
            refuse(ErrorKind::HomeUnreachable, "the bucket's home has just moved to another site; try again")
        }
        Standing::Unnamed => {
            refuse(ErrorKind::HomeNotNamed, "the bucket has no home yet that could decide a condition")
        }
    }
}

/// Who decides, where.
pub(crate) struct Standpoint {
    /// The system bucket.
    pub(crate) system: BucketId,
    /// This site.
    pub(crate) me: SiteId,
    /// The same, if its nodes keep the home among them.
    pub(crate) within: Option<Arc<Site>>,
}

/// Why a home is not named or moved, in the words of S3.
pub(crate) fn refused_home(error: HomeRefusal) -> ServiceError {
    let kind = match &error {
        HomeRefusal::Space(_) => ErrorKind::Internal,
        HomeRefusal::NoBucket => ErrorKind::NoSuchBucket,
        HomeRefusal::NoSite | HomeRefusal::NotHome(_) | HomeRefusal::Waits(_) | HomeRefusal::Kept(_) => {
            ErrorKind::Refused
        }
        HomeRefusal::LastEpoch => ErrorKind::Internal,
        HomeRefusal::Only(_) | HomeRefusal::NoRegister | HomeRefusal::Behind | HomeRefusal::Unread(_) => {
            ErrorKind::HomeUnreachable
        }
    };
    ServiceError::new(kind, error.to_string())
}

/// The first site of a federation begins the register of names.
pub(crate) async fn begin_register(site: &Arc<Site>) -> Outcome<()> {
    let (system, me) = (site.system, site.id);
    let decide = move |view: &dyn View, wall| {
        let known = model::register(view, system).map_err(unreadable)?.is_some();
        // Nobody has the id of the system bucket, so nobody is left out.
        let eldest = model::eldest(view, system, SiteId(system.0)).map_err(unreadable)? == Some(me);
        // One that was named may be among what this site lost.
        let lost_some = space::is_anew(view, system).map_err(unreadable)?;
        let first = (!known && eldest && !lost_some).then(|| model::Named::first(system, me, false, wall));
        Ok(((), first.map(Declared::from)))
    };
    site.declare("", decide).await
}

/// What an operator asks: who shall decide from now on.
pub(crate) struct Move {
    /// The bucket, or the system bucket for the register of names.
    pub(crate) bucket: BucketId,
    /// Who shall.
    pub(crate) to: SiteId,
    /// Who is lost for good, if somebody is.
    pub(crate) lost: Option<SiteId>,
}

/// What came of it.
pub(crate) struct Moved {
    /// The epoch of the home now.
    pub(crate) epoch: u64,
    /// Who was not heard, by name: it may know of names that nobody else does.
    pub(crate) unheard: Vec<String>,
}

/// Moves a home by command.
pub(crate) fn shift<'a>(site: &'a Arc<Site>, writer: &'a str, asked: Move) -> BoxFuture<'a, Outcome<Moved>> {
    Box::pin(async move {
        let (system, me) = (site.system, site.id);
        let Move { bucket, to, lost } = asked;
        if lost.is_none() {
            heir::wait_for_all(site, bucket, to).await?;
        }
        if lost.is_none() && tenure::keeps(site) {
            tenure::give(site, writer, bucket, to).await?;
            return moved(site, bucket).await;
        }
        let mut unheard = Vec::new();
        match lost {
            Some(lost) => unheard = replace(site, writer, (bucket, lost), to).await?,
            None => {
                let (names, fellows) = (names(site), site.peers.roster.ever_beside(me));
                let decide = move |view: &dyn View, wall| {
                    let named = model::hand_over(view, system, (bucket, to), (me, &fellows), wall);
                    Ok(((), named.map_err(|error| said(error, &names))?.map(Declared::from)))
                };
                site.declare(writer, decide).await?;
            }
        }
        Ok(Moved { unheard, ..moved(site, bucket).await? })
    })
}

/// The home of a machine that an operator says is destroyed is given to another site: by the register, or that itself by the
/// eldest site that is left; who was not heard.
async fn replace(
    site: &Arc<Site>,
    writer: &str,
    (bucket, lost): (BucketId, SiteId),
    to: SiteId,
) -> Outcome<Vec<String>> {
    // The lost home may have handed over already, and names be claimed that are on their way.
    super::heard::hear_claims(site).await;
    let unheard = hear_of_names(site, lost).await?;
    if bucket != site.system && !unheard.is_empty() {
        return Err(not_heard(&unheard));
    }
    hear_of_home(site, bucket, lost).await?;
    let heard = heard_of(site, bucket, lost).await?;
    let of = Lost { bucket, lost, heard, fellows: site.peers.roster.ever_beside(lost), names: names(site) };
    let (system, me) = (site.system, site.id);
    if bucket == system {
        let decide = move |view: &dyn View, wall| {
            let (named, expelled) = of.replaced(view, system, (me, to), wall)?;
            let mut declared = Declared::from(named);
            declared.documents.extend(expelled);
            Ok(((), Some(declared)))
        };
        site.declare(writer, decide).await?;
        return Ok(unheard);
    }
    if register::keeper(site).await? == Some(lost) {
        return Err(register_lost(&site.peers.roster.name(lost)));
    }
    let wish = move |view: &dyn View, wall| {
        let (named, expelled) = of.replaced(view, system, (me, to), wall)?;
        let namings = vec![Naming { home: named.document, claim: None }];
        let documents = named.blocks.into_iter().chain(expelled).collect();
        Ok(Wished { answer: (), namings, documents })
    };
    register::give(site, (writer, Vec::new()), Arc::new(wish)).await.map_err(Ungiven::into_error)?;
    Ok(unheard)
}

fn register_lost(name: &str) -> ServiceError {
    let message = format!(
        "{name} kept the register of names as well: give that to another site first (skerry bucket home --register --to SITE \
         --destroyed {name})"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// A home whose machine is destroyed.
struct Lost {
    bucket: BucketId,
    lost: SiteId,
    /// What the others have of the bucket.
    heard: Vector,
    /// The other nodes of its site.
    fellows: BTreeSet<SiteId>,
    /// What sites are called.
    names: BTreeMap<SiteId, String>,
}

impl Lost {
    /// The next home of it, and what becomes of the lost one.
    fn replaced(
        &self,
        view: &dyn View,
        system: BucketId,
        (me, to): (SiteId, SiteId),
        wall: WallTime,
    ) -> Outcome<(Named, Option<(String, Object)>)> {
        let Self { bucket, lost, heard, fellows, names } = self;
        let loss = Loss { bucket: *bucket, lost: *lost, to, heard, fellows };
        let named = model::replace_home(view, system, loss, me, wall).map_err(|error| said(error, names))?;
        let document = model::site(view, system, *lost).map_err(unreadable)?;
        // Who was replaced stays so.
        let document = document.filter(|known| known.state == SiteState::Member);
        let expelled = document.map(|document| {
            let expelled = SiteDocument { state: SiteState::Expelled, ..document };
            (SystemKey::Site(*lost).to_string(), model::document_object(&expelled, wall))
        });
        Ok((named, expelled))
    }
}

async fn moved(site: &Arc<Site>, bucket: BucketId) -> Outcome<Moved> {
    let system = site.system;
    let home = site.read(move |view| model::home(view, system, bucket).map_err(unreadable)).await?;
    let home = home.ok_or_else(|| refused_home(HomeRefusal::NoBucket))?;
    tracing::warn!(%bucket, home = site.peers.roster.name(home.site), epoch = home.epoch, "a home moved");
    Ok(Moved { epoch: home.epoch, unheard: Vec::new() })
}

/// Has what the others know of names and homes arrive here, of all that answer, or refuses; who does not answer.
async fn hear_of_names(site: &Arc<Site>, lost: SiteId) -> Outcome<Vec<String>> {
    let others = site.peers.roster.all().into_keys().filter(|other| ![lost, site.id].contains(other));
    let request = &Request::Size { bucket: site.system };
    let asked = others.map(|other| async move { (other, site.peers.call(other, request).await) });
    let (mut ahead, mut goal, mut unheard) = (Vec::new(), Vector::new(), Vec::new());
    for (other, answer) in futures::future::join_all(asked).await {
        match answer.map(|answer| answer.response) {
            Ok(Response::Size { vector, .. }) => {
                goal.merge(&vector);
                ahead.push((other, vector));
            }
            _ => unheard.push(site.peers.roster.name(other)),
        }
    }
    if super::heard::seen(site, site.system, &goal).await.is_ok() {
        return Ok(unheard);
    }
    let system = site.system;
    let own = site.read(move |view| space::vector(view, system).map_err(unreadable)).await?;
    ahead.retain(|(_, vector)| !own.includes(vector));
    let names: Vec<String> = ahead.iter().map(|(other, _)| site.peers.roster.name(*other)).collect();
    Err(refusal::unreachable(format!(
        "what {} knows of names and homes has not arrived here yet, and a name may be claimed or a home handed over in it: \
         nothing was done; try again in a moment",
        names.join(", ")
    )))
}

/// Has heard from all others what they know of a home and of its tenure: at a site of several nodes those of them that are
/// left may have named its heir, or be about to, and no feed may have brought that here.
async fn hear_of_home(site: &Arc<Site>, bucket: BucketId, lost: SiteId) -> Outcome<()> {
    let others = site.peers.roster.all().into_keys().filter(|other| ![lost, site.id].contains(other));
    let asked = others.map(|other| async move {
        let mut heard = Vec::new();
        for key in [SystemKey::Tenure(bucket), SystemKey::Home(bucket)] {
            let (system, part) = (site.system, Part::Nothing);
            let read = Read { bucket: system, key: key.to_string(), which: Which::Current, part };
            match site.peers.call(other, &Request::Read(read)).await.map(|answer| answer.response) {
                Ok(Response::Object(found)) => heard.extend(std::iter::once(found.record).chain(found.heads)),
                Ok(Response::NoObject { .. }) => {}
                _ => return Err(site.peers.roster.name(other)),
            }
        }
        Ok(heard)
    });
    let mut silent = Vec::new();
    for heard in futures::future::join_all(asked).await {
        match heard {
            Ok(records) => keep(site, records).await?,
            Err(name) => silent.push(name),
        }
    }
    // Without a register nothing could be named: whoever is eldest goes by those that answer.
    if silent.is_empty() || bucket == site.system { Ok(()) } else { Err(not_heard(&silent)) }
}

fn not_heard(silent: &[String]) -> ServiceError {
    refusal::unreachable(format!(
        "{} did not answer, and one that does not may hold what the lost home decided: try again when they are \
         linked, or expel them",
        silent.join(", ")
    ))
}

/// What the other sites have of a bucket whose home is lost. All of them are asked, not the members that were heard of:
/// who is one is forgotten with a start. One that cannot be asked may hold a decision that nobody else has: the operator
/// is told, and nothing is decided behind its back.
pub(super) async fn heard_of(site: &Arc<Site>, bucket: BucketId, lost: SiteId) -> Outcome<Vector> {
    // Who was expelled is in no roster; who was only declared lost may come back with its disk and what was decided.
    let others = site.peers.roster.all().into_keys().filter(|other| ![lost, site.id].contains(other));
    let request = &Request::Size { bucket };
    let asked = others.map(|other| async move { (other, site.peers.call(other, request).await) });
    let (mut heard, mut silent, mut joining) = (Vector::new(), Vec::new(), Vec::new());
    for (other, answer) in futures::future::join_all(asked).await {
        match answer.map(|answer| answer.response) {
            Ok(Response::Size { vector, .. }) => heard.merge(&vector),
            Ok(Response::NotMember) => {}
            Ok(Response::Joining) => joining.push(site.peers.roster.name(other)),
            _ => silent.push(site.peers.roster.name(other)),
        }
    }
    if bucket != site.system && !silent.is_empty() {
        return Err(not_heard(&silent));
    }
    if bucket != site.system && !joining.is_empty() {
        return Err(refusal::unreachable(format!(
            "{} still takes records of it, and may hold what the lost home decided: try again when that is done",
            joining.join(", ")
        )));
    }
    Ok(heard)
}

fn names(site: &Site) -> BTreeMap<SiteId, String> {
    site.peers.roster.all().into_iter().map(|(site, known)| (site, known.name)).collect()
}

/// A refusal that names sites as people do.
fn said(error: HomeRefusal, names: &BTreeMap<SiteId, String>) -> ServiceError {
    let name = |site: &SiteId| names.get(site).cloned().unwrap_or_else(|| site.to_string());
    let message = match &error {
        HomeRefusal::Only(site) => format!("only {} may do that: ask there", name(site)),
        HomeRefusal::Unread(heir) => format!(
            "{} is the home, and what it waits for has not all arrived here: try again in a moment",
            name(heir)
        ),
        HomeRefusal::NotHome(site) => format!("that site is not the home, {} is", name(site)),
        HomeRefusal::Waits(heir) => format!(
            "{0} is the home, and waits for what nobody has that could be asked; name {0} itself (--to {0}, with the same \
             --destroyed): it decides again without that, and may then hand the home over",
            name(heir)
        ),
        HomeRefusal::Kept(lost) => format!(
            "{0} was a node of a site of several, whose other nodes take its homes over by themselves; to name another site in \
             its place expel all nodes of its site first (skerry site expel), and then give {0} as the destroyed one",
            name(lost)
        ),
        _ => return refused_home(error),
    };
    ServiceError::new(refused_home(error).kind(), message)
}
