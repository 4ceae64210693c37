//! What foca wants done, gathered during one call.

use core::time::Duration;

use bytes::Bytes;
use foca::{Notification, Runtime, Timer};
use skerry_base::SiteId;

use super::identity::Identity;

/// Packets, timers and changes of liveness, in order.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) packets: Vec<(Identity, Bytes)>,
    pub(super) timers: Vec<(Timer<Identity>, Duration)>,
    pub(super) changes: Vec<(SiteId, bool)>,
}

impl Runtime<Identity> for Effects {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        match notification {
            Notification::MemberUp(who) => self.changes.push((who.site(), true)),
            Notification::MemberDown(who) => self.changes.push((who.site(), false)),
            // A new life of a site is the same site; our own connectedness is what the others are.
            _ => {}
        }
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.packets.push((to, Bytes::copy_from_slice(data)));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.timers.push((event, after));
    }
}
