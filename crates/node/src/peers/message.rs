//! What sites ask each other on a stream of its own per question, and the answers.
//!
//! Why here: the federation machine's messages are small and may be lost; these carry payload or decide
//! something for a waiting client. Invariants: the order of variants and fields is the wire format of version
//! 1, add at the end; records, listing entries and parts travel in the model's own versioned encodings.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::{BucketId, ChunkId, ChunkRef, CredentialKeyId, Dot, NodeId, Origin, SiteId, Vector};
use skerry_federation::circuits::{Way, Why};
use skerry_federation::clones;
use skerry_model::space;

use crate::trust::SealingKey;

/// What a stream is opened for: always its first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Messages of the federation machine follow, until the stream ends.
    Control,
    /// An object: its record, and the first chunks of its body.
    Read(Read),
    /// One chunk, whole.
    Chunk {
        /// The bucket whose chunk it is.
        domain: BucketId,
        /// Which.
        chunk: ChunkId,
    },
    /// A page of current keys.
    List(List),
    /// A page of versions.
    Versions(List),
    /// A conditional operation, for the bucket's home to decide.
    Decide(Decide),
    /// Something about an upload that lives at the site asked.
    Upload(UploadCall),
    /// How large the records of a bucket are, and how far they go.
    Size {
        /// Which.
        bucket: BucketId,
    },
    /// A version that is to be held durably, record and payload, before the asker answers its client.
    Hold(Hold),
    /// The home of a bucket, for the register of names to name.
    NameHome(NameHome),
    /// A bucket under a name that nobody has, made by the register for the asker.
    ClaimName(ClaimName),
    /// An object that the asker cannot keep. Answered by [`Response::Done`] if there is room; then the body follows in
    /// frames, an empty one, and what it came to; then the answer is the record.
    Forward(Box<Forward>),
    /// Which words of the federation machine the asker understands, to hear the same. Releases before that close.
    Words {
        /// See `skerry_federation::limits::DIALECT`.
        dialect: u8,
    },
    /// Which versions of a bucket the site asked holds as copies that count.
    Holdings(Holdings),
    /// Which of these chunks the site asked has, in any class.
    Have(Have),
    /// What the site asked is to a bucket, for the asker, who wants to leave it.
    Standing {
        /// Which.
        bucket: BucketId,
    },
    /// Become a member of a bucket: the asker is about to go. Answered by [`Response::Done`].
    Follow {
        /// Which.
        bucket: BucketId,
    },
    /// A link between two sites that cannot reach each other, by way of the site asked.
    Circuit(Circuit),
    /// One chunk of a site that the asker reaches through the site asked, which fetches it for itself.
    Through(Through),
    /// Count on the asker no more for versions of which it holds copies too many.
    Spare(Spare),
    /// In which buckets a site was whose place the asker has taken.
    Replaced(Box<Replaced>),
    /// What there is below a prefix, for a site that follows only that. Releases before that close.
    Below(Box<AskedBelow>),
    /// With which processes the site asked is linked, and which run beside another with the same key. Releases before that
    /// close.
    Lives,
    /// Whether a process that the site asked is linked with answers it, asked when this arrives.
    IsLive {
        /// Of this node.
        node: NodeId,
        /// In this life.
        life: u64,
    },
    /// What lies behind an offset of a chunk. Said to who speaks [`super::mark::RESUMES`] only.
    Tail(Box<Tail>),
    /// What lies of a bucket at the site asked, for the asker, who is still taking it and finds nobody to take it from. Releases
    /// before that close.
    Remains {
        /// Which.
        bucket: BucketId,
    },
    /// What the site asked wants, which said so with a question for the bucket: the answer to a [`Self::Read`] follows, and nothing
    /// is answered. Said to who speaks [`skerry_federation::limits::SEEKS`] only.
    Give {
        /// Of [`Sought`].
        token: u64,
    },
    /// As [`Request::Forward`], of a key of which the asker knows something. Said to who speaks [`super::mark::REPLACES`] only.
    Replace(Box<Replace>),
    /// As [`Self::Read`], of what the site asked is still taking from others, or takes anew since it lost part of its journal: for an
    /// asker that got it of nobody else. Releases before that close.
    Kept(Box<Read>),
    /// How far the site asked has seen a bucket, for an asker of which this is the digest of the same: answered by
    /// [`Response::Same`] if it is, else as [`Self::Size`]. Said to who speaks [`super::mark::COMPARES`] only.
    Seen {
        /// Which.
        bucket: BucketId,
        /// See `paths::heard`.
        digest: [u8; 32],
    },
    /// The bytes of later credential keys of which the asker has heard. Releases before that close.
    CredentialKeys(Vec<CredentialKeyId>),
    /// As [`Self::Hold`], of a version that is to be kept at more sites than its record says. Said to who speaks
    /// [`super::mark::PROMISES`] only.
    HoldFor(Box<HoldFor>),
}

