//! A site from its configuration to its endpoints, and back to nothing.
//!
//! Invariants: nothing is served before the store is open and the own records are durable; every task and
//! thread started here ends in [`Running::shutdown`]; readiness never depends on another site.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use prometheus_client::registry::Registry;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Hlc, NodeId, Origin, SiteId};
use skerry_federation::{Config as Machine, Federation, Input};
use skerry_gateway::service::{ErrorKind, Md5Batch, ServiceError, Services};
use skerry_model::bucket::system_bucket;
use skerry_model::space::{self, SpaceReducer};
use skerry_model::{Entry, Record};
use skerry_storage::{Committer, Device, IndexState, RealDisk, Recovery, StorageError, Store};
use tokio::sync::mpsc;

use crate::admin::Admin;
use crate::anew::{self, Beginning};
use crate::changes::Changes;
use crate::clock::Clock;
use crate::clones::Clones;
use crate::config::{BucketScope, Cap, Config, ConfigError};
use crate::copies::book::Book;
use crate::copies::others::{self, Others, OthersFile};
use crate::copies::{Copies, lives};
use crate::drive::live::{Live, Liveness};
use crate::drive::replica::StoreReplicas;
use crate::drive::stored::{APART, CUT, LIFE, Stored, is_complete, nodes};
use crate::drive::{self, Drive};
use crate::duties::Duties;
use crate::fitting::Fitted;
use crate::following::Following;
use crate::leaving;
use crate::machine;
use crate::net::Net;
use crate::net::tcp::{BindError, TcpNet, Tuning};
use crate::nodes::{self, Nodes};
use crate::opening::{self, Opening};
use crate::own_site::{self, OwnSite};
use crate::paths::answer::Answers;
use crate::paths::buckets::Buckets;
use crate::paths::credentials::Credentials;
use crate::paths::forward::TAKEN_AT_ONCE;
use crate::paths::objects::Objects;
use crate::paths::places::Places;
use crate::paths::{giving, members, refusal};
use crate::peers::circuits::{self, Circuits};
use crate::peers::outbox::{self, Outboxes};
use crate::peers::refused::RefusedConnections;
use crate::peers::{Peers, serve};
use crate::pins::Pins;
use crate::rooms::Rooms;
use crate::site::{Site, Stamps, entry};
use crate::tasks::Tasks;
use crate::telemetry::{self, Telemetry};
use crate::trust::access::AccessKey;
use crate::trust::invite::InviteBook;
use crate::trust::{CredentialRing, SiteTrust, TrustError, admission, entropy, files};
use crate::welcome::Door;
use crate::workers::{self, Workers};
use crate::{init, roster_watch};

pub use crate::faces::{Endpoints, Running};

/// What is said at each start with `storage.sync = os`.
const LAZY: &str = "storage.sync = os: plain writes are answered before they are on disk; \
    a power cut or a crash of the system loses what was answered in the last seconds";
/// How far the thread of the federation machine stands back: it reads for others what they lack, hundreds of milliseconds at a
/// time after a cut, and whoever serves clients goes before.
const BESIDE: i32 = 5;
/// Directory of the store in a site's directory.
pub(crate) const DATA: &str = "data";
/// Percent of the disk that copies of other sites' objects may take unless said otherwise.
const CACHE_PERCENT: u8 = 25;
/// Of the disk for other sites, if nothing else is said: the rest is for what is written here.
const OTHERS_PERCENT: u8 = 80;
/// Of the index's memory one part in so many is for blocks that were read: more of them was not faster; the kernel has
/// them in its cache of files.
const INDEX_BLOCKS: u64 = 5;
/// The smallest segment of the cache: two full chunks.
const CACHE_SEGMENT_LEAST: u64 = 4 << 20;
/// File of the open invitations.
const INVITES: &str = "invites.json";

