//! Buckets: what a name means here, and who may do what with it.
//!
//! Invariants: answered from this site's own records, without a message to anybody, also while cut off; a
//! name is looked up in what the system bucket says now (the cache lives as long as nothing in it changes).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::future::BoxFuture;
use skerry_base::kv::{Batch, Overlay, Reducer, View};
use skerry_base::{BucketId, SiteId, WallTime};
use skerry_gateway::service::{ErrorKind, Outcome, RequestContext, ServiceError};
use skerry_model::bucket::{
    self, BucketConfig, ClaimNames, ClaimRefusal, Claimed, KeyDocument, Named, Resolved,
};
use skerry_model::policy::{self, Action, Denied, Target};
use skerry_model::record::Versioning;
use skerry_model::space::SpaceReducer;
use skerry_model::write::{self, Ask, Conditions, Intent, Proposed};
use skerry_model::{Entry, Object, Record, space};

use super::heard;
use super::write::refused;
use crate::site::{Site, Stamps, entry, unreadable};

/// Names kept in memory; beyond it the cache starts anew.
const CACHED: usize = 4096;

/// A bucket as a request needs it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bucket {
    /// Which incarnation.
    pub(crate) id: BucketId,
    /// The name that found it.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) owner: String,
    /// When it was made.
    pub(crate) created: WallTime,
    /// Whether it keeps versions.
    pub(crate) versioning: Versioning,
    /// Who decides its conditional operations, as far as is known: who claimed it, until a home is named.
    pub(crate) home: SiteId,
    /// The epoch of the named home; none while none is named.
    pub(crate) epoch: Option<u64>,
    /// All settings.
    pub(crate) config: BucketConfig,
}

impl Bucket {
    pub(crate) fn of(resolved: Resolved) -> Self {
        let claim = resolved.claim;
        Self {
            id: claim.bucket,
            name: resolved.name,
            owner: claim.owner,
            created: claim.created,
            versioning: claim.config.versioning,
            home: resolved.home.as_ref().map_or(claim.site, |home| home.site),
            epoch: resolved.home.as_ref().map(|home| home.epoch),
            config: claim.config,
        }
    }

    /// Whether copies of its payload may lie at a site, cached ones too.
    pub(crate) fn may_lie_at(&self, site: SiteId) -> bool {
        self.config.residency.is_empty() || self.config.residency.contains(&site)
    }

    /// Refuses what would leave payload at this site though the bucket may not lie here, or not be followed.
    pub(crate) fn check_residency(&self, site: &Site) -> Outcome<()> {
        if site.writes_through(self.id) {
            let message = format!(
                "{0} follows only a prefix of {1}, and its writes go to members (--writes through); `skerry bucket join \
                 {1} --prefix … --writes join` has it follow the whole bucket from its next write on",
                site.called(),
                self.name
            );
            return Err(ServiceError::new(ErrorKind::NotResident, message));
        }
        if site.stays_out(self) {
            let message = format!("{} follows {} never (join = never)", site.called(), self.name);
            return Err(ServiceError::new(ErrorKind::NotResident, message));
        }
        self.check_lies_here(site)
    }

    /// Refuses to have payload here though the bucket may not lie here.
    pub(crate) fn check_lies_here(&self, site: &Site) -> Outcome<()> {
        if self.may_lie_at(site.id) {
            return Ok(());
        }
        let names: Vec<String> = self.config.residency.iter().map(|id| site.peers.roster.name(*id)).collect();
        let message =
            format!("{} may lie at {} only, and not at {}", self.name, names.join(", "), site.called());
        Err(ServiceError::new(ErrorKind::NotResident, message))
    }

    /// Whether it has or had versioning.
    pub(crate) fn versioned(&self) -> bool {
        self.versioning != Versioning::Off
    }
}

/// What the system bucket said last.
#[derive(Default)]
pub(crate) struct Directory {
    cached: RwLock<Cached>,
    names: Arc<Mutex<ClaimNames>>,
    followed: Mutex<Option<Followed>>,
}

/// The buckets that were followed, how often the system bucket had changed then, and which memberships there were.
type Followed = (u64, Vec<BucketId>, Arc<Vec<Bucket>>);

#[derive(Default)]
struct Cached {
    generation: u64,
    buckets: BTreeMap<String, Bucket>,
    ids: BTreeMap<BucketId, Bucket>,
    keys: BTreeMap<String, KeyDocument>,
}

