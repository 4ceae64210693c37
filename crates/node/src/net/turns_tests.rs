//! What leaves is counted as it was let through, however it is cut.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use tokio::io::AsyncWriteExt;

use super::*;

fn frame(kind: u8, stream: u32, length: u32, body: usize) -> Vec<u8> {
    let mut bytes = vec![0, kind, 0, 0];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(vec![0xff; body]);
    bytes
}

#[tokio::test]
async fn a_stream_that_is_dropped_lets_the_others_go_on() {
    let gate = Gate::new();
    let (near, mut far) = tokio::io::duplex(1 << 20);
    // Nothing is read off the gate here: what is afloat stays so.
    let mut full = Turned::new(near, &gate, 3);
    full.write_all(&vec![0; AFLOAT_BYTES]).await.unwrap();
    let mut waiting = Turned::new(tokio::io::duplex(1 << 20).0, &gate, 5);
    let mut other = Turned::new(tokio::io::duplex(1 << 20).0, &gate, 7);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waiting).poll_write(&mut cx, &[1; 100]).is_pending());
    assert!(Pin::new(&mut other).poll_write(&mut cx, &[1; 100]).is_pending());
    // One frame leaves, and the first that waited is called; it is dropped instead.
    gate.with(|state| state.turns.left(FRAME_BYTES as u64));
    drop(waiting);
    assert!(Pin::new(&mut other).poll_write(&mut cx, &[1; 100]).is_ready());
    let mut sent = vec![0; AFLOAT_BYTES];
    tokio::io::AsyncReadExt::read_exact(&mut far, &mut sent).await.unwrap();
}

#[tokio::test]
async fn what_the_stream_does_not_take_is_not_afloat() {
    let gate = Gate::new();
    let (near, _far) = tokio::io::duplex(100);
    let mut narrow = Turned::new(near, &gate, 3);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(Pin::new(&mut narrow).poll_write(&mut cx, &[1; 5000]), Poll::Ready(Ok(100))));
    assert_eq!(gate.with(|state| state.turns.afloat()), 100);
    assert!(Pin::new(&mut narrow).poll_write(&mut cx, &[1; 5000]).is_pending());
    assert_eq!(gate.with(|state| state.turns.afloat()), 100);
}

proptest! {
    /// Data frames count, but for those of the free stream; windows, pings and farewells do not, whatever they say.
    #[test]
    fn bodies_are_counted_however_they_are_cut(
        frames in vec((0_u8..4, 1_u32..6, 0_usize..300), 0..30),
        cuts in vec(1_usize..50, 1..40),
        free in any::<bool>(),
    ) {
        let free = if free { 3 } else { 1 };
        let mut outlet = Outlet::new(tokio::io::sink(), Gate::new(), free);
        let (mut bytes, mut due) = (Vec::new(), 0);
        for (kind, stream, body) in frames {
            let body = if kind == 0 { body } else { 0 };
            let length = if kind == 0 { body as u32 } else { 0xffff_ff00 };
            bytes.extend(frame(kind, stream, length, body));
            due += if stream == free { 0 } else { body };
        }
        let (mut counted, mut rest, mut cuts) = (0, &bytes[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            counted += outlet.pass(piece);
            rest = tail;
        }
        prop_assert_eq!(counted, due);
        prop_assert!(outlet.frames.is_between());
    }
}