/// Why a site does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Keys or trust files.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The disk.
    #[error("{directory}: {error}")]
    Storage {
        /// Where.
        directory: String,
        /// What.
        error: StorageError,
    },
    /// A port.
    #[error("peer.listen {0}")]
    Bind(#[from] BindError),
    /// An HTTP port.
    #[error("{setting}: {reason}")]
    Listen {
        /// The setting that names it.
        setting: &'static str,
        /// What.
        reason: String,
        /// Whether another process has it.
        in_use: bool,
    },
    /// The certificate of the HTTP endpoint.
    #[error("tls.certificate, tls.key: {0}")]
    Certificate(String),
    /// The HTTP endpoint.
    #[error("{0}")]
    Http(String),
    /// The system gives no more threads.
    #[error("the system gives no thread ({0}): raise its limits (TasksMax of systemd, ulimit -u)")]
    Thread(String),
    /// What opens the store came to no end.
    #[error("{0}; the log says more: start the site anew, and report it if it comes again")]
    Task(String),
    /// Its seat among the nodes of its site.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The first records could not be written.
    #[error("{0}")]
    Service(#[from] ServiceError),
}

impl StartError {
    /// Whether another process has the directory, or a port.
    pub const fn in_use(&self) -> bool {
        match self {
            Self::Storage { error: StorageError::Locked, .. } => true,
            Self::Bind(BindError { in_use, .. }) | Self::Listen { in_use, .. } => *in_use,
            _ => false,
        }
    }
}

/// A node cannot take its seat; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NodesError(nodes::Unready);

/// What a site is started with beside its configuration.
#[derive(Default)]
pub struct Options {
    /// The network to use instead of TCP (tests).
    pub net: Option<Arc<dyn Net>>,
    /// An access key with all rights that must exist: made if it does not.
    pub access_key: Option<AccessKey>,
    /// Where the MD5 of uploads is computed, instead of as it pays in this build (tests).
    pub md5: Option<Md5Batch>,
    /// Bytes of memory to divide, instead of what the machine has (tests).
    pub memory: Option<u64>,
    /// The commit that this process was built from; empty if that is not known.
    pub commit: &'static str,
    /// Is told how far the opening of the store is.
    pub opening: Opening,
}

impl Options {
    /// What can be refused before anything is opened.
    fn check(&self) -> Result<(), StartError> {
        let said = self.access_key.as_ref().map_or(Ok(()), AccessKey::check_said);
        Ok(said.map_err(|weak| ServiceError::new(ErrorKind::InvalidArgument, weak.to_string()))?)
    }
}

/// A site without its HTTP faces.
pub struct Core {
    pub(crate) site: Arc<Site>,
    /// What the memory was divided into.
    pub(crate) rooms: Rooms,
    pub(crate) trust: Arc<SiteTrust>,
    /// All metrics.
    pub registry: Registry,
    /// Who is asked for bounds when somebody asks for metrics.
    pub(crate) bounds: telemetry::room::Bounds,
    /// What the HTTP faces are served by.
    pub services: Services,
    /// What was found when the store was opened.
    pub recovery: Recovery,
    committer: Committer,
    machine: std::thread::JoinHandle<()>,
    pub(crate) tasks: Tasks,
}

/// What the store remembers of the node's former lives.
#[derive(Debug, Default)]
struct Remembered {
    life: u64,
    stamp: Hlc,
    cut: bool,
    apart: BTreeSet<NodeId>,
    members: BTreeMap<BucketId, bool>,
    leaving: leaving::Remembered,
    copies: Book,
}

impl Remembered {
    fn read(view: &dyn View) -> Result<Self, space::SpaceError> {
        let number = |key: &[u8]| -> Result<Option<u64>, space::SpaceError> {
            let found = view.get(Table::Local, key)?;
            Ok(found.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))))
        };
        let mut members = BTreeMap::new();
        view.scan_prefix(Table::Local, Stored::Member.prefix(), &mut |key, value| {
            members.extend(Stored::Member.bucket(key).map(|bucket| (bucket, is_complete(value))));
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            life: number(LIFE)?.unwrap_or(0),
            stamp: space::own_clock(view)?,
            cut: view.get(Table::Local, CUT)?.is_some(),
            apart: view.get(Table::Local, APART)?.map(|bytes| nodes(&bytes)).unwrap_or_default(),
            members,
            leaving: leaving::Remembered::read(view)?,
            copies: Book::read(view)?,
        })
    }
}

