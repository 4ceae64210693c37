//! MD5 of several streams at once, and of a stream in pieces.
//!
//! Why: MD5 is one long chain of dependent steps, so that a processor is idle most of the time it computes one; eight
//! chains in vectors take little longer than one. The kept libraries do that for whole messages of equal length
//! only (`docs/decisions/2026-11-22-md5-vectors.md`); here every stream goes on from where it stands. What vectors the
//! processor has is found out while it runs. A stream that is alone is computed as the library does it, but for the order of its sums.
//!
//! What bounds all of them is how long a step takes from the word before to its own. So all sums are written such that the last word
//! comes in last, and the compiler is kept from knowing the constants: it would add them last (`docs/decisions/2026-11-26-md5-waits.md`).
//!
//! Invariant: pure; whatever pieces bytes come in and whoever shares the lanes, the digest is that of RFC 1321.

use core::hint::black_box;

use fearless_simd::{Level, Simd, SimdInt, dispatch, u32x4, u32x8};

/// Streams side by side.
pub(super) const LANES: usize = 8;
/// Bytes of a block.
const BLOCK: usize = 64;

/// `K` of RFC 1321: the integer part of 2^32 times the absolute sine.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// By how much each step rotates, by round and place within a group of four.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The function of a round of `b`, `c` and `d`, in every lane.
#[inline(always)]
fn mixed<S: Simd, V: SimdInt<S>>(round: usize, b: V, c: V, d: V) -> V {
    match round {
        0 => d ^ (b & (c ^ d)),
        1 => c ^ (d & (b ^ c)),
        2 => b ^ c ^ d,
        _ => c ^ (b | !d),
    }
}

/// Which word of the block a step takes.
const fn word(round: usize, step: usize) -> usize {
    match round {
        0 => step,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => (7 * step) % 16,
    }
}

#[inline(always)]
fn turned<S: Simd, V: SimdInt<S>>(words: V, by: u32) -> V {
    (words << by) | (words >> (32 - by))
}

/// The words of a block of every lane: the n-th vector has the n-th word of each.
#[inline(always)]
fn transposed<S: Simd, V: SimdInt<S, Element = u32>, const N: usize>(
    simd: S,
    blocks: [&[u8; BLOCK]; N],
) -> [V; 16] {
    let words = blocks.map(|block| block.as_chunks::<4>().0);
    core::array::from_fn(
        #[inline(always)]
        |index| {
            let mut row = [0; N];
            for (word, block) in row.iter_mut().zip(words) {
                *word = u32::from_le_bytes(block[index]);
            }
            V::from_slice(simd, &row)
        },
    )
}

/// The 64 steps, by a macro that makes one.
macro_rules! all_rounds {
    ($a:ident, $b:ident, $c:ident, $d:ident, $step:ident) => {
        all_rounds!($a, $b, $c, $d, $step, 0);
        all_rounds!($a, $b, $c, $d, $step, 1);
        all_rounds!($a, $b, $c, $d, $step, 2);
        all_rounds!($a, $b, $c, $d, $step, 3);
    };
    ($a:ident, $b:ident, $c:ident, $d:ident, $step:ident, $round:literal) => {
        all_rounds!($a, $b, $c, $d, $step, $round, 0);
        all_rounds!($a, $b, $c, $d, $step, $round, 4);
        all_rounds!($a, $b, $c, $d, $step, $round, 8);
        all_rounds!($a, $b, $c, $d, $step, $round, 12);
    };
    ($a:ident, $b:ident, $c:ident, $d:ident, $step:ident, $round:literal, $first:literal) => {
        $step!($a, $b, $c, $d, $round, $first);
        $step!($d, $a, $b, $c, $round, $first + 1);
        $step!($c, $d, $a, $b, $round, $first + 2);
        $step!($b, $c, $d, $a, $round, $first + 3);
    };
}

