//! Sites for tests: each with its own directory, all in one memory network.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use skerry_base::kv::View;
use skerry_base::{NodeId, SiteId, WallTime};
use skerry_federation::site_view::Seat;
use skerry_gateway::service::{
    BucketPatch, CreateBucket, DeleteObject, DeleteTarget, GetObject, HomeRequest, HomeState, ListQuery,
    Md5Batch, ObjectHeaders, Outcome, Principal, PutObject, PutOutcome, ReadConditions, ReadMode,
    RequestContext, Services, UploadBody, WriteCondition,
};
use skerry_model::{Entry, Record, bucket, space};
use skerry_storage::StorageError;
use tempfile::TempDir;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::{Cap, Config, Copies};
use crate::net::memory::{MemoryNet, MemoryWorld};
use crate::net::tcp::TcpNet;
use crate::server::{Core, Options, StartError};
use crate::site::{Site, entry, unreadable};
use crate::tasks::rest;
use crate::trust::access::AccessKey;
use crate::trust::founding::Founding;
use crate::trust::{Identity, PublicKey, SeatOffer, SiteStatement, SiteTrust, entropy};

/// The longest that anything here may take; reached only when something is broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// The access key of all tests.
pub(super) fn key() -> AccessKey {
    AccessKey { id: "SKTESTTESTTESTTESTTE".into(), secret: "secret".repeat(6) }
}

pub(super) fn context() -> RequestContext {
    RequestContext {
        principal: Principal { access_key: key().id, owner: "owner".into() },
        read: ReadMode::Local,
        scope: None,
    }
}

/// One site, running or not.
pub(super) struct TestSite {
    pub(super) directory: TempDir,
    pub(super) core: Option<Core>,
    trust: SiteTrust,
    net: Arc<MemoryWorld>,
    /// Over real sockets instead, on which others can carry links.
    over_tcp: bool,
    /// Whether it carries for others.
    pub(super) carries: bool,
    /// How many nodes its site has.
    seats: u32,
    /// At how many sites what is in buckets made here is to be: at one unless a test is about more, so that bytes can be counted.
    pub(super) new_copies: Copies,
    /// What it holds for other sites at most.
    pub(super) others: Cap,
}

impl TestSite {
    /// What was being read when the site was stopped ends first: until then the store is locked.
    pub(super) async fn start(&mut self) {
        let begin = async {
            while let Err(StartError::Storage { error: StorageError::Locked, .. }) = self.begin().await {
                rest(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, begin).await.is_ok(), "the store is still locked");
    }

    async fn begin(&mut self) -> Result<(), StartError> {
        let (mut config, mut options) = self.settings();
        config.peer.relay = self.carries;
        if self.over_tcp {
            let net = TcpNet::bind("127.0.0.1:0", &self.trust.identity).await.unwrap();
            config.peer.advertise = vec![net.address().to_string()];
            options.net = Some(net);
        }
        self.core = match Core::start(&config, options).await {
            Err(error @ StartError::Storage { error: StorageError::Locked, .. }) => return Err(error),
            started => Some(started.unwrap()),
        };
        Ok(())
    }

    /// What it is started with.
    pub(super) fn settings(&self) -> (Config, Options) {
        let mut config = Config::default();
        config.node.dir = self.directory.path().display().to_string();
        config.peer.listen = "127.0.0.1:1".into();
        config.site.seats = self.seats;
        config.bucket.copies = self.new_copies;
        config.storage.others = self.others;
        config.storage.journal_segment.0 = 4 << 20;
        config.storage.payload_segment.0 = 16 << 20;
        // Rounds begin when a test says so.
        config.scrub.period.0 = Duration::ZERO;
        // A cut is to be seen at once.
        config.peer.start_wait.0 = Duration::ZERO;
        let levels = std::env::var("TEST_LOG").unwrap_or_else(|_| "warn".into());
        crate::telemetry::log::start(&levels, crate::config::LogFormat::Text).ok();
        let net = self.net.node(self.trust.identity.public());
        config.s3.listen = "127.0.0.1:0".into();
        // Uploads take each other along, as in a build that is optimised.
        let md5 = Some(Md5Batch::with_company(usize::MAX));
        (config, Options { net: Some(net), access_key: Some(key()), md5, ..Options::default() })
    }

    pub(super) async fn stop(&mut self) {
        if let Some(core) = self.core.take() {
            core.shutdown().await;
        }
    }

    /// Flips bits on disk where these bytes lie. The site must not run, or not write there.
    pub(super) fn damage(&self, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let mut folders = vec![self.directory.path().join("data")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let content = std::fs::read(&path).unwrap();
                let at = content.windows(bytes.len()).position(|window| window == bytes);
                if let Some(at) = at {
                    let flipped: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
                    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                    file.write_all_at(&flipped, at as u64).unwrap();
                    return;
                }
            }
        }
        panic!("these bytes are nowhere on disk");
    }