impl Core {
    /// Opens the site in `config.node.dir` and joins it to the others. Call within a tokio runtime.
    pub async fn start(config: &Config, options: Options) -> Result<Self, StartError> {
        let directory = options.check().map(|()| PathBuf::from(&config.node.dir))?;
        let trust = Arc::new(SiteTrust::load(&directory)?);
        let clock = Clock::default();
        let rooms = divided(options.memory, &directory);
        let (store, recovery) = open_store(&directory, config, &rooms, &options.opening).await?;
        let committer = store.start_committer().map_err(|error| storage(&directory, error))?;
        begin_anew(&trust, config, &store, &recovery).await?;
        let mut remembered = Remembered::read(&store.view()).map_err(|error| unread(&directory, &error))?;
        let mut registry = Registry::default();
        let net = match options.net {
            Some(net) => net,
            None => {
                let congestion = Some(config.peer.congestion.clone()).filter(|name| !name.is_empty());
                let tuning = Tuning { congestion, backlog: rooms.backlog, ..Tuning::default() };
                let net = TcpNet::bind_tuned(&config.peer.listen, &trust.identity, tuning).await?;
                registry.register_collector(Box::new(RefusedConnections::new(&net)));
                net as Arc<dyn Net>
            }
        };
        net.set_cut(remembered.cut);
        net.set_apart(remembered.apart.clone());
        let telemetry = Telemetry::register(&mut registry, options.commit);
        telemetry.wan.watch(&net);
        let (drive, inbox) = drive::new();
        let circuits = Circuits::new(trust.statement.site, config.peer.relay);
        let peers = Arc::new(Peers::new(net, telemetry.wan.clone(), clock, circuits));
        peers.uplink.resume(&store.view())?;
        let book = std::mem::take(&mut remembered.copies);
        let pins = Pins::resume(&store.view()).map_err(|error| unread(&directory, &error))?;
        let following = Following::resume(&store.view()).map_err(|error| unread(&directory, &error))?;
        let clones = Clones::resume(trust.identity.public().node(), &store.view());
        let clones = clones.map_err(|error| unread(&directory, &error))?;
        let seat = nodes::Start {
            member: trust.statement.site,
            seated: trust.seated(),
            seats: config.site.seats,
            life: remembered.life,
            is_unstarted: SiteTrust::is_unstarted(&directory),
            store: &store,
            place: &directory,
        };
        let (nodes, view) = nodes::start(seat).await.map_err(NodesError)?;
        let parts = Parts { store, peers, drive, book, pins, following, clones, nodes, rooms };
        let mut site = new_site(&trust, config, &remembered, parts)?;
        site.md5 = options.md5.map_or(site.md5, Arc::new);
        let site = Arc::new(site);
        let bounds = telemetry::room::watch(&mut registry, &site, rooms.memory);
        let (life, liveness) = (remembered.life + 1, Arc::new(Liveness::default()));
        let ((told, heard), tasks) = (told(), Tasks::counting(telemetry.panics.clone()));
        let machine = start_machine(&site, inbox, (life, config.peer.fresh), liveness.clone(), told)?;
        let invites = Arc::new(InviteBook::open(&directory.join(INVITES))?);
        let door = Door { trust: trust.clone(), invites, turned_away: Arc::default() };
        let admin = Admin {
            site: site.clone(),
            door: door.clone(),
            liveness: liveness.clone(),
            started: clock.now(),
            advertised: advertised(config),
            commit: options.commit,
        };
        let services = Services {
            objects: Arc::new(Objects(site.clone())),
            buckets: Arc::new(Buckets(site.clone())),
            credentials: Arc::new(Credentials(site.clone())),
            admin: Arc::new(admin),
        };
        let core =
            Self { site, rooms, trust, registry, bounds, services, recovery, committer, machine, tasks };
        core.first_records(&directory, life, options.access_key).await?;
        core.hear(heard);
        let (peers, tasks) = (core.site.peers.clone(), core.tasks.clone());
        core.tasks.keep("circuits", move || circuits::keep(peers.clone(), liveness.clone(), tasks.clone()));
        if let Some(view) = view {
            nodes::run(&core.site, view, &core.tasks);
        }
        core.go(&remembered.members, door, Workers { site: core.site.clone(), telemetry }, config).await?;
        Ok(core)
    }

    /// Waits until the site has to be started anew, and says why; for ever while nothing is wrong.
    pub async fn fell(&self) -> String {
        let why = self.site.drive.falls().await;
        format!("the federation machine panicked, which is a bug to be reported: {why}; start the site anew")
    }

