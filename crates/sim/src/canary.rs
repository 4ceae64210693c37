//! Faults of our own making, switched on at run time: a checker that has never caught one does not count.
//!
//! Each is a mistake that a builder of this product could make. They exist in the simulator only: production
//! code is unchanged, it is what surrounds it that misbehaves.

use crate::environment::{Class, Environment};
use skerry_scenario::clock::seconds;

/// A deliberate mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Canary {
    /// The disk says that it has synced and has not: writes are acknowledged, shown and fed too early.
    LyingDisk,
    /// Records that arrive are stored with an empty context: a merge that ignores what a write had seen.
    ForgottenContext,
    /// A process goes on under the incarnation of its former life.
    ReusedIncarnation,
    /// A batch of a feed loses a record, and the vector is raised nevertheless.
    SkippedItem,
    /// A feed brings nothing from beyond the vector of its source: what killed there what it passes over stays behind.
    NothingAhead,
    /// A read is answered from what the site showed the last time.
    StaleRead,
    /// A body is stored with one bit flipped.
    WrongBody,
    /// Answers about the members of a bucket do not arrive where they were asked for.
    LostAnswer,
    /// Nobody brings back a bucket whose deletion had not seen what is in it.
    IdleWorker,
    /// Nobody says which records it holds beyond its vector.
    KeptBack,
    /// What everybody has seen is dropped as a tombstone, whether it is one or lives.
    EagerSweep,
    /// Who made a bucket decides its conditions, though nobody has named it the home.
    TwoHomes,
    /// A site says that it holds a version whose record had come before its body, and has not synced the body.
    EarlyHolder,
    /// A PUT of what is there already is answered without a look whether its body is.
    RepeatedPut,
    /// A site leaves a bucket without asking who else has what it holds.
    HastyLeave,
    /// Who is about to leave says to others that it stays.
    BothLeave,
    /// A site that has left a bucket writes to it on under its former origin.
    SameLife,
    /// A member that is found says that it is there, and gives what is wanted once it is asked.
    AskedAgain,
    /// A site goes by its vectors as before though part of its journal is lost.
    UnmendedDamage,
}

/// All of them.
pub const CANARIES: [Canary; 19] = [
    Canary::LyingDisk,
    Canary::ForgottenContext,
    Canary::ReusedIncarnation,
    Canary::SkippedItem,
    Canary::NothingAhead,
    Canary::StaleRead,
    Canary::WrongBody,
    Canary::LostAnswer,
    Canary::IdleWorker,
    Canary::KeptBack,
    Canary::EagerSweep,
    Canary::TwoHomes,
    Canary::EarlyHolder,
    Canary::RepeatedPut,
    Canary::HastyLeave,
    Canary::BothLeave,
    Canary::SameLife,
    Canary::AskedAgain,
    Canary::UnmendedDamage,
];

impl Canary {
    /// Makes it, in an environment where it can do harm.
    pub fn set_free(self, environment: &mut Environment) {
        environment.canary = Some(self);
        let class = match self {
            Self::LyingDisk => Class::Power,
            Self::ReusedIncarnation => Class::Restore,
            Self::ForgottenContext
            | Self::SkippedItem
            | Self::StaleRead
            | Self::WrongBody
            | Self::LostAnswer => return,
            Self::EagerSweep => {
                environment.retires = true;
                return;
            }
            Self::KeptBack => {
                environment.feed_bytes = 300;
                Class::Restore
            }
            Self::TwoHomes => {
                *environment = environment.clone().with_races();
                Class::Cut
            }
            Self::EarlyHolder | Self::RepeatedPut | Self::NothingAhead => {
                *environment = environment.clone().with_scopes();
                return;
            }
            Self::AskedAgain => {
                *environment = environment.clone().with_metric(true);
                return;
            }
            Self::UnmendedDamage => {
                *environment = environment.clone().with_damage();
                return;
            }
            Self::HastyLeave | Self::SameLife => {
                environment.departs = true;
                return;
            }
            Self::BothLeave => {
                (environment.departs, environment.leave_copies) = (true, 1);
                return;
            }
            Self::IdleWorker => {
                environment.workload.mix = [40, 5, 0, 40, 0, 15];
                environment.workload.keys = 1;
                Class::Cut
            }
        };
        environment.faults.retain(|(other, _)| *other != class);
        environment.faults.push((class, seconds(10)));
    }

    /// The checkers that must find it, in some seed of a few.
    pub const fn must_be_caught_by(self) -> &'static [&'static str] {
        match self {
            Self::LyingDisk => &["durability", "acknowledged"],
            Self::ForgottenContext => &["resurrection", "convergence"],
            Self::ReusedIncarnation => &["dots"],
            Self::SkippedItem => &["vectors", "convergence"],
            Self::NothingAhead => &["kept"],
            Self::StaleRead => &["own writes"],
            Self::WrongBody => &["bodies"],
            Self::LostAnswer => &["location"],
            Self::IdleWorker => &["claims"],
            Self::KeptBack => &["convergence", "acknowledged"],
            Self::EagerSweep => &["acknowledged", "vectors"],
            Self::TwoHomes => &["races"],
            Self::EarlyHolder | Self::RepeatedPut => &["scopes"],
            Self::HastyLeave | Self::BothLeave => &["acknowledged"],
            Self::SameLife => &["dots"],
            Self::AskedAgain => &["locality"],
            Self::UnmendedDamage => &["acknowledged", "vectors"],
        }
    }
}