    /// The same site once more, from a copy of its directory. Not started.
    pub(super) fn copy(&self) -> Self {
        let directory = TempDir::new().unwrap();
        copy_files(self.directory.path(), directory.path());
        let trust = SiteTrust::load(directory.path()).unwrap();
        let (net, over_tcp, carries) = (self.net.clone(), self.over_tcp, self.carries);
        Self {
            directory,
            core: None,
            trust,
            net,
            over_tcp,
            carries,
            seats: self.seats,
            new_copies: self.new_copies,
            others: self.others,
        }
    }

    pub(super) fn site(&self) -> &Arc<Site> {
        &self.core.as_ref().unwrap().site
    }

    pub(super) fn id(&self) -> SiteId {
        self.trust.statement.site
    }

    pub(super) fn key(&self) -> PublicKey {
        self.trust.identity.public()
    }

    pub(super) fn node(&self) -> NodeId {
        self.key().node()
    }

    /// The bare network of the site, which must not run, for a test that speaks in its place.
    pub(super) fn bare(&self) -> Arc<MemoryNet> {
        self.net.node(self.key())
    }

    /// Says that another site is so far away.
    pub(super) fn set_rtt(&self, other: &Self, rtt: Duration) {
        self.net.set_rtt(self.node(), other.node(), rtt);
    }

    /// Puts another site so far away.
    pub(super) fn set_delay(&self, other: &Self, rtt: Duration) {
        self.net.set_delay(self.node(), other.node(), rtt);
    }

    /// Lets the link to another site carry no more than so many bytes a second, each way.
    pub(super) fn set_rate(&self, other: &Self, rate: u64) {
        self.net.set_rate(self.node(), other.node(), rate);
    }

    /// The same of what this site says to it only.
    pub(super) fn set_rate_to(&self, other: &Self, rate: u64) {
        self.net.set_rate_from(self.node(), other.node(), rate);
    }

    /// Breaks the link to another site, which stands again at once.
    pub(super) fn sever(&self, other: &Self) {
        self.net.sever(self.node(), other.node());
    }

    /// Bytes that came from another site so far.
    pub(super) fn received_from(&self, other: &Self) -> u64 {
        let traffic = self.site().peers.net().traffic();
        traffic.iter().find(|traffic| traffic.node == other.node()).map_or(0, |traffic| traffic.received)
    }

    pub(super) fn services(&self) -> &Services {
        &self.core.as_ref().unwrap().services
    }

    /// Cuts the site off, or heals it; a cut is noticed when this returns.
    pub(super) async fn cut(&self, cut: bool) {
        self.site().peers.net().set_cut(cut);
        if cut {
            self.until("the links are gone", || async { self.site().boxes.linked().is_empty() }).await;
        }
    }

    /// Waits until something holds, looking again after every change of this site.
    pub(super) async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let mut changes = self.site().changes.follow();
        let wait = async {
            loop {
                changes.mark_unchanged();
                if holds().await {
                    return;
                }
                // What changes at another site is not told here: look again now and then as well.
                tokio::time::timeout(Duration::from_millis(20), changes.changed()).await.ok();
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            assert!(self.core.is_some(), "waited in vain until {what}");
            let site = self.site();
            let mut joins = Vec::new();
            for bucket in site.incomplete() {
                let members = site.drive.ask(move |machine, _| machine.members(bucket)).await;
                joins.push((bucket, members, site.leaving.waits(bucket)));
            }
            let (id, linked) = (self.id(), site.boxes.linked());
            panic!("waited in vain until {what}; at {id}, linked with {linked:?}, which joins {joins:?}");
        }
    }

