//! Administration of a site: status, link, conflicts, invitations, keys, buckets.
//!
//! Invariants: answered from this site alone, also while cut off; a secret is shown once, when it is made;
//! the flag of `link cut` is durable before the links go.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, SiteId};
use skerry_gateway::service::{
    AddressRequest, AdminService, AreaRequest, AreasReport, BucketCreate, BucketList, BucketPatch,
    BucketStatus, ConflictDetail, ConflictEnd, ConflictEnded, ConflictKey, ConflictPage, ConflictQuery,
    DutyRequest, ErrorKind, ExpelRequest, Expelled, FollowRequest, HomeRequest, HomeState, Invite,
    InviteRequest, JoinRequest, KeyCreate, KeyCreated, KeyList, KeyStatus, LinkRequest, LinkState, LossPage,
    LossQuery, LossRequest, LossState, MembershipState, Outcome, PeerStatus, PinList, PinRequest, Readiness,
    RenameRequest, ReplaceRequest, ReplacedSite, ScrubReport, ScrubRequest, ServiceError, SiteList,
    SiteStatus, SpaceQuery, SpaceReport, StatusReport, StorageStatus, UplinkRequest, UplinkState, VERSION,
};
use skerry_model::bucket::{
    self as model, AreaWish, BucketConfig, Follow, KeyDocument, Miss, SystemKey, check_site_name,
    document_object,
};
use skerry_model::record::Versioning;
use skerry_model::space;

use crate::areas;
use crate::clones;
use crate::config::Copies;
use crate::conflicts_admin;
use crate::copies::{look, loss, only, others, surplus, wanted};
use crate::credential_keys;
use crate::drive::live::Liveness;
use crate::following;
use crate::link_admin;
use crate::membership_admin;
use crate::moves_admin;
use crate::nodes;
use crate::paths::bucket::{Bucket, Declared};
use crate::paths::credentials::about;
use crate::paths::members::{self, Unsent};
use crate::paths::{buckets, conflicts, declared, home, scope, tenure};
use crate::peers::roster::Known;
use crate::pins;
use crate::replace_admin;
use crate::site::{Site, unreadable};
use crate::sites_admin;
use crate::space_used;
use crate::trust::access::{self, AccessKey};
use crate::trust::invite::{Given, InviteError, Invited};
use crate::uplink_admin;
use crate::welcome::Door;
use crate::workers::scrub;

/// The owner of what is made without saying whose.
const FIRST_OWNER: &str = "owner";
/// How long an invitation lives unless said otherwise.
const INVITED: Duration = Duration::from_secs(24 * 3600);
/// Conflicts of one page unless said otherwise, and at most.
const CONFLICTS: usize = 1000;
/// Under which writer the administrator's acts are recorded.
pub(crate) const WRITER: &str = "admin";

/// The administration of a site.
pub(crate) struct Admin {
    pub(crate) site: Arc<Site>,
    pub(crate) door: Door,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) started: Instant,
    pub(crate) advertised: Vec<String>,
    /// The commit that runs; empty if that is not known.
    pub(crate) commit: &'static str,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Makes sure that an access key with all rights and this secret exists; one that was disabled stays so.
pub(crate) async fn ensure_key(site: &Arc<Site>, key: &AccessKey) -> Outcome<()> {
    // Also one that an older release made: what is empty keeps nobody out.
    key.is_said().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
    if let Some(known) = site.access_key(&key.id).await? {
        if known.status != model::KeyStatus::Active {
            // A site that would not start for it would take its data away with the key.
            tracing::error!(
                access_key = key.id,
                "the access key that the server was started with was disabled, which is for ever: it stays so; start the server \
                 with another one, or none"
            );
            return Ok(());
        }
        let secret = site.credentials.ring.open(&about(&key.id), &known.secret).unwrap_or_default();
        if secret == key.secret.as_bytes() {
            return Ok(());
        }
        key.is_strong().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
        tracing::warn!(
            access_key = key.id,
            "the access key gets the secret that the server was started with"
        );
    }
    key.is_strong().map_err(|weak| ServiceError::invalid(weak.to_string()))?;
    make_key(site, key, FIRST_OWNER, "given at the start of the server", true).await.map(drop)
}

