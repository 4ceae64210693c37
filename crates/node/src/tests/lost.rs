//! Sites that are declared lost: what readers get meanwhile, who counts, and how a site comes back.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use skerry_base::NodeId;
use skerry_base::kv::View;
use skerry_gateway::service::{
    BucketPatch, CopyObject, ErrorKind, ExpelRequest, GetObject, LossQuery, LossRequest, LossState,
    LostVersion, MetadataDirective, ObjectInfo, Outcome, ReadConditions, ReadMode, RequestContext, Source,
    VersionId, WriteCondition,
};
use skerry_model::space;

use super::world::{TestSite, TestWorld, context, noise};
use crate::site::unreadable;

const BUCKET: &str = "photos";

fn asked(key: &str, version: Option<&VersionId>) -> GetObject {
    GetObject {
        bucket: BUCKET.into(),
        key: key.into(),
        version: version.cloned(),
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    }
}

/// What a read answers: the version that is shown, and its bytes.
async fn read(
    site: &TestSite,
    key: &str,
    version: Option<&VersionId>,
    context: &RequestContext,
) -> Outcome<(ObjectInfo, Bytes)> {
    let read = site.services().objects.get(context, asked(key, version)).await?;
    let mut stream = read.body.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(next) = stream.next().await {
        bytes.extend_from_slice(&next?);
    }
    Ok((read.info, bytes.freeze()))
}

async fn kind(site: &TestSite, key: &str) -> ErrorKind {
    site.get(BUCKET, key).await.unwrap_err().kind()
}

async fn declare(at: &TestSite, site: &str, lost: bool) -> Outcome<LossState> {
    at.services().admin.declare_loss(site, LossRequest { lost }).await
}

/// Whether a site takes another for lost, in what it does.
fn is_lost(at: &TestSite, site: &str) -> bool {
    at.site().copies.losses().values().any(|loss| loss.name == site && loss.is_lost)
}

/// Waits until every site has heard what each of the others said of itself.
async fn heard(world: &TestWorld) {
    for site in &world.sites {
        let system = site.site().system;
        let vector = move |view: &dyn View| space::vector(view, system).map_err(unreadable);
        site.until("all have been heard", || async {
            let seen = site.site().read(vector).await.unwrap();
            let nodes: BTreeSet<NodeId> = seen.iter().map(|(origin, _)| origin.node).collect();
            nodes.len() == world.sites.len()
        })
        .await;
    }
}

/// What only a site has, in pages of one.
async fn only_at(at: &TestSite, site: &str) -> (Vec<LostVersion>, Vec<String>) {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..1000 {
        let page = at.services().admin.only_at(site, LossQuery { after, limit: Some(1) }).await.unwrap();
        assert_eq!(page.count, page.versions.len() as u64);
        found.extend(page.versions);
        match page.next {
            Some(next) => after = Some(next),
            None => return (found, page.silent),
        }
    }
    panic!("the list has no end")
}

/// How much was lost before, as the list of what only a site has says.
async fn lost_before(at: &TestSite, site: &str) -> (u64, u64) {
    let page = at.services().admin.only_at(site, LossQuery::default()).await.unwrap();
    (page.nowhere, page.nowhere_bytes)
}

/// So many sites that all follow a bucket.
async fn followed(count: usize, patch: BucketPatch) -> TestWorld {
    let world = TestWorld::new(count).await;
    let one = &world.sites[0];
    one.create_bucket(BUCKET).await.unwrap();
    one.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    one.put(BUCKET, "seed", noise(10, 0)).await.unwrap();
    let settings = one.site().bucket(BUCKET).await.unwrap().unwrap().config;
    for site in &world.sites[1..] {
        site.until("the bucket and its settings are known", || async {
            site.site().bucket(BUCKET).await.unwrap().is_some_and(|bucket| bucket.config == settings)
        })
        .await;
        site.get(BUCKET, "seed").await.unwrap();
    }
    world.converged(BUCKET).await;
    heard(&world).await;
    world
}

fn versioned() -> BucketPatch {
    BucketPatch { versioning: Some("enabled".into()), copies: Some(1), ..BucketPatch::default() }
}

fn plain(copies: u32) -> BucketPatch {
    BucketPatch { copies: Some(copies), ..BucketPatch::default() }
}

