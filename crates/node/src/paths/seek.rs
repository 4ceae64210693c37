//! An object of a bucket that this site does not follow: asked for with the question who does.
//!
//! Before: `get.rs`. After: the federation machine, which passes the question on by way of landmarks; the member that it reaches
//! answers in `giving.rs` over there. Invariants: who gives is heard as if it had been asked itself, and nobody else is; where
//! nothing is given, or nobody in between knows the word, those that were found are asked, as ever.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::limits::{CHUNK_BYTES, JOURNAL_BODY_BYTES};
use skerry_federation::budget::Class;
use skerry_gateway::service::Outcome;

use super::bucket::Bucket;
use super::members::{self, Asking};
use crate::peers::gifts::{Coming, Gift};
use crate::peers::message::{Part, Read, Sought};
use crate::site::Site;
use crate::trust::entropy;

/// What was given by members of a bucket already, and what may still be given.
#[derive(Default)]
pub(crate) struct Offer {
    pub(crate) given: Option<Gift>,
    pub(crate) coming: Option<Coming>,
}

/// The members of a bucket, nearest first, and what the nearest gives.
pub(crate) async fn members(site: &Arc<Site>, bucket: &Bucket, read: &Read) -> Outcome<(Asking, Offer)> {
    let Some((wanted, mut coming)) = question(site, bucket, read) else {
        return Ok((members::nearest(site, bucket).await?, Offer::default()));
    };
    let mut named = std::pin::pin!(members::nearest_for(site, bucket, Some(wanted)));
    let (asking, given) = loop {
        tokio::select! {
            biased;
            gift = coming.next() => if gift.is_answer() {
                break (Asking::of(bucket.id, vec![gift.member]), Some(gift));
            },
            asking = &mut named => break (asking?, None),
        }
    };
    Ok((asking, Offer { given, coming: Some(coming) }))
}

/// What is wanted, in the words of [`Sought`], and where it is waited for; none where the question alone is to be asked.
fn question(site: &Arc<Site>, bucket: &Bucket, read: &Read) -> Option<(Bytes, Coming)> {
    // What it is about stays between those sites where it may lie: landmarks may be others.
    if site.is_member(bucket.id) || !bucket.config.residency.is_empty() {
        return None;
    }
    let token = entropy::number().ok()?;
    let most = most(site.peers.uplink.is_metered());
    let wanted: Bytes = codec::encode(&Sought { token, read: read.clone(), most }).into();
    // An unusual key may be longer than landmarks pass on.
    if wanted.len() > skerry_federation::limits::WANTED_BYTES {
        return None;
    }
    let bytes = if read.part == Part::Nothing { 0 } else { most };
    // Nothing may cross: who is asked for it says so, and until when.
    let held = site.peers.uplink.hold_for(Class::Read, bytes.into()).ok()?;
    Some((wanted, site.peers.await_gifts(token, held)))
}

/// Bytes of a body that are given at most. More than one may give, of which all but the first gives in vain: where that is paid
/// for, what fits a journal's entry; the rest is asked for, of one.
pub(super) const fn most(is_paid: bool) -> u32 {
    if is_paid { JOURNAL_BODY_BYTES as u32 } else { CHUNK_BYTES as u32 }
}
