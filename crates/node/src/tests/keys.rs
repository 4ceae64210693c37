//! Keys that a site is started with, and the key of a node that joins.

use std::path::Path;
use std::sync::Arc;

use skerry_base::WallTime;
use skerry_gateway::service::{ErrorKind, Principal, ReplaceRequest, RequestContext};
use skerry_model::bucket::{KeyDocument, NodeEntry, SiteDocument, SiteState};

use super::world::{TestWorld, context, key};
use crate::faces::Running;
use crate::init;
use crate::net::tcp::TcpNet;
use crate::net::{Net, Peer};
use crate::server::{Core, StartError};
use crate::trust::access::AccessKey;
use crate::trust::founding::Founding;
use crate::trust::invite::{InviteBook, Invited};
use crate::trust::{JoinToken, SiteTrust, TrustError, files, join};

/// What a composition makes of variables that are not set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_does_not_start_with_a_key_that_says_nothing() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].stop().await;
    for (id, secret) in [("", ""), (key().id.as_str(), ""), (" ", "secretsecret"), ("SKNEW", "short")] {
        // What did not start may hold its store for a moment.
        let other = world.sites[0].copy();
        let (config, mut options) = other.settings();
        options.access_key = Some(AccessKey { id: id.into(), secret: secret.into() });
        let refused = Core::start(&config, options).await.err();
        let Some(StartError::Service(refused)) = refused else { panic!("{id:?} {secret:?}: {refused:?}") };
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    world.stop().await;
}

/// A site of a release before may have made such a record, and all sites have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_a_key_that_says_nothing_opens_to_nobody() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    for (id, secret) in [("", ""), ("SKNOTHING", ""), ("", "secretsecret")] {
        let empty = AccessKey { id: id.into(), secret: secret.into() };
        crate::keys_admin::make_key(site.site(), &empty, "owner", "", true).await.unwrap();
        let refused = site.services().credentials.credential(id).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidAccessKeyId, "{id:?} {secret:?}");
    }
    assert!(site.services().credentials.credential(&key().id).await.is_ok());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_disabled_stays_so_when_the_site_is_started_with_it() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].services().credentials.credential(&key().id).await.unwrap();
    world.sites[0].services().admin.disable_key(&key().id).await.unwrap();
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let refused = world.sites[0].services().credentials.credential(&key().id).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidAccessKeyId, "{refused}");
    world.stop().await;
}

/// What a key does not open is not its business, and what it opens of others is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_limited_to_some_buckets_lists_these() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    for name in ["films", "photos"] {
        site.create_bucket(name).await.unwrap();
    }
    let given = AccessKey { id: "SKLIMITED".into(), secret: "secretsecret".into() };
    let document = crate::keys_admin::make_key(site.site(), &given, "ann", "", false).await.unwrap();
    let asks = RequestContext {
        principal: Principal { access_key: given.id.clone(), owner: "ann".into() },
        ..context()
    };
    let listed = async || {
        let buckets = site.services().buckets.list(&asks).await.unwrap();
        buckets.into_iter().map(|bucket| bucket.name).collect::<Vec<_>>()
    };
    assert!(listed().await.is_empty(), "none is its own");
    let limited = KeyDocument { buckets: Some(vec!["none".into(), "photos".into()]), ..document };
    crate::keys_admin::put_key(site.site(), &given.id, limited).await.unwrap();
    assert_eq!(listed().await, ["photos"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_token_that_keeps_nobody_out_keeps_the_site_from_starting() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].stop().await;
    let token = world.sites[0].directory.path().join("admin.token");
    for text in ["\n", "", " \n"] {
        files::write_secret(&token, text).unwrap();
        let (config, options) = world.sites[0].settings();
        let Err(StartError::Trust(TrustError::File { path, reason })) =
            Running::start(&config, options).await
        else {
            panic!("{text:?}: it started")
        };
        assert!(path.ends_with("admin.token") && reason.contains("remove the file"), "{path}: {reason}");
    }
    // What a release before took for good keeps no site from starting after an update.
    files::write_secret(&token, "short\n").unwrap();
    world.sites[0].start().await;
    world.stop().await;
}

/// A site that lets others in, over TCP.
struct Host {
    net: Arc<TcpNet>,
    trust: SiteTrust,
    book: InviteBook,
}

impl Host {
    async fn new(directory: &Path) -> Self {
        let trust = Founding::new("north", WallTime(0)).unwrap().first;
        let book = InviteBook::open(&directory.join("invites.json")).unwrap();
        let net = TcpNet::bind("127.0.0.1:0", &trust.identity).await.unwrap();
        Self { net, trust, book }
    }

