//! One site alone.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use skerry_base::BucketId;
use skerry_gateway::conformance::{Credentials, run_all};
use skerry_gateway::service::{ByteRange, ErrorKind, WriteCondition};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use skerry_model::write::Ask;

use super::world::{TestWorld, asked, context, key, noise};
use crate::paths::bucket::Bucket;
use crate::paths::scope;
use crate::paths::write::{self, Asked};
use crate::server::Running;
use crate::site::MEMBERSHIPS;
use crate::trust::{ca, files};

/// Who found the bucket before it was deleted is told that it is gone, and does not bring it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_began_before_its_bucket_was_deleted_is_not_written() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("photos").await.unwrap();
    let found = site.site().bucket("photos").await.unwrap().unwrap();
    let put = |bucket: &Bucket| {
        let asked = Asked {
            bucket: bucket.clone(),
            key: "k".into(),
            condition: WriteCondition::default(),
            ask: Ask::Put(Box::default()),
            writer: "writer".into(),
            scope: scope::of_bucket(bucket),
            small: None,
            pins: Vec::new(),
            with: Vec::new(),
            upload: None,
        };
        write::replace(site.site(), asked, Vec::new())
    };
    site.services().buckets.delete(&context(), "photos").await.unwrap();
    assert_eq!(put(&found).await.err().unwrap().kind(), ErrorKind::NoSuchBucket);
    assert!(site.site().bucket("photos").await.unwrap().is_none(), "it is gone");
    site.create_bucket("photos").await.unwrap();
    put(&site.site().bucket("photos").await.unwrap().unwrap()).await.unwrap();
    // One that is not empty stays, and is written to.
    assert!(site.services().buckets.delete(&context(), "photos").await.is_err());
    put(&site.site().bucket("photos").await.unwrap().unwrap()).await.unwrap();
    world.stop().await;
}

