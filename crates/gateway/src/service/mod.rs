//! What the HTTP faces ask of a node, in plain words of our own.
//!
//! Why here: the node implements these traits over storage and federation, the memory double implements them
//! for the conformance suite, and neither needs to know HTTP or XML.
//!
//! Invariants: all names are validated before a service sees them (bucket names, keys of 1 to 1024 bytes,
//! part numbers, page sizes); a service decides existence, conditions and durability, and answers only what
//! is durable in the scope it names.

mod admin;
mod areas;
mod body;
mod bound;
mod bucket;
mod checksum;
mod completion;
mod condition;
mod context;
mod credential;
pub mod date;
mod error;
mod fold;
mod homes;
mod links;
mod list;
mod loss;
mod md5_batch;
mod md5_lanes;
mod membership;
mod multipart;
mod nodes;
mod object;
mod pins;
mod range;
mod sites;
mod space;
mod standing;

use std::sync::Arc;

pub use admin::{
    AdminService, AnewStatus, BucketCreate, BucketList, BucketPatch, BucketStatus, Conflict, ConflictDetail,
    ConflictEnd, ConflictEnded, ConflictKey, ConflictPage, ConflictQuery, Invite, InviteRequest, KeyCreate,
    KeyCreated, KeyList, KeyStatus, NameConflict, PeerStatus, Readiness, ScrubReport, ScrubRequest,
    StatusReport, StorageStatus, SurplusStatus, VERSION,
};
pub use areas::{AreaStatus, AreasReport, NearStatus, PlaceStatus};
pub use body::{Declared, Digests, DownloadBody, Expected, Trailers, UploadBody};
pub use bound::{Bound, Reason};
pub use bucket::{BucketInfo, BucketService, CreateBucket, CreatedBucket, Versioning};
pub use checksum::{Checksum, ChecksumKind, ChecksumShape, Hasher};
pub use completion::{Completion, StoredPart, complete_parts};
pub use condition::{EtagTest, IfRange, ReadConditions, WriteCondition};
pub use context::{Principal, ReadMode, Receipt, RequestContext};
pub use credential::{Credential, CredentialService};
pub use error::{ErrorKind, Outcome, ServiceError};
pub use fold::{Fold, Folder};
pub use homes::{HomeRequest, HomeState};
pub use links::{LinkRequest, LinkState, UplinkBudget, UplinkClass, UplinkRequest, UplinkState};
pub use list::{
    ListEntry, ListPage, ListQuery, ObjectSummary, UploadEntry, UploadPage, UploadQuery, UploadSummary,
    VersionEntry, VersionPage, VersionQuery, VersionSummary,
};
pub use loss::{LossPage, LossQuery, LossRequest, LossState, LostVersion};
pub use md5_batch::{Md5Batch, Md5Sum, Md5Work};
pub use membership::{
    FollowRequest, FollowedPrefix, JoinRequest, JoiningBucket, LeaveRequest, MembershipState,
};
pub use multipart::{
    CompleteUpload, CompletedPart, CopyPart, CreateUpload, CreatedUpload, ListParts, PartPage, PartSummary,
    PutPart, PutPartOutcome, UploadTarget,
};
pub use nodes::{NodeStatus, NodesReport, SeatRequest};
pub use object::{
    CopyObject, CopyOutcome, DeleteObject, DeleteOutcome, DeleteTarget, GetObject, MetadataDirective,
    ObjectHead, ObjectHeaders, ObjectInfo, ObjectRead, ObjectService, PutObject, PutOutcome, Source,
    VersionId,
};
pub use pins::{PinAct, PinList, PinRequest, PinStatus};
pub use range::{ByteRange, Selection};
pub use sites::{
    AddressRequest, AreaCopies, AreaRequest, DrainStatus, DutyRequest, ExpelRequest, Expelled, REGISTER,
    RecoveryStatus, RenameRequest, ReplaceRequest, ReplacedSite, Replacing, SiteList, SiteStatus,
};
pub use space::{OthersStatus, SpaceQuery, SpaceReport, SpaceRow};
pub use standing::{Places, Standing};

/// Everything the HTTP faces need from a node.
#[derive(Clone)]
pub struct Services {
    /// Objects and uploads.
    pub objects: Arc<dyn ObjectService>,
    /// Buckets.
    pub buckets: Arc<dyn BucketService>,
    /// Access keys.
    pub credentials: Arc<dyn CredentialService>,
    /// Administration.
    pub admin: Arc<dyn AdminService>,
}

impl core::fmt::Debug for Services {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Services")
    }
}
