//! Has chunks wait until the link that they are to come over has room for them ([`skerry_federation::flow`]).
//!
//! Invariants: a [`Pass`] that is dropped, waiting or not, makes room for the next; who is called was waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use skerry_base::NodeId;
use skerry_federation::flow::{Errand, Flow};
use tokio::sync::oneshot;

use crate::clock::Clock;

/// What is on its way from each node.
pub(super) struct Flows {
    clock: Clock,
    nodes: Mutex<BTreeMap<NodeId, Queue>>,
}

#[derive(Default)]
struct Queue {
    flow: Flow,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of one chunk among those of a node.
pub(super) struct Pass {
    flows: Arc<Flows>,
    node: NodeId,
    ticket: u64,
}

impl Flows {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, nodes: Mutex::default() })
    }

    fn with<T>(&self, node: NodeId, act: impl FnOnce(&mut Queue) -> T) -> T {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = nodes.entry(node).or_default();
        let result = act(queue);
        while let Some(ticket) = queue.flow.call() {
            // Who gave up meanwhile leaves by its drop.
            let _ = queue.waiting.remove(&ticket).map(|waiter| waiter.send(()));
        }
        result
    }

    /// Returns when so many bytes may be asked for.
    pub(super) async fn pass(self: &Arc<Self>, node: NodeId, errand: Errand, bytes: u64) -> Pass {
        let (waiter, called) = oneshot::channel();
        let ticket = self.with(node, |queue| {
            let ticket = queue.flow.ask(errand, bytes);
            queue.waiting.insert(ticket, waiter);
            ticket
        });
        let pass = Pass { flows: self.clone(), node, ticket };
        called.await.ok();
        pass
    }

    /// So many bytes are on their way already.
    pub(super) fn begun(self: &Arc<Self>, node: NodeId, errand: Errand, bytes: u64) -> Pass {
        let ticket = self.with(node, |queue| queue.flow.begin(errand, bytes));
        Pass { flows: self.clone(), node, ticket }
    }
}

impl Pass {
    /// So many of them came.
    pub(super) fn came(&self, bytes: usize) {
        let now = self.flows.clock.now();
        self.flows.with(self.node, |queue| queue.flow.came(self.ticket, bytes as u64, now));
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.flows.with(self.node, |queue| {
            queue.waiting.remove(&self.ticket);
            queue.flow.leave(self.ticket);
        });
    }
}