async fn away(world: &mut TestWorld, number: usize) {
    world.sites[number].stop().await;
    let id = world.sites[number].id();
    for site in world.sites.iter().filter(|site| site.core.is_some()) {
        site.until("the link is gone", || async { !site.site().linked(id) }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_version_is_shown_until_the_disk_is_back() {
    let mut world = followed(3, versioned()).await;
    world.sites[0].put(BUCKET, "k", noise(50_000, 1)).await.unwrap();
    world.converged(BUCKET).await;
    let newest = world.sites[2].put(BUCKET, "k", noise(60_000, 2)).await.unwrap();
    let version = newest.version.unwrap();
    world.converged(BUCKET).await;
    away(&mut world, 2).await;
    assert_eq!(kind(&world.sites[0], "k").await, ErrorKind::Unreachable, "away is not lost");
    let said = declare(&world.sites[0], "site-3", true).await.unwrap();
    assert!(said.lost && said.count == 1 && !said.linked);
    for site in &world.sites[..2] {
        site.until("it heard", || async { is_lost(site, "site-3") }).await;
        let (info, bytes) = read(site, "k", None, &context()).await.unwrap();
        assert_eq!(bytes, noise(50_000, 1));
        let note = info.receipt.lost.unwrap();
        assert!(note.starts_with(&format!("version={version}; site=site-3; declared=20")), "{note}");
        let head = site.services().objects.head(&context(), asked("k", None)).await.unwrap();
        assert_eq!((&head.info.version, head.info.size), (&info.version, 50_000), "HEAD says the same");
        let named = read(site, "k", Some(&version), &context()).await.unwrap_err();
        assert_eq!(named.kind(), ErrorKind::NoSuchVersion, "{named}");
        assert!(named.message().contains("site-3 (declared lost at 20"), "{named}");
        assert!(named.headers().iter().any(|(name, _)| *name == "x-skerry-lost"));
        let token =
            RequestContext { read: ReadMode::After(newest.receipt.token.clone().unwrap()), ..context() };
        let seen = read(site, "k", None, &token).await.unwrap_err();
        assert_eq!(seen.kind(), ErrorKind::NoSuchKey, "an older version has not seen the write");
        assert_eq!(site.list(BUCKET).await.unwrap(), ["k", "seed"], "a listing says what the records say");
    }
    let copied =
        world.sites[0].services().objects.copy(&context(), copy(BUCKET, "k", "other")).await.unwrap_err();
    assert_eq!(copied.kind(), ErrorKind::NoSuchKey, "no copy of something else: {copied}");
    world.sites[2].start().await;
    for site in &world.sites {
        site.until("it is found by itself", || async { !is_lost(site, "site-3") }).await;
    }
    world.linked(&world.sites[0]).await;
    let (info, bytes) = read(&world.sites[0], "k", None, &context()).await.unwrap();
    assert_eq!((info.version, info.receipt.lost, bytes), (Some(version), None, noise(60_000, 2)));
    assert_eq!(world.sites[0].services().admin.loss("site-3").await.unwrap().count, 2);
    world.stop().await;
}

pub(super) fn copy(bucket: &str, from: &str, to: &str) -> CopyObject {
    CopyObject {
        source: Source {
            bucket: bucket.into(),
            key: from.into(),
            version: None,
            conditions: ReadConditions::default(),
        },
        bucket: bucket.into(),
        key: to.into(),
        metadata: MetadataDirective::Copy,
        checksum: None,
        condition: WriteCondition::default(),
    }
}

/// Without an older version: 404 with the reason; and only once everybody else has said that it has nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_called_gone_while_somebody_may_have_it() {
    let mut world = followed(3, plain(1)).await;
    world.sites[2].put(BUCKET, "k", noise(50_000, 1)).await.unwrap();
    world.sites[2].put(BUCKET, "kept", noise(50_000, 2)).await.unwrap();
    world.converged(BUCKET).await;
    assert_eq!(world.sites[1].get(BUCKET, "kept").await.unwrap(), noise(50_000, 2), "a cached copy at 2");
    away(&mut world, 2).await;
    world.sites[1].cut(true).await;
    let cut_off = world.sites[1].id();
    world.sites[0].until("the cut is noticed", || async { !world.sites[0].site().linked(cut_off) }).await;
    declare(&world.sites[0], "site-3", true).await.unwrap();
    let silent = world.sites[0].get(BUCKET, "k").await.unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::Unreachable, "site 2 may have it: {silent}");
    assert_eq!(only_at(&world.sites[0], "site-3").await.1, ["site-2"]);
    world.sites[1].site().peers.net().set_cut(false);
    world.until_linked(&world.sites[0], &world.sites[1]).await;
    let gone = world.sites[0].get(BUCKET, "k").await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoSuchKey, "{gone}");
    let header = gone.headers().iter().find(|(name, _)| *name == "x-skerry-lost");
    assert!(header.is_some_and(|(_, value)| value.contains("site=site-3; declared=")), "{header:?}");
    let head = world.sites[0].services().objects.head(&context(), asked("k", None)).await.unwrap_err();
    assert_eq!(head.kind(), ErrorKind::NoSuchKey);
    assert_eq!(
        world.sites[0].get(BUCKET, "kept").await.unwrap(),
        noise(50_000, 2),
        "a reader's copy will do"
    );
    let (only, silent) = only_at(&world.sites[0], "site-3").await;
    assert_eq!(only.iter().map(|lost| (lost.key.as_str(), lost.bytes)).collect::<Vec<_>>(), [("k", 50_000)]);
    assert_eq!(silent, [""; 0]);
    world.sites[0].put(BUCKET, "k", noise(10_000, 3)).await.unwrap();
    assert_eq!(
        world.sites[0].get(BUCKET, "k").await.unwrap(),
        noise(10_000, 3),
        "what is written again is there"
    );
    assert_eq!(only_at(&world.sites[0], "site-3").await.0, []);
    world.stop().await;
}