impl Request {
    /// Asks for a version to be held, and kept at so many sites whatever its record says.
    pub(crate) fn hold_for(hold: Hold, copies: u16) -> Self {
        match copies {
            0 => Self::Hold(hold),
            copies => Self::HoldFor(Box::new(HoldFor { hold, copies })),
        }
    }

    /// What is to be held, if it asks for that, and at how many sites it is to be kept; 0 if the record says it.
    pub(crate) fn held(&self) -> Option<(&Hold, u16)> {
        match self {
            Self::Hold(hold) => Some((hold, 0)),
            Self::HoldFor(asked) => Some((&asked.hold, asked.copies)),
            _ => None,
        }
    }
}

/// What a site wants of the nearest member of a bucket. It travels within messages of the federation machine, to whom it is bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sought {
    /// Under which number it is to be given.
    pub(crate) token: u64,
    /// What.
    pub(crate) read: Read,
    /// Bytes of payload that are to come along at most: whole chunks, or none.
    pub(crate) most: u32,
}

/// Asks for what the asker lacks of a chunk. Answered by [`Response::Chunk`] with so many bytes, as the whole is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tail {
    /// The bucket whose chunk it is.
    pub(crate) domain: BucketId,
    /// Which.
    pub(crate) chunk: ChunkRef,
    /// What the asker has of it.
    pub(crate) from: u32,
    /// Of whom the site asked is to fetch it for itself, as in [`Through`], and the sites between those two at most. As long
    /// as it has not all of it, it answers [`Response::Holding`] with what it has, within seconds.
    pub(crate) way: Option<(SiteId, u8)>,
}

/// Asks what there is below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedBelow {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// How the keys begin.
    pub(crate) prefix: String,
    /// What of them.
    pub(crate) question: Question,
}

/// What is asked of the keys below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// What has changed.
    Changes {
        /// Beyond this.
        seen: Vector,
        /// What the asker was told last of records beyond the vector of who told it.
        loose: space::Fingerprint,
        /// It may be answered so much later, if there is nothing.
        wait_ms: u32,
    },
    /// What there is in a range of keys.
    Range(space::Asked),
}

/// What there is below a prefix. Records in their own encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToldBelow {
    /// See [`space::Changes`].
    Changes {
        /// The answerer's life in the bucket.
        source: Origin,
        /// Ranges are to be compared first.
        far: bool,
        /// What has changed.
        records: Vec<Bytes>,
        /// Up to here.
        upto: Vector,
        /// Whether there is more.
        more: bool,
        /// Over what lies beyond the answerer's vector.
        loose: space::Fingerprint,
    },
    /// See [`space::Range`].
    Range {
        /// The asker has the same of what it covers.
        same: bool,
        /// What there is, or is more.
        records: Vec<Bytes>,
        /// What of it this covers and is not told is dead.
        upto: Vector,
        /// Up to this key; none: all that was asked for.
        end: Option<String>,
    },
}

/// Asks what is known of a site that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// Which.
    pub(crate) gone: SiteId,
    /// Only buckets behind this one.
    pub(crate) after: Option<BucketId>,
    /// Buckets that the asker knows of: what the answerer has of them is told, whatever it knows of the gone site.
    pub(crate) also: Vec<BucketId>,
}

