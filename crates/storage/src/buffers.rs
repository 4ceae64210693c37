//! Buffers that pieces of chunks are read into, used again and again.
//!
//! Why: a new buffer is zeroed, faulted in page by page and given back to the kernel a moment later; together that cost a
//! sixth of the CPU of a large GET. Invariants: at most [`FREE`] lie here unused; a buffer holds what was read last, so whoever
//! takes one fills all of it before anybody sees it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::payload::extent::BLOCK;

/// Unused buffers that are kept: 2 MiB.
const FREE: usize = 32;
/// Less is not worth a whole buffer.
const LEAST: usize = BLOCK / 4;

/// The buffers of a store.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Box<[u8]>>>);

/// Bytes to be filled; what it lies in goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
    home: Option<Arc<Buffers>>,
}

impl Buffers {
    /// Room for so many bytes. What is in it is not said.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        if !(LEAST..=BLOCK).contains(&len) {
            return Buffer { bytes: vec![0; len].into(), len, home: None };
        }
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = free.unwrap_or_else(|| vec![0; BLOCK].into());
        Buffer { bytes, len, home: Some(self.clone()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let mut free = home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < FREE {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_was_taken_comes_back_with_the_last_of_its_bytes_and_no_more_than_the_bound() {
        let buffers = Arc::new(Buffers::default());
        let free = || buffers.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut buffer = buffers.take(LEAST);
        buffer.as_mut().fill(7);
        let bytes = Bytes::from_owner(buffer);
        let part = bytes.slice(3..5);
        drop(bytes);
        assert_eq!((&part[..], part.len(), free()), (&[7, 7][..], 2, 0));
        drop(part);
        assert_eq!(free(), 1);
        assert_eq!((buffers.take(BLOCK).as_ref().len(), free()), (BLOCK, 0), "it is used again");
        let many: Vec<Buffer> = (0..FREE + 5).map(|_| buffers.take(BLOCK)).collect();
        drop(many);
        assert_eq!(free(), FREE);
    }

    #[test]
    fn small_and_large_ones_are_as_long_as_asked() {
        let buffers = Arc::new(Buffers::default());
        for len in [0, 1, LEAST - 1, BLOCK + 1] {
            assert_eq!(buffers.take(len).as_ref(), vec![0; len]);
        }
        assert!(buffers.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }
}
