//! The JSON shapes of the admin face, for its client in the command line: the arrows let it name this crate and
//! not the gateway.

pub use skerry_gateway::service::{
    AddressRequest, AreaCopies, AreaRequest, AreaStatus, AreasReport, BucketCreate, BucketList, BucketPatch,
    BucketStatus, Conflict, ConflictDetail, ConflictEnd, ConflictEnded, ConflictPage, ConflictQuery,
    DrainStatus, DutyRequest, ExpelRequest, Expelled, FollowedPrefix, HomeRequest, HomeState, Invite,
    InviteRequest, JoinRequest, KeyCreate, KeyCreated, KeyList, KeyStatus, LeaveRequest, LinkRequest,
    LinkState, LossPage, LossRequest, LossState, LostVersion, MembershipState, NameConflict, NearStatus,
    NodeStatus, NodesReport, OthersStatus, PeerStatus, PinAct, PinList, PinRequest, PinStatus, PlaceStatus,
    REGISTER, Readiness, RecoveryStatus, RenameRequest, ReplaceRequest, ReplacedSite, ScrubReport,
    ScrubRequest, SeatRequest, SiteList, SiteStatus, SpaceReport, SpaceRow, StatusReport, StorageStatus,
    UplinkBudget, UplinkClass, UplinkRequest, UplinkState,
};
