//! Buckets, as operators make, show and set them.
//!
//! Before: the admin face. After: `paths`. Invariant: what is refused has changed nothing.

use skerry_gateway::service::{
    AdminService, BucketCreate, BucketList, BucketPatch, BucketStatus, Outcome, ServiceError, VERSION,
};
use skerry_model::bucket::{self as model, AreaWish, BucketConfig, Follow, Miss};
use skerry_model::record::Versioning;
use skerry_model::space;

use crate::admin::{Admin, WRITER};
use crate::config::Copies;
use crate::copies::{look, surplus, wanted};
use crate::following;
use crate::keys_admin::owner;
use crate::membership_admin;
use crate::paths::bucket::Bucket;
use crate::paths::{buckets, scope, tenure};
use crate::pins;
use crate::site::unreadable;

/// All that are known here.
pub(crate) async fn list(admin: &Admin) -> Outcome<BucketList> {
    let system = admin.site.system;
    let found =
        admin.site.read(move |view| model::list_buckets(view, system, None).map_err(unreadable)).await?;
    let mut buckets = Vec::with_capacity(found.len());
    for resolved in found {
        buckets.push(status(admin, Bucket::of(resolved)).await?);
    }
    Ok(BucketList { version: VERSION, buckets })
}

/// Makes one, with these settings.
pub(crate) async fn create(admin: &Admin, request: BucketCreate) -> Outcome<BucketStatus> {
    let owner = owner(request.owner.as_deref())?;
    let name = buckets::name_here(&admin.site, &request.name);
    // Before anything is made: what is refused is not there afterwards.
    set_copies(&mut BucketConfig::default(), request.copies, request.copies_in.as_deref())?;
    match request.unique {
        true => buckets::create_unique(&admin.site, WRITER, owner, &name).await?,
        // Whether the other nodes have it is not told here: they hear of it.
        false => drop(buckets::create(&admin.site, WRITER, owner, &name, None).await?),
    }
    if request.copies.is_none() && request.copies_in.is_none() {
        return admin.bucket(&name).await;
    }
    let (copies, copies_in) = (request.copies, request.copies_in);
    let settings = BucketPatch { copies, copies_in, ..BucketPatch::default() };
    admin.update_bucket(&name, settings).await
}

/// Changes settings.
pub(crate) async fn update(admin: &Admin, name: &str, request: BucketPatch) -> Outcome<BucketStatus> {
    let bucket = admin.site.known(name).await?;
    let residency = request.residency.as_deref().map(|names| admin.resident(names)).transpose()?;
    let change = move |config: &mut BucketConfig| {
        if let Some(residency) = &residency {
            config.residency.clone_from(residency);
        }
        patch(config, &request)
    };
    drop(buckets::change(&admin.site, WRITER, &bucket, change).await?);
    admin.bucket(name).await
}

/// What is said of one.
pub(crate) async fn status(admin: &Admin, bucket: Bucket) -> Outcome<BucketStatus> {
    let id = bucket.id;
    let sums = admin.site.read(move |view| space::sums(view, id).map_err(unreadable)).await?;
    let (rules, count) = look::counted(&admin.site, &bucket).await?;
    let others = admin.site.drive.ask(move |machine, _| machine.members(id)).await.unwrap_or_default();
    let own = admin.site.is_member(id).then_some(admin.site.id);
    let mut members: Vec<String> =
        own.into_iter().chain(others).map(|member| admin.site.peers.roster.name(member)).collect();
    members.sort();
    let heir = tenure::heir(&admin.site, id).await?;
    Ok(BucketStatus {
        version: VERSION,
        name: bucket.name.clone(),
        id: id.to_string(),
        owner: bucket.owner.clone(),
        created_ms: bucket.created.0,
        versioning: versioning_name(bucket.versioning).into(),
        ack_scope: scope::shown(&bucket.config),
        copies: u32::from(bucket.config.copies_in_all()),
        copies_in: copies_in(&bucket.config),
        lives_in: bucket.config.lives_in().unwrap_or_default().to_owned(),
        // Who is no member sees to nothing, and does not know.
        areas: if own.is_some() { wanted::shown(&rules, &count) } else { Vec::new() },
        surplus: surplus::status_of(&admin.site, id),
        follow: follow_name(bucket.config.follow).into(),
        residency: bucket.config.residency.iter().map(|id| admin.site.peers.roster.name(*id)).collect(),
        miss: if bucket.config.miss == Miss::Local { "local" } else { "ask" }.into(),
        objects: sums.keys,
        bytes: sums.bytes,
        unprotected_bytes: count.unprotected,
        conflicts: sums.conflicts,
        members,
        home: bucket.epoch.map(|_| admin.site.peers.roster.name(bucket.home)).unwrap_or_default(),
        home_epoch: bucket.epoch.unwrap_or(0),
        home_heir: heir.map(|heir| admin.site.peers.roster.name(heir)).unwrap_or_default(),
        join: bucket.config.joins().name().into(),
        join_here: admin.site.joins_here(id).map(|joins| joins.name().into()).unwrap_or_default(),
        pins: pins::of_bucket(&admin.site, &bucket),
        standing: membership_admin::standing(&admin.site, &bucket).into(),
        prefixes: following::status(&admin.site, id).await?,
    })
}

