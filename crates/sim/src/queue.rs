//! What will happen, in order of time; what happens at the same time, in the order in which it was planned.
//!
//! The tie-break is the whole reason for this type: a heap alone would order equal times by chance of
//! insertion, and two runs of a seed would part company.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use skerry_base::Instant;

struct Planned<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    /// Reversed, because the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// The events to come.
pub struct Queue<E> {
    heap: BinaryHeap<Planned<E>>,
    planned: u64,
    now: Instant,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0, now: Instant::default() }
    }
}

impl<E> Queue<E> {
    /// The time of the event taken last.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Plans an event; the past is moved to now.
    pub fn plan(&mut self, at: Instant, event: E) {
        self.planned += 1;
        self.heap.push(Planned { at: at.max(self.now), order: self.planned, event });
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|planned| planned.at)
    }

    /// Takes the next event that happens no later than `until`, and moves the time there. What was skipped over
    /// happens now.
    pub fn take(&mut self, until: Instant) -> Option<E> {
        if self.next_at()? > until {
            return None;
        }
        let planned = self.heap.pop()?;
        self.now = self.now.max(planned.at);
        Some(planned.event)
    }

    /// Nothing happens until then: the time moves on, never back.
    pub fn skip_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// How many events are planned.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_come_in_the_order_of_planning() {
        let mut queue = Queue::default();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b'), (5, 'e')] {
            queue.plan(Instant(at), name);
        }
        let order: String = std::iter::from_fn(|| queue.take(Instant(9))).collect();
        assert_eq!(order, "abcde");
        assert_eq!(queue.now(), Instant(5));
    }

    #[test]
    fn nothing_is_planned_into_the_past_or_taken_from_the_future() {
        let mut queue = Queue::default();
        queue.plan(Instant(9), 'x');
        assert_eq!(queue.take(Instant(8)), None);
        queue.skip_to(Instant(8));
        queue.plan(Instant(2), 'y');
        assert_eq!(queue.next_at(), Some(Instant(8)));
        assert_eq!(queue.take(Instant(9)), Some('y'));
    }
}