    /// Waits until the process is to be started anew to go on well; for ever while that is not so.
    pub async fn begins_anew(&self) {
        self.site.anew.begins().await;
    }

    /// Follows what the machine says of feeds, and gives other sites what it says that they want.
    fn hear(&self, (followed, asked): Heard) {
        let (site, followed) = (self.site.clone(), Arc::new(tokio::sync::Mutex::new(followed)));
        self.tasks.keep("members", move || members::complete(site.clone(), followed.clone()));
        let (site, tasks) = (self.site.clone(), self.tasks.clone());
        let asked = Arc::new(tokio::sync::Mutex::new(asked));
        self.tasks.keep("giving", move || giving::work(site.clone(), tasks.clone(), asked.clone()));
        let (drive, panics) = (self.site.drive.clone(), self.tasks.panics());
        self.tasks.spawn(async move {
            drive.falls().await;
            panics.count("federation");
        });
    }

    /// What must be durable before anything is served: the life, the roster, the own site, the first key.
    async fn first_records(
        &self,
        directory: &Path,
        life: u64,
        access_key: Option<AccessKey>,
    ) -> Result<(), StartError> {
        let value = Some(Bytes::copy_from_slice(&life.to_be_bytes()));
        let mut facts = vec![Entry::Local { key: Bytes::from_static(LIFE), value }];
        let lives = lives::grown(&self.site.store.view(), self.site.system, self.site.stamps.origin, life);
        facts.push(lives.map_err(|error| unread(directory, &error))?);
        // A store that was in use knows better.
        let known = if life == 1 { init::take_roster(directory)? } else { Vec::new() };
        for record in known {
            match Record::admit(&record) {
                Ok(record) if record.bucket == self.site.system => {
                    facts.push(Entry::Record(Box::new(record)));
                }
                _ => tracing::warn!("a record of the inviting site's roster is not one"),
            }
        }
        // On a full disk as well: a site that does not start gives nothing back that could be deleted.
        let entries = facts.iter().map(|fact| entry(fact).freeing()).collect();
        self.site.commit(self.site.system, (), move |_| Ok(((), entries))).await?;
        SiteTrust::started(directory)?;
        refusal::unless_full("what this site says of itself", own_site::keep(&self.site).await)?;
        if self.trust.admin.is_some() {
            refusal::unless_full(
                "who decides about names",
                crate::paths::home::begin_register(&self.site).await,
            )?;
        }
        if let Some(key) = access_key {
            refusal::unless_full("the access key", crate::keys_admin::ensure_key(&self.site, &key).await)?;
        }
        Ok(())
    }

    async fn go(
        &self,
        members: &BTreeMap<BucketId, bool>,
        door: Door,
        workers: Workers,
        config: &Config,
    ) -> Result<(), StartError> {
        let site = &self.site;
        // Who watches tries again what found no room.
        refusal::unless_full(
            "what this site says of itself",
            roster_watch::refresh(site, self.trust.root).await,
        )?;
        for &bucket in members.keys() {
            site.drive.tell(Input::Join { bucket });
        }
        let answers = Arc::new(Answers { site: site.clone(), door });
        let (peers, drive, tasks) = (site.peers.clone(), site.drive.clone(), &self.tasks);
        let told = (tasks.clone(), site.changes.clone());
        tasks.spawn(outbox::follow(peers.clone(), site.boxes.clone(), drive.clone(), told));
        let serving = tasks.clone();
        tasks.keep("questions", move || {
            serve::accept(peers.clone(), drive.clone(), answers.clone(), serving.clone())
        });
        let (watched, root) = (site.clone(), self.trust.root);
        tasks.keep("roster", move || roster_watch::watch(watched.clone(), root));
        let fitted = Fitted::to(&self.rooms, Device::of(&Path::new(&config.node.dir).join(DATA)));
        workers::start(tasks, &workers, config.scrub.clone(), fitted.scrub);
        Ok(())
    }

    /// Ends every task and thread; what was acknowledged is durable already.
    pub async fn shutdown(self) {
        crate::uplink_admin::remember(&self.site).await;
        self.tasks.end().await;
        // Nothing is taken for others any more.
        others::remember(&self.site, true).await;
        self.site.peers.net().close().await;
        self.site.drive.stop();
        let (machine, committer) = (self.machine, self.committer);
        let ended = tokio::task::spawn_blocking(move || {
            if machine.join().is_err() {
                tracing::error!("the federation thread panicked");
            }
            drop(committer);
        });
        ended.await.ok();
    }
}