/// One block of every lane. All of this is inlined into what [`dispatch!`] compiles for one kind of processor: what is
/// not would be compiled for the oldest.
#[inline(always)]
fn compress<S: Simd, V: SimdInt<S, Element = u32>, const N: usize>(
    simd: S,
    chains: &mut [V; 4],
    blocks: [&[u8; BLOCK]; N],
    sines: &[V; 64],
) {
    let message = transposed::<S, V, N>(simd, blocks);
    let [mut a, mut b, mut c, mut d] = *chains;
    macro_rules! step {
        ($a:ident, $b:ident, $c:ident, $d:ident, $round:literal, $step:expr) => {
            let known = $a + (message[const { word($round, $step) }] + sines[$round * 16 + $step]);
            let sum = known + mixed($round, $b, $c, $d);
            $a = $b + turned(sum, const { TURNS[$round][$step % 4] });
        };
    }
    all_rounds!(a, b, c, d, step);
    for (chain, now) in chains.iter_mut().zip([a, b, c, d]) {
        *chain += now;
    }
}

/// One block of one stream. `G` is a sum, not an `or`: what does not need the last word is added before it is there.
#[inline(always)]
fn compress_one(chain: &mut [u32; 4], block: &[u8; BLOCK], sines: &[u32; 64]) {
    let mut message = [0; 16];
    for (word, bytes) in message.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *chain;
    macro_rules! step {
        ($a:ident, $b:ident, $c:ident, $d:ident, $round:literal, $step:expr) => {
            let known = message[const { word($round, $step) }].wrapping_add(sines[$round * 16 + $step]);
            let known = $a.wrapping_add(known);
            let sum = match $round {
                0 => known.wrapping_add($d ^ ($b & ($c ^ $d))),
                1 => known.wrapping_add($c & !$d).wrapping_add($b & $d),
                2 => known.wrapping_add($b ^ ($c ^ $d)),
                _ => known.wrapping_add($c ^ ($b | !$d)),
            };
            $a = $b.wrapping_add(sum.rotate_left(const { TURNS[$round][$step % 4] }));
        };
    }
    all_rounds!(a, b, c, d, step);
    for (chain, now) in chain.iter_mut().zip([a, b, c, d]) {
        *chain = chain.wrapping_add(now);
    }
}

/// A stream whose bytes come in pieces.
#[derive(Debug, Clone)]
pub(super) struct Md5Stream {
    chain: [u32; 4],
    length: u64,
    /// What does not fill a block yet.
    rest: Vec<u8>,
}

impl Default for Md5Stream {
    fn default() -> Self {
        let chain = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        Self { chain, length: 0, rest: Vec::new() }
    }
}

impl Md5Stream {
    /// These bytes come next.
    #[cfg(test)]
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let whole = self.begin(bytes);
        self.blocks(whole);
    }

    /// The digest.
    pub(super) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let mut tail = core::mem::take(&mut self.rest);
        tail.push(0x80);
        let padded = (tail.len() + 8).next_multiple_of(BLOCK) - 8;
        tail.resize(padded, 0);
        tail.extend_from_slice(&bits.to_le_bytes());
        self.blocks(&tail);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.chain) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    /// Counts the bytes, fills up the block that was begun and keeps what does not fill one; the whole blocks
    /// between are still to be taken in.
    fn begin<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(BLOCK - self.rest.len()));
            self.rest.extend_from_slice(head);
            bytes = tail;
            if self.rest.len() < BLOCK {
                return &[];
            }
            let full = core::mem::take(&mut self.rest);
            self.blocks(&full);
        }
        let (whole, tail) = bytes.split_at(bytes.len() - bytes.len() % BLOCK);
        self.rest.extend_from_slice(tail);
        whole
    }

    fn blocks(&mut self, bytes: &[u8]) {
        let sines = black_box(&SINES);
        for block in bytes.as_chunks::<BLOCK>().0 {
            compress_one(&mut self.chain, block, sines);
        }
    }
}

/// One stream and the bytes that come next in it.
pub(super) struct Lane<'a> {
    pub(super) stream: &'a mut Md5Stream,
    pub(super) bytes: &'a [u8],
}

/// Takes in the bytes of up to [`LANES`] streams, side by side as long as there are several.
pub(super) fn update_all(lanes: Vec<Lane<'_>>) {
    let mut open: Vec<Open<'_>> = lanes
        .into_iter()
        .map(|Lane { stream, bytes }| {
            // Fills up what was begun; the rest is kept before the blocks between, which is no matter to them.
            let whole = stream.begin(bytes);
            (stream, whole.as_chunks::<BLOCK>().0)
        })
        .filter(|(_, blocks)| !blocks.is_empty())
        .collect();
    // The longest last: the others end first.
    while open.len() > 1 {
        open.sort_by_key(|(_, blocks)| blocks.len());
        let count = open.first().map_or(0, |(_, blocks)| blocks.len());
        side_by_side(&mut open, count);
        open.retain(|(_, blocks)| !blocks.is_empty());
    }
    for (stream, blocks) in open {
        stream.blocks(blocks.as_flattened());
    }
}

