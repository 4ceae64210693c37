//! Administration of the double: one site that knows no other.

use async_trait::async_trait;

use super::Memory;
use super::state::Bucket;
use crate::service::{
    AddressRequest, AdminService, AreaRequest, AreasReport, BucketCreate, BucketList, BucketPatch,
    BucketStatus, ConflictDetail, ConflictEnd, ConflictEnded, ConflictKey, ConflictPage, ConflictQuery,
    DutyRequest, ErrorKind, ExpelRequest, Expelled, HomeRequest, HomeState, Invite, InviteRequest, KeyCreate,
    KeyCreated, KeyList, KeyStatus, LinkRequest, LinkState, LossPage, LossQuery, LossRequest, LossState,
    OthersStatus, Outcome, Readiness, RenameRequest, ReplaceRequest, ReplacedSite, ScrubReport, ScrubRequest,
    ServiceError, SiteList, SiteStatus, SpaceQuery, SpaceReport, SpaceRow, StatusReport, StorageStatus,
    SurplusStatus, UplinkRequest, UplinkState, VERSION, Versioning,
};

/// A day, the default life of an invitation.
const DAY: u64 = 24 * 3600;

fn no_conflict() -> ServiceError {
    ServiceError::new(ErrorKind::NoSuchConflict, "the key has no conflict")
}

/// The double is the only site there is.
fn alone(bucket: &str, request: HomeRequest) -> Outcome<HomeState> {
    if request.site != "memory" || request.destroyed.is_some() {
        return Err(ServiceError::no_such_site(&request.site));
    }
    let (bucket, site) = (bucket.to_owned(), request.site);
    Ok(HomeState { version: VERSION, bucket, site, epoch: 1, ..HomeState::default() })
}

fn only_this(site: &str) -> Outcome<()> {
    match site {
        "memory" => Ok(()),
        other => Err(ServiceError::no_such_site(other)),
    }
}

fn status(name: &str, bucket: &Bucket) -> BucketStatus {
    let current =
        bucket.keys.values().filter_map(|versions| versions.last().filter(|one| !one.delete_marker));
    let sizes: Vec<u64> = current.map(|version| version.info.size).collect();
    let versioning = match bucket.versioning {
        Versioning::Off => "off",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
    };
    BucketStatus {
        version: VERSION,
        name: name.into(),
        id: name.into(),
        owner: bucket.owner.clone(),
        created_ms: bucket.created.0,
        versioning: versioning.into(),
        ack_scope: "node".into(),
        copies: 1,
        copies_in: String::new(),
        lives_in: String::new(),
        areas: Vec::new(),
        surplus: SurplusStatus::default(),
        follow: "records".into(),
        residency: Vec::new(),
        miss: "local".into(),
        objects: sizes.len() as u64,
        bytes: sizes.iter().sum(),
        unprotected_bytes: 0,
        conflicts: 0,
        members: vec!["memory".into()],
        home: "memory".into(),
        home_epoch: 1,
        home_heir: String::new(),
        join: "manual".into(),
        join_here: String::new(),
        pins: Vec::new(),
        standing: "member".into(),
        prefixes: Vec::new(),
    }
}

#[async_trait]
impl AdminService for Memory {
    async fn ready(&self) -> Readiness {
        Readiness { version: VERSION, ready: true, reason: "serving".into() }
    }

    async fn status(&self) -> Outcome<StatusReport> {
        let state = self.lock();
        let bytes = state.buckets.iter().map(|(name, bucket)| status(name, bucket).bytes).sum();
        Ok(StatusReport {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").into(),
            commit: String::new(),
            site: "memory".into(),
            site_name: "memory".into(),
            node: "memory".into(),
            uptime_seconds: 0,
            cut: state.cut,
            clock_trusted: true,
            links_lack: None,
            peers: Vec::new(),
            storage: StorageStatus { live_bytes: bytes, ..StorageStatus::default() },
            buckets: state.buckets.len() as u64,
            conflicts: 0,
            unprotected_bytes: 0,
            nowhere_bytes: 0,
            unread_buckets: Vec::new(),
            single_copy_buckets: 0,
            followed_prefixes: 0,
            followed_behind: 0,
            areas: Vec::new(),
            surplus: SurplusStatus::default(),
            others: OthersStatus::default(),
            at_cap: Vec::new(),
            duty: "serves".into(),
            copied: false,
            gone: false,
            copy_ms: None,
            replacing: Vec::new(),
            joining: Vec::new(),
            anew: None,
            nodes: None,
        })
    }

