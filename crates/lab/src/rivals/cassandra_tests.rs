//! The target against a double that answers as Cassandra does: frames of its specification, rows from memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use skerry_bench::body::Body;
use skerry_bench::plan::Verify;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

type Table = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn result(body: &[u8]) -> Vec<u8> {
    answer(opcode::RESULT, body)
}

fn answer(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x84, 0, 0, 0, opcode];
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

fn rows(values: &[&[u8]]) -> Vec<u8> {
    let mut body =
        b"\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x02ks\x00\x01t\x00\x01c\x00\x03".to_vec();
    body.extend_from_slice(&u32::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend_from_slice(value);
    }
    result(&body)
}

/// What the double says to a request. A prepared statement's id is its text.
fn respond(opcode: u8, body: &[u8], table: &Table) -> Vec<u8> {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut table = table.lock().unwrap();
    match opcode {
        opcode::STARTUP => answer(opcode::READY, b""),
        opcode::PREPARE => {
            let statement = &body[4..];
            let mut prepared = b"\x00\x00\x00\x04".to_vec();
            prepared.extend_from_slice(&u16::try_from(statement.len()).unwrap().to_be_bytes());
            prepared.extend_from_slice(statement);
            result(&prepared)
        }
        opcode::QUERY if text.contains("system.") => rows(&[&[7; 16]]),
        opcode::QUERY if text.contains("SELECT name") => {
            let names: Vec<&[u8]> = table.keys().map(String::as_bytes).collect();
            rows(&names)
        }
        opcode::QUERY if text.contains("forbidden") => {
            answer(opcode::ERROR, b"\x00\x00\x22\x00\x00\x05no ks")
        }
        opcode::QUERY => result(b"\x00\x00\x00\x01"),
        _ => {
            let id = usize::from(u16::from_be_bytes([body[0], body[1]]));
            let statement = String::from_utf8_lossy(&body[2..2 + id]).into_owned();
            // Consistency, flags and the count of values.
            let values = &body[2 + id + 5..];
            let length = u32::from_be_bytes(values[..4].try_into().unwrap()) as usize;
            let key = String::from_utf8_lossy(&values[4..4 + length]).into_owned();
            if statement.starts_with("INSERT") {
                table.insert(key, values[4 + length + 4..].to_vec());
            } else if statement.starts_with("DELETE") {
                table.remove(&key);
            } else {
                return match table.get(&key) {
                    Some(value) if statement.contains("SELECT body") => rows(&[value]),
                    Some(_) => rows(&[key.as_bytes()]),
                    None => rows(&[]),
                };
            }
            result(b"\x00\x00\x00\x01")
        }
    }
}

async fn double() -> (CassandraTarget, Table) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let table = Table::default();
    let own = table.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let table = own.clone();
            tokio::spawn(async move {
                let mut header = [0; 9];
                while socket.read_exact(&mut header).await.is_ok() {
                    let length = u32::from_be_bytes(header[5..].try_into().unwrap());
                    let mut body = vec![0; length as usize];
                    socket.read_exact(&mut body).await.unwrap();
                    let said = respond(header[4], &body, &table);
                    socket.write_all(&said).await.unwrap();
                }
            });
        }
    });
    let config = CassandraConfig { endpoint, replication: None, consistency: None, site: "oslo".into() };
    (CassandraTarget::new(config).unwrap(), table)
}

fn ask(operation: Operation, bucket: &str, key: &str, body: Body) -> Ask {
    Ask {
        operation,
        bucket: bucket.into(),
        key: key.into(),
        body,
        verify: Verify::Bytes,
        expected: None,
        timeout: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn the_six_steps_work_on_one_connection() {
    let (target, table) = double().await;
    let mut slot = Slot::new(0);
    let body = Body::of(1, "k", 300_000, 2);
    let steps = [
        (Operation::CreateBucket, Body::EMPTY),
        (Operation::Put, body),
        (Operation::Get, body),
        (Operation::Head, body),
        (Operation::List, Body::EMPTY),
        (Operation::Delete, Body::EMPTY),
        (Operation::DeleteBucket, Body::EMPTY),
    ];
    for (number, (operation, body)) in steps.into_iter().enumerate() {
        let asked = Ask { expected: Some(1), ..ask(operation, "b-1", "k", body) };
        let done = target.perform(&mut slot, &asked).await;
        assert_eq!(done.failure, None, "{operation}");
        assert_eq!(done.connect_ns > 0, number == 0, "{operation} connects only once");
        if matches!(operation, Operation::Put | Operation::Get) {
            assert_eq!(done.bytes, 300_000);
        }
    }
    assert!(table.lock().unwrap().is_empty());
}

#[tokio::test]
async fn missing_rows_wrong_bytes_and_errors_are_failures() {
    let (target, table) = double().await;
    let mut slot = Slot::new(0);
    let body = Body::of(1, "k", 1000, 0);
    let missing = target.perform(&mut slot, &ask(Operation::Get, "b", "k", body)).await;
    assert_eq!(&*missing.failure.unwrap().code, "no-row");
    table.lock().unwrap().insert("k".into(), vec![0; 1000]);
    let wrong = target.perform(&mut slot, &ask(Operation::Get, "b", "k", body)).await;
    assert_eq!(&*wrong.failure.unwrap().code, "wrong-bytes");
    table.lock().unwrap().insert("k".into(), vec![0; 999]);
    let wrong = target.perform(&mut slot, &ask(Operation::Get, "b", "k", body)).await;
    assert_eq!(&*wrong.failure.unwrap().code, "wrong-length");
    let refused = target.perform(&mut slot, &ask(Operation::CreateBucket, "forbidden", "", body)).await;
    let failure = refused.failure.unwrap();
    assert_eq!((&*failure.code, failure.message.as_str()), ("0x2200 invalid", "no ks"));
}

#[tokio::test]
async fn nobody_there_is_a_failure_to_connect() {
    let config = CassandraConfig {
        endpoint: "127.0.0.1:1".into(),
        replication: Some("{'class': 'NetworkTopologyStrategy', 'SITE': 1}".into()),
        consistency: Some("LOCAL_ONE".into()),
        site: "oslo".into(),
    };
    let target = CassandraTarget::new(config.clone()).unwrap();
    assert_eq!(target.replication, "{'class': 'NetworkTopologyStrategy', 'oslo': 1}");
    let done = target.perform(&mut Slot::new(0), &ask(Operation::Head, "b", "k", Body::EMPTY)).await;
    assert_eq!(&*done.failure.unwrap().code, CONNECT);
    assert!(CassandraTarget::new(CassandraConfig { consistency: Some("MOST".into()), ..config }).is_err());
}

#[test]
fn keyspaces_have_plain_names() {
    assert_eq!(keyspace("Bench-1.x"), "bench_1_x");
    assert_eq!(keyspace("1st"), "b_1st");
    assert_eq!(keyspace(&"a".repeat(60)).len(), 48);
}
