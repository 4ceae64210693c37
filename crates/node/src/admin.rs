//! Administration of a site: status, link, conflicts, invitations; keys, buckets and the rest are handed to files of their own.
//!
//! Invariants: answered from this site alone, also while cut off; a secret is shown once, when it is made;
//! the flag of `link cut` is durable before the links go.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::kv::View;
use skerry_base::name::check_site_name;
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
use skerry_model::bucket as model;
use skerry_model::space;

use crate::areas;
use crate::buckets_admin;
use crate::clones;
use crate::conflicts_admin;
use crate::copies::{look, loss, only, others, surplus, wanted};
use crate::drive::live::Liveness;
use crate::keys_admin;
use crate::link_admin;
use crate::membership_admin;
use crate::moves_admin;
use crate::nodes;
use crate::paths::bucket::Bucket;
use crate::paths::members::{self, Unsent};
use crate::paths::{conflicts, home};
use crate::peers::roster::Known;
use crate::pins;
use crate::replace_admin;
use crate::site::{Site, unreadable};
use crate::sites_admin;
use crate::space_used;
use crate::trust::invite::{Given, InviteError, Invited};
use crate::uplink_admin;
use crate::welcome::Door;
use crate::workers::scrub;

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
            return Err(ServiceError::refused(format!(
                "there is a site named {} already; choose another name",
                request.site
            )));
        }
        moves_admin::refuse_names_of(self, &request.site, None).await?;
        if let Some(reason) = self.site.peers.roster.full() {
            return Err(ServiceError::refused(reason));
        }
        if self.advertised.is_empty() {
            let message = "this site does not know where it can be dialled; set peer.advertise";
            return Err(ServiceError::refused(message));
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
            InviteError::Refused(reason) => ServiceError::refused(reason),
            other => ServiceError::new(ErrorKind::Internal, other.to_string()),
        })?;
        Ok(Invite { version: VERSION, expires_ms: token.expires.0, token: token.to_string(), took_back })
    }

    async fn keys(&self) -> Outcome<KeyList> {
        keys_admin::list(self).await
    }

    async fn create_key(&self, request: KeyCreate) -> Outcome<KeyCreated> {
        keys_admin::create(self, request).await
    }

    async fn disable_key(&self, id: &str) -> Outcome<KeyStatus> {
        keys_admin::disable(self, id).await
    }

    async fn buckets(&self) -> Outcome<BucketList> {
        buckets_admin::list(self).await
    }

    async fn create_bucket(&self, request: BucketCreate) -> Outcome<BucketStatus> {
        buckets_admin::create(self, request).await
    }

    async fn move_home(&self, name: &str, request: HomeRequest) -> Outcome<HomeState> {
        let bucket = self.site.known(name).await?;
        self.shift(bucket.id, bucket.name, request).await
    }

    async fn move_register(&self, request: HomeRequest) -> Outcome<HomeState> {
        self.shift(self.site.system, String::new(), request).await
    }

    async fn bucket(&self, name: &str) -> Outcome<BucketStatus> {
        buckets_admin::status(self, self.site.known(name).await?).await
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
        buckets_admin::update(self, name, request).await
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
            return Err(ServiceError::refused("this site is not destroyed: it answers you"));
        }
        if let Some(name) = lost.filter(|lost| self.site.linked(*lost)).and(request.destroyed.as_deref()) {
            return Err(ServiceError::refused(format!(
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
    pub(crate) fn resident(&self, names: &[String]) -> Outcome<Vec<SiteId>> {
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
        mended_chunks: scrub.mended,
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
