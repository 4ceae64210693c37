//! A site with its HTTP faces: listeners, TLS files, the admin token.
//!
//! Before: the command line with a configuration. After: `server.rs` for the site, the gateway for HTTP.
//! Invariants: plain HTTP leaves the machine only when the configuration says so; the admin token lies in a
//! file of mode 0600 and is made once.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use skerry_gateway::admin::Administration;
use skerry_gateway::http::{self, Doors, Faces, Limits, Tls};
use skerry_gateway::s3::{ClockReading, ClockRule, Documents, Front, Settings};
use skerry_gateway::service::Bound;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::clock::Watched;
use crate::config::{Clock as ClockSetting, Config};
use crate::machine;
use crate::opening::Opening;
use crate::rooms::Rooms;
use crate::server::{Core, Options, StartError};
use crate::trust::{TrustError, access, files};

/// How often the certificate files are looked at.
const CERTIFICATES: Duration = Duration::from_secs(10);

/// An opening that takes longer is told to who asks.
const SLOW: Duration = Duration::from_secs(2);
/// Connections at once while a store is being opened, on the smallest machine.
const WAITERS: usize = 32;

/// The shortest admin token: who may guess it at the S3 port of a site does not come to an end with it.
const TOKEN_LETTERS: usize = 16;

/// Where a running site is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// S3, and administration unless it has its own.
    pub s3: SocketAddr,
    /// Administration, when it listens elsewhere.
    pub admin: Option<SocketAddr>,
    /// Whether S3 speaks TLS.
    pub tls: bool,
}

/// A site that serves.
pub struct Running {
    /// Where.
    pub endpoints: Endpoints,
    core: Core,
    faces: TaskTracker,
    stop: CancellationToken,
}

fn http_error(error: impl ToString) -> StartError {
    StartError::Http(error.to_string())
}

impl Running {
    /// Starts the site in `config.node.dir`. Call within a tokio runtime.
    pub async fn start(config: &Config, options: Options) -> Result<Self, StartError> {
        // Ports first: a busy one is the most likely reason not to start, and nothing has happened yet.
        let s3 = listen("s3.listen", &config.s3.listen).await?;
        let admin = match config.admin.listen.as_str() {
            "" => None,
            address => Some(listen("admin.listen", address).await?),
        };
        let certificates = Certificates::of(config);
        let tls = certificates.as_ref().map(Certificates::load).transpose()?;
        let address = s3.local_addr().map_err(http_error)?;
        http::check_plain(address, tls.is_some(), config.s3.insecure).map_err(http_error)?;
        let admin_address = admin.as_ref().map(TcpListener::local_addr).transpose().map_err(http_error)?;
        // With the site's certificate, as the S3 face: what comes here is the token that may do everything.
        if let Some(address) = admin_address {
            http::check_plain(address, tls.is_some(), config.s3.insecure).map_err(http_error)?;
        }
        // What may not be read is said before anything is opened, and before a word is said to others.
        let token = admin_token(config)?;
        let waiting = Waiting { opening: options.opening.clone(), tls: tls.clone() };
        let waits = [Some(&s3), admin.as_ref()].into_iter().flatten().map(|at| waiting.stand_in(at, SLOW));
        let waits = waits.collect::<Result<Vec<StandIn>, _>>().map_err(http_error)?;
        let mut core = Core::start(config, options).await?;
        for wait in waits {
            wait.end().await;
        }
        let token = token.map_or_else(|| new_admin_token(config), Ok)?;
        let telemetry = skerry_gateway::telemetry::Telemetry::register(&mut core.registry);
        let registry = Arc::new(Mutex::new(std::mem::take(&mut core.registry)));
        let administration = Administration::new(core.services.admin.clone(), registry, &token);
        let front = Front::new(core.services.clone(), settings(config, &core));
        let (faces, stop) = (TaskTracker::new(), CancellationToken::new());
        let limits = limits(config, &core.rooms);
        let (with_s3, alone) = match admin {
            None => (Some(administration), None),
            Some(listener) => (None, Some((listener, administration))),
        };
        let serve = |listener, face: Faces, is_s3| {
            let (face, doors, stop) = (Arc::new(face), Doors::from(limits), stop.clone());
            core.bounds.ask(bounds_of(&face, doors.clone(), is_s3));
            let stopped = async move { stop.cancelled().await };
            faces.spawn(http::serve(listener, tls.clone(), face, doors, stopped));
        };
        if let Some((listener, administration)) = alone {
            serve(listener, Faces::new(None, Some(administration), telemetry.clone()), false);
        }
        serve(s3, Faces::new(Some(front), with_s3, telemetry), true);
        if let Some((certificates, tls)) = certificates.zip(tls.clone()) {
            faces.spawn(certificates.watch(tls, stop.clone()));
        }
        let endpoints = Endpoints { s3: address, admin: admin_address, tls: tls.is_some() };
        tell_files(limits.connections, core.site.peers.roster.count());
        let scheme = if endpoints.tls { "https" } else { "http" };
        let admin = endpoints.admin.map(|admin| format!("{scheme}://{admin}"));
        let peer = config.peer.listen.as_str();
        tracing::info!(
            site = core.site.called(),
            s3 = format!("{scheme}://{}", endpoints.s3),
            admin,
            peer,
            "serving"
        );
        Ok(Self { endpoints, core, faces, stop })
    }

