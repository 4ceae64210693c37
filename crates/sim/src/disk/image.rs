//! The bytes of one file: sparse pages, shared between copies until they are written.
//!
//! Sharing makes a backup of a whole disk and the durable copy beside the visible one cost a pointer per
//! page, which is what lets a swarm of seeds keep several images of several disks.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Bytes of a page: what a file system allocates at a time.
pub const PAGE: usize = 4096;

type Page = [u8; PAGE];

/// What every reserved page shares until it is written.
static ZEROS: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE]));

/// Bytes of a file. What was never written reads as zeros and takes no space.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pages: BTreeMap<u64, Arc<Page>>,
    length: u64,
}

/// The part of one page that a range touches.
struct Slice {
    page: u64,
    start: usize,
    end: usize,
}

fn slices(offset: u64, length: usize) -> impl Iterator<Item = Slice> {
    let end = offset.saturating_add(length as u64);
    let page = PAGE as u64;
    (offset / page..end.div_ceil(page)).map(move |number| {
        let first = number * page;
        Slice {
            page: number,
            start: (offset.max(first) - first) as usize,
            end: (end.min(first + page) - first) as usize,
        }
    })
}

impl Image {
    /// Bytes of the file.
    pub const fn len(&self) -> u64 {
        self.length
    }

    /// Whether the file is empty.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that it takes on the disk.
    pub fn allocated(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// How many pages a write would add.
    pub fn pages_added_by(&self, offset: u64, length: usize) -> u64 {
        slices(offset, length).filter(|slice| !self.pages.contains_key(&slice.page)).count() as u64
    }

    /// Reads as much of `buffer` as lies within the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let within = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let Some(mut rest) = buffer.get_mut(..within) else { return 0 };
        for slice in slices(offset, within) {
            let Some((part, tail)) = rest.split_at_mut_checked(slice.end - slice.start) else { break };
            match self.pages.get(&slice.page).and_then(|page| page.get(slice.start..slice.end)) {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0),
            }
            rest = tail;
        }
        within
    }

    /// Writes, moving the end if need be.
    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        self.length = self.length.max(offset.saturating_add(bytes.len() as u64));
        for slice in slices(offset, bytes.len()) {
            let Some((part, tail)) = bytes.split_at_checked(slice.end - slice.start) else { break };
            let page = self.pages.entry(slice.page).or_insert_with(|| Arc::clone(&ZEROS));
            if let Some(target) = Arc::make_mut(page).get_mut(slice.start..slice.end) {
                target.copy_from_slice(part);
            }
            bytes = tail;
        }
    }

    /// Makes a range read as zeros; whole pages of it are given back.
    pub fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let page = PAGE as u64;
        let (first, last) = (offset.div_ceil(page), end / page);
        if first < last {
            let inside: Vec<u64> = self.pages.range(first..last).map(|(number, _)| *number).collect();
            inside.iter().for_each(|number| drop(self.pages.remove(number)));
        }
        self.zero(offset, end.min(first.saturating_mul(page)));
        self.zero(offset.max(last * page), end);
    }

    /// Zeros a range that lies within one page.
    fn zero(&mut self, from: u64, to: u64) {
        let page = PAGE as u64;
        let (start, length) = ((from % page) as usize, to.saturating_sub(from) as usize);
        if let Some(held) = self.pages.get_mut(&(from / page))
            && let Some(target) = Arc::make_mut(held).get_mut(start..start + length)
        {
            target.fill(0);
        }
    }

    /// Reserves pages, so that writing there later adds none.
    pub fn allocate(&mut self, offset: u64, length: u64) {
        for slice in slices(offset, usize::try_from(length).unwrap_or(usize::MAX)) {
            self.pages.entry(slice.page).or_insert_with(|| Arc::clone(&ZEROS));
        }
    }

    /// The first position at or after `offset` that was ever written.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let written = |(_, page): &(&u64, &Arc<Page>)| !Arc::ptr_eq(page, &ZEROS);
        let (number, _) = self.pages.range(offset / PAGE as u64..).find(written)?;
        Some(offset.max(number * PAGE as u64)).filter(|found| *found < self.length)
    }

    /// Moves the end. What lies beyond it is gone.
    pub fn set_len(&mut self, length: u64) {
        if length < self.length {
            self.punch(length, self.length - length);
            self.pages.split_off(&length.div_ceil(PAGE as u64));
        }
        self.length = length;
    }

    /// Flips one bit of what is written; none if nothing is.
    pub fn flip(&mut self, at: u64, bit: u32) -> Option<u64> {
        let index = at % (self.pages.len() as u64).max(1);
        let (number, page) = self.pages.iter_mut().nth(index as usize)?;
        let inside = (at / 7919) as usize % PAGE;
        let byte = Arc::make_mut(page).get_mut(inside)?;
        *byte ^= 1 << (bit % 8);
        Some(number * PAGE as u64 + inside as u64)
    }

    /// Flips a bit of the byte at this offset; false if none is stored there.
    pub fn flip_there(&mut self, offset: u64, bit: u32) -> bool {
        let page = self.pages.get_mut(&(offset / PAGE as u64));
        let byte = page.and_then(|page| Arc::make_mut(page).get_mut(offset as usize % PAGE));
        byte.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skerry_scenario::draw::Draw;

    /// The image against plain bytes, through random writes, holes and cuts.
    #[test]
    fn reads_like_plain_bytes() {
        let mut draw = Draw::from_seed(5);
        let (mut image, mut plain) = (Image::default(), Vec::new());
        for _ in 0..500 {
            let (offset, length) = (draw.below(20_000), draw.below(9_000));
            match draw.below(4) {
                0 => {
                    let punched = length.min(image.len().saturating_sub(offset));
                    image.punch(offset, punched);
                    plain.iter_mut().skip(offset as usize).take(punched as usize).for_each(|b| *b = 0);
                }
                1 => {
                    image.set_len(offset);
                    plain.resize(offset as usize, 0);
                }
                _ => {
                    let bytes = draw.bytes(length as usize);
                    let end = offset + length;
                    image.write(offset, &bytes);
                    plain.resize(plain.len().max(end as usize), 0);
                    plain[offset as usize..end as usize].copy_from_slice(&bytes);
                }
            }
            let mut buffer = vec![1; plain.len() + 5];
            assert_eq!(image.read(0, &mut buffer), plain.len());
            assert_eq!(buffer[..plain.len()], plain[..]);
        }
    }

    #[test]
    fn holes_take_no_space_and_copies_share_it() {
        let mut image = Image::default();
        image.set_len(1 << 40);
        assert_eq!(image.allocated(), 0);
        image.set_len(1 << 30);
        assert_eq!(image.pages_added_by(100, PAGE), 2);
        image.allocate(0, 3 * PAGE as u64);
        assert_eq!((image.allocated(), image.next_data(5)), (3 * PAGE as u64, None));
        image.punch(0, 1 << 20);
        image.write(100, &[1; PAGE]);
        assert_eq!(image.pages_added_by(0, 2 * PAGE), 0);
        assert_eq!((image.next_data(5), image.next_data(9000)), (Some(5), None));
        let copy = image.clone();
        image.punch(0, 1 << 20);
        assert_eq!((image.allocated(), copy.allocated()), (0, 2 * PAGE as u64));
        let mut buffer = [0; 2];
        copy.read(99, &mut buffer);
        assert_eq!(buffer, [0, 1]);
    }
}