    /// Waits until all that another site has of a bucket has come. That a key is read here says nothing of it: what is not here
    /// is asked for elsewhere.
    pub(super) async fn has_all_of(&self, other: &Self, bucket: &str) {
        let seen = async |site: &Self| {
            let id = site.site().bucket(bucket).await.unwrap()?.id;
            site.site().read(move |view| space::vector(view, id).map_err(unreadable)).await.ok()
        };
        let all = seen(other).await.unwrap();
        let is_here = || async { seen(self).await.is_some_and(|here| here.includes(&all)) };
        self.until("all of it has come", is_here).await;
    }

    pub(super) async fn create_bucket(&self, name: &str) -> Outcome<()> {
        let request = CreateBucket { name: name.into(), location: None };
        self.services().buckets.create(&context(), request).await.map(drop)
    }

    /// Gives a home away: on a busy machine its heir has all of the bucket a moment later than is waited for.
    pub(super) async fn gives_home(&self, bucket: &str, request: HomeRequest) -> HomeState {
        let admin = &self.services().admin;
        self.gives(|| admin.move_home(bucket, request.clone())).await
    }

    pub(super) async fn gives_register(&self, request: HomeRequest) {
        let admin = &self.services().admin;
        self.gives(|| admin.move_register(request.clone())).await;
    }

    async fn gives<F: Future<Output = Outcome<HomeState>>>(&self, ask: impl Fn() -> F) -> HomeState {
        let moved = OnceLock::new();
        self.until("it moves", || async { ask().await.is_ok_and(|state| moved.set(state).is_ok()) }).await;
        moved.into_inner().unwrap()
    }

    pub(super) async fn set_copies(&self, bucket: &str, copies: u32) -> Outcome<()> {
        let patch = BucketPatch { copies: Some(copies), ..BucketPatch::default() };
        self.services().admin.update_bucket(bucket, patch).await.map(drop)
    }

    pub(super) async fn put(&self, bucket: &str, key: &str, body: impl Into<Bytes>) -> Outcome<PutOutcome> {
        self.put_if(bucket, key, body, WriteCondition::default()).await
    }

    pub(super) async fn put_if(
        &self,
        bucket: &str,
        key: &str,
        body: impl Into<Bytes>,
        condition: WriteCondition,
    ) -> Outcome<PutOutcome> {
        self.services().objects.put(&context(), put_of(bucket, key, body, condition)).await
    }

    pub(super) async fn put_in(
        &self,
        context: &RequestContext,
        bucket: &str,
        key: &str,
        body: impl Into<Bytes>,
    ) -> Outcome<PutOutcome> {
        self.services().objects.put(context, put_of(bucket, key, body, WriteCondition::default())).await
    }

    pub(super) async fn get(&self, bucket: &str, key: &str) -> Outcome<Bytes> {
        self.get_with(bucket, key, None, &context()).await
    }

    pub(super) async fn get_with(
        &self,
        bucket: &str,
        key: &str,
        range: Option<skerry_gateway::service::ByteRange>,
        context: &RequestContext,
    ) -> Outcome<Bytes> {
        let request = GetObject {
            bucket: bucket.into(),
            key: key.into(),
            version: None,
            range,
            part: None,
            if_range: None,
            conditions: ReadConditions::default(),
        };
        let read = self.services().objects.get(context, request).await?;
        let mut stream = read.body.into_stream();
        let mut bytes = BytesMut::new();
        while let Some(next) = stream.next().await {
            bytes.extend_from_slice(&next?);
        }
        Ok(bytes.freeze())
    }

    pub(super) async fn delete(&self, bucket: &str, key: &str) -> Outcome<()> {
        let target = DeleteTarget { key: key.into(), version: None, condition: WriteCondition::default() };
        let request = DeleteObject { bucket: bucket.into(), target };
        self.services().objects.delete(&context(), request).await.map(drop)
    }