/// Wherever a client hangs up: what is on disk of a bucket is known in memory, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_whose_client_hung_up_is_made_whole_or_not_at_all() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    let mut made = 0;
    for polls in 0..8 {
        let name = format!("bucket-{polls}");
        {
            let mut create = std::pin::pin!(site.create_bucket(&name));
            for _ in 0..polls {
                if futures::poll!(&mut create).is_ready() {
                    break;
                }
            }
            // On a busy machine all the others are given up before they begin.
            if polls == 7 {
                create.await.ok();
            }
        }
        site.site().settle().await.unwrap();
        if let Some(bucket) = site.site().bucket(&name).await.unwrap() {
            made += 1;
            site.until("the bucket is followed", || async { site.site().is_complete(bucket.id) }).await;
        }
    }
    assert!(made > 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_all_sizes_come_back_whole_and_in_ranges() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("photos").await.unwrap();
    let sizes = [0, 1, 300, 32 << 10, (32 << 10) + 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 17, 9 << 20];
    for (n, size) in sizes.into_iter().enumerate() {
        let (key, body) = (format!("{n}"), noise(size, n as u64));
        site.put("photos", &key, body.clone()).await.unwrap();
        assert_eq!(site.get("photos", &key).await.unwrap(), body, "{size}");
        if size > 100 {
            let range = Some(ByteRange::Between { first: 50, last: size as u64 - 20 });
            let part = site.get_with("photos", &key, range, &context()).await.unwrap();
            assert_eq!(part, body.slice(50..size - 19), "{size}");
        }
    }
    assert_eq!(site.list("photos").await.unwrap().len(), sizes.len());
    site.delete("photos", "3").await.unwrap();
    assert_eq!(site.get("photos", "3").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_everything() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let (small, large) = (noise(500, 1), noise(6 << 20, 2));
    world.sites[0].put("photos", "small", small.clone()).await.unwrap();
    world.sites[0].put("photos", "large", large.clone()).await.unwrap();
    let before = world.sites[0].site().stamps.origin;
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let site = &world.sites[0];
    assert_ne!(site.site().stamps.origin, before, "every start is another life");
    assert_eq!(site.get("photos", "small").await.unwrap(), small);
    assert_eq!(site.get("photos", "large").await.unwrap(), large);
    site.put("photos", "small", noise(10, 3)).await.unwrap();
    assert_eq!(site.get("photos", "small").await.unwrap(), noise(10, 3));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_index_is_built_anew() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    let large = noise(3 << 20, 2);
    world.sites[0].put("photos", "large", large.clone()).await.unwrap();
    world.sites[0].stop().await;
    let data = world.sites[0].directory.path().join("data");
    let index = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let index: Vec<_> = index.filter(|path| path.to_string_lossy().contains("index")).collect();
    assert!(!index.is_empty(), "the index lies in {}", data.display());
    for path in index {
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
    world.sites[0].start().await;
    assert_eq!(world.sites[0].get("photos", "large").await.unwrap(), large);
    assert_eq!(world.sites[0].list("photos").await.unwrap(), ["large"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_conditional_writes_exactly_one_wins() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("locks").await.unwrap();
    let absent = WriteCondition { absent: true, matches: None };
    let tries = (0..50u64).map(|n| site.put_if("locks", "lock", noise(40, n), absent.clone()));
    let answers = futures::future::join_all(tries).await;
    let won = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(won, 1);
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_passes() {
    let mut world = TestWorld::new(1).await;
    let site = &mut world.sites[0];
    site.stop().await;
    let (config, options) = site.settings();
    let running = Running::start(&config, options).await.unwrap();
    let credentials = Credentials { access_key: key().id, secret: key().secret };
    let endpoint = format!("http://{}", running.endpoints.s3);
    let report = run_all(&endpoint, &credentials, 1).await;
    assert!(report.passed(), "{report}");
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_index_is_rebuilt_a_start_says_how_far_it_is() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    world.sites[0].put("photos", "large", noise(2 << 20, 1).to_vec()).await.unwrap();
    world.sites[0].stop().await;
    std::fs::remove_dir_all(world.sites[0].directory.path().join("data/index")).unwrap();
    let (mut config, options) = world.sites[0].settings();
    // Where it listens must be known before it serves.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    config.s3.listen.clone_from(&free);
    let (hold, held) = std::sync::mpsc::sync_channel(1);
    *options.opening.held.lock().unwrap() = Some(held);
    let start =
        tokio::spawn(
            async move { Running::start(&config, options).await.map_err(|error| error.to_string()) },
        );
    let live = async || match TcpStream::connect(&free).await {
        Ok(_) => asked(&free, "/_skerry/health/live").await,
        Err(_) => String::new(),
    };
    let mut said = live().await;
    while said.is_empty() && !start.is_finished() {
        tokio::task::yield_now().await;
        said = live().await;
    }
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("opening\n"), "{said}");
    for (path, format) in [
        (
            "/_skerry/health/ready",
            "{\"version\":1,\"ready\":false,\"reason\":\"opening the store, rebuilding the index, step 1 of 3",
        ),
        ("/_skerry/v1/status", "\"message\":\"opening the store, rebuilding the index, step 1 of 3"),
        (
            "/photos/large",
            "<Code>ServiceUnavailable</Code><Message>opening the store, rebuilding the index, step 1 of 3",
        ),
    ] {
        let said = asked(&free, path).await;
        assert!(said.starts_with("HTTP/1.1 503") && said.contains(format), "{path}: {said}");
    }
    assert!(!start.is_finished());
    drop(hold);
    let running = start.await.unwrap().unwrap();
    let ready = asked(&free, "/_skerry/health/ready").await;
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    running.shutdown().await;
}

/// What comes to the admin face is the token that may do everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_with_a_certificate_speaks_tls_on_its_admin_face_too() {
    let mut world = TestWorld::new(1).await;
    let site = &mut world.sites[0];
    site.stop().await;
    let (mut config, options) = site.settings();
    let tls = Path::new(&config.node.dir).join("tls");
    ca::store(&tls, "test", &["127.0.0.1".into()]).unwrap();
    let file = |name: &str| tls.join(name).to_string_lossy().into_owned();
    (config.tls.certificate, config.tls.key) = (file(ca::CERTIFICATE), file(ca::KEY));
    config.admin.listen = "127.0.0.1:0".into();
    let running = Running::start(&config, options).await.unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let authority = files::read_text(&tls.join(ca::CA_CERTIFICATE)).unwrap();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    for address in [running.endpoints.s3, running.endpoints.admin.unwrap()] {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut stream = connector.connect(ServerName::from(address.ip()), socket).await.unwrap();
        let ask = "GET /_skerry/health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Some peers end without the closing word.
        stream.read_to_end(&mut answer).await.ok();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
    }
    running.shutdown().await;
}

/// What is followed beyond that is fed to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_follows_as_many_buckets_as_it_can_makes_no_more() {
    let world = TestWorld::new(1).await;
    let [one] = &world.sites[..] else { panic!("one site") };
    one.create_bucket("photos").await.unwrap();
    let many = |n: u64| BucketId(u128::from(n).to_be_bytes());
    one.site().members.write().unwrap().extend((1..MEMBERSHIPS as u64).map(|n| (many(n), true)));
    let refused = one.create_bucket("more").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooManyBuckets, "{refused}");
    assert!(refused.message().contains("bucket leave"), "{refused}");
    let refused = one.site().join(many(0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooManyBuckets, "{refused}");
    one.put("photos", "a", "what is followed goes on").await.unwrap();
    one.site().members.write().unwrap().retain(|id, _| *id != many(1));
    one.create_bucket("more").await.unwrap();
    world.stop().await;
}
