//! The bounds that two rooms share or a user must know, named, with their reasons. Docs print this page.

/// Payload bytes of a full chunk: large enough that its name costs nothing, small enough to hold in memory.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Bodies up to this size lie in the journal beside their record: one sync, no second write.
pub const JOURNAL_BODY_BYTES: usize = 32 << 10;
/// Bodies up to this size travel with their record on a feed: shorter than asking for them. Between the nodes of one site longer
/// ones do, up to `JOURNAL_BODY_BYTES`.
pub const FEED_BODY_BYTES: usize = 256;
/// Chunks listed in a record itself; more are named by a tree.
pub const RECORD_CHUNKS: usize = 4;
/// Children of one tree chunk: 8,192 × 1 MiB = 8 GiB below one tree of about 350 KiB.
pub const TREE_CHILDREN: usize = 8192;
/// Bytes of a record on a feed, key and user metadata apart.
pub const RECORD_BYTES: usize = 4 << 10;
/// Bytes of a key, as S3 has it.
pub const KEY_BYTES: usize = 1024;
/// Bytes of user metadata, as S3 has it.
pub const USER_METADATA_BYTES: usize = 2 << 10;
/// Losers of one key that are listed, and that a write keeps readable: a write that covers more lets the oldest go and says so; heads that no write has covered stay, counted.
pub const CONFLICTS_PER_KEY: usize = 16;
/// Parts of a multipart upload, as S3 has it.
pub const PARTS: u32 = 10_000;
/// Smallest part but the last, as S3 has it.
pub const PART_BYTES_MIN: u64 = 5 << 20;
/// Largest part and largest single PUT, as S3 has it.
pub const PUT_BYTES: u64 = 5 << 30;
/// Largest object, as S3 has it.
pub const OBJECT_BYTES: u64 = 5 << 40;
/// Keys of a listing page, as S3 has it.
pub const LIST_KEYS: usize = 1000;
/// Keys of which a client sees nothing (their deletes rest until all sites have them) that a page of versions passes over: some 0.1 s; it ends there, and the next one goes on.
pub const LIST_SKIPS: usize = 10_000;
/// Conditional writes with large bodies, and completed uploads of any size, of which a site does not know what their bucket's home decided, and whose bodies it keeps: each is some 500 bytes of the index, and its body; more are refused until the homes were heard.
pub const UNDECIDED_WRITES: usize = 1024;
/// Keys of one DeleteObjects, as S3 has it.
pub const DELETE_KEYS: usize = 1000;
/// At most for chunks of uploads in memory at a site, all clients together: a 16th of its memory and 16 MiB a processor if that is less; beyond it uploads wait in order, a minute at most, then 503 SlowDown.
pub const INCOMING_BYTES: usize = 64 << 20;
/// At most read ahead for downloads at a site, all clients together: a 32nd of its memory and 4 MiB a processor if that is less; beyond it each client gets pieces of 64 KiB. What lies in memory goes out in pieces of 256 KiB as long as they take no more than half of it.
pub const OUTGOING_BYTES: usize = 32 << 20;
/// At most for chunks on their way from other sites to clients whose downloads found no room to be read ahead: a 32nd of its memory and 8 MiB a processor if that is less.
pub const ARRIVING_BYTES: usize = 32 << 20;
/// At most for chunks that are being made a site's own, as copies that others want held: a 64th of its memory and 8 MiB a processor if that is less; 16 at a time fill any link of a small site. Half as much again for those that come for nobody who waits.
pub const HOLDING_BYTES: usize = 16 << 20;
/// At most of what came over links and nobody at this site has read yet, all links together, and as much again that links have as their equal shares of it: a 64th of its memory and 16 MiB a processor if that is less. Beyond it links wait.
pub const BACKLOG_BYTES: usize = 64 << 20;
/// Bytes of one feed answer: bounds memory on both sides.
pub const FEED_BATCH_BYTES: usize = 1 << 20;
/// Bytes of one control message between sites; a longer one is refused before it is read.
pub const MESSAGE_BYTES: usize = 4 << 20;
/// Addresses of a site, as it says itself, and again as many by an operator's word.
pub const ADDRESSES: usize = 16;
/// Sites that get metrics of their own; the rest are summed.
pub const METRIC_PEERS: usize = 64;
/// A bucket whose records are at most this many bytes is followed whole after one read.
pub const MEMBERSHIP_ON_READ_BYTES: u64 = 4 << 20;
/// Milliseconds a chunk that nothing refers to rests before it is collected (10 minutes).
pub const CHUNK_REST_MS: u64 = 10 * 60 * 1000;