    pub(super) async fn list(&self, bucket: &str) -> Outcome<Vec<String>> {
        self.list_prefix(bucket, "").await
    }

    /// The keys of a page below a prefix.
    pub(super) async fn list_prefix(&self, bucket: &str, prefix: &str) -> Outcome<Vec<String>> {
        let query =
            ListQuery { bucket: bucket.into(), prefix: prefix.into(), limit: 1000, ..ListQuery::default() };
        let page = self.services().objects.list(&context(), query).await?;
        Ok(page.entries.iter().map(|entry| entry.name().to_owned()).collect())
    }

    /// Payload bytes that this site received from others so far.
    pub(super) fn payload_received(&self) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.core.as_ref().unwrap().registry).unwrap();
        let wanted = |line: &&str| {
            line.starts_with("skerry_wan_bytes_total")
                && line.contains("direction=\"received\"")
                && line.contains("kind=\"payload\"")
        };
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        text.lines().filter(wanted).map(value).sum()
    }
}

/// Sites of one federation that know each other.
pub(super) struct TestWorld {
    pub(super) sites: Vec<TestSite>,
}

impl TestWorld {
    /// `count` running sites.
    pub(super) async fn new(count: usize) -> Self {
        Self::founded(count, false).await
    }

    /// The same over sockets on loopback.
    pub(super) async fn over_tcp(count: usize) -> Self {
        Self::founded(count, true).await
    }

    async fn founded(count: usize, over_tcp: bool) -> Self {
        let founding = Founding::new("site-1", WallTime(1)).unwrap();
        let mut trusts = Vec::new();
        for number in 2..=count {
            trusts.push(admit(&founding.first, &format!("site-{number}")));
        }
        trusts.insert(0, founding.first);
        Self::with(trusts, (0, 1), over_tcp).await
    }

    /// One site of `count` running nodes, and so many other sites.
    pub(super) async fn of_nodes(count: usize, others: usize) -> Self {
        let founding = Founding::new("site-1", WallTime(1)).unwrap();
        let mut trusts = Vec::new();
        for number in 1..count {
            let mut node = admit(&founding.first, &format!("site-1-{number}"));
            let seat = Seat::new(number).unwrap();
            let offer = SeatOffer { site: founding.first.statement.site, seat, turn: 0 };
            node.seat = Some(founding.first.admin.as_ref().unwrap().seat(offer, &node.statement));
            trusts.push(node);
        }
        for number in 0..others {
            trusts.push(admit(&founding.first, &format!("site-{}", number + 2)));
        }
        trusts.insert(0, founding.first);
        Self::with(trusts, (count, count as u32), false).await
    }

    /// The first of them are nodes of a site of so many seats.
    async fn with(trusts: Vec<SiteTrust>, (nodes, seats): (usize, u32), over_tcp: bool) -> Self {
        let net = MemoryWorld::new();
        let mut sites = Vec::new();
        for (number, trust) in trusts.into_iter().enumerate() {
            let seats = if number < nodes { seats } else { 1 };
            let directory = TempDir::new().unwrap();
            trust.store(directory.path()).unwrap();
            let (net, carries) = (net.clone(), true);
            let new_copies = Copies::Number(1);
            let (core, others) = (None, Cap::Auto);
            let mut site =
                TestSite { directory, core, trust, net, over_tcp, carries, seats, new_copies, others };
            site.start().await;
            sites.push(site);
        }
        let world = Self { sites };
        world.introduce().await;
        world
    }

    /// Tells every site of every other, as joining by token does.
    pub(super) async fn introduce(&self) {
        self.acquaint().await;
        for site in &self.sites {
            self.linked(site).await;
            let system = site.site().system;
            let register = move |view: &dyn View| bucket::register(view, system).map_err(unreadable);
            site.until("the register of names is known", || async {
                site.site().read(register).await.unwrap().is_some()
            })
            .await;
        }
    }

