//! MD5 of uploads that come at once: each gets its own, whoever else is cancelled or wrong.

use bytes::Bytes;
use futures::{StreamExt, future, stream};
use skerry_gateway::service::{
    ErrorKind, Expected, ObjectHeaders, Outcome, PutObject, PutOutcome, UploadBody, WriteCondition,
};
use tokio::sync::oneshot;

use super::world::{TestSite, TestWorld, context, noise};

/// Around what is kept in the journal, a full chunk, and a few of them.
const SIZES: [usize; 7] = [32_768, 32_769, 70_000, 1 << 20, (1 << 20) + 1, 2_500_000, 300_000];
/// Bytes that come at once.
const PIECE: usize = 200_000;

fn body(n: u64) -> Bytes {
    noise(SIZES[n as usize % SIZES.len()], n)
}

fn pieces(n: u64) -> Vec<Outcome<Bytes>> {
    body(n).chunks(PIECE).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
}

/// The digest as the library computes it for who is alone.
async fn md5(n: u64) -> [u8; 16] {
    let mut alone = UploadBody::of(body(n));
    while let Some(bytes) = alone.next().await {
        bytes.unwrap();
    }
    alone.finish().unwrap().md5
}

async fn put(site: &TestSite, n: u64, body: UploadBody) -> Outcome<PutOutcome> {
    let request = PutObject {
        bucket: "sums".into(),
        key: n.to_string(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        condition: WriteCondition::default(),
        body,
    };
    site.services().objects.put(&context(), request).await
}

async fn right(site: &TestSite, n: u64) {
    let md5 = md5(n).await;
    let expected = Expected { length: Some(body(n).len() as u64), md5: Some(md5), ..Expected::default() };
    let put = put(site, n, UploadBody::new(stream::iter(pieces(n)), expected)).await;
    put.unwrap_or_else(|error| panic!("upload {n}: {}", error.message()));
}

/// One bit of the last byte is not what the digest says.
async fn wrong(site: &TestSite, n: u64) {
    let mut md5 = md5(n).await;
    md5[15] ^= 1;
    let expected = Expected { md5: Some(md5), ..Expected::default() };
    let refused = put(site, n, UploadBody::new(stream::iter(pieces(n)), expected)).await;
    assert_eq!(refused.map(drop).map_err(|error| error.kind()), Err(ErrorKind::BadDigest), "upload {n}");
}

/// All but the end comes, and then the client is gone.
async fn cancelled(site: &TestSite, n: u64) {
    let (tell, gone) = oneshot::channel();
    let end = stream::once(async move {
        tell.send(()).ok();
        future::pending().await
    });
    let expected = Expected { length: Some(body(n).len() as u64 + 1), ..Expected::default() };
    tokio::select! {
        done = put(site, n, UploadBody::new(stream::iter(pieces(n)).chain(end), expected)) => {
            panic!("upload {n} was answered: {:?}", done.map(drop));
        }
        _ = gone => {}
    }
}

/// Nobody beside it: the MD5 of its last chunk is computed while that is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_alone_gets_its_own_digest_in_whatever_pieces_it_comes() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("sums").await.unwrap();
    for n in 0..SIZES.len() as u64 {
        right(site, n).await;
        wrong(site, 100 + n).await;
        // All at once, and with the end of a chunk within a piece.
        for parts in [vec![body(n)], vec![body(n).slice(..1), body(n).slice(1..)]] {
            let expected = Expected {
                length: Some(body(n).len() as u64),
                md5: Some(md5(n).await),
                ..Expected::default()
            };
            let whole = UploadBody::new(stream::iter(parts.into_iter().map(Ok)), expected);
            put(site, n, whole).await.unwrap_or_else(|error| panic!("upload {n}: {}", error.message()));
            assert_eq!(site.get("sums", &n.to_string()).await.unwrap(), body(n), "upload {n}");
        }
    }
    assert_eq!(site.list("sums").await.unwrap().len(), SIZES.len());
    let all_of_it = || async { site.site().incoming.taken() == 0 };
    site.until("no memory is held", all_of_it).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_at_once_get_their_own_digests_whoever_else_fails() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("sums").await.unwrap();
    for round in 0..2 {
        let uploads = (round * 28..round * 28 + 28).map(|n| async move {
            match n % 4 {
                0 | 1 => right(site, n).await,
                2 => wrong(site, n).await,
                _ => cancelled(site, n).await,
            }
        });
        future::join_all(uploads).await;
    }
    for n in (0..56).filter(|n| n % 4 < 2) {
        assert_eq!(site.get("sums", &n.to_string()).await.unwrap(), body(n), "upload {n}");
    }
    let listed = site.list("sums").await.unwrap();
    assert_eq!(listed.len(), 28, "nothing of the others is there: {listed:?}");
    let all_of_it = || async { site.site().incoming.taken() == 0 };
    site.until("jobs that nobody wants hold no memory", all_of_it).await;
    world.stop().await;
}
