//! Frames that say the same in fewer bytes: records on feeds, and long answers.
//!
//! A packed frame is a byte that says how, four bytes of plain length (big endian), and one LZ4 block. It is said only to
//! who speaks a dialect with marks ([`super::mark`]); everybody of such a release reads it. Why each frame by itself, and
//! no window over those before: messages make sense alone, a link costs no memory for it, and what one bucket's records say
//! shows in no other's length.
//!
//! Invariants: a frame is packed only if that makes it shorter; the plain length is judged before anything is allocated:
//! at most [`limits::MESSAGE_BYTES`], and no more than a block of this length can say; hostile bytes give an error.

use bytes::Bytes;
use skerry_base::limits;

/// One LZ4 block.
const LZ4: u8 = 0xd0;
/// How, and the plain length.
const HEAD_BYTES: usize = 5;
/// Shorter ones are left alone: next to nothing is to be gained.
const LEAST_BYTES: usize = 100;
/// A byte of a block says at most so many.
const DENSEST: usize = 255;
/// Longer ones are packed and unpacked beside the runtime's threads, which others need meanwhile.
pub(crate) const ASIDE_BYTES: usize = 64 << 10;

/// Why a packed frame cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It ends before it began.
    #[error("a packed frame of {0} bytes")]
    Short(usize),
    /// It would become longer than any message may be.
    #[error("a packed frame of {length} bytes; at most {most} are taken", most = limits::MESSAGE_BYTES)]
    TooLong {
        /// What was announced.
        length: usize,
    },
    /// It cannot become what it says.
    #[error("a packed frame that is not what it says: {0}")]
    Damaged(String),
}

/// The packed form, if it is shorter.
pub(crate) fn pack(plain: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(plain.len()).ok().filter(|_| plain.len() >= LEAST_BYTES)?;
    let mut frame = vec![0; HEAD_BYTES + lz4_flex::block::get_maximum_output_size(plain.len())];
    let (head, room) = frame.split_at_mut_checked(HEAD_BYTES)?;
    let written = lz4_flex::block::compress_into(plain, room).ok()?;
    let bytes = std::iter::once(LZ4).chain(length.to_be_bytes());
    head.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    frame.truncate(HEAD_BYTES + written);
    (frame.len() < plain.len()).then_some(frame)
}

/// What is sent for this: the packed form if it is shorter.
pub(crate) async fn packed(plain: Vec<u8>) -> Bytes {
    let plain = Bytes::from(plain);
    if plain.len() < ASIDE_BYTES {
        return pack(&plain).map_or(plain, Bytes::from);
    }
    let given = plain.clone();
    let packed = tokio::task::spawn_blocking(move || pack(&given)).await;
    packed.ok().flatten().map_or(plain, Bytes::from)
}

/// How long it will be once it is open, as it says itself.
pub(crate) fn plain_length(frame: &[u8]) -> usize {
    match frame.split_first_chunk::<HEAD_BYTES>() {
        Some(([LZ4, length @ ..], _)) => u32::from_be_bytes(*length) as usize,
        _ => frame.len(),
    }
}

/// What a frame says, packed or not.
pub(crate) fn open(frame: Vec<u8>) -> Result<Vec<u8>, Unreadable> {
    if frame.first() != Some(&LZ4) {
        return Ok(frame);
    }
    let Some(([_, length @ ..], block)) = frame.split_first_chunk::<HEAD_BYTES>() else {
        return Err(Unreadable::Short(frame.len()));
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > limits::MESSAGE_BYTES {
        return Err(Unreadable::TooLong { length });
    }
    if length > block.len().saturating_mul(DENSEST) {
        return Err(Unreadable::Damaged(format!("{} bytes never become {length}", block.len())));
    }
    let mut plain = vec![0; length];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(written) if written == length => Ok(plain),
        Ok(written) => Err(Unreadable::Damaged(format!("{written} bytes instead of {length}"))),
        Err(error) => Err(Unreadable::Damaged(error.to_string())),
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
