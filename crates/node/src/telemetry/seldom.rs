//! What is written into the log about somebody seldom, however often it happens: who makes it happen would fill the disk.
//!
//! Invariant: of each one line a minute at most, and a line a minute of no more than [`MOST`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skerry_base::{Instant, NodeId};

/// How long nothing more is said of one.
const PAUSE: Duration = Duration::from_secs(60);
/// Of how many something is said in that time: as many as sites may belong.
const MOST: usize = 1024;

/// Of whom something was said lately, and when.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<BTreeMap<NodeId, Instant>>);

impl Seldom {
    /// Whether it is time to say something of this one again; then it is taken for said.
    pub(crate) fn is_due(&self, of: NodeId, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, at| now.since(*at) < PAUSE);
        let is_due = said.len() < MOST && !said.contains_key(&of);
        if is_due {
            said.insert(of, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_something_is_said_once_in_a_while_and_not_of_any_number() {
        let (seldom, begin) = (Seldom::default(), Instant(7));
        let node =
            |n: u16| NodeId([[0; 14].as_slice(), &n.to_be_bytes()].concat().try_into().unwrap_or_default());
        let told = |at: Instant| (0..10_000).filter(|n| seldom.is_due(node(n % 5000), at)).count();
        assert!(seldom.is_due(node(1), begin) && seldom.is_due(node(2), begin));
        assert!(!seldom.is_due(node(1), begin.after(PAUSE - Duration::from_nanos(1))));
        assert_eq!(told(begin), MOST - 2);
        assert_eq!(told(begin.after(PAUSE)), MOST);
    }
}