pub(crate) async fn make_key(
    site: &Arc<Site>,
    key: &AccessKey,
    owner: &str,
    description: &str,
    admin: bool,
) -> Outcome<KeyDocument> {
    let sealed = credential_keys::seal(site, &about(&key.id), key.secret.as_bytes()).await?;
    let document = KeyDocument {
        secret: sealed.into(),
        owner: owner.into(),
        status: model::KeyStatus::Active,
        created: site.clock.wall(),
        expires: None,
        sites: Vec::new(),
        admin,
        buckets: None,
        read: true,
        write: true,
        policy: String::new(),
        description: description.into(),
    };
    put_key(site, &key.id, document.clone()).await?;
    Ok(document)
}

pub(crate) async fn put_key(site: &Arc<Site>, id: &str, document: KeyDocument) -> Outcome<()> {
    let key = SystemKey::AccessKey(id.into()).to_string();
    let decide =
        move |_: &dyn View, wall| Ok(((), Some(Declared::document(key, document_object(&document, wall)))));
    let ((), reached) = declared::declare(site, WRITER, decide).await?;
    if let Err(why) = reached {
        tracing::info!(why, "the other nodes of the site hear of an access key in a moment");
    }
    Ok(())
}

fn key_status(id: &str, document: &KeyDocument, known_to: Vec<String>) -> KeyStatus {
    KeyStatus {
        version: VERSION,
        id: id.into(),
        name: document.description.clone(),
        owner: document.owner.clone(),
        created_ms: document.created.0,
        enabled: document.status == model::KeyStatus::Active,
        known_to,
    }
}

impl Admin {
    pub(crate) fn peer(&self, id: SiteId, known: &Known, lag: u64, unsent: Unsent) -> PeerStatus {
        let (site, node) = (&self.site, known.key.node());
        let (linked, now) = (site.linked(id), site.clock.now());
        let heard = site.peers.heard_of(id);
        let loss = site.copies.losses().remove(&id).filter(|loss| loss.is_lost);
        let state = match self.liveness.of(id) {
            _ if linked => "alive",
            _ if site.peers.net().copied_by().contains(&node) => "copied",
            _ if site.peers.net().refused_by().contains(&node) => "refuses",
            _ if loss.is_some() => "lost",
            Some(heard) if heard.alive => "suspect",
            Some(_) => "down",
            None if heard.is_some() => "down",
            None => "unknown",
        };
        let rtt = site.peers.net().rtt(node).filter(|_| linked);
        let course = site.peers.net().course(node).filter(|_| linked).unwrap_or_default();
        PeerStatus {
            site: id.to_string(),
            name: known.name.clone(),
            state: state.into(),
            addresses: known.addresses.clone(),
            rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            via: course.via.map(|via| site.peers.roster.node_name(via)),
            hops: course.hops,
            connections: u32::try_from(site.peers.net().connections(node)).unwrap_or(u32::MAX),
            heard_ms: heard.map(|heard| millis(now.since(heard))),
            lag_ms: match lag {
                // What it has written since is not known while there is no link.
                0 => heard.filter(|_| linked).map(|_| 0),
                _ => site.peers.behind_since(id).map(|since| millis(now.since(since))),
            },
            unsent_records: unsent.records,
            unsent_bytes: unsent.bytes,
            disk_unheard: loss.as_ref().is_some_and(|loss| !loss.knows_disk),
            lost_ms: loss.and_then(|loss| loss.since).map(|since| since.0),
            copy_ms: clones::turned_away(site, node).map(millis),
            duty: sites_admin::duty_word(&site.duties.of(id)).into(),
        }
    }