    /// Gives each site the records of all: where they are.
    pub(super) async fn acquaint(&self) {
        let mut records: Vec<Record> = Vec::new();
        for site in &self.sites {
            let (system, key) = (site.site().system, format!("site/{}", site.id()));
            let read = move |view: &dyn skerry_base::kv::View| {
                space::current(view, system, &key).map_err(unreadable)
            };
            records.push(site.site().read(read).await.unwrap().unwrap());
        }
        for site in &self.sites {
            let entries: Vec<_> =
                records.iter().map(|record| entry(&Entry::Record(Box::new(record.clone())))).collect();
            site.site().commit(site.site().system, (), move |_| Ok(((), entries))).await.unwrap();
        }
    }

    /// Waits until these two have a link.
    pub(super) async fn until_linked(&self, one: &TestSite, other: &TestSite) {
        for (from, to) in [(one, other), (other, one)] {
            from.until("they are linked", || async { from.site().linked(to.id()) }).await;
        }
    }

    /// Waits until a site has links to all others, and they to it: either end may be told first.
    pub(super) async fn linked(&self, site: &TestSite) {
        let wanted = self.sites.iter().filter(|other| other.core.is_some()).count() - 1;
        site.until("all links stand", || async { site.site().boxes.linked().len() == wanted }).await;
        for other in self.sites.iter().filter(|other| other.core.is_some() && other.id() != site.id()) {
            other.until("its end stands", || async { other.site().linked(site.id()) }).await;
        }
    }

    /// Waits until every site has seen the same of a bucket, and all of it.
    pub(super) async fn converged(&self, bucket: &str) {
        let mut vectors = Vec::new();
        for site in &self.sites {
            site.until("the bucket is known", || async {
                site.site().bucket(bucket).await.unwrap().is_some()
            })
            .await;
        }
        let id = self.sites[0].site().bucket(bucket).await.unwrap().unwrap().id;
        let vector = |site: &TestSite| {
            let site = site.site().clone();
            async move { site.read(move |view| space::vector(view, id).map_err(unreadable)).await.unwrap() }
        };
        let wait = async {
            loop {
                vectors.clear();
                for site in &self.sites {
                    vectors.push(vector(site).await);
                }
                if vectors.windows(2).all(|pair| pair[0] == pair[1]) {
                    return;
                }
                let mut changes = self.sites[0].site().changes.follow();
                tokio::time::timeout(Duration::from_millis(20), changes.changed()).await.ok();
            }
        };
        let done = tokio::time::timeout(PATIENCE, wait).await;
        assert!(done.is_ok(), "sites did not converge on {bucket}");
    }

    pub(super) async fn stop(mut self) {
        for site in &mut self.sites {
            site.stop().await;
        }
    }
}

pub(super) fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&copy).unwrap();
            std::fs::set_permissions(&copy, std::fs::metadata(&path).unwrap().permissions()).unwrap();
            copy_files(&path, &copy);
        } else {
            std::fs::copy(&path, &copy).unwrap();
        }
    }
}

fn admit(first: &SiteTrust, name: &str) -> SiteTrust {
    let identity = Identity::generate().unwrap();
    let statement = SiteStatement {
        federation: first.statement.federation,
        site: SiteId(entropy::bytes().unwrap()),
        name: name.into(),
        node: identity.public(),
        admitted: WallTime(1),
    };
    let admission = first.admin.as_ref().unwrap().admit(&statement);
    SiteTrust {
        identity,
        root: first.root,
        admission,
        statement,
        credentials: first.credentials.clone(),
        admin: None,
        seat: None,
    }
}

pub(super) fn put_of(
    bucket: &str,
    key: &str,
    body: impl Into<Bytes>,
    condition: WriteCondition,
) -> PutObject {
    PutObject {
        bucket: bucket.into(),
        key: key.into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        condition,
        body: UploadBody::of(body),
    }
}

/// Bytes that differ everywhere.
pub(super) fn noise(length: usize, seed: u64) -> Bytes {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut bytes = vec![0; length];
    hasher.finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// Asks over HTTP, on a connection of its own.
pub(super) async fn asked(address: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}
