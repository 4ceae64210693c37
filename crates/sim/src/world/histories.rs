//! Conditional operations and reads at homes are recorded, as their clients see them.
//!
//! An operation begins when its client asks and ends when the answer is there; a process that dies, a disk that fails
//! and an answer that is lost on its way leave it open. Begins and ends are numbered, so that two of one moment have
//! their order.

use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_model::bucket::{self, Standing};
use skerry_model::space;

use super::World;
use crate::canary::Canary;
use crate::checkers::races::Expected;
use crate::histories::{Act, Answered, Operation};
use crate::site::{Asked, Unwritten, Wrote};
use skerry_scenario::draw::Ppm;

/// Operations of one world at the most.
const OPERATIONS: usize = 5_000;

impl World {
    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// An operation begins; none if nothing is recorded.
    pub(super) fn operation_begins(
        &mut self,
        site: usize,
        (bucket, key): (BucketId, &str),
        act: Act,
        expected: Expected,
    ) -> Option<usize> {
        if !self.environment.histories || self.operations.len() >= OPERATIONS {
            return None;
        }
        let begun = self.turn();
        let key = format!("{bucket}/{key}");
        let answered = Answered::Unknown;
        self.operations.push(Operation { key, site, act, expected, begun, ended: None, answered });
        Some(self.operations.len() - 1)
    }

    /// The home has answered; to another site some answers do not come through.
    pub(super) fn operation_ends(&mut self, home: usize, asked: Asked, result: &Result<Wrote, Unwritten>) {
        let Some(number) = asked.operation else { return };
        let elsewhere = self.operations.get(number).is_some_and(|operation| operation.site != home);
        if elsewhere && self.draw.chance(Ppm::percent(10)) {
            return;
        }
        let answered = match result {
            Ok(Wrote::Record(..) | Wrote::Again(..)) => Answered::Done,
            Ok(Wrote::Nothing) | Err(Unwritten::Refused(_)) => Answered::Refused,
            Err(Unwritten::Missed(_)) => Answered::Missed,
            Err(Unwritten::Failed(_)) => return,
        };
        self.operation_answered(number, answered);
    }

    /// An operation was answered, or could not begin.
    pub(super) fn operation_answered(&mut self, number: usize, answered: Answered) {
        let ended = self.turn();
        if let Some(operation) = self.operations.get_mut(number) {
            (operation.ended, operation.answered) = (Some(ended), answered);
        }
    }

    /// A read of a key at its bucket's home, which answers what is decided and durable; none if it is not the home.
    pub(super) fn read_at_home(&mut self, site: usize, home: usize, bucket: BucketId, key: &str) {
        let Some(me) = self.sites.get(home).map(|place| place.id) else { return };
        let Some(running) = self.running(home) else { return };
        let view = running.store.view();
        let standing = bucket::standing(&view as &dyn View, self.system, bucket, me);
        let claimed = self.environment.canary == Some(Canary::TwoHomes);
        let decides = match standing {
            Ok(Standing::Decides(_)) => true,
            Ok(Standing::Unnamed) => claimed,
            _ => false,
        };
        let found = space::current(&view, bucket, key);
        drop(view);
        let Some(found) = found.ok().filter(|_| decides) else { return };
        let found = found.and_then(|record| record.object().map(|object| object.etag.clone()));
        let Some(number) = self.operation_begins(site, (bucket, key), Act::Get, None) else { return };
        self.count("reads at homes");
        self.operation_answered(number, Answered::Read(found));
    }
}
