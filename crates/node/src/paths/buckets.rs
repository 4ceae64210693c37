//! The gateway's bucket service: claims in the system bucket, decided here without asking anybody.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use skerry_base::kv::{Table, View};
use skerry_base::{SiteId, Vector, WallTime};
use skerry_gateway::service::{
    BucketInfo, BucketService, CreateBucket, CreatedBucket, ErrorKind, Outcome, Receipt, RequestContext,
    ServiceError, Versioning,
};
use skerry_model::bucket::{
    self as model, BucketConfig, Claimed, HomeDocument, Known, Named, Naming, NewBucket,
};
use skerry_model::policy::{self, Action, Target};
use skerry_model::{Entry, space};

use super::bucket::{Bucket, Declared, refused_claim};
use super::declared::{self, Reached};
use super::members::Failed;
use super::register::{self, Ungiven, Wished};
use super::{home, members, refusal, shape, tenure, unfinished};
use crate::config::Copies;
use crate::copies::wanted;
use crate::duties::Act;
use crate::peers::PeerError;
use crate::peers::message::{ClaimName, List, Request, Response};
use crate::site::{Site, entry, unreadable};
use crate::tasks::whole;

/// Copies that a new bucket wants where there is another site: a burnt box then loses nothing but the last moments.
const COPIES: u8 = 2;

/// Buckets of a site.
pub(crate) struct Buckets(pub(crate) Arc<Site>);

fn info(bucket: Bucket) -> BucketInfo {
    let location = bucket.config.location().map(str::to_owned);
    BucketInfo { name: bucket.name, created: bucket.created, owner: bucket.owner, location }
}

/// The name that a bucket gets here: with `bucket_scope = site` the site's own.
pub(crate) fn name_here(site: &Site, name: &str) -> String {
    if !site.scoped {
        return name.to_owned();
    }
    let called = site.called();
    let suffix = [model::SITE_SEPARATOR, &called].concat();
    let prefix = [&called, model::SITE_SEPARATOR].concat();
    match !name.ends_with(&suffix) && !name.starts_with(&prefix) {
        true => [name, &suffix].concat(),
        false => name.to_owned(),
    }
}

/// Settings of a bucket that is made here, as long as nobody says otherwise.
fn first_settings(site: &Site) -> BucketConfig {
    let copies = match site.new_copies {
        Copies::Number(copies) => copies,
        Copies::Auto if wanted::has_others(site) => COPIES,
        Copies::Auto => 1,
    };
    BucketConfig { copies, ..BucketConfig::default() }
}

/// Makes a bucket for an owner under a name that the register of names has given to nobody.
pub(crate) async fn create_unique(site: &Arc<Site>, writer: &str, owner: &str, name: &str) -> Outcome<()> {
    site.duties.check(Act::Write)?;
    site.check_room_for_one_more()?;
    let Some(keeper) = register::keeper(site).await? else {
        return Err(no_register("which site keeps it has not been heard here yet"));
    };
    let claim = ClaimName { name: name.into(), owner: owner.into(), writer: writer.into() };
    let is_first = note_asked(site, name).await?;
    let answer = match keeper == site.id {
        true => claimed_for(site, site.id, claim).await,
        false => {
            let called = site.peers.roster.name(keeper);
            let asked = register::ask(site, keeper, &Request::ClaimName(claim)).await;
            asked.map_err(|why| unheard(site, keeper, &format!("{called}: {why}")))
        }
    };
    if is_first && is_no(&answer) {
        forget_asked(site, name).await?;
    }
    let records = match answer? {
        Response::Records(records) => records,
        Response::Refused { code, message } => return Err(refusal::relayed(&code, message)),
        _ => return Err(no_register(&format!("{} answered something else", site.peers.roster.name(keeper)))),
    };
    home::keep(site, records).await?;
    let made = site.bucket(name).await?.ok_or_else(|| ServiceError::no_such_bucket(name))?;
    site.remember_membership(made.id, true).await?;
    tracing::info!(bucket = name, "bucket created, its name is kept by the register");
    Ok(())
}

/// Whether the name was refused for good: it may be given after all where that is in doubt.
fn is_no(answer: &Outcome<Response>) -> bool {
    match answer {
        Ok(Response::Refused { code, .. }) => code != ErrorKind::HomeUnreachable.code(),
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::HomeUnreachable,
    }
}

/// Where it is remembered that the register was asked for a name, until the bucket is followed.
pub(crate) fn asked_key(name: &str) -> Bytes {
    [b"asked/", name.as_bytes()].concat().into()
}

