//! Bodies: the bytes of an upload with their digests, and the bytes of a download.
//!
//! Why here: the service reads the bytes once, chunk by chunk, and the digests that S3 promises are computed
//! while they pass; nothing is held.
//!
//! Invariant: [`UploadBody::finish`] answers digests only if every byte announced has passed and every digest
//! the client declared is the true one; else it answers the precise refusal and nothing may be committed.

use core::pin::Pin;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use md5::Md5;
use sha2::{Digest, Sha256};

use super::{
    Checksum, ChecksumKind, ChecksumShape, ErrorKind, Hasher, Outcome, Places, ServiceError, Standing,
};

type ByteStream = Pin<Box<dyn Stream<Item = Outcome<Bytes>> + Send>>;

/// Reads the trailers of a body after its last byte: lower-case names with values.
pub type Trailers = Box<dyn FnOnce() -> Vec<(String, String)> + Send>;

/// Where the value of a named checksum is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// This must come out.
    Value(String),
    /// In the trailers.
    Trailer,
    /// Nowhere: compute and keep it.
    Nothing,
}

/// What the client said about a body.
#[derive(Default)]
pub struct Expected {
    /// Bytes announced.
    pub length: Option<u64>,
    /// `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    /// `x-amz-content-sha256`.
    pub sha256: Option<[u8; 32]>,
    /// The checksum that the client named.
    pub checksum: Option<(ChecksumKind, Declared)>,
    /// How to read the trailers, if some were announced.
    pub trailers: Option<Trailers>,
}

/// The digests of a body that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Bytes.
    pub length: u64,
    /// MD5.
    pub md5: [u8; 16],
    /// What the client declared, or CRC64NVME; then what [`UploadBody::also`] asked for.
    pub checksums: Vec<Checksum>,
}

impl Digests {
    /// The ETag of an object or part with these bytes, unquoted.
    pub fn etag(&self) -> String {
        skerry_base::hex::text(&self.md5)
    }
}

/// The bytes of an upload: `next` until it answers `None`, then `finish`, then commit.
pub struct UploadBody {
    stream: ByteStream,
    expected: Expected,
    length: u64,
    ended: bool,
    /// None once the service computes it.
    md5: Option<Md5>,
    sha256: Option<Sha256>,
    hashers: Vec<Hasher>,
    standing: Standing,
}

impl UploadBody {
    /// Over a stream, with what the client said about it.
    pub fn new(stream: impl Stream<Item = Outcome<Bytes>> + Send + 'static, expected: Expected) -> Self {
        let kind = expected.checksum.as_ref().map_or(ChecksumKind::Crc64Nvme, |(kind, _)| *kind);
        Self {
            stream: Box::pin(stream),
            length: 0,
            ended: false,
            md5: Some(Md5::new()),
            sha256: expected.sha256.map(|_| Sha256::new()),
            hashers: vec![Hasher::new(kind)],
            standing: Standing::default(),
            expected,
        }
    }