    async fn bucket_status(&self, bucket: Bucket) -> Outcome<BucketStatus> {
        let id = bucket.id;
        let sums = self.site.read(move |view| space::sums(view, id).map_err(unreadable)).await?;
        let (rules, count) = look::counted(&self.site, &bucket).await?;
        let others = self.site.drive.ask(move |machine, _| machine.members(id)).await.unwrap_or_default();
        let own = self.site.is_member(id).then_some(self.site.id);
        let mut members: Vec<String> =
            own.into_iter().chain(others).map(|member| self.site.peers.roster.name(member)).collect();
        members.sort();
        let heir = tenure::heir(&self.site, id).await?;
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
            surplus: surplus::status_of(&self.site, id),
            follow: follow_name(bucket.config.follow).into(),
            residency: bucket.config.residency.iter().map(|id| self.site.peers.roster.name(*id)).collect(),
            miss: if bucket.config.miss == Miss::Local { "local" } else { "ask" }.into(),
            objects: sums.keys,
            bytes: sums.bytes,
            unprotected_bytes: count.unprotected,
            conflicts: sums.conflicts,
            members,
            home: bucket.epoch.map(|_| self.site.peers.roster.name(bucket.home)).unwrap_or_default(),
            home_epoch: bucket.epoch.unwrap_or(0),
            home_heir: heir.map(|heir| self.site.peers.roster.name(heir)).unwrap_or_default(),
            join: bucket.config.joins().name().into(),
            join_here: self.site.joins_here(id).map(|joins| joins.name().into()).unwrap_or_default(),
            pins: pins::of_bucket(&self.site, &bucket),
            standing: membership_admin::standing(&self.site, &bucket).into(),
            prefixes: following::status(&self.site, id).await?,
        })
    }
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