/// A tree of chunks of which a reader kept some is gone all the same, and a new disk does not take the word back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_disk_is_found_only_by_word_and_what_was_lost_stays_lost() {
    let mut world = followed(2, plain(1)).await;
    let large = noise((5 << 20) + 3, 1);
    world.sites[1].put(BUCKET, "large", large.clone()).await.unwrap();
    world.sites[1].put(BUCKET, "small", noise(2_000, 2)).await.unwrap();
    world.converged(BUCKET).await;
    let first = Some(skerry_gateway::service::ByteRange::Between { first: 0, last: 99 });
    let begun = world.sites[0].get_with(BUCKET, "large", first, &context()).await.unwrap();
    assert_eq!(begun, large.slice(..100));
    let (only, _) = only_at(&world.sites[0], "site-2").await;
    assert_eq!(only.len(), 2, "{only:?}");
    away(&mut world, 1).await;
    declare(&world.sites[0], "site-2", true).await.unwrap();
    assert_eq!(kind(&world.sites[0], "large").await, ErrorKind::NoSuchKey);
    let part = world.sites[0].get_with(BUCKET, "large", first, &context()).await.unwrap_err();
    assert_eq!(part.kind(), ErrorKind::NoSuchKey, "a part of what is gone is gone: {part}");
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.introduce().await;
    let (one, two) = (&world.sites[0], &world.sites[1]);
    two.until("it has heard of itself", || async { is_lost(two, "site-2") }).await;
    assert_eq!(kind(one, "small").await, ErrorKind::NoSuchKey);
    let refused = declare(two, "site-2", true).await.unwrap_err();
    assert!(refused.message().contains("it answers you"), "{refused}");
    let none =
        two.services().admin.only_at("site-2", LossQuery { after: None, limit: None }).await.unwrap_err();
    assert!(none.message().contains("ask another"), "it cannot know what only it has: {none}");
    assert!(is_lost(one, "site-2"), "another disk under the same name");
    declare(one, "site-2", false).await.unwrap();
    two.until("it is found", || async { !is_lost(two, "site-2") }).await;
    assert_eq!(kind(one, "small").await, ErrorKind::NoSuchKey, "found, and without it");
    two.until("it follows again", || async { two.put(BUCKET, "new", noise(900, 4)).await.is_ok() }).await;
    world.converged(BUCKET).await;
    assert_eq!(one.get(BUCKET, "new").await.unwrap(), noise(900, 4));
    world.stop().await;
}