    /// Of bytes at hand; for tests and documents.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let expected = Expected { length: Some(bytes.len() as u64), ..Expected::default() };
        Self::new(futures::stream::iter([Ok(bytes)]), expected)
    }

    /// One that shares its connection with others.
    pub(crate) fn among(self, places: Option<Places>) -> Self {
        Self { standing: Standing::among(places), ..self }
    }

    /// By which to wait for what other bodies hold; for whoever reads this one.
    pub fn take_standing(&mut self) -> Standing {
        core::mem::take(&mut self.standing)
    }

    /// Bytes announced, if they were.
    pub const fn announced(&self) -> Option<u64> {
        self.expected.length
    }

    /// Also compute this checksum; before the first `next`.
    pub fn also(&mut self, kind: ChecksumKind) {
        if self.length == 0 && self.hashers.iter().all(|hasher| hasher.kind() != kind) {
            self.hashers.push(Hasher::new(kind));
        }
    }

    /// Leaves the MD5 to the service, which can compute that of several uploads at once; before the first `next`.
    /// Then [`UploadBody::finish_with`] ends the body.
    pub fn leave_md5(&mut self) {
        if self.length == 0 {
            self.md5 = None;
        }
    }

    /// The next bytes, of any length; `None` at the end. An error is the answer to the client: hand it on.
    pub async fn next(&mut self) -> Option<Outcome<Bytes>> {
        let Some(next) = self.stream.next().await else {
            self.ended = true;
            return None;
        };
        let next = next.inspect(|bytes| self.pass(bytes));
        match self.expected.length {
            Some(announced) if self.length > announced => Some(Err(self.incomplete())),
            _ => Some(next),
        }
    }

    fn incomplete(&self) -> ServiceError {
        let announced = self.expected.length.map_or_else(|| "more".into(), |bytes| bytes.to_string());
        ServiceError::new(
            ErrorKind::IncompleteBody,
            format!("{} bytes came and {announced} were announced; send it again", self.length),
        )
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
    }

    /// The digests, or why nothing may be committed.
    pub fn finish(mut self) -> Outcome<Digests> {
        let Some(md5) = self.md5.take() else {
            return Err(ServiceError::new(ErrorKind::Internal, "nobody computed the MD5 of the body"));
        };
        self.finish_with(md5.finalize().into())
    }

    /// The same with the MD5 that the service computed over every byte that `next` answered.
    pub fn finish_with(self, md5: [u8; 16]) -> Outcome<Digests> {
        if !self.ended || self.expected.length.is_some_and(|announced| announced != self.length) {
            return Err(self.incomplete());
        }
        let Self { expected, length, sha256, hashers, .. } = self;
        if expected.md5.is_some_and(|declared| declared != md5) {
            return Err(bad_digest("Content-MD5", &STANDARD.encode(md5)));
        }
        let sha256: Option<[u8; 32]> = sha256.map(|hasher| hasher.finalize().into());
        if expected.sha256 != sha256 {
            return Err(ServiceError::new(
                ErrorKind::ContentSha256Mismatch,
                "the body is not the one whose x-amz-content-sha256 was signed; send it again",
            ));
        }
        let sum = |hasher: Hasher| {
            let kind = hasher.kind();
            Checksum { kind, value: hasher.finish(), shape: ChecksumShape::Full }
        };
        let checksums: Vec<Checksum> = hashers.into_iter().map(sum).collect();
        check_declared(expected, &checksums)?;
        Ok(Digests { length, md5, checksums })
    }
}

fn bad_digest(name: &str, value: &str) -> ServiceError {
    ServiceError::new(
        ErrorKind::BadDigest,
        format!("the {name} of the bytes that came is {value}, another was declared; send it again"),
    )
}

fn check_declared(expected: Expected, checksums: &[Checksum]) -> Outcome<()> {
    let trailers = expected.trailers.map(|read| read()).unwrap_or_default();
    let Some((kind, declared)) = expected.checksum else { return Ok(()) };
    let trailer = || trailers.into_iter().find(|(name, _)| name == kind.header()).map(|(_, value)| value);
    let declared = match declared {
        Declared::Nothing => return Ok(()),
        Declared::Value(value) => Some(value),
        Declared::Trailer => trailer(),
    };
    let Some(declared) = declared else {
        return Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            format!("the trailer {} was announced and did not come", kind.header()),
        ));
    };
    if !kind.is_value(&declared) {
        return Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            format!("the value of {} is not one; send base64 of {} bytes", kind.header(), kind.width()),
        ));
    }
    match checksums.iter().find(|sum| sum.kind == kind) {
        Some(sum) if sum.value == declared => Ok(()),
        Some(sum) => Err(bad_digest(kind.header(), &sum.value)),
        None => Err(ServiceError::new(ErrorKind::Internal, "a declared checksum was not computed")),
    }
}

impl core::fmt::Debug for UploadBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UploadBody").field("announced", &self.expected.length).finish_non_exhaustive()
    }
}

/// The bytes of a download.
pub struct DownloadBody(ByteStream);

impl DownloadBody {
    /// Over a stream. An error ends the connection before the announced length.
    pub fn new(stream: impl Stream<Item = Outcome<Bytes>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// No bytes.
    pub fn empty() -> Self {
        Self::new(futures::stream::empty())
    }

    /// Of bytes at hand.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Self::new(futures::stream::iter([Ok(bytes.into())]))
    }

    /// The stream.
    pub fn into_stream(self) -> Pin<Box<dyn Stream<Item = Outcome<Bytes>> + Send>> {
        self.0
    }
}

impl core::fmt::Debug for DownloadBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("DownloadBody")
    }
}