/// A page of what is known, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct KnownIn {
    /// Whether the answerer knows that the asker took that place, and has no link to the gone site. Else nothing is told.
    pub(crate) heard: bool,
    /// The buckets.
    pub(crate) buckets: Vec<KnownBucket>,
    /// Whether there is more behind the last of them.
    pub(crate) more: bool,
    /// The answerer's life: another with each start.
    pub(crate) life: u64,
    /// Buckets that it let go of in this life, counted when the page had been read.
    pub(crate) left: u64,
}

/// A bucket that a gone site was in, or that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownBucket {
    /// Which.
    pub(crate) bucket: BucketId,
    /// What the answerer has of it; none if it is no member.
    pub(crate) vector: Option<Vector>,
}

/// Asks a site to count on the asker no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spare {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// At how many sites its versions are to be kept, as the asker knows; who knows of more says no.
    pub(crate) copies: u16,
    /// The versions, encoded as [`skerry_federation::placement::Spans`].
    pub(crate) versions: Bytes,
}

/// What a site says to that, each encoded likewise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spared {
    /// Those that it holds itself as copies that count, and is not about to let go of.
    pub(crate) holds: Bytes,
    /// Those for which it counts on the asker still.
    pub(crate) keeps: Bytes,
}

/// About a link that others carry ([`skerry_federation::circuits`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Circuit {
    /// Who wants it. A site asks on its own behalf only.
    pub(crate) from: SiteId,
    /// With whom.
    pub(crate) to: SiteId,
    /// What is to be done.
    pub(crate) act: Act,
}

/// What is to be done about a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Say whether there is a way of so many hops at most.
    Ask(u8),
    /// Carry it over so many hops at most: after the answer the stream is the link's.
    Carry(u8),
    /// To the other end: it comes over so many hops, and the stream is the link's after the answer.
    Take(u8),
}

/// Asks for a chunk by way of the site asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Through {
    /// Who has it.
    pub(crate) holder: SiteId,
    /// The bucket whose chunk it is.
    pub(crate) domain: BucketId,
    /// Which.
    pub(crate) chunk: ChunkRef,
    /// Sites between the one asked and the holder at most: fewer with each, so that it comes to an end.
    pub(crate) most: u8,
}

/// Asks the register of names for a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimName {
    /// The name.
    pub(crate) name: String,
    /// Whose bucket it shall be.
    pub(crate) owner: String,
    /// The access key that makes it.
    pub(crate) writer: String,
}

/// Asks the register of names who decides the conditions of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameHome {
    /// Which bucket.
    pub(crate) bucket: BucketId,
    /// Its claim as the asker has it, as records of the system bucket.
    pub(crate) claims: Vec<Bytes>,
}

/// Asks what is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holdings {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The life of the answerer in which it said so last: nothing is to be said again in the same.
    pub(crate) life: Option<Origin>,
    /// Only what lies behind this.
    pub(crate) from: Vector,
}

/// Asks for chunks by name, without their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Have {
    /// The bucket whose chunks they are.
    pub(crate) domain: BucketId,
    /// Which.
    pub(crate) chunks: Vec<ChunkId>,
}

/// A page of what is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The answerer's life.
    pub(crate) life: Origin,
    /// The versions, encoded as [`skerry_federation::placement::Spans`].
    pub(crate) spans: Bytes,
    /// How far this page goes.
    pub(crate) upto: Vector,
    /// Whether there is more behind that.
    pub(crate) more: bool,
}

/// Asks for a version to be held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// Its record.
    pub(crate) record: Bytes,
    /// The first chunks of its body, in the order of the walk; the rest is fetched.
    pub(crate) payload: Vec<Bytes>,
}

impl Hold {
    /// Bytes of its payload.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }
}

/// The same of a version that is to be kept at more sites than its record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldFor {
    /// Which.
    pub(crate) hold: Hold,
    /// At how many.
    pub(crate) copies: u16,
}

/// An object on its way to a site that can keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forward {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The key.
    pub(crate) key: String,
    /// Headers and metadata, without what only the body tells.
    pub(crate) object: Box<skerry_model::Object>,
    /// What must hold.
    pub(crate) condition: Condition,
    /// The access key that writes.
    pub(crate) writer: String,
    /// Bytes of the body, if the client said.
    pub(crate) length: Option<u64>,
}