    async fn sites(&self) -> Outcome<SiteList> {
        Ok(SiteList { version: VERSION, sites: vec![self.site("memory").await?] })
    }

    async fn site(&self, name: &str) -> Outcome<SiteStatus> {
        if name != "memory" {
            return Err(ServiceError::no_such_site(name));
        }
        Ok(SiteStatus {
            version: VERSION,
            site: "memory".into(),
            name: "memory".into(),
            state: "member".into(),
            here: true,
            link: "this".into(),
            duty: "serves".into(),
            ..SiteStatus::default()
        })
    }

    async fn set_duty(&self, name: &str, request: DutyRequest) -> Outcome<SiteStatus> {
        match request.duty.as_str() {
            "serve" => self.site(name).await,
            "freeze" | "drain" => Err(ServiceError::not_implemented("a duty of the only site there is")),
            other => Err(ServiceError::new(
                ErrorKind::InvalidArgument,
                format!("a duty is serve, freeze or drain, not {other}"),
            )),
        }
    }

    async fn rename_site(&self, _: &str, _: RenameRequest) -> Outcome<SiteStatus> {
        Err(ServiceError::not_implemented("another name of the only site there is"))
    }

    async fn set_address(&self, _: &str, _: AddressRequest) -> Outcome<SiteStatus> {
        Err(ServiceError::not_implemented("another address of the only site there is"))
    }

    async fn set_area(&self, _: &str, _: AreaRequest) -> Outcome<SiteStatus> {
        Err(ServiceError::not_implemented("an area of the only site there is"))
    }

    async fn expel(&self, _: &str, _: ExpelRequest) -> Outcome<Expelled> {
        Err(ServiceError::new(ErrorKind::InvalidArgument, "this site cannot expel itself"))
    }

    async fn replace(&self, _: &str, _: ReplaceRequest) -> Outcome<ReplacedSite> {
        Err(ServiceError::new(ErrorKind::InvalidArgument, "this site is not gone: it answers you"))
    }

    async fn areas(&self) -> Outcome<AreasReport> {
        Ok(AreasReport { version: VERSION, site_name: "memory".into(), k: 1, ..AreasReport::default() })
    }

    async fn space(&self, _: SpaceQuery) -> Outcome<SpaceReport> {
        let state = self.lock();
        let row = |(name, bucket): (&String, &Bucket)| {
            let held = status(name, bucket);
            let (bucket, class) = (name.clone(), "live".to_owned());
            SpaceRow { bucket, class, origin: String::new(), versions: held.objects, bytes: held.bytes }
        };
        let rows = state.buckets.iter().map(row).collect();
        Ok(SpaceReport { version: VERSION, site: "memory".into(), rows, ..SpaceReport::default() })
    }

    async fn scrub(&self) -> Outcome<ScrubReport> {
        Ok(ScrubReport { version: VERSION, paused: self.lock().paused, ..ScrubReport::default() })
    }

    async fn set_scrub(&self, request: ScrubRequest) -> Outcome<ScrubReport> {
        if let Some(pause) = request.pause {
            self.lock().paused = pause;
        }
        self.scrub().await
    }

    async fn set_link(&self, request: LinkRequest) -> Outcome<LinkState> {
        if let Some(from) = request.from {
            return Err(ServiceError::no_such_site(&from));
        }
        self.lock().cut = request.cut;
        Ok(LinkState { version: VERSION, cut: request.cut, apart: Vec::new() })
    }

    async fn uplink(&self) -> Outcome<UplinkState> {
        Ok(UplinkState { version: VERSION, budget: self.lock().uplink.clone(), ..UplinkState::default() })
    }

    async fn set_uplink(&self, request: UplinkRequest) -> Outcome<UplinkState> {
        self.lock().uplink = request.budget;
        self.uplink().await
    }

    async fn conflicts(&self, _: ConflictQuery) -> Outcome<ConflictPage> {
        Ok(ConflictPage { version: VERSION, conflicts: Vec::new(), next: None, names: Vec::new() })
    }

    async fn conflict(&self, _: ConflictKey) -> Outcome<ConflictDetail> {
        Err(no_conflict())
    }

    async fn end_conflict(&self, _: ConflictEnd) -> Outcome<ConflictEnded> {
        Err(no_conflict())
    }

