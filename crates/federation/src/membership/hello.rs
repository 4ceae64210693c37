//! One end's word on a new link among very many: the head of a packet, which says in which life its sender is.
//!
//! A greeting asks who is alive, and the answer fills a packet. One that comes back would ask a thousand and be asked by as many,
//! though forty answers name them all. So whoever is known already is told this instead. It is gossip without news: releases
//! before take it as they take any.

use bytes::Bytes;
use foca::{Codec, Header, Message, PostcardCodec};

use super::Identity;

/// What tells `to` of `me`; the incarnation is that of a beginning, which refutes nothing.
pub(super) fn packet(me: Identity, to: Identity) -> Option<Bytes> {
    let header = Header::<Identity> { src: me, src_incarnation: 0, dst: to, message: Message::Gossip };
    let mut bytes = Vec::new();
    PostcardCodec.encode_header(&header, &mut bytes).ok()?;
    Some(bytes.into())
}

/// Whether the sender of a packet knows in which life this site is, or asks for it: it need not be told.
pub(super) fn knows(packet: &[u8], me: Identity) -> bool {
    let mut packet = packet;
    let header: Result<Header<Identity>, _> = PostcardCodec.decode_header(&mut packet);
    header.is_ok_and(|header| header.dst == me || header.message == Message::Announce)
}

#[cfg(test)]
mod tests {
    use skerry_base::SiteId;

    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn a_packet_is_known_by_whom_it_is_for() {
        let [me, other] = [1, 2].map(|n| Identity::new(SiteId([n; 16]), 7));
        let packet = packet(other, me).unwrap();
        assert!(packet.len() < 64, "{}", packet.len());
        assert!(knows(&packet, me));
        assert!(!knows(&packet, Identity::new(SiteId([1; 16]), 8)), "a life that has ended");
        assert!(!knows(&packet[..9], me) && !knows(&[], me));
    }
}