/// The same, of a key of which the asker knows something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replace {
    /// What is written.
    pub(crate) put: Forward,
    /// The asker's heads of the key, as records: merged before it is written, so that it replaces what its client had seen.
    pub(crate) heads: Vec<Bytes>,
}

/// Which version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Which {
    /// The current one.
    Current,
    /// The null version.
    Null,
    /// The one with this dot.
    Dot(Dot),
}

/// Which bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// None: the record alone.
    Nothing,
    /// All.
    Whole,
    /// First to last, both included; the last may lie behind the end.
    Between(u64, u64),
    /// From here to the end.
    From(u64),
    /// So many at the end.
    Last(u64),
    /// The part of this number.
    Number(u32),
}

/// Asks for an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Read {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The key.
    pub(crate) key: String,
    /// Which version.
    pub(crate) which: Which,
    /// What of its body to send along.
    pub(crate) part: Part,
}

/// Asks for a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// Only keys that begin so.
    pub(crate) prefix: String,
    /// What folds keys into common prefixes.
    pub(crate) delimiter: Option<String>,
    /// Only names greater than this.
    pub(crate) after: String,
    /// In a page of versions: go on within `after` behind this one.
    pub(crate) after_version: Option<Which>,
    /// At most so many entries.
    pub(crate) limit: u32,
}

/// The condition of a write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// There must be no current object.
    pub(crate) absent: bool,
    /// The current object's ETag must be one of these; an empty list stands for any.
    pub(crate) matches: Option<Vec<String>>,
}

/// What a conditional operation writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Write {
    /// An object, in the encoding of [`skerry_model::Object`]; its payload stays with the asker.
    Put(Box<skerry_model::Object>),
    /// A delete of the key.
    Delete,
    /// The erasure of one version.
    Erase(Which),
}

/// Asks the home of a bucket to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decide {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The key.
    pub(crate) key: String,
    /// What must hold.
    pub(crate) condition: Condition,
    /// What to write if it does.
    pub(crate) write: Write,
    /// The asker's heads of the key, as records: merged before deciding.
    pub(crate) heads: Vec<Bytes>,
    /// The access key that writes.
    pub(crate) writer: String,
    /// Where the payload is.
    pub(crate) site: SiteId,
}

/// Something about an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadCall {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The key.
    pub(crate) key: String,
    /// The upload, as its id prints.
    pub(crate) upload: String,
    /// The access key that asks.
    pub(crate) writer: String,
    /// What.
    pub(crate) act: UploadAct,
}

/// What is to be done with an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UploadAct {
    /// Say what it was begun with.
    Describe,
    /// Take this part, in the encoding of [`skerry_model::multipart::Part`], and its chunks from the asker.
    Part(Box<skerry_model::multipart::Part>),
    /// Say which parts there are.
    Parts {
        /// Of higher number than this.
        after: u32,
        /// At most so many.
        limit: u32,
    },
    /// Make the object.
    Complete(Box<Complete>),
    /// Give it up.
    Abort,
    /// Make the object, of a key of which the asker knows something. Said to who speaks [`super::mark::COMPLETES`] only.
    Replace(Box<Completion>),
}

/// A completion, of a key of which the asker knows something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completion {
    /// As the client asked for it.
    pub(crate) complete: Complete,
    /// What the asker knows of the key, as records: merged before it is written.
    pub(crate) heads: Vec<Bytes>,
}

/// A completion as the client asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Complete {
    /// Number, ETag and checksums of each part.
    pub(crate) parts: Vec<ClaimedPart>,
    /// Checksum of the whole: its name and value.
    pub(crate) checksum: Option<(String, String)>,
    /// Whether the client expects a composite checksum.
    pub(crate) composite: Option<bool>,
    /// The size that must come out.
    pub(crate) size: Option<u64>,
    /// What must hold of the key.
    pub(crate) condition: Condition,
}

/// A part as the client names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimedPart {
    /// Its number.
    pub(crate) number: u32,
    /// Its ETag.
    pub(crate) etag: String,
    /// Checksums: names and values.
    pub(crate) checksums: Vec<(String, String)>,
}

