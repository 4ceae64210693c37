//! Payload that is made this site's own in one go, before what it belongs to is answered: parts of uploads that live here and
//! came in elsewhere, and small bodies that a home decides about.
//!
//! Before: `upload.rs` and `write.rs`. After: `source.rs`, which fetches what is not here, and the store. Why not one chunk after
//! the other: that is a round trip each, 5 MiB/s at 200 ms. Invariants: [`AHEAD_FAR`] chunks at most are on their way, each with its
//! room, and more than one only while that leaves half of the room to others (a link that broke may be waited for): the first
//! waits for nothing that this body holds; trees are put after what they count; whatever ends it ends what is on its way.

use std::collections::VecDeque;
use std::sync::Arc;

use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{ChunkId, ChunkKind, ChunkRef, SiteId};
use skerry_federation::budget::Class as Urgency;
use skerry_gateway::service::Outcome;
use skerry_model::body::{Step, Walk};
use skerry_storage::Pin;
use tokio_util::task::AbortOnDropHandle;

use super::bucket::Bucket;
use super::refusal;
use super::source::{AHEAD_FAR, Chunks, held};
use crate::bulk::Grant;
use crate::site::Site;

/// Fetches the chunks of a body from another site as chunks that count here.
pub(crate) async fn take(
    site: &Arc<Site>,
    bucket: &Bucket,
    top: &[ChunkRef],
    size: u64,
    from: SiteId,
) -> Outcome<Vec<Pin>> {
    let mut walk = Walk::new(top.to_vec(), 0..size);
    // What came before a link broke, or the client asked again, is here.
    let source = Arc::new(Chunks::as_urgent(Urgency::Read, site, bucket, from));
    // Small bodies wait for nobody's large ones.
    let is_large = size > JOURNAL_BODY_BYTES as u64;
    let mut leaves = Leaves { source: source.clone(), is_large, ahead: VecDeque::new(), pins: Vec::new() };
    let mut trees = Vec::new();
    while let Some(step) = walk.next() {
        match step {
            Step::Leaf(leaf, _) => leaves.ask(leaf).await?,
            Step::Tree(tree) => {
                let bytes = source.whole(tree).await?;
                walk.supply(&bytes).map_err(refusal::malformed)?;
                // A tree counts its children when it is put, so it comes after them.
                trees.push(bytes);
            }
        }
    }
    while leaves.next().await? {}
    for bytes in trees.into_iter().rev() {
        leaves.pins.push(source.own(ChunkKind::Tree, bytes).await?);
    }
    Ok(leaves.pins)
}

/// Leaves on their way, in the order of the body, and those that are here.
struct Leaves {
    source: Arc<Chunks>,
    is_large: bool,
    ahead: VecDeque<(ChunkId, AbortOnDropHandle<Outcome<Pin>>)>,
    pins: Vec<Pin>,
}

impl Leaves {
    /// Has one more fetched, once it may be.
    async fn ask(&mut self, leaf: ChunkRef) -> Outcome<()> {
        let grant = loop {
            if let Some(grant) = self.grant(&leaf).await? {
                break grant;
            }
            self.next().await?;
        };
        let source = self.source.clone();
        let own = tokio::spawn(async move {
            let bytes = source.whole(leaf).await?;
            source.own(leaf.kind, held(grant, bytes)).await
        });
        self.ahead.push_back((leaf.id, AbortOnDropHandle::new(own)));
        Ok(())
    }

    /// What it takes to fetch this one beside those on their way; none if one of them is to be here first.
    async fn grant(&self, leaf: &ChunkRef) -> Outcome<Option<Option<Grant>>> {
        let (room, bytes) = (self.source.room(), leaf.stored as usize);
        // The same bytes once more: then they are here.
        let comes = self.ahead.iter().any(|(id, _)| *id == leaf.id);
        if comes || self.ahead.len() >= AHEAD_FAR {
            return Ok(None);
        }
        if !self.is_large {
            return Ok(Some(None));
        }
        match room.try_take_of_half(bytes) {
            Some(grant) => Ok(Some(Some(grant))),
            None if self.ahead.is_empty() => room.wait(bytes).await.map(|grant| Some(Some(grant))),
            None => Ok(None),
        }
    }

    /// Waits for the first of those on their way; false if there is none.
    async fn next(&mut self) -> Outcome<bool> {
        let Some((_, first)) = self.ahead.pop_front() else { return Ok(false) };
        self.pins.push(first.await.map_err(refusal::task)??);
        Ok(true)
    }
}
