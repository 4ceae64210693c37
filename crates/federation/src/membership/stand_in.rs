//! What answers a probe in the place of a site that pays for what crosses, or whom this site would pay for asking.
//!
//! The link to it stands: that is taken for its answer, as often as it is asked, until the link asks by itself and hears nothing.
//! So a site that pays is neither probed nor probes, while those without a link to it still hear by way of others that it
//! lives. What carries news of others goes to it as ever: it learns who died, and that it is suspected itself.

use bytes::Bytes;
use foca::{Codec, Header, Message, PostcardCodec};

use super::Identity;
use crate::context::Context;

/// Bytes behind the head of a packet that tells nothing of others: their number.
const NO_NEWS: usize = 2;

/// The answer to a probe that need not be sent.
pub(super) fn answer(packet: &[u8], to: Identity, cx: &Context<'_>) -> Option<Bytes> {
    if !cx.peers.is_linked(to.site()) || cx.peers.rests(to.site()).is_none() {
        return None;
    }
    let mut news = packet;
    let Header { src, dst, message, .. } = PostcardCodec.decode_header(&mut news).ok()?;
    if news.len() > NO_NEWS {
        return None;
    }
    let message = match message {
        Message::Ping(number) => Message::Ack(number),
        Message::IndirectPing { origin, probe_number } => {
            Message::IndirectAck { target: origin, probe_number }
        }
        _ => return None,
    };
    let answer = Header::<Identity> { src: dst, src_incarnation: 0, dst: src, message };
    let mut bytes = Vec::new();
    PostcardCodec.encode_header(&answer, &mut bytes).ok()?;
    Some(bytes.into())
}