impl Cached {
    fn room(&mut self, generation: u64) -> bool {
        if self.generation > generation {
            return false;
        }
        if self.generation < generation || self.buckets.len() + self.ids.len() + self.keys.len() >= CACHED {
            *self = Self { generation, ..Self::default() };
        }
        true
    }
}

fn claimed(
    view: &dyn View,
    system: BucketId,
    (names, id): (&Mutex<ClaimNames>, BucketId),
) -> Outcome<Option<Resolved>> {
    let named = names.lock().unwrap_or_else(PoisonError::into_inner).name_of(view, system, id);
    let Some(name) = named.map_err(unreadable)? else { return Ok(None) };
    bucket::resolve_id(view, system, (&name, id)).map_err(unreadable)
}

impl Site {
    fn cached<T>(&self, find: impl FnOnce(&Cached) -> Option<T>) -> (u64, Option<T>) {
        let generation = self.changes.system_count();
        let cached = self.directory.cached.read().unwrap_or_else(PoisonError::into_inner);
        (generation, if cached.generation == generation { find(&cached) } else { None })
    }

    /// What a name means; none if there is no such bucket.
    pub(crate) async fn bucket(&self, name: &str) -> Outcome<Option<Bucket>> {
        let (generation, found) = self.cached(|cached| cached.buckets.get(name).cloned());
        if found.is_some() {
            return Ok(found);
        }
        let (system, wanted) = (self.system, name.to_owned());
        let first = super::buckets::name_here(self, name);
        let read = move |view: &dyn View| {
            let own = bucket::resolve(view, system, &first).map_err(unreadable)?;
            match own.is_none() && first != wanted {
                true => bucket::resolve(view, system, &wanted).map_err(unreadable),
                false => Ok(own),
            }
        };
        let found = self.look(read).await?.map(Bucket::of);
        if let Some(bucket) = &found {
            let mut cached = self.directory.cached.write().unwrap_or_else(PoisonError::into_inner);
            if cached.room(generation) {
                cached.buckets.insert(name.into(), bucket.clone());
            }
        }
        Ok(found)
    }

    /// The bucket of an id; none if no claim of it has arrived here.
    pub(crate) async fn bucket_of(&self, id: BucketId) -> Outcome<Option<Bucket>> {
        let (generation, found) = self.cached(|cached| cached.ids.get(&id).cloned());
        if found.is_some() {
            return Ok(found);
        }
        let found = self.claim_of(id).await?;
        if let Some(bucket) = &found {
            let mut cached = self.directory.cached.write().unwrap_or_else(PoisonError::into_inner);
            if cached.room(generation) {
                cached.ids.insert(id, bucket.clone());
            }
        }
        Ok(found)
    }

    /// The buckets that this site follows, by name. All claims are read only after something in the system bucket, or what is
    /// followed, has changed.
    pub(crate) async fn followed(&self) -> Outcome<Arc<Vec<Bucket>>> {
        let (generation, memberships) = (self.changes.system_count(), self.memberships());
        let known = || self.directory.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((then, of, found)) = &*known()
            && (*then, of) == (generation, &memberships)
        {
            return Ok(found.clone());
        }
        let system = self.system;
        let all = self.read(move |view| bucket::list_buckets(view, system, None).map_err(unreadable)).await?;
        let all = all.into_iter().filter(|found| memberships.binary_search(&found.claim.bucket).is_ok());
        let found: Arc<Vec<Bucket>> = Arc::new(all.map(Bucket::of).collect());
        *known() = Some((generation, memberships, found.clone()));
        Ok(found)
    }

    /// The bucket of an id as its claim says now, whatever is cached.
    pub(crate) async fn claim_of(&self, id: BucketId) -> Outcome<Option<Bucket>> {
        let (system, names) = (self.system, self.directory.names.clone());
        Ok(self.read(move |view| claimed(view, system, (&names, id))).await?.map(Bucket::of))
    }

    /// Whether payload of a bucket may lie at a site; no where no claim of it has arrived, or none can be read.
    pub(crate) fn may_lie_at(&self, id: BucketId, other: SiteId) -> bool {
        if id == self.system {
            return true;
        }
        let (generation, found) = self.cached(|cached| Some(cached.ids.get(&id)?.may_lie_at(other)));
        if let Some(may) = found {
            return may;
        }
        let read = claimed(&self.store.view(), self.system, (&self.directory.names, id));
        let Some(bucket) = read.ok().flatten().map(Bucket::of) else { return false };
        let may = bucket.may_lie_at(other);
        let mut cached = self.directory.cached.write().unwrap_or_else(PoisonError::into_inner);
        if cached.room(generation) {
            cached.ids.insert(id, bucket);
        }
        may
    }

