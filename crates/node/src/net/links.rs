//! The links that stand, and how to follow them.
//!
//! Followers compare states instead of queueing events: a slow follower holds no memory, misses no link that
//! still stands, and sees a link that broke and came back as down, then up.

use std::collections::{BTreeMap, VecDeque};

use skerry_base::NodeId;
use tokio::sync::watch;

/// A change of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// Streams can be opened to this node.
    Up(NodeId),
    /// They cannot any more; those that were open have failed.
    Down(NodeId),
}

/// Node → number of its link. A new link has a new number.
type Standing = BTreeMap<NodeId, u64>;

/// The links of one node, as the network keeps them.
#[derive(Debug)]
pub(super) struct Links(watch::Sender<Standing>);

impl Links {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Standing::new()))
    }

    pub(super) fn up(&self, node: NodeId, number: u64) {
        self.0.send_modify(|standing| {
            standing.insert(node, number);
        });
    }

    /// Takes a link down, unless another one stands in its place already.
    pub(super) fn down(&self, node: NodeId, number: u64) {
        self.0.send_if_modified(|standing| {
            let found = standing.get(&node) == Some(&number);
            if found {
                standing.remove(&node);
            }
            found
        });
    }

    /// Takes down whatever link to this node stands.
    #[cfg(test)]
    pub(super) fn down_any(&self, node: NodeId) {
        self.0.send_if_modified(|standing| standing.remove(&node).is_some());
    }

    pub(super) fn follow(&self) -> LinkEvents {
        let mut receiver = self.0.subscribe();
        receiver.mark_changed();
        LinkEvents { receiver, told: Standing::new(), waiting: VecDeque::new() }
    }
}

/// Follows the links of a node.
#[derive(Debug)]
pub struct LinkEvents {
    receiver: watch::Receiver<Standing>,
    told: Standing,
    waiting: VecDeque<LinkEvent>,
}

impl LinkEvents {
    /// The next change; `None` once the network is gone. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Option<LinkEvent> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            self.receiver.changed().await.ok()?;
            let now = self.receiver.borrow_and_update().clone();
            self.compare(now);
        }
    }

    fn compare(&mut self, now: Standing) {
        let gone = self.told.iter().filter(|(node, number)| now.get(node) != Some(number));
        self.waiting.extend(gone.map(|(node, _)| LinkEvent::Down(*node)));
        let new = now.iter().filter(|(node, number)| self.told.get(node) != Some(number));
        self.waiting.extend(new.map(|(node, _)| LinkEvent::Up(*node)));
        self.told = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_replaced_link_is_down_then_up_and_a_late_down_is_ignored() {
        let (links, node) = (Links::new(), NodeId([1; 16]));
        links.up(node, 1);
        let mut events = links.follow();
        assert_eq!(events.next().await, Some(LinkEvent::Up(node)));
        links.up(node, 2);
        links.down(node, 1);
        assert_eq!(events.next().await, Some(LinkEvent::Down(node)));
        assert_eq!(events.next().await, Some(LinkEvent::Up(node)));
        links.down(node, 2);
        assert_eq!(events.next().await, Some(LinkEvent::Down(node)));
        drop(links);
        assert_eq!(events.next().await, None);
    }
}