/// What a stream still has to take in.
type Open<'a> = (&'a mut Md5Stream, &'a [[u8; BLOCK]]);

/// The next `count` blocks of the streams, in as many lanes as the processor has for so many.
fn side_by_side(open: &mut [Open<'_>], count: usize) {
    let level = Level::new();
    match open.len() {
        0..=4 if !is_wide(level) => dispatch!(level, simd => in_lanes::<_, u32x4<_>, 4>(simd, open, count)),
        _ => dispatch!(level, simd => in_lanes::<_, u32x8<_>, LANES>(simd, open, count)),
    }
}

/// Whether eight words are one vector: then eight lanes cost what four do, and by some compilers' choice of registers less.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn is_wide(level: Level) -> bool {
    level.as_avx2().is_some()
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
const fn is_wide(_: Level) -> bool {
    false
}

/// Of at most `N` streams; lanes without one compute nothing of use.
#[inline(always)]
fn in_lanes<S: Simd, V: SimdInt<S, Element = u32>, const N: usize>(
    simd: S,
    open: &mut [Open<'_>],
    count: usize,
) {
    const IDLE: [u8; BLOCK] = [0; BLOCK];
    let mut words = [[0; N]; 4];
    let mut bytes: [&[[u8; BLOCK]]; N] = [&[]; N];
    for (lane, (stream, blocks)) in open.iter().enumerate().take(N) {
        bytes[lane] = blocks;
        for (row, word) in words.iter_mut().zip(stream.chain) {
            row[lane] = word;
        }
    }
    let mut chains = words.map(|row| V::from_slice(simd, &row));
    let sines = SINES.map(
        #[inline(always)]
        |sine| V::splat(simd, sine),
    );
    let sines = black_box(&sines);
    for index in 0..count {
        let blocks = bytes.map(|blocks| blocks.get(index).unwrap_or(&IDLE));
        compress::<S, V, N>(simd, &mut chains, blocks, sines);
    }
    for (row, chain) in words.iter_mut().zip(chains) {
        chain.store_slice(row);
    }
    for (lane, (stream, blocks)) in open.iter_mut().enumerate().take(N) {
        stream.chain = words.map(|row| row[lane]);
        *blocks = blocks.get(count..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use md5::{Digest, Md5};
    use proptest::prelude::*;

    use super::*;

    fn body(n: usize, length: usize) -> Vec<u8> {
        (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8 ^ n as u8).collect()
    }

    fn digest(bytes: &[u8]) -> [u8; 16] {
        Md5::digest(bytes).into()
    }

    #[test]
    fn lengths_around_a_block_are_those_of_the_library() {
        for length in (0..200).chain([1000, 65_536, 65_537]) {
            let mut stream = Md5Stream::default();
            stream.update(&body(1, length));
            assert_eq!(stream.finish(), digest(&body(1, length)), "{length}");
        }
    }

    proptest! {
        #[test]
        fn streams_side_by_side_do_not_disturb_each_other(
            streams in prop::collection::vec(prop::collection::vec(0..700_usize, 0..5), 1..=LANES)
        ) {
            let mut states = vec![Md5Stream::default(); streams.len()];
            let mut whole = vec![Vec::new(); streams.len()];
            for turn in 0..5 {
                let pieces: Vec<Vec<u8>> = streams
                    .iter()
                    .enumerate()
                    .map(|(n, lengths)| body(n + turn, lengths.get(turn).copied().unwrap_or(0)))
                    .collect();
                let lanes = states.iter_mut().zip(&pieces);
                update_all(lanes.map(|(stream, bytes)| Lane { stream, bytes }).collect());
                for (whole, piece) in whole.iter_mut().zip(&pieces) {
                    whole.extend_from_slice(piece);
                }
            }
            for (state, whole) in states.into_iter().zip(&whole) {
                prop_assert_eq!(state.finish(), digest(whole));
            }
        }
    }
}