/// What of a site is opened or taken up again before there is one.
struct Parts {
    store: Arc<Store>,
    peers: Arc<Peers>,
    drive: Drive,
    book: Book,
    pins: Pins,
    following: Following,
    clones: Clones,
    nodes: Nodes,
    rooms: Rooms,
}

fn new_site(
    trust: &SiteTrust,
    config: &Config,
    remembered: &Remembered,
    parts: Parts,
) -> Result<Site, StartError> {
    let Parts { store, peers, drive, book, pins, following, clones, nodes, rooms } = parts;
    let clock = peers.clock();
    let system = system_bucket(&admission::federation_id(&trust.root));
    let incarnation = entropy::number().map_err(TrustError::from)?;
    let place = Path::new(&config.node.dir);
    let counted = OthersFile::remembered(&store.view());
    let unread = |why: String| storage(place, StorageError::Index(why));
    let counted = counted.map_err(|error| unread(error.to_string()))?;
    let told_gone = crate::gone::Told::resume(&store.view()).map_err(|error| unread(error.to_string()))?;
    let duties = Duties::new(trust.statement.site, &trust.statement.name);
    duties.set_gone(!told_gone.by().is_empty());
    let others = Others::resume(others_cap(config, &place.join(DATA)), counted);
    let origin = Origin { node: trust.identity.public().node(), incarnation };
    let anew = Beginning::resume(origin.node, &store.view(), &peers.kept_out);
    let anew = anew.map_err(|error| unread(error.to_string()))?;
    Ok(Site {
        store,
        peers,
        boxes: Arc::new(Outboxes::default()),
        nodes: Arc::new(nodes),
        place: PathBuf::from(&config.node.dir),
        drive,
        changes: Changes::new(system),
        clock,
        id: trust.statement.site,
        own: OwnSite::new(trust, advertised(config), config.site.area.clone()),
        first_name: trust.statement.name.clone(),
        scoped: config.s3.bucket_scope == BucketScope::Site,
        new_copies: config.bucket.copies,
        system,
        credentials: crate::credential_keys::Keys::new(CredentialRing::load(place, trust)?),
        links_by: clock.now().after(config.peer.start_wait.0),
        stamps: Arc::new(Stamps::resume(origin, clock, remembered.stamp)),
        directory: crate::paths::bucket::Directory::default(),
        quick: crate::quick::Quick::default(),
        incoming: crate::incoming::Incoming::new(rooms.incoming),
        outgoing: crate::bulk::Bulk::new(rooms.outgoing),
        arriving: crate::bulk::Bulk::new(rooms.arriving),
        holding: crate::bulk::Bulk::new(rooms.holding),
        bringing: crate::bulk::Bulk::new(rooms.holding / 2),
        staging: crate::bulk::Bulk::new(rooms.holding / 4),
        hands: crate::paths::hands::Hands::default(),
        claims: crate::paths::heard::Claims::default(),
        parts: crate::paths::taking::Parts::default(),
        writing: Arc::new(tokio::sync::Semaphore::new(machine::writes())),
        taken: Arc::new(tokio::sync::Semaphore::new(TAKEN_AT_ONCE)),
        takers: Places::of(TAKEN_AT_ONCE),
        lazy: config.storage.sync == crate::config::Sync::Os,
        md5: Arc::default(),
        copies: Arc::new(Copies::resume(trust.statement.site, book)),
        others: Arc::new(others),
        duties: Arc::new(duties),
        replacing: crate::replacing::Replacing::default(),
        anew,
        leaving: remembered.leaving.resume(),
        following,
        bodies: crate::paths::held::Bodies::default(),
        silences: crate::paths::acquaint::Silences::default(),
        pins,
        clones,
        told_gone,
        scrub: tokio::sync::Notify::new(),
        members: RwLock::new(remembered.members.clone()),
    })
}

/// A bucket, and who has nothing more of it for this site.
type CaughtUp = (BucketId, SiteId);

/// What the machine tells beside its effects, where it is sent and where it is heard.
type Told = (mpsc::Sender<CaughtUp>, mpsc::Sender<drive::Give>);
type Heard = (mpsc::Receiver<CaughtUp>, mpsc::Receiver<drive::Give>);

