//! Bodies that can be verified without being remembered: each is a function of seed, key, length and generation.
//!
//! A body of 16 bytes or more begins with its generation (8 bytes, little endian), so that overwriting a key writes new
//! bytes (a store may rightly do nothing for equal ones) and a reader still knows what must follow. The rest is a
//! counter run through a mixing function: any place can be computed by itself, nothing compresses, no two chunks are
//! equal, and it costs about a nanosecond for 8 bytes.

use bytes::Bytes;

/// Bytes made at a time.
pub const FRAME: usize = 64 << 10;
/// Bodies shorter than this carry no generation.
const TAGGED: u64 = 16;

/// The bytes of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// How many.
    pub length: u64,
    /// Drawn from seed, bucket and key.
    origin: u64,
    /// Which write of the key.
    generation: u64,
}

impl Body {
    /// Of a key; `generation` tells one write of it from the next.
    pub fn of(seed: u64, key: &str, length: u64, generation: u64) -> Self {
        Self { length, origin: mix(spread(seed, key) ^ length), generation }
    }

    /// No bytes.
    pub const EMPTY: Self = Self { length: 0, origin: 0, generation: 0 };

    /// The bytes, a frame at a time.
    pub fn frames(self) -> Frames {
        Frames { stream: Stream::of(&self, self.generation), left: self.length, at: 0 }
    }

    /// All the bytes: for targets that cannot stream.
    pub fn whole(self) -> Bytes {
        let mut frames = self.frames();
        if self.length <= FRAME as u64 {
            return frames.next().unwrap_or_default();
        }
        frames
            .fold(Vec::with_capacity(self.length as usize), |mut all, frame| {
                all.extend_from_slice(&frame);
                all
            })
            .into()
    }

    /// Verifies what was read, a piece at a time.
    pub fn check(self) -> Checker {
        Checker { body: self, stream: None, head: Vec::new(), at: 0, wrong: None }
    }
}

/// The counter of one body: the word at place `n` is `mix(base + n)`.
#[derive(Debug, Clone, Copy)]
struct Stream {
    base: u64,
    generation: u64,
    tagged: bool,
}

impl Stream {
    fn of(body: &Body, generation: u64) -> Self {
        let tagged = body.length >= TAGGED;
        let generation = if tagged { generation } else { 0 };
        Self { base: mix(body.origin ^ mix(generation)), generation, tagged }
    }

    /// The eight bytes that begin at `8 * index`.
    const fn word(&self, index: u64) -> [u8; 8] {
        if index == 0 && self.tagged {
            return self.generation.to_le_bytes();
        }
        mix(self.base.wrapping_add(index.wrapping_mul(ODD))).to_le_bytes()
    }

    /// Fills a piece that begins at a multiple of eight.
    fn fill(&self, at: u64, piece: &mut [u8]) {
        for (index, word) in (at / 8..).zip(piece.chunks_mut(8)) {
            let bytes = self.word(index);
            let length = word.len();
            word.copy_from_slice(bytes.get(..length).unwrap_or_default());
        }
    }
}

/// A number from a seed and a text.
pub(crate) fn spread(seed: u64, text: &str) -> u64 {
    text.bytes().fold(mix(seed ^ ODD), |state, byte| mix(state ^ u64::from(byte)))
}

/// Any odd number does; this one spreads well (2^64 / golden ratio).
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection in which every bit of the answer depends on every bit of the number (splitmix64's finaliser).
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// The bytes of a body, in frames of [`FRAME`].
#[derive(Debug, Clone)]
pub struct Frames {
    stream: Stream,
    left: u64,
    at: u64,
}

impl Frames {
    /// Bytes still to come.
    pub const fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let length = self.left.min(FRAME as u64) as usize;
        let mut frame = vec![0; length];
        self.stream.fill(self.at, &mut frame);
        self.at += length as u64;
        self.left -= length as u64;
        Some(frame.into())
    }
}

/// Compares what comes in with what was written, whatever the pieces are.
#[derive(Debug, Clone)]
pub struct Checker {
    body: Body,
    /// Known once the generation was read.
    stream: Option<Stream>,
    /// The first bytes, until the generation is there.
    head: Vec<u8>,
    at: u64,
    wrong: Option<u64>,
}

impl Checker {
    /// Takes the next piece.
    pub fn take(&mut self, piece: &[u8]) {
        if self.wrong.is_some() {
            self.at += piece.len() as u64;
            return;
        }
        let Some(stream) = self.stream else {
            return self.begin(piece);
        };
        self.compare(stream, piece);
    }