    /// The site behind the faces.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Waits until the site has to be started anew, and says why; for ever while nothing is wrong.
    pub async fn fell(&self) -> String {
        self.core.fell().await
    }

    /// Waits until the process is to be started anew to go on well; for ever while that is not so.
    pub async fn begins_anew(&self) {
        self.core.begins_anew().await;
    }

    /// Lets the requests under way end, then ends everything else.
    pub async fn shutdown(self) {
        tracing::info!("stopping: requests under way are let end");
        self.stop.cancel();
        self.faces.close();
        self.faces.wait().await;
        self.core.shutdown().await;
        tracing::info!("stopped");
    }
}

/// What of a face is bounded. One for administration alone has connections of its own, and nothing else that fills.
fn bounds_of(
    face: &Arc<Faces>,
    doors: Doors,
    is_s3: bool,
) -> impl Fn() -> Vec<Bound> + Send + Sync + 'static {
    // What tells of the face hangs on it.
    let face = Arc::downgrade(face);
    move || {
        if !is_s3 {
            return vec![doors.connections().called("admin_connections")];
        }
        let of_face = face.upgrade().map(|face| face.bounds()).unwrap_or_default();
        [doors.connections()].into_iter().chain(doors.beyond()).chain(of_face).collect()
    }
}

/// Who asks while the store is being opened is told so.
struct Waiting {
    opening: Opening,
    tls: Option<Tls>,
}

impl Waiting {
    /// Answers at this address, after so long, until what is given back is dropped: whoever came before a start that is quick is
    /// served by the site. The socket is the same, so that nobody is turned away between this and the faces.
    fn stand_in(&self, listener: &TcpListener, after: Duration) -> std::io::Result<StandIn> {
        let copy = std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?);
        let (opening, tls, stop) = (self.opening.clone(), self.tls.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let (left, leaves) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _left = left;
            if tokio::time::timeout(after, stopped.cancelled()).await.is_ok() {
                return;
            }
            let listener = match TcpListener::from_std(copy) {
                Ok(listener) => listener,
                Err(error) => {
                    return tracing::warn!(%error, "clients wait until the store is open, and are not told");
                }
            };
            let told = http::Opening::new(move || opening.told());
            let unheard = skerry_gateway::telemetry::Telemetry::register(&mut Registry::default());
            let faces = Arc::new(Faces::opening(told, unheard));
            http::serve(listener, tls, faces, waiting_limits(), stopped.cancelled()).await;
        });
        Ok(StandIn { _stop: stop.drop_guard(), leaves })
    }
}

/// Who answers while the store is being opened; no more once this is dropped.
struct StandIn {
    _stop: DropGuard,
    leaves: oneshot::Receiver<()>,
}

impl StandIn {
    /// Returns when it takes no more connections and has answered those that it took.
    async fn end(self) {
        drop(self._stop);
        // An error is the word: it goes without one.
        self.leaves.await.ok();
    }
}

/// Answers of a few bytes, which nobody needs to keep a connection for.
fn waiting_limits() -> Limits {
    let short = Duration::from_secs(5);
    Limits {
        connections: WAITERS,
        head_time: short,
        idle_time: short,
        shutdown_time: short,
        ..Limits::default()
    }
}

/// Files that the store has open, and what is beside it.
const OTHER_FILES: u64 = 256;

/// Says so if there are not as many open files as there may be connections and links.
fn tell_files(connections: usize, sites: usize) {
    let (most, wanted) = (machine::open_files(), (connections + sites) as u64 + OTHER_FILES);
    if most < wanted {
        tracing::warn!(
            most,
            wanted,
            "this process may have fewer files open than it has connections and links to serve: raise the hard limit \
             (LimitNOFILE, ulimit -Hn), or lower limits.connections"
        );
    }
}

