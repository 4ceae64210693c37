//! Which keys are there while a mix deletes: so that a read that finds nothing is a failure of the store and not of
//! the schedule.
//!
//! A key that is being deleted is left alone, a key in use is not deleted; whoever draws a key that does not fit gets
//! the next one that does.

use std::collections::BTreeMap;

use crate::target::Operation;

/// How far to look for a key that fits.
const PROBES: u64 = 4096;

/// The keys of a phase that deletes and does more.
#[derive(Debug)]
pub(crate) struct Board {
    count: u64,
    /// One bit for each key that is not there.
    absent: Vec<u64>,
    busy: BTreeMap<u64, Busy>,
}

#[derive(Debug, Default)]
struct Busy {
    users: u64,
    deleting: bool,
}

impl Board {
    /// All keys are there.
    pub(crate) fn new(count: u64) -> Self {
        Self { count, absent: vec![0; count.div_ceil(64) as usize], busy: BTreeMap::new() }
    }

    fn is_absent(&self, number: u64) -> bool {
        self.absent.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn mark(&mut self, number: u64, absent: bool) {
        if let Some(word) = self.absent.get_mut((number / 64) as usize) {
            let bit = 1 << (number % 64);
            *word = if absent { *word | bit } else { *word & !bit };
        }
    }

    fn fits(&self, operation: Operation, number: u64) -> bool {
        let busy = self.busy.get(&number);
        let deleting = busy.is_some_and(|busy| busy.deleting);
        match operation {
            Operation::Put => !deleting,
            Operation::Delete => busy.is_none() && !self.is_absent(number),
            _ => !deleting && !self.is_absent(number),
        }
    }

    /// Takes the key drawn or the next that fits; none if there is none near.
    pub(crate) fn claim(&mut self, operation: Operation, drawn: u64) -> Option<u64> {
        let near = (0..self.count.min(PROBES)).map(|step| (drawn + step) % self.count);
        let number = near.into_iter().find(|number| self.fits(operation, *number))?;
        let busy = self.busy.entry(number).or_default();
        busy.users += 1;
        busy.deleting = operation == Operation::Delete;
        Some(number)
    }

    /// Gives it back. What a failed delete left is unknown: it counts as deleted until it is written again.
    pub(crate) fn release(&mut self, operation: Operation, number: u64, failed: bool) {
        match operation {
            Operation::Put if !failed => self.mark(number, false),
            Operation::Delete => self.mark(number, true),
            _ => {}
        }
        if let Some(busy) = self.busy.get_mut(&number) {
            busy.users -= 1;
            if busy.users == 0 {
                self.busy.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_use_is_not_deleted_and_a_deleted_one_not_read() {
        let mut board = Board::new(3);
        assert_eq!(board.claim(Operation::Get, 1), Some(1));
        assert_eq!(board.claim(Operation::Delete, 1), Some(2));
        assert_eq!(board.claim(Operation::Get, 2), Some(0));
        assert_eq!(board.claim(Operation::Put, 2), Some(0));
        board.release(Operation::Delete, 2, false);
        assert_eq!(board.claim(Operation::Get, 2), Some(0));
        assert_eq!(board.claim(Operation::Put, 2), Some(2));
        board.release(Operation::Put, 2, true);
        assert_eq!(board.claim(Operation::Delete, 2), None);
        assert_eq!(board.claim(Operation::Put, 2), Some(2));
        board.release(Operation::Put, 2, false);
        assert_eq!(board.claim(Operation::Delete, 2), Some(2));
    }

    #[test]
    fn with_nothing_left_nothing_is_claimed() {
        let mut board = Board::new(1);
        assert_eq!(board.claim(Operation::Delete, 0), Some(0));
        board.release(Operation::Delete, 0, true);
        assert_eq!(board.claim(Operation::Get, 0), None);
        assert_eq!(board.claim(Operation::Delete, 0), None);
    }
}
