//! What can be put under load: a target performs one operation at a time for each worker.
//!
//! Why a trait: the lab measures rivals that do not speak S3 with the same engine, schedules and figures.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::body::{Body, Checker};
use crate::plan::Verify;

/// What a worker can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Make a bucket (or what stands for it).
    CreateBucket,
    /// Write an object.
    Put,
    /// Read an object, whole.
    Get,
    /// Ask whether an object is there.
    Head,
    /// List a bucket.
    List,
    /// Delete an object.
    Delete,
    /// Delete a bucket.
    DeleteBucket,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::CreateBucket, Self::Put, Self::Get, Self::Head, Self::List, Self::Delete, Self::DeleteBucket];

    /// The word for it in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::CreateBucket => "create-bucket",
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::DeleteBucket => "delete-bucket",
        }
    }

    /// The operation of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.word() == word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One operation, as the schedule made it.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What to do.
    pub operation: Operation,
    /// The bucket.
    pub bucket: Arc<str>,
    /// The key; for a listing the prefix; else empty.
    pub key: String,
    /// The bytes to write, or those that a read must bring (its length and seed; [`Body::check`] verifies them).
    pub body: Body,
    /// How closely to look at what was read.
    pub verify: Verify,
    /// For a listing: how many keys it must show, all pages taken together; none: one page, whatever it shows.
    pub expected: Option<u64>,
    /// When to give up. The engine gives up by itself; a target may pass it on.
    pub timeout: Duration,
}

/// What came of it. The engine takes the whole time; the target says what only it can see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes of payload written or read.
    pub bytes: u64,
    /// Nanoseconds to establish a connection in this operation; 0 if one was kept.
    pub connect_ns: u64,
    /// Nanoseconds from the begin (connecting included) to the first byte of the answer.
    pub first_byte_ns: u64,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A short stable word by which failures are counted: `503 SlowDown`, `timeout`, `connect`, `wrong-bytes`.
    pub code: Arc<str>,
    /// The whole story of this one.
    pub message: String,
}

impl Failure {
    /// With a code and a story.
    pub fn new(code: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// Code of a failure to connect: if nothing else ever happened, the target is unreachable.
pub const CONNECT: &str = "connect";
/// Code of an operation that was given up.
pub const TIMEOUT: &str = "timeout";
/// Code of an operation of a fixed rate that no worker was free to begin before the end of its phase.
pub const NOT_BEGUN: &str = "not-begun";
/// Code of a read that brought other bytes than were written.
pub const WRONG_BYTES: &str = "wrong-bytes";
/// Code of a read that brought more or fewer bytes than were written.
pub const WRONG_LENGTH: &str = "wrong-length";
/// Code of a listing that shows more or fewer keys than there are.
pub const WRONG_LISTING: &str = "wrong-listing";

/// What a worker keeps from one operation to the next: connections. The engine empties it when each operation shall
/// connect anew.
#[derive(Default)]
pub struct Slot {
    /// The worker's number.
    pub worker: u64,
    kept: Option<Box<dyn Any + Send>>,
}

impl Slot {
    /// Of a worker, with nothing in it.
    pub fn new(worker: u64) -> Self {
        Self { worker, kept: None }
    }

    /// Takes out what was kept, if it is of this type.
    pub fn take<T: Any + Send>(&mut self) -> Option<T> {
        self.kept.take()?.downcast().ok().map(|kept| *kept)
    }

    /// Keeps something for the next operation.
    pub fn keep<T: Any + Send>(&mut self, kept: T) {
        self.kept = Some(Box::new(kept));
    }

    /// Drops what is kept.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// A system under test.
#[async_trait]
pub trait Target: Send + Sync {
    /// What it is, for a person: `s3 http://127.0.0.1:7600`.
    fn describe(&self) -> String;

    /// Performs one operation to its end. Never panics and never retries: what goes wrong is a
    /// [`Done`] with a failure.
    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done;
}

/// What a read was worth: compares what came (all of it was given to `checker`) with what was written, as closely as
/// the ask wants it.
pub fn judge_read(ask: &Ask, checker: &Checker) -> Option<Failure> {
    if ask.verify == Verify::None {
        return None;
    }
    let place = format!("{} {}/{}", ask.operation, ask.bucket, ask.key);
    if checker.seen() != ask.body.length {
        let message = format!("{place}: {} bytes came, {} were written", checker.seen(), ask.body.length);
        return Some(Failure::new(WRONG_LENGTH, message));
    }
    let at = checker.wrong().filter(|_| ask.verify != Verify::Length)?;
    Some(Failure::new(
        WRONG_BYTES,
        format!("{place}: other bytes than were written, at {at} of {}", ask.body.length),
    ))
}