fn told() -> (Told, Heard) {
    let (caught_up, followed) = mpsc::channel(skerry_federation::limits::BUCKETS);
    let (gives, asked) = mpsc::channel(giving::WAITING);
    ((caught_up, gives), (followed, asked))
}

/// Starts the thread of the federation machine.
#[expect(
    clippy::disallowed_methods,
    reason = "the machine reads the disk: it gets the one thread of its own"
)]
fn start_machine(
    site: &Arc<Site>,
    inbox: drive::Inbox,
    (life, fresh): (u64, bool),
    liveness: Arc<Liveness>,
    (caught_up, gives): Told,
) -> Result<std::thread::JoinHandle<()>, StartError> {
    let seed = entropy::number().map_err(TrustError::from)?;
    let machine =
        Federation::new(Machine::new(site.id, life, seed).with_system(site.system).with_fresh(fresh));
    let live = Live {
        store: site.store.clone(),
        boxes: site.boxes.clone(),
        peers: site.peers.clone(),
        drive: site.drive.clone(),
        changes: site.changes.clone(),
        liveness,
        clock: site.clock,
        caught_up,
        gives,
        copies: site.copies.clone(),
    };
    let clock = site.clock;
    let replicas =
        StoreReplicas { store: site.store.clone(), stamps: site.stamps.clone(), site: Arc::downgrade(site) };
    let run = move || {
        // Of this thread alone. Refused or not: it is a wish.
        let _ = rustix::process::setpriority_process(None, BESIDE);
        drive::run(inbox, machine, clock, replicas, live);
    };
    let thread = std::thread::Builder::new().name("federation".into()).spawn(run);
    thread.map_err(|error| StartError::Thread(error.to_string()))
}

/// Before anything reads the store: what it says of others may rest on what the journal has lost.
async fn begin_anew(
    trust: &SiteTrust,
    config: &Config,
    store: &Arc<Store>,
    recovery: &Recovery,
) -> Result<(), StartError> {
    let system = system_bucket(&admission::federation_id(&trust.root));
    let (me, is_fellow) = (trust.statement.site, config.site.seats > 1);
    // Needed where records of sites were lost only.
    let roster = init::take_roster(Path::new(&config.node.dir)).unwrap_or_else(|error| {
        tracing::warn!(%error, "the roster beside the store does not read");
        Vec::new()
    });
    let is_emptied =
        recovery.index == IndexState::New && !SiteTrust::is_unstarted(Path::new(&config.node.dir));
    // What reads badly beside a journal that lost nothing is no loss.
    let view = match is_fellow && !recovery.lost.is_empty() {
        true => nodes::remembered(Path::new(&config.node.dir), config.site.seats, &store.view())
            .map_err(|error| NodesError(error.into()))?,
        false => None,
    };
    let start = anew::Start { system, me, is_fellow, is_emptied, roster, view };
    Ok(anew::begin(store, &recovery.lost, start).await?)
}

/// What is made of so much memory, or of what the machine has; says what suits the device that the site lies on, too.
fn divided(memory: Option<u64>, directory: &Path) -> Rooms {
    let given = |memory| Rooms::of(memory, machine::processors());
    let rooms = memory.map_or_else(Rooms::here, given);
    rooms.tell();
    Fitted::to(&rooms, Device::of(&directory.join(DATA))).tell();
    rooms
}