    /// What a name means: one that is not known here may have been claimed elsewhere a moment ago.
    pub(crate) fn known<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Outcome<Bucket>> {
        Box::pin(async move {
            heard::find(self, || self.bucket(name)).await?.ok_or_else(|| ServiceError::no_such_bucket(name))
        })
    }

    /// The document of an access key.
    pub(crate) async fn access_key(&self, id: &str) -> Outcome<Option<KeyDocument>> {
        let (generation, found) = self.cached(|cached| cached.keys.get(id).cloned());
        if found.is_some() {
            return Ok(found);
        }
        let (system, key) = (self.system, bucket::SystemKey::AccessKey(id.into()).to_string());
        let read = move |view: &dyn View| {
            let record = space::current(view, system, &key).map_err(unreadable)?;
            let document = record.as_ref().map(bucket::document::<KeyDocument>).transpose();
            Ok(document.map_err(unreadable)?.flatten())
        };
        let found = self.look(read).await?;
        if let Some(document) = &found {
            let mut cached = self.directory.cached.write().unwrap_or_else(PoisonError::into_inner);
            if cached.room(generation) {
                cached.keys.insert(id.into(), document.clone());
            }
        }
        Ok(found)
    }

    /// The bucket of this name, if the caller may do this with it.
    pub(crate) async fn allowed(
        &self,
        context: &RequestContext,
        name: &str,
        action: Action,
    ) -> Outcome<Bucket> {
        let bucket = self.known(name).await?;
        let target = Target { name: &bucket.name, owner: &bucket.owner };
        self.may(context, action, Some(target)).await?;
        Ok(bucket)
    }

    /// Whether the caller may do this.
    pub(crate) async fn may(
        &self,
        context: &RequestContext,
        action: Action,
        target: Option<Target<'_>>,
    ) -> Outcome<()> {
        let key = self.asking(context).await?;
        policy::allows(&key, action, target).map_err(|denied| refused_access(&denied))
    }

    /// The document of the caller's key.
    pub(crate) async fn asking(&self, context: &RequestContext) -> Outcome<KeyDocument> {
        self.access_key(&context.principal.access_key).await?.ok_or_else(unknown_key)
    }

    /// Writes documents of the system bucket that `decide` makes on the commit thread; none for nothing to do.
    pub(crate) async fn declare<T: Send + 'static>(
        &self,
        writer: &str,
        decide: impl FnOnce(&dyn View, WallTime) -> Outcome<(T, Option<Declared>)> + Send + 'static,
    ) -> Outcome<T> {
        self.declare_after(writer, Vec::new(), decide).await
    }

    /// The same after keeping these records of the system bucket, which `decide` sees.
    pub(crate) async fn declare_after<T: Send + 'static>(
        &self,
        writer: &str,
        heard: Vec<Record>,
        decide: impl FnOnce(&dyn View, WallTime) -> Outcome<(T, Option<Declared>)> + Send + 'static,
    ) -> Outcome<T> {
        let (stamps, id, system, writer) = (self.stamps.clone(), self.id, self.system, writer.to_owned());
        let propose = move |view: &dyn View| {
            let by = Declarer { stamps: &stamps, site: id, system, writer: &writer };
            let mut drafted = Drafted::default();
            for kept in space::keep(view, system, heard).map_err(unreadable)? {
                drafted.add(view, &kept)?;
            }
            let (answer, declared) = decide(&Overlay::new(view, &drafted.batch), stamps.wall())?;
            if let Some(declared) = declared {
                by.draft(view, &mut drafted, declared)?;
            }
            Ok((answer, drafted.entries))
        };
        self.commit(system, (), propose).await
    }
}

/// Documents to be written together.
pub(crate) struct Declared {
    /// Their keys in the system bucket, and the objects that carry them.
    pub(crate) documents: Vec<(String, Object)>,
    /// This site becomes a member of this bucket with it.
    pub(crate) join: Option<BucketId>,
    /// Uploads in parts that end with it.
    pub(crate) ends: Vec<Entry>,
}

impl Declared {
    /// One document.
    pub(crate) fn document(key: String, object: Object) -> Self {
        Self { documents: vec![(key, object)], join: None, ends: Vec::new() }
    }

