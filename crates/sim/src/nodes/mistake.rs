//! Deliberate mistakes: of who builds on the machine of the view or on tenures, or of what they stand on.

/// A deliberate mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A node answers for a write before its disk has it.
    EarlyAnswer,
    /// Reads are served and conditions decided by who is live in its view, without a lease.
    NoLease,
    /// A write is acknowledged for the site when this node has it.
    EarlyScope,
    /// What an acceptor promised is not on its disk.
    ForgottenPromise,
    /// A machine with an empty disk votes as if the site were new.
    BlankVote,
    /// Other clocks are taken for equal, unproven.
    TrustedClock,
    /// Catching up fetches nothing.
    EmptyCatchUp,
    /// A decision goes on in the next view, where somebody else may be the home.
    UnboundDecision,
    /// Nobody is ever late with a write.
    Patience,
    /// A decision is answered when the home has it.
    EarlyDecision,
    /// An heir is named when who proposes it has said so on its own disk.
    EarlyHeir,
    /// A home is taken over while it holds the writes of the view.
    HastyTakeover,
    /// Who takes over proposes itself, whoever was proposed before.
    OtherHeir,
    /// A node that does not keep the bucket answers for a decision.
    ExcusedHolder,
    /// An heir elsewhere is named though decisions are ahead of the vector that it is to wait for.
    HeirAhead,
    /// That a condition does not hold is said before the other nodes have what it rests on.
    UnsettledNo,
    /// A home decides though its heir is proposed.
    OldHome,
    /// A home that never opened its tenure is taken over.
    UnopenedTaken,
    /// Of several heirs proposed, the one of the lowest view counts.
    LowestView,
    /// A home decides before it has what the former one had.
    NoWait,
    /// A tenure whose home document is not here yet says nothing.
    UnheardHome,
    /// Who does not keep a bucket does not say so to who fetches from it.
    SilentGaps,
    /// A home answers what it decided though meanwhile an heir was proposed, who may have decided otherwise.
    LateAnswer,
    /// Who cannot hold does not say so: it is found late, as with releases before.
    Unsaid,
    /// A full disk counts as one with room as soon as anything has come free.
    NoMargin,
    /// Who has no room answers for what did not fit.
    EmptyPromise,
    /// Who falls silent is taken for gone for good.
    SilenceIsEnd,
    /// The register names when it has said so on its own disk.
    EarlyNaming,
    /// It names though meanwhile an heir was proposed, who may have named otherwise.
    LateNaming,
    /// Who keeps it next does not look at what the former one had begun.
    ForgottenNaming,
    /// What was begun counts as done before the other nodes have what was named.
    EarlyDone,
    /// A register that decides alone does not say that it is the one by now.
    SilentRegister,
    /// It counts as done what it has ahead of the vector that its heir waits for.
    LooseDone,
    /// The register is given to another site though what was named lies ahead of the vector that it waits for.
    NamesAhead,
    /// A home that another site gave opens its tenure without what that one had.
    BareOpening,
}

impl Mistake {
    /// Nodes of a site at which it shows, where so many were drawn.
    pub(super) fn nodes(self, drawn: usize) -> usize {
        match self {
            Self::SilenceIsEnd => 2,
            Self::UnheardHome => 3,
            _ => drawn.max(3),
        }
    }

    /// Whether it is one about nodes that cannot hold.
    pub(super) const fn is_of_rooms(self) -> bool {
        matches!(self, Self::Unsaid | Self::NoMargin | Self::EmptyPromise)
    }

    /// Whether it is one of the register of names.
    pub(super) const fn is_of_names(self) -> bool {
        matches!(
            self,
            Self::EarlyNaming
                | Self::LateNaming
                | Self::ForgottenNaming
                | Self::EarlyDone
                | Self::SilentRegister
                | Self::LooseDone
                | Self::NamesAhead
                | Self::BareOpening
        )
    }

    /// Whether it shows only at a site that had fewer nodes.
    pub(super) const fn needs_growth(self) -> bool {
        matches!(self, Self::UnopenedTaken)
    }

    /// Whether it shows only where a node does not keep a bucket.
    pub(super) const fn needs_excuse(self) -> bool {
        matches!(self, Self::ExcusedHolder | Self::SilentGaps)
    }

    /// Whether it is one about who follows a home.
    pub(super) const fn is_of_tenures(self) -> bool {
        matches!(
            self,
            Self::HastyTakeover
                | Self::OtherHeir
                | Self::HeirAhead
                | Self::OldHome
                | Self::UnopenedTaken
                | Self::LowestView
                | Self::NoWait
                | Self::UnheardHome
                | Self::LateAnswer
                | Self::EarlyNaming
                | Self::ForgottenNaming
        )
    }
}

/// Those that are found within a test's seeds.
pub const MISTAKES: [Mistake; 19] = [
    Mistake::EarlyAnswer,
    Mistake::NoLease,
    Mistake::EarlyScope,
    Mistake::ForgottenPromise,
    Mistake::BlankVote,
    Mistake::TrustedClock,
    Mistake::EmptyCatchUp,
    Mistake::UnboundDecision,
    Mistake::Patience,
    Mistake::EarlyDecision,
    Mistake::EarlyHeir,
    Mistake::OtherHeir,
    Mistake::ExcusedHolder,
    Mistake::SilentGaps,
    Mistake::UnopenedTaken,
    Mistake::Unsaid,
    Mistake::NoMargin,
    Mistake::EmptyPromise,
    Mistake::SilenceIsEnd,
];

/// Those that this world finds in some seeds only, or in none: `tests/tenures` finds them, in which nothing waits for its time.
pub const RARE: [Mistake; 9] = [
    Mistake::HastyTakeover,
    Mistake::HeirAhead,
    Mistake::UnsettledNo,
    Mistake::OldHome,
    Mistake::LowestView,
    Mistake::UnheardHome,
    Mistake::NoWait,
    Mistake::LateAnswer,
    Mistake::BareOpening,
];

/// Mistakes of the register of names: `tests/register` finds them.
pub const OF_NAMES: [Mistake; 8] = [
    Mistake::EarlyNaming,
    Mistake::LateNaming,
    Mistake::ForgottenNaming,
    Mistake::EarlyDone,
    Mistake::SilentRegister,
    Mistake::LooseDone,
    Mistake::NamesAhead,
    Mistake::BareOpening,
];
