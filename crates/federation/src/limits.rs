//! The bounds of this room, each with its reason. What crosses rooms stands in `skerry_base::limits`.

use core::time::Duration;

/// Sites of a roster; beyond it entries are refused. Landmarks are proven for ten times as many, but every site keeps
/// a link to every other until there are messages without links.
pub const SITES: usize = 1024;
/// Buckets of which this site may be a member. The shell refuses the last thousand: several may be joined at once.
pub const BUCKETS: usize = 65_536;
/// Batches that one pull may ask for: 8 MiB on the way fill 500 Mbit/s at 100 ms.
pub const BATCHES_PER_PULL: u8 = 8;
/// Bytes that may wait for one link; what is beyond it is dropped. More than [`WINDOW_MAX`], so that whole answers fit beside
/// the heads of their batches and the news of others.
pub const LINK_BYTES: usize = 10 << 20;
/// Batches of one bucket that wait for the store; a pull waits when there are as many.
pub const BATCHES_UNAPPLIED: usize = 12;
/// Records of a batch that are committed together: who waits for the store meanwhile waits for so many at most, a millisecond
/// on the boards this is for.
pub const STEP_RECORDS: usize = 16;
/// Their bytes, with the bodies that came along: a record and its body at least.
pub const STEP_BYTES: usize = 128 << 10;
/// Between two batches of an answer: what came meanwhile goes before the next.
pub const SERVE_PAUSE: Duration = Duration::from_micros(1);
/// Answers of which batches are left. Of more at once each is given in one piece.
pub const SERVED_AT_ONCE: usize = 64;
/// Pulls on the way at once over all buckets: bounds what can arrive beside what waits for the store to 32 MiB.
pub const PULLS_AT_ONCE: usize = 4;
/// Bytes that wait for the store over all buckets, beyond which no pull begins: a card that is slower than the links.
pub const UNAPPLIED_BYTES: usize = 16 << 20;
/// Origins in the news that answer one check, over all its buckets: some 2 MiB. A few bytes ask for each bucket.
pub const ORIGINS_TOLD: usize = 65_536;
/// Those of them from one source: its silence leaves one for the others.
pub const PULLS_PER_SOURCE: usize = 3;
/// Smallest batch asked for: passes 13 kbit/s within [`PULL_TIMEOUT`].
pub const BATCH_BYTES_MIN: u32 = 16 << 10;
/// Bytes of the first pull from a source.
pub const WINDOW_FIRST: u32 = 64 << 10;
/// Bytes of a pull at most, and of all pulls from one source together: they wait for one link there.
pub const WINDOW_MAX: u32 = BATCHES_PER_PULL as u32 * skerry_base::limits::FEED_BATCH_BYTES as u32;
/// A pull asks for what the source sent in so many seconds before: the link stays responsive, however slow.
pub const WINDOW_SECONDS: f64 = 4.0;
/// Items of one batch, whatever their size.
pub const BATCH_ITEMS: usize = 16_384;
/// Bytes of records beyond the own vector that go along with a batch.
pub const AHEAD_BYTES: usize = 512 << 10;
/// Sources that a bucket listens to: the two nearest and one drawn, so that no cluster keeps to itself.
pub const SOURCES: usize = 3;
/// Silence after which a pull is given up, beside four round trips.
pub const PULL_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence after which a pull of which nothing has come is given up for another source that has what is lacked, beside four round
/// trips: what is asked may not arrive where all that is told does.
pub const PULL_PATIENCE: Duration = Duration::from_secs(2);
/// First wait after a failure of a source; doubles up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Longest wait after failures.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The longest wait for a metered site that has said that it has nothing left to spend: each question costs it a vector. It
/// says when it may be asked again.
pub const SPENT_MAX: Duration = Duration::from_secs(3600);
/// Origins of which one message says what is loose; further ones wait until these are equal.
pub const LOOSE_ORIGINS: usize = 1024;
/// Pieces of what lies beyond vectors that the store may refuse before the rest waits for the next check.
pub const LOOSE_REFUSED: u8 = 16;
/// Seqs in a list of the loose records that a site has already.
pub const LOOSE_DOTS: usize = 8192;
/// Loose records of one origin that a site counts before it leaves a bucket: they are read while commits wait. With more it stays
/// until others have closed the gap that makes them loose.
pub const LOOSE_LEFT: usize = 1 << 16;
/// Sites from which loose records are taken at once, one per bucket.
pub const GATHERINGS: usize = 4;
/// News about a bucket go out at most once in this time to one listener.
pub const NEWS_PAUSE: Duration = Duration::from_millis(20);
/// Records that go with the news of them at most.
pub const FRESH_ITEMS: u64 = 16;
/// Their bytes: three packets, so that a slow link is not held up by what may come twice.
pub const FRESH_BYTES: usize = 4 << 10;
/// How often a site that sends news of few records without them is told that they are welcome.
pub const FRESH_REMIND: Duration = Duration::from_secs(10);
/// New links, of very many, over which a bucket that everybody follows is checked at once. After a cut into halves each site
/// draws half as many across it: that none of them is, is once in ten million.
pub const GREETED: usize = 32;
/// First safety-net check after activity; doubles up to [`CHECK_MAX`].
pub const CHECK_MIN: Duration = Duration::from_secs(15);
/// Safety-net checks at rest.
pub const CHECK_MAX: Duration = Duration::from_secs(300);
/// The same at a site that pays for what crosses: so seldom that it still checks before it is told no more news ([`LISTEN`]).
pub const CHECK_PAID: Duration = Duration::from_secs(600);
/// Members are asked what they have seen, where somebody waits for that, one after the other so far apart: a thousand in six hours,
/// by a message each way.
pub const HEAR_PAUSE: Duration = Duration::from_secs(20);
/// Between two rounds of that: who is away or behind comes meanwhile, and who is of a release that does not answer is asked in vain.
pub const HEAR_AGAIN: Duration = Duration::from_secs(3600);
/// Who does not get what it is asked for rests between two questions for so long at most.
pub const HEAR_SELDOM: Duration = Duration::from_secs(24 * 3600);
/// What a member says so long after it was asked is its answer, and answered no more.
pub const HEAR_ANSWER: Duration = Duration::from_secs(60);
/// How long who pulled or checked is told news: longer than two checks at rest.
pub const LISTEN: Duration = Duration::from_secs(660);
/// Listeners of one bucket that are told news.
pub const LISTENERS: usize = 256;
/// Entries of one check or publish message.
pub const ENTRIES_PER_MESSAGE: usize = 4096;
/// Children of a span that differs.
pub const SPAN_CHILDREN: usize = 16;
/// A span with at most this many live dots on the answering side is answered by the list of them.
pub const SPAN_LIST: u64 = 64;
/// Spans of one probe.
pub const SPANS_PER_PROBE: usize = 256;
/// Origins that one comparison answers.
pub const ORIGINS: usize = 65_536;
/// Silence after which a step of a reconciliation is asked again.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps that may fail in a row before a reconciliation is given up.
pub const PROBE_TRIES: u8 = 3;
/// A reconciliation that waits longer for the last pull is given up.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Reconciliations at once.
pub const SESSIONS: usize = 8;
/// Dead dots that one session gathers; what is beyond is found by the next.
pub const DEAD: usize = 262_144;
/// Dots of one drop.
pub const DROP_DOTS: usize = 16_384;
/// Questions of this site that are open at once; beyond it the answer is "not yet known".
pub const QUESTIONS: usize = 1024;
/// Questions of others that wait here for a member to be published.
pub const WAITING: usize = 4096;
/// How long an unmatched question waits at a landmark.
pub const WAIT: Duration = Duration::from_secs(1);
/// After this a question is answered by what is known.
pub const LOCATE_TIMEOUT: Duration = Duration::from_secs(4);
/// First repetition of an unanswered question or publication, beside two round trips.
pub const ASK_AGAIN: Duration = Duration::from_millis(500);
/// First repetition of an unacknowledged publication, beside two round trips; doubles up to [`BACKOFF_MAX`].
pub const PUBLISH_AGAIN: Duration = Duration::from_secs(3);
/// Members remembered per bucket.
pub const HOLDERS: usize = 1024;
/// Bytes of one SWIM packet.
pub const SWIM_BYTES: usize = 1200;
/// Members answered to one question.
pub const FOUND: usize = 8;
/// A round trip is taken for this long until it is measured.
pub const RTT_UNKNOWN: Duration = Duration::from_millis(200);
/// The words of the machine that sites understand: 1 knows no areas, [`AREAS`] does, [`METERED`] knows sites that pay by the
/// byte too, [`LIGHT`] has those weigh nothing, [`SEEKS`] says with a question what is wanted. Numbers between are of what nodes
/// say beside it.
pub const DIALECT: u8 = SEEKS;
/// From here on landmarks are known.
pub const AREAS: u8 = 2;
/// From here on sites say whether they pay for what crosses.
pub const METERED: u8 = 6;
/// From here on who pays by the records weighs nothing in the draw of landmarks.
pub const LIGHT: u8 = 7;
/// From here on a question for a bucket may say what is wanted, and a member gives it to the asker with its answer.
pub const SEEKS: u8 = 8;
/// Bytes that say what is wanted of a member: a key of 1,024, and what of it.
pub const WANTED_BYTES: usize = 2048;
/// Questions that were answered by giving, remembered so that none is given to twice: more than one site has open, and each comes
/// again within moments or never.
pub const GIVEN: usize = 1024;
/// How long a site that found the nearest member takes those that it knows for the nearest: it asks landmarks again then, for
/// another may have come nearer.
pub const SOUGHT: Duration = Duration::from_secs(600);
/// Buckets of which that is remembered.
pub const SOUGHT_BUCKETS: usize = 1024;
/// Who is neither linked nor heard of for this long is no landmark: twice what SWIM needs to see a death.
pub const ABSENT: Duration = Duration::from_secs(120);
/// How long a landmark waits for a site that is there to say what it holds, before it names it instead: what there is to say
/// is at most 1.6 MB. Without an end one site that takes no records would leave all others without "nobody".
pub const TELLS: Duration = Duration::from_secs(60);
/// Pause after a site has said where it is, before it says so again; doubles up to [`PLACE_PAUSE_MAX`].
pub const PLACE_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause.
pub const PLACE_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Times that a landmark is told that it is none any more.
pub const FAREWELLS: u8 = 3;
/// First census after a change; doubles up to [`CHECK_MAX`].
pub const CENSUS_MIN: Duration = Duration::from_secs(15);
/// A census at rest at a site that pays for what crosses.
pub const CENSUS_PAID: Duration = Duration::from_secs(3600);
/// Silence of a landmark beyond two round trips after which the next one is asked for the members.
pub const CENSUS_TIMEOUT: Duration = Duration::from_secs(3);
/// Buckets that one answer to a census may speak of.
pub const ROLLS: usize = 256;