/// What a site answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Response {
    /// An object; then as many bytes as `inline` says, chunk after chunk in the order of the walk.
    Object(Box<Found>),
    /// No such object, as far as the answerer has seen.
    NoObject {
        /// Whether the version named is a delete marker, or the key is hidden by one.
        marker: Option<Dot>,
        /// What the answerer has seen of the bucket.
        vector: Vector,
    },
    /// The chunk follows: so many bytes.
    Chunk(u32),
    /// Not here.
    NoChunk,
    /// A page.
    Page(Page),
    /// The home's decision, as a record.
    Decided(Bytes),
    /// What an upload was begun with, encoded as [`skerry_model::multipart::Upload`].
    Upload(Box<skerry_model::multipart::Upload>),
    /// Parts of an upload, and whether there are more.
    Parts(Vec<skerry_model::multipart::Part>, bool),
    /// Done; the answer to what asks for nothing back.
    Done,
    /// How large the records of a bucket are here.
    Size {
        /// Bytes of live records.
        bytes: u64,
        /// What the answerer, a complete member, has seen.
        vector: Vector,
    },
    /// The answerer is no member of the bucket.
    NotMember,
    /// Refused: the code and message that the client gets.
    Refused {
        /// The code of the error kind.
        code: String,
        /// What to do about it.
        message: String,
    },
    /// The answerer is a member that has not yet taken what others have: ask another.
    Joining,
    /// The version is durable at the answerer: record and payload.
    Held,
    /// So many bytes of its payload are, and more is on the way: ask again.
    Holding(u64),
    /// Records of the system bucket.
    Records(Vec<Bytes>),
    /// Which words the answerer understands.
    Words {
        /// The same.
        dialect: u8,
    },
    /// Which versions are held.
    Holdings(Box<Held>),
    /// Which of the chunks are here, in the order of the question.
    Have(Vec<bool>),
    /// What the answerer is to a bucket.
    Standing(Box<skerry_federation::departure::Standing>),
    /// The way there is, or why there is none.
    Circuit(Result<Way, Why>),
    /// What is held here of copies too many, and for what the asker is counted on still.
    Spared(Box<Spared>),
    /// In which buckets a gone site was.
    KnownIn(Box<KnownIn>),
    /// What there is below a prefix.
    Below(Box<ToldBelow>),
    /// Who is linked, and which processes run beside another.
    Lives(Box<clones::Word>),
    /// Whether that process answers.
    IsLive(bool),
    /// What lies of a bucket at the answerer.
    Remains(Box<skerry_federation::alone::Remains>),
    /// The answerer has seen just what the asker has.
    Same,
    /// Credential keys: of those asked for what is here and may be told to the asker.
    CredentialKeys(Vec<SealingKey>),
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Its record.
    pub(crate) record: Bytes,
    /// The records that must be known with it for the same answer: heads of the key.
    pub(crate) heads: Vec<Bytes>,
    /// Stored lengths of the chunks that follow.
    pub(crate) inline: Vec<u32>,
    /// Bytes of all live records of the bucket here.
    pub(crate) bucket_bytes: u64,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Page {
    /// In order.
    pub(crate) entries: Vec<Listed>,
    /// Whether more follow.
    pub(crate) more: bool,
}

/// An entry of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Listed {
    /// A current object.
    Object {
        /// Its key.
        key: String,
        /// What a listing shows of it.
        row: skerry_model::space::Listed,
    },
    /// A version or a delete marker.
    Version {
        /// Its record.
        record: Bytes,
        /// Whether clients call it `null`.
        null: bool,
        /// Whether it is the current one of its key.
        latest: bool,
    },
    /// A common prefix.
    Prefix(String),
}

impl ToldBelow {
    /// Whether nothing has changed.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Changes { far: false, more: false, records, .. } if records.is_empty())
    }
}

impl Versioned for Request {
    const NAME: &'static str = "request between sites";
    const VERSION: u8 = 1;
}

impl Versioned for Sought {
    const NAME: &'static str = "what is wanted of a member";
    const VERSION: u8 = 1;
}

impl Versioned for Response {
    const NAME: &'static str = "answer between sites";
    const VERSION: u8 = 1;
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
