//! What links cost while nobody uses them, by constants; and how seldom a site that pays by the byte, or has very many
//! links, asks whether the others are still there.
//!
//! Why here: it decides what sites say to each other when there is nothing to say. Pure: bytes and links in, bytes and
//! pauses out, so that a test can say what a month costs. Invariant: everything on the wire counts, at both directions: the
//! message, its length, the frame of the multiplexer, the record of TLS, the packet, and the packet that acknowledges it.

use core::time::Duration;

/// The length before a message on its stream.
pub const LENGTH: u64 = 4;
/// What the multiplexer puts before what it carries.
pub const FRAME: u64 = 12;
/// What TLS 1.3 adds to a record.
pub const RECORD: u64 = 22;
/// The headers of a packet: IPv4, and TCP with time stamps. Over IPv6 it is 20 more.
pub const PACKET: u64 = 52;
/// Bytes of payload in a full packet.
pub const SEGMENT: u64 = 1448;
/// The question whether the other end is there, and its answer.
const PING: u64 = 9;
/// What opens and closes a TCP connection: seven packets, the first two with more options.
pub const CONNECTION: u64 = 7 * PACKET + 16;

/// A month, as budgets count it.
pub const MONTH: Duration = Duration::from_secs(30 * 86_400);
/// The pause between questions on a link that costs nothing.
pub const OFTEN: Duration = Duration::from_secs(40);
/// The longest pause, however little there is to spend: routers must keep an idle connection for two hours (RFC 5382), and
/// not all do.
pub const SELDOM: Duration = Duration::from_secs(3600);
/// What the questions on all links of a metered site may take of its budget: one part in so many …
const PART: u64 = 100;
/// … and no more in a month than this, however much there is: a third of what a site may cost at rest.
const MONTHLY: u64 = 10_000_000;
/// What the questions on all links of a site together may take in a second, both directions: half of it is sent, so that with
/// what the machine says a site stays below a kilobyte a second, however many links it has.
pub const TOGETHER: u64 = 1000;
/// Pauses of many links are so many seconds or a multiple: one site more or less changes none of them.
const STEP: u64 = 10;

/// What small messages take on the wire, each with the packet that acknowledges it.
pub const fn carried(messages: u64, bytes: u64) -> u64 {
    bytes + messages * (LENGTH + FRAME + RECORD + 2 * PACKET)
}

/// One question whether the other end is there: it, its answer, and the packet that acknowledges that.
pub const fn asked() -> u64 {
    2 * (PING + FRAME + RECORD + PACKET) + PACKET
}

/// When who was asked asks itself: a little sooner than who asked would again, so that the two take turns. Both measure the
/// round trip then, and the line is asked once in this pause.
pub const fn turn(every: Duration) -> Duration {
    Duration::from_secs(every.as_secs() - every.as_secs() / 8)
}

/// What such questions take on so many links over a span.
pub const fn keep_alives(links: u64, every: Duration, span: Duration) -> u64 {
    let pause = turn(every).as_secs();
    links * asked() * span.as_secs() / if pause == 0 { 1 } else { pause }
}

/// The headers of what was written to, or read from, a socket at once: a packet for each full segment begun, and one that
/// acknowledges every second.
pub const fn headers(bytes: u64) -> u64 {
    let packets = bytes.div_ceil(SEGMENT);
    (packets + packets.div_ceil(2)) * PACKET
}

/// The pause for a site with so many links that may spend so many bytes in a month.
pub fn every(month_bytes: u64, links: u64) -> Duration {
    let allowed = (month_bytes / PART).clamp(1, MONTHLY);
    let cost = links.saturating_mul(asked()).saturating_mul(MONTH.as_secs());
    Duration::from_secs(cost.div_ceil(allowed)).clamp(OFTEN, SELDOM)
}

/// The pause on each of so many links that cost nothing, if it is longer than [`OFTEN`]: from 145 links on.
pub fn crowded(links: u64) -> Option<Duration> {
    let turns = links.saturating_mul(asked()).div_ceil(TOGETHER);
    let every = turns.saturating_mul(8).div_ceil(7).div_ceil(STEP).saturating_mul(STEP);
    Some(Duration::from_secs(every).min(SELDOM)).filter(|every| *every > OFTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_links_take_no_more_than_some() {
        let pauses = [1, 59, 144, 145, 299, 1023, 9999].map(crowded);
        let seconds = pauses.map(|every| every.map_or(0, |every| every.as_secs()));
        assert_eq!(seconds, [0, 0, 0, 50, 90, 290, 2770]);
        for links in 1..7000 {
            let all = keep_alives(links, crowded(links).unwrap_or(OFTEN), MONTH);
            assert!(all <= TOGETHER * MONTH.as_secs(), "{links} links: {all}");
        }
        assert_eq!(crowded(u64::MAX), Some(SELDOM));
    }

    #[test]
    fn the_pause_follows_the_budget_and_the_links() {
        let pauses = [(2, 2_000_000_000), (59, 2_000_000_000), (59, 100_000_000), (2, 10_000_000)];
        let pauses = pauses.map(|(links, bytes)| every(bytes, links).as_secs());
        assert_eq!(pauses, [126, 3600, 3600, 3600]);
        assert_eq!((every(0, 0), every(u64::MAX, 0), every(0, u64::MAX)), (OFTEN, OFTEN, SELDOM));
    }

    /// A link that two sites keep for nothing else, in a month, by the pause; and all of one among sixty.
    #[test]
    fn what_a_month_costs() {
        assert_eq!(asked(), 242);
        assert_eq!(turn(OFTEN), Duration::from_secs(35));
        assert_eq!(keep_alives(1, OFTEN, MONTH), 17_921_828);
        assert!(keep_alives(59, every(2_000_000_000, 59), MONTH) <= 12_000_000);
    }

    #[test]
    fn headers_are_most_of_a_ping_and_a_twentieth_of_payload() {
        assert_eq!((headers(0), headers(43), headers(SEGMENT), headers(2 * SEGMENT)), (0, 104, 104, 156));
        let bulk = 1 << 30;
        assert!((bulk / 19..bulk / 18).contains(&headers(bulk)), "{}", headers(bulk));
    }
}