/// Whose a key or a bucket is.
fn owner(asked: Option<&str>) -> Outcome<&str> {
    let owner = asked.unwrap_or(FIRST_OWNER);
    let sound = !owner.is_empty() && owner.len() <= 64 && !owner.chars().any(char::is_control);
    sound
        .then_some(owner)
        .ok_or_else(|| ServiceError::invalid("an owner has 1 to 64 letters and no control characters"))
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

#[async_trait]
impl AdminService for Admin {
    async fn ready(&self) -> Readiness {
        let usage = self.site.store.usage();
        let hangs = hanging(&usage).map(|seconds| {
            format!(
                "the disk has not answered a sync for {seconds} s: nothing that is written is acknowledged"
            )
        });
        let stopped = usage.poisoned.map(|why| format!("the store stopped: {why}")).or(hangs);
        let fell = || self.site.drive.fell().map(|why| format!("the federation machine panicked: {why}"));
        let gone = || self.site.duties.is_gone().then(|| self.site.duties.why_gone());
        let reason = stopped.or_else(fell).or_else(gone);
        let ready = reason.is_none();
        Readiness { version: VERSION, ready, reason: reason.unwrap_or_else(|| "serving".into()) }
    }

    async fn status(&self) -> Outcome<StatusReport> {
        let site = &self.site;
        let system = site.system;
        let (buckets, conflicts, single) = site
            .read(move |view| {
                let all = model::list_buckets(view, system, None).map_err(unreadable)?;
                let (mut conflicts, mut single) = (0, Vec::new());
                for bucket in &all {
                    conflicts += space::sums(view, bucket.claim.bucket).map_err(unreadable)?.conflicts;
                    single.extend((bucket.claim.config.copies < 2).then(|| Bucket::of(bucket.clone())));
                }
                Ok((all.len() as u64, conflicts, single))
            })
            .await?;
        let is_single = |bucket: &Bucket| site.is_member(bucket.id) && wanted::rules(site, bucket).wished < 2;
        let (followed_prefixes, followed_behind) = site.following.counts();
        let single_copy_buckets = single.into_iter().filter(is_single).count() as u64;
        let counted = look::counted_by_bucket(site).await?;
        let unprotected_bytes = counted.values().map(|(_, count)| count.unprotected).sum();
        let nowhere_bytes = counted.values().map(|(_, count)| count.nowhere).sum();
        let unread = counted.iter().filter(|(_, (_, count))| count.is_unread);
        let unread_buckets = unread.map(|(bucket, _)| bucket.clone()).collect();
        let areas = wanted::lacking(&counted);
        let gaps = members::gaps(site).await?;
        let mut peers = Vec::new();
        for (id, known) in site.peers.roster.all() {
            if id != site.id {
                let lag = gaps.missing.get(&id).copied().unwrap_or_default();
                let unsent = gaps.unsent.get(&id).copied().unwrap_or_default();
                peers.push(self.peer(id, &known, lag, unsent));
            }
        }
        peers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(StatusReport {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").into(),
            commit: self.commit.into(),
            site: site.id.to_string(),
            site_name: site.called(),
            node: site.stamps.origin.node.to_string(),
            uptime_seconds: site.clock.now().since(self.started).as_secs(),
            cut: site.peers.net().is_cut(),
            clock_trusted: site.clock.is_trusted(),
            links_lack: site.peers.net().lack(),
            peers,
            storage: storage_of(site),
            buckets,
            conflicts,
            unprotected_bytes,
            nowhere_bytes,
            unread_buckets,
            single_copy_buckets,
            followed_prefixes,
            followed_behind,
            surplus: surplus::status(site),
            others: site.others.status(),
            at_cap: others::at_cap(site).into_iter().map(|id| site.peers.roster.name(id)).collect(),
            areas,
            duty: sites_admin::duty_word(&site.duties.own()).into(),
            copied: site.duties.is_copied(),
            gone: site.duties.is_gone(),
            copy_ms: clones::turned_away(site, site.stamps.origin.node).map(millis),
            replacing: sites_admin::replacing(self).await?,
            joining: membership_admin::waiting(site).await?,
            anew: crate::anew::status(site),
            nodes: nodes::report(site),
        })
    }

    async fn set_duty(&self, name: &str, request: DutyRequest) -> Outcome<SiteStatus> {
        sites_admin::set_duty(self, name, request).await
    }

    async fn rename_site(&self, name: &str, request: RenameRequest) -> Outcome<SiteStatus> {
        moves_admin::rename(self, name, request).await
    }

    async fn set_address(&self, name: &str, request: AddressRequest) -> Outcome<SiteStatus> {
        moves_admin::set_address(self, name, request).await
    }

    async fn set_area(&self, name: &str, request: AreaRequest) -> Outcome<SiteStatus> {
        moves_admin::set_area(self, name, request).await
    }

    async fn expel(&self, name: &str, request: ExpelRequest) -> Outcome<Expelled> {
        moves_admin::expel(self, name, request).await
    }

    async fn replace(&self, name: &str, request: ReplaceRequest) -> Outcome<ReplacedSite> {
        replace_admin::replace(self, name, request).await
    }

    async fn sites(&self) -> Outcome<SiteList> {
        Ok(SiteList { version: VERSION, sites: sites_admin::all(self).await? })
    }

    async fn site(&self, name: &str) -> Outcome<SiteStatus> {
        sites_admin::one(self, name).await
    }

    async fn areas(&self) -> Outcome<AreasReport> {
        areas::report(&self.site).await
    }

    async fn space(&self, query: SpaceQuery) -> Outcome<SpaceReport> {
        space_used::online(&self.site, query.scan).await
    }

    async fn scrub(&self) -> Outcome<ScrubReport> {
        Ok(scrub::report(&self.site))
    }

    async fn set_scrub(&self, request: ScrubRequest) -> Outcome<ScrubReport> {
        scrub::act(&self.site, request).await
    }

    async fn set_link(&self, request: LinkRequest) -> Outcome<LinkState> {
        link_admin::set(&self.site, request).await
    }

    async fn uplink(&self) -> Outcome<UplinkState> {
        Ok(uplink_admin::state(&self.site))
    }

    async fn set_uplink(&self, request: UplinkRequest) -> Outcome<UplinkState> {
        uplink_admin::set(&self.site, request).await
    }

    async fn conflicts(&self, query: ConflictQuery) -> Outcome<ConflictPage> {
        let bucket = match &query.bucket {
            Some(name) => Some(self.site.known(name).await?),
            None => None,
        };
        let limit = query.limit.unwrap_or(CONFLICTS).clamp(1, CONFLICTS);
        let after = query.after.as_deref().map(conflicts_admin::parse_after).transpose()?;
        let system = self.site.system;
        let only = bucket.map(|bucket| bucket.id);
        let first = after.is_none();
        let page = move |view: &dyn View| {
            let names = if first { conflicts_admin::contested(view, system, only)? } else { Vec::new() };
            Ok((conflicts_admin::page(view, system, only, after, limit)?, names))
        };
        let ((mut found, next, listed), mut names) = self.site.read(page).await?;
        found.iter_mut().for_each(|conflict| self.name_site(&mut conflict.site));
        names.iter_mut().for_each(|conflict| self.name_site(&mut conflict.site));
        if !query.unseen {
            conflicts_admin::note_listed(&self.site, listed).await?;
        }
        Ok(ConflictPage { version: VERSION, conflicts: found, next, names })
    }

    async fn conflict(&self, key: ConflictKey) -> Outcome<ConflictDetail> {
        let bucket = self.site.known(&key.bucket).await?;
        let (id, unseen) = (bucket.id, key.unseen);
        let (mut detail, listed) =
            self.site.read(move |view| conflicts_admin::detailed(view, &bucket, &key.key)).await?;
        let all = detail.losers.iter_mut().chain(&mut detail.current);
        all.for_each(|conflict| self.name_site(&mut conflict.site));
        if !unseen {
            conflicts_admin::note_listed(&self.site, listed.into_iter().map(|dot| (id, dot)).collect())
                .await?;
        }
        Ok(detail)
    }

    async fn end_conflict(&self, request: ConflictEnd) -> Outcome<ConflictEnded> {
        conflicts::end(&self.site, WRITER, request).await
    }

    async fn loss(&self, site: &str) -> Outcome<LossState> {
        loss::state(&self.site, site).await
    }

    async fn declare_loss(&self, site: &str, request: LossRequest) -> Outcome<LossState> {
        loss::declare(&self.site, WRITER, site, request.lost).await
    }

    async fn only_at(&self, site: &str, query: LossQuery) -> Outcome<LossPage> {
        only::page(&self.site, site, query).await
    }

    async fn invite(&self, request: InviteRequest) -> Outcome<Invite> {
        check_site_name(&request.site).map_err(|error| ServiceError::invalid(error.to_string()))?;
        let taken = self.site.peers.roster.all().into_values().any(|known| known.name == request.site);
        if taken {
            return Err(ServiceError::invalid(format!(
                "there is a site named {} already; choose another name",
                request.site
            )));
        }
        moves_admin::refuse_names_of(self, &request.site, None).await?;
        if let Some(reason) = self.site.peers.roster.full() {
            return Err(ServiceError::invalid(reason));
        }
        if self.advertised.is_empty() {
            let message = "this site does not know where it can be dialled; set peer.advertise";
            return Err(ServiceError::new(ErrorKind::InvalidRequest, message));
        }
        let seat = match &request.seat {
            Some(seat) => Some(nodes::offer(&self.site, self.door.trust.root, seat).await?),
            None => None,
        };
        let life = request.expires_seconds.map_or(INVITED, Duration::from_secs);
        let (door, now) = (&self.door, self.site.clock.wall());
        let invited = Invited { name: &request.site, seat };
        let given = door.invites.invite(&door.trust, invited, self.advertised.clone(), life, now);
        let Given { token, took_back } = given.map_err(|error| match error {
            InviteError::NoAdmin => ServiceError::new(ErrorKind::AccessDenied, error.to_string()),
            InviteError::Refused(reason) => ServiceError::invalid(reason),
            other => ServiceError::new(ErrorKind::Internal, other.to_string()),
        })?;
        Ok(Invite { version: VERSION, expires_ms: token.expires.0, token: token.to_string(), took_back })
    }

    async fn keys(&self) -> Outcome<KeyList> {
        let keys = credential_keys::exposed(&self.site).await?.into_iter();
        let keys = keys.map(|(id, document, known_to)| key_status(&id, &document, known_to)).collect();
        Ok(KeyList { version: VERSION, keys })
    }

    async fn create_key(&self, request: KeyCreate) -> Outcome<KeyCreated> {
        let key =
            access::generate().map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
        let owner = owner(request.owner.as_deref())?;
        let name = request.name.as_deref().unwrap_or_default();
        if name.len() > 256 || name.chars().any(char::is_control) {
            return Err(ServiceError::invalid(
                "the name of a key has at most 256 letters and no control characters",
            ));
        }
        let document = make_key(&self.site, &key, owner, name, false).await?;
        Ok(KeyCreated { key: key_status(&key.id, &document, Vec::new()), secret: key.secret })
    }

    async fn disable_key(&self, id: &str) -> Outcome<KeyStatus> {
        let found = self.site.access_key(id).await?;
        let unknown = || {
            let message = crate::paths::bucket::unknown_key().message().to_owned();
            ServiceError::new(ErrorKind::NoSuchAccessKey, message)
        };
        let mut document = found.ok_or_else(unknown)?;
        document.status = model::KeyStatus::Disabled;
        put_key(&self.site, id, document.clone()).await?;
        // Who knew it does not matter any more.
        Ok(key_status(id, &document, Vec::new()))
    }

    async fn buckets(&self) -> Outcome<BucketList> {
        let system = self.site.system;
        let found =
            self.site.read(move |view| model::list_buckets(view, system, None).map_err(unreadable)).await?;
        let mut buckets = Vec::with_capacity(found.len());
        for resolved in found {
            buckets.push(self.bucket_status(Bucket::of(resolved)).await?);
        }
        Ok(BucketList { version: VERSION, buckets })
    }

    async fn create_bucket(&self, request: BucketCreate) -> Outcome<BucketStatus> {
        let owner = owner(request.owner.as_deref())?;
        let name = buckets::name_here(&self.site, &request.name);
        // Before anything is made: what is refused is not there afterwards.
        set_copies(&mut BucketConfig::default(), request.copies, request.copies_in.as_deref())?;
        match request.unique {
            true => buckets::create_unique(&self.site, WRITER, owner, &name).await?,
            // Whether the other nodes have it is not told here: they hear of it.
            false => drop(buckets::create(&self.site, WRITER, owner, &name, None).await?),
        }
        if request.copies.is_none() && request.copies_in.is_none() {
            return self.bucket(&name).await;
        }
        let (copies, copies_in) = (request.copies, request.copies_in);
        let settings = BucketPatch { copies, copies_in, ..BucketPatch::default() };
        self.update_bucket(&name, settings).await
    }

    async fn move_home(&self, name: &str, request: HomeRequest) -> Outcome<HomeState> {
        let bucket = self.site.known(name).await?;
        self.shift(bucket.id, bucket.name, request).await
    }

    async fn move_register(&self, request: HomeRequest) -> Outcome<HomeState> {
        self.shift(self.site.system, String::new(), request).await
    }

    async fn bucket(&self, name: &str) -> Outcome<BucketStatus> {
        self.bucket_status(self.site.known(name).await?).await
    }

    async fn pins(&self) -> Outcome<PinList> {
        pins::list(&self.site).await
    }

    async fn set_pin(&self, request: PinRequest) -> Outcome<PinList> {
        pins::act(&self.site, request).await
    }

    async fn join_bucket(&self, name: &str, request: JoinRequest) -> Outcome<MembershipState> {
        membership_admin::join(&self.site, name, request).await
    }

    async fn follow_prefix(&self, name: &str, request: FollowRequest) -> Outcome<MembershipState> {
        membership_admin::follow(&self.site, name, request).await
    }

    async fn leave_bucket(&self, name: &str) -> Outcome<MembershipState> {
        membership_admin::leave(&self.site, name).await
    }

    async fn membership(&self, name: &str) -> Outcome<MembershipState> {
        membership_admin::state(&self.site, name).await
    }

    async fn update_bucket(&self, name: &str, request: BucketPatch) -> Outcome<BucketStatus> {
        let bucket = self.site.known(name).await?;
        let residency = request.residency.as_deref().map(|names| self.resident(names)).transpose()?;
        let change = move |config: &mut BucketConfig| {
            if let Some(residency) = &residency {
                config.residency.clone_from(residency);
            }
            patch(config, &request)
        };
        drop(buckets::change(&self.site, WRITER, &bucket, change).await?);
        self.bucket(name).await
    }
}

impl Admin {
    fn name_site(&self, site: &mut String) {
        if let Ok(id) = site.parse() {
            *site = self.site.peers.roster.name(id);
        }
    }

    fn site_named(&self, name: &str) -> Outcome<SiteId> {
        let mut sites = self.site.peers.roster.all();
        sites.retain(|id, known| known.name == name || id.to_string() == name);
        sites_admin::refuse_several(name, sites.keys().map(ToString::to_string))?;
        let found = sites.into_iter().next();
        found.map(|(site, _)| site).ok_or_else(|| ServiceError::no_such_site(name))
    }

    async fn shift(&self, bucket: BucketId, name: String, request: HomeRequest) -> Outcome<HomeState> {
        let to = self.site_named(&request.site)?;
        // One that was expelled is in no roster, and its homes are still to be given to others.
        let lost = match request.destroyed.as_deref() {
            Some(lost) => Some(loss::named(&self.site, lost).await?.0),
            None => None,
        };
        if lost == Some(self.site.id) {
            return Err(ServiceError::invalid("this site is not destroyed: it answers you"));
        }
        if let Some(name) = lost.filter(|lost| self.site.linked(*lost)).and(request.destroyed.as_deref()) {
            return Err(ServiceError::invalid(format!(
                "{name} is not destroyed: it answers. Without --destroyed it hands the home over by itself; if it is to belong no \
                 more: `skerry site expel {name}`, and then this again"
            )));
        }
        let asked = home::Move { bucket, to, lost };
        let home::Moved { epoch, unheard } = home::shift(&self.site, WRITER, asked).await?;
        let (site, expelled) = (request.site, request.destroyed);
        Ok(HomeState { version: VERSION, bucket: name, site, epoch, expelled, unheard })
    }

    /// The sites of these names.
    fn resident(&self, names: &[String]) -> Outcome<Vec<SiteId>> {
        let mut ids = names.iter().map(|name| self.site_named(name)).collect::<Outcome<Vec<_>>>()?;
        ids.sort();
        ids.dedup();
        Ok(ids)
    }
}

/// What is to be said of the disk of a site that runs.
fn storage_of(site: &Site) -> StorageStatus {
    let (undecided_writes, undecided_bytes) = site.bodies.counts();
    let name = |id| site.peers.roster.name(id);
    StorageStatus {
        undecided_writes,
        undecided_bytes,
        undecided_at: site.bodies.waits().into_iter().map(name).collect(),
        ..storage_status(&site.store.usage(), &site.store.scrub_state())
    }
}

/// For so long a sync may be under way on a slow card that is busy.
const SYNC_SECONDS: u64 = 30;

/// Seconds for which the disk has not answered, if that is too long.
pub(crate) fn hanging(usage: &skerry_storage::Usage) -> Option<u64> {
    let seconds = usage.sync_waits as u64;
    (seconds >= SYNC_SECONDS).then_some(seconds)
}

pub(crate) fn storage_status(
    usage: &skerry_storage::Usage,
    scrub: &skerry_storage::ScrubState,
) -> StorageStatus {
    StorageStatus {
        damaged_chunks: scrub.damaged.len() as u64 + scrub.unlisted,
        damaged_segments: scrub.segments.len() as u64,
        unread_segments: usage.unread,
        damaged_index: usage.index_bad,
        sync_waits_seconds: hanging(usage).unwrap_or(0),
        journal_bytes: usage.journal.allocated,
        payload_bytes: usage.payload.allocated,
        cache_bytes: usage.cache.allocated,
        index_bytes: usage.index,
        live_bytes: usage.journal.live + usage.payload.live + usage.cache.live,
        free_bytes: usage.free,
        full: usage.full,
        lazy: usage.lazy,
        unsynced_bytes: usage.unsynced,
        ..StorageStatus::default()
    }
}
