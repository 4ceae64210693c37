//! What a client of this site may have seen of a key: it goes along where another site writes in this one's place.
//!
//! Before: `write.rs` (a condition that the home decides), `forward.rs` (a PUT), `relay.rs` (the end of an upload). After:
//! `write.rs` over there, which merges it before it decides. Invariants: what is told here is what a read of this site rests
//! on, erases too: else what a client has erased would stand there until a feed comes; what is told by others is admitted,
//! and of the key that was asked about.

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_base::kv::{Batch, Overlay, Reducer, View};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::record::RecordError;
use skerry_model::space::{self, SpaceReducer};
use skerry_model::{Entry, Record};

use crate::site::{Site, unreadable};

/// What is known here of a key.
pub(crate) async fn of_key(site: &Site, bucket: BucketId, key: &str) -> Outcome<Vec<Record>> {
    let key = key.to_owned();
    site.look(move |view| space::resting(view, bucket, &key).map_err(unreadable)).await
}

/// As it travels.
pub(crate) fn told(seen: &[Record]) -> Vec<Bytes> {
    seen.iter().map(|record| record.encode().into()).collect()
}

/// What another site tells of a key.
pub(crate) fn heard(bucket: BucketId, key: &str, told: &[Bytes]) -> Outcome<Vec<Record>> {
    let invalid = |error: RecordError| ServiceError::new(ErrorKind::InvalidRequest, error.to_string());
    let mut seen =
        told.iter().map(|bytes| Record::admit(bytes)).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    seen.retain(|record| record.bucket == bucket && record.key == key);
    Ok(seen)
}

/// What the tables would have with these records besides: which of them would be stored, and what that changes.
pub(crate) fn laid_over(view: &dyn View, bucket: BucketId, seen: &[Record]) -> Outcome<(Vec<Entry>, Batch)> {
    let mut news = Vec::new();
    for record in seen {
        // Mostly it is here already: then there is nothing to write.
        if space::accept(view, record).map_err(unreadable)? == space::Verdict::New {
            news.push(record.clone());
        }
    }
    let mut merged = Batch::default();
    let kept = space::keep(view, bucket, news).map_err(unreadable)?;
    for entry in &kept {
        let mut next = Batch::default();
        SpaceReducer
            .reduce(&entry.encode(), &Overlay::new(view, &merged), &mut next)
            .map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
        merged.writes.extend(next.writes);
    }
    Ok((kept, merged))
}
