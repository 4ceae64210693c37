//! The JSON shapes of the admin face, for its client in the command line: the arrows let it name this crate and
//! not the gateway.

pub use skerry_gateway::service::{
    BucketCreate, BucketList, BucketPatch, BucketStatus, Conflict, ConflictPage, ConflictQuery, Invite,
    InviteRequest, KeyCreate, KeyCreated, KeyList, KeyStatus, LinkRequest, LinkState, PeerStatus, Readiness,
    ScrubReport, ScrubRequest, SpaceReport, SpaceRow, StatusReport, StorageStatus,
};