/// What was lost with one site is not said of another, neither before a word nor to a reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_site_never_had_is_not_called_lost_with_it() {
    let mut world = followed(3, plain(1)).await;
    world.sites[2].put(BUCKET, "three", noise(50_000, 1)).await.unwrap();
    world.sites[1].put(BUCKET, "two", noise(40_000, 2)).await.unwrap();
    world.converged(BUCKET).await;
    away(&mut world, 2).await;
    declare(&world.sites[0], "site-3", true).await.unwrap();
    let keys = async |at: &TestSite, site: &str| -> Vec<String> {
        only_at(at, site).await.0.into_iter().map(|lost| lost.key).collect()
    };
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    two.until("it heard", || async { is_lost(two, "site-3") }).await;
    assert_eq!(keys(one, "site-3").await, ["three"]);
    assert_eq!((keys(two, "site-1").await, lost_before(two, "site-1").await), (vec![], (1, 50_000)));
    for is_there in [true, false] {
        if !is_there {
            away(&mut world, 1).await;
        }
        let one = &world.sites[0];
        assert_eq!(keys(one, "site-2").await, ["two"], "{is_there}");
        assert_eq!(lost_before(one, "site-2").await, (1, 50_000), "{is_there}");
    }
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    let (one, two) = (&world.sites[0], &world.sites[1]);
    world.until_linked(one, two).await;
    let gone = one.get(BUCKET, "two").await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoSuchKey, "{gone}");
    assert!(gone.message().contains("which was written at site-2; whether site-3 (declared lost"), "{gone}");
    let header = gone.headers().iter().find(|(name, _)| *name == "x-skerry-lost").unwrap();
    assert!(header.1.ends_with("; written=site-2"), "{header:?}");
    assert_eq!((keys(one, "site-2").await, lost_before(one, "site-2").await), (vec![], (2, 90_000)));
    let lost = one.get(BUCKET, "three").await.unwrap_err();
    assert!(lost.message().contains("was at site-3 (declared lost"), "{lost}");
    assert!(lost.message().contains("declare-found"), "{lost}");
    // For good: nobody can say any more that it is found.
    one.services().admin.expel("site-3", ExpelRequest {}).await.unwrap();
    one.until("it is known", || async { one.site().copies.losses()[&world.sites[2].id()].is_gone }).await;
    let lost = one.get(BUCKET, "three").await.unwrap_err();
    assert!(lost.message().contains("then expelled or replaced) only"), "{lost}");
    assert!(!lost.message().contains("declare-found"), "{lost}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_a_lost_site_are_made_again_and_its_writes_are_cared_for() {
    let mut world = followed(4, plain(2)).await;
    world.sites[3].put(BUCKET, "k", noise(40_000, 1)).await.unwrap();
    let held = |site: &TestSite| site.site().store.usage().payload.live >= 40_000;
    let writer = &world.sites[3];
    writer
        .until("another holds it", || async {
            world.sites[..3].iter().filter(|site| held(site)).count() == 1
        })
        .await;
    writer
        .until("that is known", || async {
            writer.services().admin.bucket(BUCKET).await.unwrap().unprotected_bytes == 0
        })
        .await;
    world.converged(BUCKET).await;
    away(&mut world, 3).await;
    declare(&world.sites[0], "site-4", true).await.unwrap();
    let one = &world.sites[0];
    one.until("a second site holds it", || async {
        world.sites[..3].iter().filter(|site| held(site)).count() >= 2
    })
    .await;
    assert_eq!(only_at(one, "site-4").await.0, []);
    let status = one.services().admin.status().await.unwrap();
    let peer = status.peers.iter().find(|peer| peer.name == "site-4").unwrap();
    assert_eq!((peer.state.as_str(), peer.lost_ms.is_some()), ("lost", true));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_that_cannot_be_given_is_refused() {
    let world = TestWorld::new(2).await;
    heard(&world).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let unknown = declare(one, "nowhere", true).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NoSuchSite, "{unknown}");
    for (at, name) in [(one, "site-1"), (two, "site-2")] {
        assert_eq!(declare(at, name, true).await.unwrap_err().kind(), ErrorKind::Refused, "{name}");
    }
    let never = declare(one, "site-2", false).await.unwrap();
    assert_eq!((never.count, never.lost, never.declared_ms), (0, false, None));
    // Who is there takes it back at once.
    declare(one, "site-2", true).await.unwrap();
    one.until("it is back", || async { one.services().admin.loss("site-2").await.unwrap().count == 2 }).await;
    one.until("it counts again", || async { !is_lost(one, "site-2") }).await;
    world.stop().await;
}
