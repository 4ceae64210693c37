//! Shapes are read right, pieces are what a card would have sent, and nonsense is refused.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

const FROM: [u8; 4] = [10, 64, 0, 1];
const TO: [u8; 4] = [10, 64, 1, 1];

/// A TCP packet as a device gives it; a super-packet if `per_segment` is not 0.
pub(in crate::wan) fn tcp_frame(from: [u8; 4], to: [u8; 4], payload: usize, per_segment: u16) -> Vec<u8> {
    let mut frame = vec![0; PREFIX + 40];
    if per_segment > 0 {
        frame[0] = 1;
        frame[1] = GSO_TCP4;
        frame[4..6].copy_from_slice(&per_segment.to_le_bytes());
    }
    let ip = &mut frame[PREFIX..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&7u16.to_be_bytes());
    ip[8] = 64;
    ip[9] = TCP;
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    ip[24..28].copy_from_slice(&1000u32.to_be_bytes());
    ip[32] = 5 << 4;
    ip[33] = 0x19 | TCP_CWR;
    frame.extend((0..payload).map(|byte| byte as u8));
    frame
}

fn udp_frame(payload: usize, per_segment: u16) -> Vec<u8> {
    let mut frame = tcp_frame(FROM, TO, 0, 0);
    frame.truncate(PREFIX + 28);
    frame[0] = 1;
    frame[1] = GSO_UDP;
    frame[4..6].copy_from_slice(&per_segment.to_le_bytes());
    frame[PREFIX + 9] = UDP;
    frame.extend((0..payload).map(|byte| byte as u8));
    frame
}

#[test]
fn a_plain_packet_is_one_segment() {
    let frame = tcp_frame(FROM, TO, 100, 0);
    let shape = shape(&frame).unwrap();
    assert_eq!((shape.from, shape.to), (FROM.into(), TO.into()));
    assert_eq!((shape.segments, shape.wire_bytes, shape.device_bytes), (1, 140, 140));
    assert_eq!(shape.segment_bytes(), 140);
}

#[test]
fn a_super_packet_counts_its_headers_again() {
    let shape = shape(&tcp_frame(FROM, TO, 3500, 1000)).unwrap();
    assert_eq!((shape.segments, shape.wire_bytes, shape.device_bytes), (4, 3500 + 160, 3540));
    assert_eq!(shape.segment_bytes(), 1040);
}

#[test]
fn pieces_carry_the_stream_on() {
    let frame = tcp_frame(FROM, TO, 3500, 1000);
    let whole = shape(&frame).unwrap();
    let pieces = cut(&frame, &whole, 1);
    assert_eq!(pieces.len(), 4);
    let mut stream = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let ip = &piece[PREFIX..];
        assert_eq!(get(ip, 2).unwrap() as usize, ip.len());
        assert_eq!(get(ip, 4).unwrap(), 7 + number as u16);
        assert_eq!(fold(sum(&ip[..20])), 0xffff, "IP checksum");
        assert_eq!(u32::from_be_bytes(ip[24..28].try_into().unwrap()), 1000 + 1000 * number as u32);
        assert_eq!(ip[33] & TCP_FIN_PSH != 0, number == 3);
        assert_eq!(ip[33] & TCP_CWR != 0, number == 0);
        assert_eq!((piece[1], &piece[4..6]), (GSO_NONE, &[0, 0][..]));
        let pseudo = sum(&ip[12..20]) + 6 + (ip.len() - 20) as u32;
        assert_eq!(get(ip, 36).unwrap(), fold(pseudo));
        assert_eq!(shape(piece).unwrap().segments, 1);
        stream.extend_from_slice(&ip[40..]);
    }
    assert_eq!(stream, frame[PREFIX + 40..]);
}

#[test]
fn larger_pieces_stay_super_packets_and_lose_no_wire_byte() {
    let frame = tcp_frame(FROM, TO, 9500, 1000);
    let whole = shape(&frame).unwrap();
    let pieces = cut(&frame, &whole, 4);
    let shapes: Vec<_> = pieces.iter().map(|piece| shape(piece).unwrap()).collect();
    assert_eq!(shapes.iter().map(|shape| shape.segments).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(shapes.iter().map(|shape| shape.wire_bytes).sum::<u64>(), whole.wire_bytes);
}

#[test]
fn datagrams_of_one_send_become_datagrams() {
    let frame = udp_frame(2500, 1200);
    let whole = shape(&frame).unwrap();
    assert_eq!((whole.segments, whole.wire_bytes), (3, 2500 + 3 * 28));
    let pieces = cut(&frame, &whole, 1);
    let lengths: Vec<_> = pieces.iter().map(|piece| get(&piece[PREFIX..], 24).unwrap()).collect();
    assert_eq!(lengths, [1208, 1208, 108]);
}

#[test]
fn nonsense_is_refused() {
    assert_eq!(shape(&[]), None);
    assert_eq!(shape(&[0; PREFIX + 19]), None);
    let mut sixth = tcp_frame(FROM, TO, 0, 0);
    sixth[PREFIX] = 0x60;
    assert_eq!(shape(&sixth), None);
    let mut short = tcp_frame(FROM, TO, 10, 1000);
    short[PREFIX + 32] = 15 << 4;
    assert_eq!(shape(&short), None, "headers longer than the packet");
    let mut truncated = tcp_frame(FROM, TO, 10, 1000);
    truncated.truncate(PREFIX + 30);
    assert_eq!(shape(&truncated), None);
}