const fn versioning_name(versioning: Versioning) -> &'static str {
    match versioning {
        Versioning::Off => "off",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
    }
}

const fn follow_name(follow: Follow) -> &'static str {
    match follow {
        Follow::Records => "records",
        Follow::Small => "small",
        Follow::All => "all",
    }
}

/// How many copies a bucket may ask for.
fn copies(wanted: u32) -> Outcome<u8> {
    let copies = u8::try_from(wanted).ok().filter(|copies| (1..=Copies::MOST).contains(copies));
    copies.ok_or_else(|| ServiceError::invalid(format!("copies are 1 to {}, not {wanted}", Copies::MOST)))
}

/// Says how many copies are wanted: alone the number asks nothing of areas.
fn set_copies(config: &mut BucketConfig, number: Option<u32>, text: Option<&str>) -> Outcome<()> {
    let number = number.map(copies).transpose()?;
    match (number, text) {
        (None, None) => {}
        (Some(number), None) => config.set_copies(number, &AreaWish::default()),
        (number, Some(text)) => {
            let (all, wish) =
                AreaWish::parse(text).map_err(|error| ServiceError::invalid(error.to_string()))?;
            config.set_copies(number.map_or(all, |number| number.max(all)), &wish);
        }
    }
    Ok(())
}

/// What areas are to hold, in words.
fn copies_in(config: &BucketConfig) -> String {
    match config.area_wish() {
        Some(wish) => wish.to_string(),
        None => config.copies_in_words(),
    }
}

/// Whether settings can be asked for at all, at whatever site: what is wrong with a value is known before anybody is asked.
pub fn check(patch: &BucketPatch) -> Result<(), String> {
    self::patch(&mut BucketConfig::default(), patch).map_err(|error| error.message().to_owned())
}

/// Changes settings as asked, or says which cannot be.
fn patch(config: &mut BucketConfig, patch: &BucketPatch) -> Outcome<()> {
    if let Some(versioning) = &patch.versioning {
        config.versioning = match versioning.as_str() {
            "enabled" => Versioning::Enabled,
            "suspended" => Versioning::Suspended,
            other => {
                return Err(ServiceError::invalid(format!(
                    "versioning is enabled or suspended, not {other}"
                )));
            }
        };
    }
    if let Some(scope) = &patch.ack_scope {
        scope::set(config, scope)?;
    }
    set_copies(config, patch.copies, patch.copies_in.as_deref())?;
    match patch.lives_in.as_deref() {
        None => {}
        Some("" | "all") => config.set_lives_in(""),
        Some(area) if model::is_area_name(area) => config.set_lives_in(area),
        Some(other) => return Err(ServiceError::invalid(format!("`{other}` is no name of an area"))),
    }
    config.miss = match patch.miss.as_deref() {
        None => config.miss,
        Some("ask") => Miss::Ask,
        Some("local") => Miss::Local,
        Some(other) => return Err(ServiceError::invalid(format!("miss is ask or local, not {other}"))),
    };
    if let Some(join) = &patch.join {
        config.set_joins(membership_admin::parse(join)?);
    }
    match patch.follow.as_deref() {
        None => {}
        Some("records") => config.follow = Follow::Records,
        Some(other) => return Err(ServiceError::not_implemented(&format!("follow = {other}"))),
    }
    Ok(())
}