    /// Of a claim.
    pub(crate) fn claim(claimed: Claimed, join: bool) -> Self {
        let join = join.then_some(claimed.bucket);
        let documents = claimed.blocks.into_iter().chain([(claimed.key, claimed.object)]).collect();
        Self { documents, join, ends: Vec::new() }
    }

    /// With the end of these uploads.
    pub(crate) fn ending(self, ends: Vec<Entry>) -> Self {
        Self { ends, ..self }
    }

    /// With the document that names a home.
    pub(crate) fn with(mut self, named: Option<Named>) -> Self {
        if let Some(named) = named {
            self.documents.extend(named.blocks);
            self.documents.push((named.key, named.object));
        }
        self
    }
}

impl From<Named> for Declared {
    fn from(named: Named) -> Self {
        Self { documents: Vec::new(), join: None, ends: Vec::new() }.with(Some(named))
    }
}

/// Entries of one commit, and what the tables will say after them.
#[derive(Default)]
struct Drafted {
    entries: Vec<skerry_storage::Entry>,
    batch: Batch,
}

impl Drafted {
    fn add(&mut self, view: &dyn View, next: &Entry) -> Outcome<()> {
        let mut batch = Batch::default();
        SpaceReducer
            .reduce(&next.encode(), &Overlay::new(view, &self.batch), &mut batch)
            .map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
        self.batch.writes.extend(batch.writes);
        self.entries.push(entry(next));
        Ok(())
    }
}

struct Declarer<'a> {
    stamps: &'a Stamps,
    site: SiteId,
    system: BucketId,
    writer: &'a str,
}

impl Declarer<'_> {
    fn draft(&self, view: &dyn View, drafted: &mut Drafted, declared: Declared) -> Outcome<()> {
        for (key, object) in declared.documents {
            let proposed = self.propose(&Overlay::new(view, &drafted.batch), &key, object);
            if let Proposed::Write { record, .. } = proposed.map_err(|error| refused(error, &key))? {
                drafted.add(view, &Entry::Write(record))?;
            }
        }
        if let Some(bucket) = declared.join {
            // One whose claim was lost, and is made again while the bucket is begun anew, is not whole.
            let is_whole = !space::is_anew(view, bucket).map_err(unreadable)?;
            drafted.add(view, &crate::drive::stored::membership(bucket, is_whole))?;
        }
        // Nothing that is decided here looks at them.
        drafted.entries.extend(declared.ends.iter().map(entry));
        Ok(())
    }

    fn propose(&self, view: &dyn View, key: &str, object: Object) -> Result<Proposed, write::WriteRefusal> {
        let conditions = Conditions::default();
        self.stamps.with(|clock| {
            let intent = Intent {
                bucket: self.system,
                key,
                origin: self.stamps.origin,
                site: self.site,
                wall: self.stamps.wall(),
                present: self.stamps.present(),
                versioning: Versioning::Off,
                writer: self.writer,
                scope: skerry_model::record::Scope::Site,
                home: None,
                placement: None,
                conditions: &conditions,
                ask: Ask::Put(Box::new(object)),
            };
            write::propose(view, intent, clock)
        })
    }
}

/// No such access key.
pub(crate) fn unknown_key() -> ServiceError {
    ServiceError::new(
        ErrorKind::InvalidAccessKeyId,
        "this access key is not known here; it was never made, or word of it has not arrived yet",
    )
}

/// Why a key does not open this.
pub(crate) fn refused_access(denied: &Denied) -> ServiceError {
    let kind = match denied {
        Denied::Disabled | Denied::Expired => ErrorKind::InvalidAccessKeyId,
        _ => ErrorKind::AccessDenied,
    };
    ServiceError::new(kind, denied.to_string())
}

/// Why a claim is refused, in the words of S3.
pub(crate) fn refused_claim(error: ClaimRefusal, name: &str) -> ServiceError {
    let say = |kind, message: String| ServiceError::new(kind, message);
    match error {
        ClaimRefusal::Name(error) => say(ErrorKind::InvalidBucketName, error.to_string()),
        ClaimRefusal::Yours(_) => {
            say(ErrorKind::BucketAlreadyOwnedByYou, format!("you own the bucket {name} already; use it"))
        }
        ClaimRefusal::Taken(_) => {
            say(ErrorKind::BucketAlreadyExists, format!("the name {name} is somebody else's; choose another"))
        }
        ClaimRefusal::NotEmpty => say(
            ErrorKind::BucketNotEmpty,
            format!("{name} still holds objects or versions; delete them first"),
        ),
        ClaimRefusal::Space(error) => unreadable(error),
    }
}