async fn open_store(
    directory: &Path,
    config: &Config,
    rooms: &Rooms,
    opening: &Opening,
) -> Result<(Arc<Store>, Recovery), StartError> {
    let data = directory.join(DATA);
    files::private_directory(&data)?;
    // Of a new store: what nobody can know, so that nobody can store bytes that pass for the store's own.
    let salt = entropy::bytes().map_err(TrustError::from)?;
    let watch = Some(opening.watch());
    let settings = skerry_storage::Settings { salt, watch, ..settings(config, &data, rooms) };
    let (path, lazy) = (data.clone(), settings.lazy);
    let open = move || {
        let disk = RealDisk::new(&path).map_err(|error| StorageError::Io {
            what: "open the directory".into(),
            error: error.to_string(),
        })?;
        Store::open(Arc::new(disk), Arc::new(SpaceReducer), settings)
    };
    let say = |words: String| tracing::info!("{words}");
    let opened = opening.told_until(opening::EVERY, say, tokio::task::spawn_blocking(open)).await;
    match opened {
        Ok(Ok((store, recovery))) => {
            tracing::info!(
                index = %recovery.index,
                replayed = recovery.replayed,
                torn = recovery.torn.as_ref().map(ToString::to_string),
                damaged_parts = recovery.damage.len(),
                chunks_dropped = recovery.chunks_dropped,
                chunks_rotten = recovery.rotten.len(),
                segments_unread = recovery.unread.len(),
                parts_strange = recovery.strange.len(),
                entries = recovery.lsn,
                "store opened"
            );
            if lazy {
                tracing::warn!("{LAZY}");
            }
            if recovery.index == IndexState::New && !SiteTrust::is_unstarted(directory) {
                tracing::error!(
                    data = %data.display(),
                    "this site was started before, and its store is empty: if a disk is not mounted there, stop this site and \
                     mount it; else what it had is fetched from the other sites, as far as they have it"
                );
            }
            Ok((store, recovery))
        }
        Ok(Err(error)) => Err(storage(&data, error)),
        Err(error) => Err(StartError::Task(error.to_string())),
    }
}

pub(crate) fn settings(config: &Config, data: &Path, rooms: &Rooms) -> skerry_storage::Settings {
    let (storage, fitted) = (&config.storage, Fitted::to(rooms, Device::of(data)));
    let capacity = (storage.capacity.0 > 0).then_some(storage.capacity.0);
    // A disk that does not say its size keeps no copies unless told to.
    let disk = disk_or_capacity(config, data).unwrap_or_default();
    let cache_bytes = storage.cache.of(disk, CACHE_PERCENT);
    let defaults = skerry_storage::Settings::default();
    let index = fitted.index_of(config);
    skerry_storage::Settings {
        engine: match storage.index {
            crate::config::Engine::Memory => skerry_storage::Engine::Memory,
            crate::config::Engine::Lsm => skerry_storage::Engine::Lsm,
        },
        journal_segment_bytes: storage.journal_segment.0,
        payload_segment_bytes: storage.payload_segment.0,
        cache_bytes,
        // A few in a small cache, so that the one being written is no large part of it.
        cache_segment_bytes: (cache_bytes / 16).clamp(CACHE_SEGMENT_LEAST, defaults.cache_segment_bytes),
        capacity_bytes: capacity,
        memtable_bytes: index - index / INDEX_BLOCKS,
        index_cache_bytes: index / INDEX_BLOCKS,
        packs_index: fitted.packs_index,
        dirty_bytes: fitted.dirty_of(config),
        // Of a second: the collector rests behind each.
        move_bytes: storage.pace.of(fitted.moving),
        lazy: storage.sync == crate::config::Sync::Os,
        ..defaults
    }
}

/// The size of the disk, or what may be used of it if that is less; none where neither is known.
fn disk_or_capacity(config: &Config, data: &Path) -> Option<u64> {
    let capacity = Some(config.storage.capacity.0).filter(|bytes| *bytes > 0);
    RealDisk::total_bytes(data).ok().into_iter().chain(capacity).min()
}

/// The cap on what is held for other sites; none: no cap, as no size is known of which it would be a part.
fn others_cap(config: &Config, data: &Path) -> Option<u64> {
    match config.storage.others {
        Cap::Bytes(size) => Some(size.0),
        cap => disk_or_capacity(config, data).map(|disk| cap.of(disk, OTHERS_PERCENT)),
    }
}

fn unread(directory: &Path, error: &space::SpaceError) -> StartError {
    storage(directory, StorageError::Index(error.to_string()))
}

fn storage(directory: &Path, error: StorageError) -> StartError {
    StartError::Storage { directory: directory.display().to_string(), error }
}

/// Where others can dial this site.
fn advertised(config: &Config) -> Vec<String> {
    if !config.peer.advertise.is_empty() {
        return config.peer.advertise.clone();
    }
    let listen = &config.peer.listen;
    let anywhere = ["0.0.0.0:", "[::]:"].iter().any(|any| listen.starts_with(any));
    if anywhere { Vec::new() } else { vec![listen.clone()] }
}