async fn listen(setting: &'static str, address: &str) -> Result<TcpListener, StartError> {
    let failed = |reason: String, in_use| StartError::Listen { setting, reason, in_use };
    let mut resolved = tokio::net::lookup_host(address)
        .await
        .map_err(|error| failed(format!("{address} is no address to listen on: {error}"), false))?;
    let first = resolved.next().ok_or_else(|| failed(format!("{address} names no address"), false))?;
    http::bind(first).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            failed(format!("{error}; another site or a demo may be running there"), true)
        }
        _ => failed(error.to_string(), false),
    })
}

fn settings(config: &Config, core: &Core) -> Settings {
    let clock = Watched::new(core.site.clock);
    let reading = move || {
        let (now, trusted) = clock.read();
        ClockReading { now, trusted }
    };
    Settings {
        domains: config.s3.domains.clone(),
        region: Some(config.s3.region.clone()).filter(|region| !region.is_empty()),
        clock_rule: match config.auth.clock {
            ClockSetting::Island => ClockRule::Island,
            ClockSetting::Strict => ClockRule::Strict,
        },
        clock: Arc::new(reading),
        host_id: core.site.called(),
        documents: Documents::new(core.rooms.documents),
    }
}

fn limits(config: &Config, rooms: &Rooms) -> Limits {
    Limits {
        connections: (config.limits.connections as usize).min(rooms.connections),
        head_time: config.limits.header_timeout.0,
        stall_time: config.limits.body_timeout.0,
        streams: rooms.streams,
        windows: rooms.windows,
        beside: rooms.beside,
        shutdown_time: config.limits.drain.0,
        ..Limits::default()
    }
}

/// The admin token; none before the first start. One that keeps nobody out is refused; a short one, which a release before took,
/// is told.
fn admin_token(config: &Config) -> Result<Option<String>, StartError> {
    let path = Path::new(&config.node.dir).join(&config.admin.token_file);
    if !files::exists(&path)? {
        return Ok(None);
    }
    let token = files::read_secret(&path)?.trim().to_owned();
    let path = path.display();
    if token.is_empty() {
        let reason = "is empty: anybody could run this site; remove the file and a token is made".into();
        return Err(TrustError::File { path: path.to_string(), reason }.into());
    }
    if token.len() < TOKEN_LETTERS {
        tracing::error!(
            %path,
            letters = token.len(),
            "the admin token can be guessed: one of your own should have {TOKEN_LETTERS} letters; remove the file and one is made"
        );
    }
    Ok(Some(token))
}

/// Makes the admin token.
fn new_admin_token(config: &Config) -> Result<String, StartError> {
    let path = Path::new(&config.node.dir).join(&config.admin.token_file);
    let token = access::admin_token().map_err(TrustError::from)?;
    files::write_secret(&path, &format!("{token}\n"))?;
    Ok(token)
}

/// The files of the certificate and its key.
struct Certificates {
    chain: PathBuf,
    key: PathBuf,
}

impl Certificates {
    fn of(config: &Config) -> Option<Self> {
        let tls = &config.tls;
        let given = !tls.certificate.is_empty();
        given.then(|| Self { chain: PathBuf::from(&tls.certificate), key: PathBuf::from(&tls.key) })
    }

    fn read(&self) -> Result<(String, String), TrustError> {
        Ok((files::read_text(&self.chain)?, files::read_text(&self.key)?))
    }

    fn load(&self) -> Result<Tls, StartError> {
        let unusable = |error: String| StartError::Certificate(error);
        let (chain, key) = self.read().map_err(|error| unusable(error.to_string()))?;
        Tls::from_pem(chain.as_bytes(), key.as_bytes()).map_err(|error| unusable(error.to_string()))
    }

    /// Serves new files when they come; a bad pair is said and the old one stays.
    async fn watch(self, tls: Tls, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(CERTIFICATES);
        let this = Arc::new(self);
        let mut last = this.read().ok();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let reader = this.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || reader.read().ok()).await else { return };
            if now == last {
                continue;
            }
            if let Some((chain, key)) = &now {
                match tls.replace(chain.as_bytes(), key.as_bytes()) {
                    Ok(()) => tracing::info!("a new certificate is served"),
                    Err(error) => {
                        tracing::error!(%error, "the new certificate is not served, the old one is")
                    }
                }
            }
            last = now;
        }
    }
}
