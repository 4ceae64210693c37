//! What checks share: fresh buckets, short asks, and words for what went wrong.

use core::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::client::{Answer, Ask, Client};
use crate::s3::uri::encode;

/// Passed, or why not.
pub type Checked = Result<(), String>;

/// One run against one endpoint.
#[derive(Debug)]
pub struct Suite {
    pub(super) client: Client,
    seed: u64,
    drawn: AtomicU64,
}

/// A bucket of a check's own.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) suite: &'a Suite,
    pub(super) name: String,
}

impl Suite {
    /// Names of buckets are made from the seed.
    pub fn new(client: Client, seed: u64) -> Self {
        Self { client, seed, drawn: AtomicU64::new(0) }
    }

    /// A name nobody else has.
    pub(super) fn name(&self) -> String {
        format!("conformance-{:x}-{}", self.seed, self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// A new bucket.
    pub(super) async fn place(&self) -> Result<Place<'_>, String> {
        let name = self.name();
        let made = self.send(Ask::new("PUT", format!("/{name}"))).await?;
        expect(&made, 200)?;
        Ok(Place { suite: self, name })
    }

    /// Signs and sends.
    pub(super) async fn send(&self, ask: Ask) -> Result<Answer, String> {
        self.client.send(ask).await
    }
}

impl Place<'_> {
    /// The target of a key.
    pub(super) fn target(&self, key: &str) -> String {
        format!("/{}/{}", self.name, encode(key, true))
    }

    /// A request about a key; `query` begins with `?` or is empty.
    pub(super) fn ask(&self, method: &'static str, key: &str, query: &str) -> Ask {
        Ask::new(method, format!("{}{query}", self.target(key)))
    }

    /// A request about the bucket; `query` begins with `?` or is empty.
    pub(super) fn about(&self, method: &'static str, query: &str) -> Ask {
        Ask::new(method, format!("/{}{query}", self.name))
    }

    /// Signs and sends.
    pub(super) async fn send(&self, ask: Ask) -> Result<Answer, String> {
        self.suite.send(ask).await
    }

    /// Puts an object that must be taken.
    pub(super) async fn put(&self, key: &str, body: impl Into<Bytes> + Send) -> Result<Answer, String> {
        let answer = self.send(self.ask("PUT", key, "").body(body)).await?;
        expect(&answer, 200).map(|()| answer)
    }

    /// Gets an object, whatever comes.
    pub(super) async fn get(&self, key: &str) -> Result<Answer, String> {
        self.send(self.ask("GET", key, "")).await
    }

    /// Switches versioning.
    pub(super) async fn versioning(&self, status: &str) -> Checked {
        let body = format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
        expect(&self.send(self.about("PUT", "?versioning").body(body)).await?, 200)
    }

    /// Erases all versions and the bucket.
    pub(super) async fn clean(&self) -> Checked {
        loop {
            let page = self.send(self.about("GET", "?versions&encoding-type=url")).await?;
            expect(&page, 200)?;
            let (keys, versions) = (page.elements("Key"), page.elements("VersionId"));
            for (key, version) in keys.iter().zip(&versions) {
                let target = format!("/{}/{key}?versionId={version}", self.name);
                expect(&self.send(Ask::new("DELETE", target)).await?, 204)?;
            }
            if keys.is_empty() {
                break;
            }
        }
        expect(&self.send(self.about("DELETE", "")).await?, 204)
    }
}

/// The status must be this.
pub(super) fn expect(answer: &Answer, status: u16) -> Checked {
    if answer.status == status {
        return Ok(());
    }
    Err(format!("status {} instead of {status}: {}", answer.status, answer.text()))
}

/// The refusal must be this.
pub(super) fn refused(answer: &Answer, status: u16, code: &str) -> Checked {
    expect(answer, status)?;
    same("code", answer.element("Code").as_str(), code)
}

/// Two things must be equal.
pub(super) fn same<T: PartialEq<U> + Debug, U: Debug>(what: &str, found: T, wanted: U) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} instead of {wanted:?}")) }
}

/// Something must hold.
pub(super) fn holds(what: &str, truth: bool) -> Checked {
    if truth { Ok(()) } else { Err(format!("not true: {what}")) }
}

/// Bytes that do not repeat soon.
pub(super) fn pattern(length: usize) -> Bytes {
    let byte = |index: usize| (index.wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..length).map(byte).collect::<Vec<u8>>().into()
}