    fn token(&self, name: &str) -> JoinToken {
        let (invited, hour) = (Invited { name, seat: None }, std::time::Duration::from_secs(3600));
        let addresses = vec![self.net.address().to_string()];
        self.book.invite(&self.trust, invited, addresses, hour, WallTime(0)).unwrap().token
    }

    /// Serves one that asks; the answer is lost or not.
    async fn serve(&self, is_lost: bool) {
        let Some((Peer::Stranger(key), stream)) = self.net.accept().await else { panic!("no stranger") };
        let taken = |_: &str| false;
        let admitted = join::receive(stream, key, &self.trust, (&self.book, &taken), WallTime(1)).await;
        match admitted {
            Ok(admitted) if !is_lost => admitted.welcome(Vec::new()).await.unwrap(),
            other => drop(other),
        }
    }
}

/// The token is used up at the one end before the other knows it: the same again is let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_answer_was_lost_is_repeated_with_the_same_token() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(directory.path()).await;
    let (token, site) = (host.token("south"), directory.path().join("south"));
    let (_, lost) = tokio::join!(host.serve(true), init::join(&site, &token, Vec::new()));
    assert!(lost.is_err() && !SiteTrust::exists(&site).unwrap());
    let (_, joined) = tokio::join!(host.serve(false), init::join(&site, &token, Vec::new()));
    let joined = joined.unwrap().statement;
    assert_eq!(SiteTrust::load(&site).unwrap().statement, joined);
    assert!(!site.join("joining.key").exists());
    // Another token is another site: two of one key would be each other.
    let (first, second) = (host.token("west"), host.token("east"));
    let site = directory.path().join("west");
    let (_, lost) = tokio::join!(host.serve(true), init::join(&site, &first, Vec::new()));
    assert!(lost.is_err());
    let kept = files::read_secret(&site.join("joining.key")).unwrap();
    let (_, joined) = tokio::join!(host.serve(false), init::join(&site, &second, Vec::new()));
    joined.unwrap();
    assert!(!kept.contains(&files::read_secret(&site.join("node.key")).unwrap()));
}

/// What cannot be kept is said before anybody is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_cannot_be_kept_uses_no_token_up() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(directory.path()).await;
    let (token, block) = (host.token("south"), directory.path().join("block"));
    files::write_text(&block, "a file").unwrap();
    assert!(init::join(&block.join("south"), &token, Vec::new()).await.is_err());
    let site = directory.path().join("south");
    let (_, joined) = tokio::join!(host.serve(false), init::join(&site, &token, Vec::new()));
    joined.unwrap();
}

/// Two admin keys, or a release before: what has two is not guessed at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_sites_of_one_name_none_is_taken_by_chance() {
    let world = TestWorld::new(3).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        let admin = &one.services().admin;
        let name = admin.site(&two.id().to_string()).await.unwrap().name;
        let trust = SiteTrust::load(three.directory.path()).unwrap();
        let (statement, signer) = (trust.statement.clone(), SiteTrust::load(one.directory.path()).unwrap());
        let twin =
            crate::trust::SiteStatement { name: name.clone(), admitted: WallTime(u64::MAX / 2), ..statement };
        let admission = signer.admin.unwrap().admit(&twin).encode();
        let document = SiteDocument {
            name: name.clone(),
            nodes: vec![NodeEntry { node: twin.node(), key: twin.node.0, addresses: Vec::new() }],
            admissions: vec![admission.into()],
            state: SiteState::Member,
            joined: twin.admitted,
        };
        crate::welcome::declare(one.site(), "", three.id(), document).await.unwrap();
        let both = || async {
            let sites = admin.sites().await.unwrap().sites;
            sites.iter().filter(|site| site.name == name).count() == 2
        };
        one.until("two sites have one name", both).await;
        let named =
            || async { one.site().peers.roster.all().values().filter(|site| site.name == name).count() == 2 };
        one.until("the roster says so", named).await;
        let replace = ReplaceRequest { by: one.id().to_string(), ..ReplaceRequest::default() };
        let refused = [
            admin.site(&name).await.err(),
            admin.expel(&name, Default::default()).await.err(),
            admin.replace(&name, replace).await.err(),
            admin.loss(&name).await.err(),
        ];
        for refused in refused {
            let message = refused.unwrap().message().to_owned();
            for id in [two.id(), three.id()] {
                assert!(message.contains(&id.to_string()), "{message}");
            }
        }
        assert_eq!(admin.site(&three.id().to_string()).await.unwrap().site, three.id().to_string());
    }
    world.stop().await;
}