    async fn loss(&self, site: &str) -> Outcome<LossState> {
        only_this(site)?;
        let (site, linked) = (site.to_owned(), true);
        Ok(LossState { version: VERSION, site, linked, ..LossState::default() })
    }

    async fn declare_loss(&self, site: &str, request: LossRequest) -> Outcome<LossState> {
        only_this(site)?;
        if request.lost {
            let message = "this site is not lost: it answers you; ask another";
            return Err(ServiceError::new(ErrorKind::InvalidArgument, message));
        }
        self.loss(site).await
    }

    async fn only_at(&self, site: &str, _: LossQuery) -> Outcome<LossPage> {
        only_this(site)?;
        Ok(LossPage { version: VERSION, site: site.to_owned(), ..LossPage::default() })
    }

    async fn invite(&self, request: InviteRequest) -> Outcome<Invite> {
        let seconds = request.expires_seconds.unwrap_or(DAY);
        let token = self.lock().draw(&format!("{}-", request.site));
        let expires_ms = self.now().0.saturating_add(seconds * 1000);
        Ok(Invite { version: VERSION, token, expires_ms, took_back: false })
    }

    async fn keys(&self) -> Outcome<KeyList> {
        let keys = self.lock().keys.values().map(|(_, status)| status.clone()).collect();
        Ok(KeyList { version: VERSION, keys })
    }

    async fn create_key(&self, request: KeyCreate) -> Outcome<KeyCreated> {
        let (mut state, now) = (self.lock(), self.now());
        let (id, secret) = (state.draw("KEY"), state.draw("secret"));
        let owner = request.owner.unwrap_or_else(|| "owner".into());
        let key = state.add_key(&id, &secret, &owner, &request.name.unwrap_or_default(), now);
        Ok(KeyCreated { key, secret })
    }

    async fn disable_key(&self, id: &str) -> Outcome<KeyStatus> {
        match self.lock().keys.get_mut(id) {
            Some((_, status)) => {
                status.enabled = false;
                Ok(status.clone())
            }
            None => Err(ServiceError::new(ErrorKind::NoSuchAccessKey, "there is no such key")),
        }
    }

    async fn buckets(&self) -> Outcome<BucketList> {
        let buckets = self.lock().buckets.iter().map(|(name, bucket)| status(name, bucket)).collect();
        Ok(BucketList { version: VERSION, buckets })
    }

    async fn create_bucket(&self, request: BucketCreate) -> Outcome<BucketStatus> {
        crate::s3::check_bucket(&request.name)?;
        let (mut state, now) = (self.lock(), self.now());
        if state.buckets.contains_key(&request.name) {
            return Err(ServiceError::new(
                ErrorKind::BucketAlreadyExists,
                "the name is taken; choose another",
            ));
        }
        let bucket = Bucket::new(&request.owner.unwrap_or_else(|| "owner".into()), now, None);
        let answer = status(&request.name, &bucket);
        state.buckets.insert(request.name, bucket);
        Ok(answer)
    }

    async fn bucket(&self, name: &str) -> Outcome<BucketStatus> {
        let state = self.lock();
        state
            .buckets
            .get(name)
            .map(|bucket| status(name, bucket))
            .ok_or_else(|| ServiceError::no_such_bucket(name))
    }

    async fn move_home(&self, name: &str, request: HomeRequest) -> Outcome<HomeState> {
        self.bucket(name).await?;
        alone(name, request)
    }

    async fn move_register(&self, request: HomeRequest) -> Outcome<HomeState> {
        alone("", request)
    }

    async fn update_bucket(&self, name: &str, patch: BucketPatch) -> Outcome<BucketStatus> {
        let mut state = self.lock();
        let bucket = state.buckets.get_mut(name).ok_or_else(|| ServiceError::no_such_bucket(name))?;
        let several = patch.ack_scope.is_some() || patch.copies.is_some();
        let several = several || patch.copies_in.is_some() || patch.lives_in.is_some();
        if several || patch.follow.is_some() || patch.miss.is_some() || patch.join.is_some() {
            return Err(ServiceError::not_implemented("a setting that needs several sites"));
        }
        bucket.versioning = match patch.versioning.as_deref() {
            None => bucket.versioning,
            Some("enabled") => Versioning::Enabled,
            Some("suspended") => Versioning::Suspended,
            Some(_) => {
                return Err(ServiceError::new(
                    ErrorKind::InvalidArgument,
                    "versioning is enabled or suspended",
                ));
            }
        };
        Ok(status(name, bucket))
    }
}