/// Remembers that the register is asked for a name, as the answer may be lost; whether it had not been asked before.
pub(crate) async fn note_asked(site: &Site, name: &str) -> Outcome<bool> {
    let key = asked_key(name);
    let note = move |view: &dyn View| {
        let known = view.get(Table::Local, &key).map_err(|error| unreadable(error.into()))?.is_some();
        Ok((!known, vec![entry(&Entry::Local { key, value: Some(Bytes::from_static(&[1])) })]))
    };
    site.commit(site.system, (), note).await
}

async fn forget_asked(site: &Site, name: &str) -> Outcome<()> {
    let gone = entry(&Entry::Local { key: asked_key(name), value: None });
    site.commit(site.system, (), move |_| Ok(((), vec![gone]))).await
}

fn no_register(why: &str) -> ServiceError {
    let message = format!(
        "only the register of names can promise that a name is nobody else's: {why}; create the bucket without \
         --unique, or try again when the link is back"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// The register was asked for a name, and has not answered: it may have given it.
fn unheard(site: &Site, keeper: SiteId, why: &str) -> ServiceError {
    if !tenure::is_fellow(site, keeper) {
        return no_register(why);
    }
    let message = format!(
        "only the register of names can promise that a name is nobody else's: {why}; another node of this site takes the \
         place of one that is gone within a few seconds: see whether the bucket is there, and try again"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// This site keeps the register: it makes the bucket for another one.
pub(crate) async fn claimed_for(site: &Arc<Site>, asker: SiteId, claim: ClaimName) -> Outcome<Response> {
    let system = site.system;
    let sites = site.peers.roster.all();
    let site_name =
        if asker == site.id { Some(site.called()) } else { sites.get(&asker).map(|s| s.name.clone()) };
    let site_name = site_name.ok_or_else(|| ServiceError::new(ErrorKind::AccessDenied, "no such site"))?;
    check_reserved(site, &claim.name, &site_name)?;
    let ClaimName { name, owner, writer } = claim;
    let config = first_settings(site);
    let wish = move |view: &dyn View, wall: WallTime| {
        let config = config.clone();
        let new = NewBucket { name: &name, owner: &owner, site: asker, site_name: &site_name, config };
        let claim = model::new_claim(view, system, new, wall).map_err(|error| refused_claim(error, &name))?;
        if Known::load(view, system, claim.bucket).map_err(unreadable)?.is_some() {
            return Err(half_known(&name));
        }
        let home = HomeDocument::first(claim.bucket, asker, true);
        let naming = Naming { home, claim: Some(claim) };
        Ok(Wished { answer: naming.keys(), namings: vec![naming], documents: Vec::new() })
    };
    let given = register::give(site, (&writer, Vec::new()), Arc::new(wish)).await;
    let keys = given.map_err(|why| match why {
        Ungiven::Not(why) => no_register(&why),
        other => other.into_error(),
    })?;
    let read = move |view: &dyn View| {
        let mut records = Vec::new();
        for key in keys {
            let heads = space::heads(view, system, &key).map_err(unreadable)?;
            records.extend(heads.iter().map(|head| head.encode().into()));
        }
        Ok(Response::Records(records))
    };
    site.read(read).await
}

fn half_known(name: &str) -> ServiceError {
    let message = format!(
        "a bucket {name} of that owner has a home already, though its claim has not been heard here yet; try again"
    );
    ServiceError::new(ErrorKind::BucketAlreadyExists, message)
}

/// Refuses a name that is another site's own; whether it is this one's.
fn check_reserved(site: &Site, name: &str, own: &str) -> Outcome<bool> {
    let sites = site.peers.roster.all();
    let is_site = |name: &str| name == own || sites.values().any(|known| known.name == name);
    match model::reserved_for(name, is_site) {
        Some(reserved) if reserved != own => {
            let message =
                format!("names with {reserved} and two hyphens can only be claimed at the site {reserved}");
            Err(ServiceError::new(ErrorKind::InvalidBucketName, message))
        }
        reserved => Ok(reserved.is_some()),
    }
}

/// Makes a bucket for an owner; `location` is what its client calls the place.
pub(crate) fn create<'a>(
    site: &'a Arc<Site>,
    writer: &'a str,
    owner: &'a str,
    name: &'a str,
    location: Option<String>,
) -> BoxFuture<'a, Outcome<Reached>> {
    Box::pin(async move {
        site.duties.check(Act::Write)?;
        site.check_room_for_one_more()?;
        let sites = site.peers.roster.all();
        let own = sites.get(&site.id).map_or_else(|| site.called(), |known| known.name.clone());
        let own_name = check_reserved(site, name, &own)?;
        let (id, system) = (site.id, site.system);
        let (wanted, owner, named) = (name.to_owned(), owner.to_owned(), name.to_owned());
        let new_site = own.clone();
        let mut config = first_settings(site);
        config.set_location(location);
        // One of several nodes has the others hear of it first: the worker that names homes does so at once.
        let is_kept = tenure::keeps(site);
        let decide = move |view: &dyn View, wall| {
            let new = NewBucket { name: &wanted, owner: &owner, site: id, site_name: &own, config };
            let claimed =
                model::claim(view, system, new, wall).map_err(|error| refused_claim(error, &wanted))?;
            // Nobody else may claim a name of this site's own, and nobody else names homes if this is the register.
            // A site before this one that was called so may have made one on an island.
            // So may this one, and have lost the record of it.
            let alone = own_name
                && !model::was_called_so(view, system, &new_site).map_err(unreadable)?
                && !space::is_anew(view, system).map_err(unreadable)?;
            let at_once = !is_kept && model::names_at_once(view, system, id).map_err(unreadable)?;
            let first = alone || at_once;
            let known = model::home(view, system, claimed.bucket).map_err(unreadable)?.is_some();
            let home = (first && !known).then(|| Named::first(claimed.bucket, id, false, wall));
            let is_whole = !space::is_anew(view, claimed.bucket).map_err(unreadable)?;
            Ok(((claimed.bucket, is_whole), Some(Declared::claim(claimed, true).with(home))))
        };
        let (site, writer) = (site.clone(), writer.to_owned());
        whole(async move {
            let ((bucket, is_whole), reached) = declared::declare(&site, &writer, decide).await?;
            site.joined(bucket, is_whole);
            tracing::info!(bucket = named, %bucket, "bucket created");
            Ok(reached)
        })
        .await
    })
}

/// Changes the claim of a bucket.
pub(crate) async fn change(
    site: &Arc<Site>,
    writer: &str,
    bucket: &Bucket,
    change: impl FnOnce(&mut BucketConfig) -> Outcome<()> + Send + 'static,
) -> Outcome<Reached> {
    site.duties.check(Act::Write)?;
    let (system, name) = (site.system, bucket.name.clone());
    let decide = move |view: &dyn View, wall| {
        let found = model::resolve(view, system, &name).map_err(unreadable)?;
        let mut claim = found.ok_or_else(|| ServiceError::no_such_bucket(&name))?.claim;
        change(&mut claim.config)?;
        Ok(((), Some(Declared::claim(Claimed::new(&claim, wall), false))))
    };
    let ((), reached) = declared::declare(site, writer, decide).await?;
    Ok(reached)
}

#[async_trait]
impl BucketService for Buckets {
    async fn list(&self, context: &RequestContext) -> Outcome<Vec<BucketInfo>> {
        self.0.may(context, Action::ListBuckets, None).await?;
        let (system, key) = (self.0.system, self.0.asking(context).await?);
        let read = move |view: &dyn View| model::list_buckets(view, system, None).map_err(unreadable);
        let found = self.0.read(read).await?.into_iter().map(Bucket::of);
        let listed =
            |bucket: &Bucket| policy::lists(&key, Target { name: &bucket.name, owner: &bucket.owner });
        Ok(found.filter(listed).map(info).collect())
    }

    async fn create(&self, context: &RequestContext, request: CreateBucket) -> Outcome<CreatedBucket> {
        self.0.may(context, Action::CreateBucket, None).await?;
        let principal = &context.principal;
        let name = name_here(&self.0, &request.name);
        let made = create(&self.0, &principal.access_key, &principal.owner, &name, request.location);
        let reached = made.await?;
        Ok(CreatedBucket { name, receipt: declared::receipt(&self.0, context, reached)? })
    }

    async fn head(&self, context: &RequestContext, bucket: &str) -> Outcome<BucketInfo> {
        self.0.allowed(context, bucket, Action::Read).await.map(info)
    }

    async fn delete(&self, context: &RequestContext, bucket: &str) -> Outcome<Receipt> {
        let bucket = self.0.allowed(context, bucket, Action::ManageBucket).await?;
        self.0.duties.check(Act::Write)?;
        let (system, name) = (self.0.system, bucket.name.clone());
        let heard = match self.0.is_complete(bucket.id) {
            true => Vector::new(),
            false => empty_elsewhere(&self.0, &bucket).await?,
        };
        let stamps = self.0.stamps.clone();
        let decide = move |view: &dyn View, wall| {
            let found = model::resolve(view, system, &name).map_err(unreadable)?;
            let claim = found.ok_or_else(|| ServiceError::no_such_bucket(&name))?.claim;
            let claimed = model::unclaim_after(view, system, &claim, heard, wall);
            let claimed = claimed.map_err(|error| refused_claim(error, &name))?;
            stamps.ends(claim.bucket, &claim.name);
            let ends = unfinished::ends(view, claim.bucket)?;
            Ok(((claim.bucket, claim.name), Some(Declared::claim(claimed, false).ending(ends))))
        };
        let ((id, claimed), reached) =
            declared::declare(&self.0, &context.principal.access_key, decide).await?;
        // The bucket is gone whatever becomes of these; what is left then is found by the worker.
        if let Err(error) = unfinished::end(&self.0, id, claimed).await {
            tracing::warn!(bucket = bucket.name, %error, "uploads of a deleted bucket are left for later");
        }
        declared::receipt(&self.0, context, reached)
    }

    async fn location(&self, context: &RequestContext, bucket: &str) -> Outcome<Option<String>> {
        let bucket = self.0.allowed(context, bucket, Action::Read).await?;
        Ok(bucket.config.location().map(str::to_owned))
    }

    async fn versioning(&self, context: &RequestContext, bucket: &str) -> Outcome<Versioning> {
        let bucket = self.0.allowed(context, bucket, Action::Read).await?;
        Ok(shape::shown_versioning(bucket.versioning))
    }

    async fn set_versioning(
        &self,
        context: &RequestContext,
        bucket: &str,
        versioning: Versioning,
    ) -> Outcome<Receipt> {
        let bucket = self.0.allowed(context, bucket, Action::ManageBucket).await?;
        let wanted = shape::stored_versioning(versioning);
        let set = move |config: &mut BucketConfig| {
            config.versioning = wanted;
            Ok(())
        };
        let reached = change(&self.0, &context.principal.access_key, &bucket, set).await?;
        declared::receipt(&self.0, context, reached)
    }
}

/// Whoever deletes a bucket that is not kept here must hear from a member that it is empty; what that one had seen.
async fn empty_elsewhere(site: &Arc<Site>, bucket: &Bucket) -> Outcome<Vector> {
    let asking = members::nearest(site, bucket).await?;
    let mut failed = Failed::default();
    for &member in &asking.sites {
        match empty_at(site, bucket, member).await {
            Ok(Response::Size { vector, .. }) => return Ok(vector),
            Ok(Response::Page(_)) => {
                return Err(refused_claim(skerry_model::bucket::ClaimRefusal::NotEmpty, &bucket.name));
            }
            Ok(Response::NotMember) => site.refuted(bucket.id, member),
            Ok(Response::Joining) => failed.push(members::joining(site, member)),
            Ok(Response::Refused { code, message }) => failed.refused(&code, message),
            Ok(_) => failed.push(format!("{} answered something else", site.peers.roster.name(member))),
            Err(error) => failed.push(format!("{}: {error}", site.peers.roster.name(member))),
        }
    }
    match asking.nobody(site, &failed) {
        // An island that has begun to follow it answers for what it has.
        Err(_) if site.is_member(bucket.id) => Ok(Vector::new()),
        nobody => nobody.map(|()| Vector::new()),
    }
}

/// Asks one member: its size if it is empty, the page if it is not. The size is asked for first: what comes in between is
/// on the page then, or not in what was seen.
async fn empty_at(site: &Arc<Site>, bucket: &Bucket, member: SiteId) -> Result<Response, PeerError> {
    let size = site.peers.call(member, &Request::Size { bucket: bucket.id }).await?.response;
    if !matches!(size, Response::Size { .. }) {
        return Ok(size);
    }
    let list = List {
        bucket: bucket.id,
        prefix: String::new(),
        delimiter: None,
        after: String::new(),
        after_version: None,
        limit: 1,
    };
    let list = if bucket.versioned() { Request::Versions(list) } else { Request::List(list) };
    match site.peers.call(member, &list).await?.response {
        Response::Page(page) if page.entries.is_empty() => Ok(size),
        other => Ok(other),
    }
}