    /// Collects the generation, then compares what was collected.
    fn begin(&mut self, piece: &[u8]) {
        self.head.extend_from_slice(piece);
        let generation = if self.body.length < TAGGED {
            0
        } else {
            match self.head.first_chunk::<8>() {
                Some(tag) => u64::from_le_bytes(*tag),
                None => return,
            }
        };
        let stream = Stream::of(&self.body, generation);
        self.stream = Some(stream);
        let head = core::mem::take(&mut self.head);
        self.compare(stream, &head);
    }

    fn compare(&mut self, stream: Stream, piece: &[u8]) {
        let (mut at, mut rest) = (self.at, piece);
        self.at += piece.len() as u64;
        // Up to the next word, whole words, and what is left: the middle is nearly all and runs fast.
        while !rest.is_empty() {
            if at % 8 == 0 && rest.len() >= 8 {
                let (words, tail) = rest.as_chunks::<8>();
                if let Some(wrong) = (at / 8..).zip(words).find(|(index, word)| stream.word(*index) != **word)
                {
                    self.wrong = Some(wrong.0 * 8);
                    return;
                }
                at += 8 * words.len() as u64;
                rest = tail;
                continue;
            }
            let word = stream.word(at / 8);
            let expected = word.get((at % 8) as usize..).unwrap_or_default();
            let length = expected.len().min(rest.len());
            let (now, later) = rest.split_at(length);
            if Some(now) != expected.get(..length) {
                self.wrong = Some(at);
                return;
            }
            at += length as u64;
            rest = later;
        }
    }

    /// Where the first wrong bytes are (the word of eight that holds them); the length is checked by the caller.
    pub const fn wrong(&self) -> Option<u64> {
        self.wrong
    }

    /// How many bytes came.
    pub const fn seen(&self) -> u64 {
        self.at
    }

    /// The body as it was written, with the generation that was read: for sums over it.
    pub fn written(&self) -> Body {
        let generation = self.stream.map_or(0, |stream| stream.generation);
        Body { generation, ..self.body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flipped_bit_is_found_anywhere_in_any_pieces() {
        for length in [1_u64, 7, 8, 15, 16, 17, 100, 65_536, 65_543] {
            let body = Body::of(1, "key-1", length, 77);
            let good = body.whole();
            assert_eq!(good.len() as u64, length);
            for pieces in [1, 3, 64, 70_000] {
                assert_eq!(wrong(body, &good, pieces), None, "{length} in {pieces}");
            }
            for at in [0, 1, 7, 8, 9, 15, 16, length / 2, length - 1].into_iter().filter(|at| *at < length) {
                let mut bad = good.to_vec();
                bad[at as usize] ^= 1;
                let found = wrong(body, &bad, 5);
                assert!(found.is_some(), "{length} at {at}");
            }
        }
    }

    fn wrong(body: Body, bytes: &[u8], pieces: usize) -> Option<u64> {
        // A reader does not know the generation.
        let mut checker = Body { generation: 0, ..body }.check();
        bytes.chunks(pieces).for_each(|piece| checker.take(piece));
        assert_eq!(checker.seen(), bytes.len() as u64);
        checker.wrong()
    }

    #[test]
    fn bodies_differ_by_seed_key_length_and_generation() {
        let whole = |seed, key, length, generation| Body::of(seed, key, length, generation).whole();
        let one = whole(1, "a", 64, 1);
        assert_eq!(one, whole(1, "a", 64, 1));
        for other in [whole(2, "a", 64, 1), whole(1, "b", 64, 1), whole(1, "a", 64, 2)] {
            assert!(one[8..].iter().zip(&other[8..]).filter(|(a, b)| a == b).count() < 8);
        }
        assert_ne!(one[8..32], whole(1, "a", 32, 1)[8..]);
        // No chunk looks like another, or a store that deduplicates would be measured with nothing to do.
        let large = whole(1, "a", 1 << 20, 1);
        let words: std::collections::BTreeSet<&[u8]> = large.chunks(8).collect();
        assert_eq!(words.len(), 1 << 17);
    }

    #[test]
    fn the_bytes_are_pinned() {
        // Readers of another release verify what this one wrote.
        let text = skerry_base::hex::text(&Body::of(1, "key-0", 24, 3).whole());
        assert_eq!(text.get(..16), Some("0300000000000000"));
        assert_eq!(text.get(16..), Some("686d300ba8f098fb070dbdeab04477fe"));
    }
}
