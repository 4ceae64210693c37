//! Frames byte by byte, as the protocol's specification has them.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

const ONE: Options<'static> = Options { consistency: Consistency(1), page: None, state: None };

#[test]
fn startup_is_what_the_specification_says() {
    let expected = b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";
    assert_eq!(startup(), expected);
}

#[test]
fn a_query_carries_its_consistency_and_page() {
    assert_eq!(query("USE a", ONE), b"\x04\x00\x00\x00\x07\x00\x00\x00\x0c\x00\x00\x00\x05USE a\x00\x01\x00");
    let page = Options {
        consistency: Consistency::of_word("LOCAL_QUORUM").unwrap(),
        page: Some(2),
        state: Some(b"xy"),
    };
    assert_eq!(
        query("Q", page),
        b"\x04\x00\x00\x00\x07\x00\x00\x00\x12\x00\x00\x00\x01Q\x00\x06\x0c\x00\x00\x00\x02\x00\x00\x00\x02xy"
    );
    assert_eq!(Consistency::of_word("SOME"), None);
}

#[test]
fn a_blob_follows_the_frame_that_announces_it() {
    assert_eq!(prepare("Q"), b"\x04\x00\x00\x00\x09\x00\x00\x00\x05\x00\x00\x00\x01Q");
    let frame = execute(b"id", ONE, "key", Some(5));
    let expected =
        b"\x04\x00\x00\x00\x0a\x00\x00\x00\x19\x00\x02id\x00\x01\x01\x00\x02\x00\x00\x00\x03key\x00\x00\x00\x05";
    assert_eq!(frame, expected);
    assert_eq!(execute(b"id", ONE, "key", None).len(), 9 + 4 + 3 + 2 + 4 + 3);
}

#[tokio::test]
async fn rows_are_read_with_names_pages_and_values() {
    let mut body = Vec::new();
    body.extend_from_slice(&2_i32.to_be_bytes()); // rows
    body.extend_from_slice(&3_i32.to_be_bytes()); // one table for all columns, more pages
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(b"\x00\x00\x00\x02st\x00\x02ks\x00\x01t\x00\x04body\x00\x03");
    body.extend_from_slice(b"\x00\x00\x00\x02\x00\x00\x00\x03abc\xff\xff\xff\xff");
    let mut stream = vec![0x84, 0, 0, 0, opcode::RESULT];
    stream.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    stream.extend_from_slice(&body);
    let mut reader = stream.as_slice();
    let mut answer = Answer::read(&mut reader).await.unwrap();
    assert_eq!((answer.opcode, answer.int().await.unwrap()), (opcode::RESULT, result::ROWS));
    let rows = answer.rows().await.unwrap();
    assert_eq!(rows, Rows { count: 2, state: Some(b"st".to_vec()) });
    let length = answer.value().await.unwrap().unwrap();
    let mut seen = Vec::new();
    answer.stream(length, |piece| seen.extend_from_slice(piece)).await.unwrap();
    assert_eq!(seen, b"abc");
    assert_eq!(answer.value().await.unwrap(), None);
    answer.finish().await.unwrap();
    assert!(reader.is_empty());
}

#[tokio::test]
async fn warnings_before_an_answer_are_skipped() {
    let mut reader = &b"\x84\x08\x00\x00\x02\x00\x00\x00\x06\x00\x01\x00\x02hm"[..];
    let mut answer = Answer::read(&mut reader).await.unwrap();
    assert_eq!(answer.opcode, opcode::READY);
    answer.finish().await.unwrap();
    assert!(reader.is_empty());
}

#[tokio::test]
async fn hostile_answers_end_in_errors() {
    for hostile in [
        &b"HTTP/1.1 "[..],
        b"\x84\x00\x00\x00\x08\xff\xff\xff\xff",
        b"\x83\x00\x00\x00\x08\x00\x00\x00\x00",
        b"\x84\x00",
    ] {
        let mut reader = hostile;
        assert!(Answer::read(&mut reader).await.is_err(), "{hostile:?}");
    }
    // A value that says it is longer than its frame.
    let mut reader = &b"\x84\x00\x00\x00\x08\x00\x00\x00\x04\x7f\xff\xff\xff"[..];
    let mut answer = Answer::read(&mut reader).await.unwrap();
    let length = answer.value().await.unwrap().unwrap();
    assert!(answer.stream(length, |_| ()).await.is_err());
    assert!(answer.piece(1).await.is_err());
}
