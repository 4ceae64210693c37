//! The target against a double of kubo's HTTP API: answers in the shapes of its documentation.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skerry_bench::body::Body as Object;
use skerry_bench::plan::Verify;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

type Blocks = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The file inside a form.
fn file(form: &[u8]) -> Vec<u8> {
    let text = form.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    form[text..form.len() - format!("\r\n--{BOUNDARY}--\r\n").len()].to_vec()
}

fn respond(path: &str, body: &[u8], blocks: &Blocks) -> Vec<u8> {
    let mut blocks = blocks.lock().unwrap();
    let id = path.split("arg=").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or_default().to_owned();
    let plain = |status: &str, body: &[u8]| {
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        answer.extend_from_slice(body);
        answer
    };
    if path.contains("/add?") {
        let id = format!("bafy{}", blocks.len());
        blocks.insert(id.clone(), file(body));
        let lines = format!("{{\"Name\":\"object\",\"Hash\":\"{id}\",\"Size\":\"12\"}}\n");
        return plain("200 OK", lines.as_bytes());
    }
    if id.starts_with("broken") {
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Stream-Error\r\n\r\n3\r\nabc\r\n0\r\nX-Stream-Error: block was not found\r\n\r\n".to_vec();
    }
    match blocks.get(&id) {
        None => {
            plain("500 Internal Server Error", b"{\"Message\":\"ipld: could not find bafy9\",\"Code\":0}")
        }
        Some(bytes) if path.contains("/cat?") => plain("200 OK", bytes),
        Some(_) => plain("200 OK", b"{}"),
    }
}

async fn double(directory: &std::path::Path) -> (IpfsTarget, Blocks) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let blocks = Blocks::default();
    let own = blocks.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let blocks = own.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let end = loop {
                        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                            break end + 4;
                        }
                        if socket.read_buf(&mut seen).await.unwrap_or(0) == 0 {
                            return;
                        }
                    };
                    let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
                    let length = head.split("content-length: ").nth(1).unwrap();
                    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
                    while seen.len() < end + length {
                        assert!(socket.read_buf(&mut seen).await.unwrap() > 0, "a body ends early");
                    }
                    let text = String::from_utf8_lossy(&seen[..end]).into_owned();
                    let path = text.split(' ').nth(1).unwrap();
                    let said = respond(path, &seen[end..end + length], &blocks);
                    socket.write_all(&said).await.unwrap();
                    seen.drain(..end + length);
                }
            });
        }
    });
    let config = IpfsConfig { endpoint, names: directory.into(), write: None };
    (IpfsTarget::new(config).unwrap(), blocks)
}

fn ask(operation: Operation, key: &str, body: Object) -> Ask {
    Ask {
        operation,
        bucket: "b".into(),
        key: key.into(),
        body,
        verify: Verify::Bytes,
        expected: None,
        timeout: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn an_object_is_written_by_one_client_and_read_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, blocks) = double(directory.path()).await;
    let config = IpfsConfig {
        endpoint: format!("http://{}", writer.address),
        names: directory.path().into(),
        write: None,
    };
    let reader = IpfsTarget::new(config).unwrap();
    let body = Object::of(1, "k", 300_000, 3);
    let put = writer.perform(&mut Slot::new(0), &ask(Operation::Put, "k", body)).await;
    assert_eq!((put.failure, put.bytes), (None, 300_000));
    assert_eq!(blocks.lock().unwrap()["bafy0"].len(), 300_000);
    let mut slot = Slot::new(1);
    let get = reader.perform(&mut slot, &ask(Operation::Get, "k", body)).await;
    assert_eq!((get.failure, get.bytes), (None, 300_000));
    assert!(get.connect_ns > 0 && get.first_byte_ns >= get.connect_ns);
    for operation in [Operation::Get, Operation::Head, Operation::Delete, Operation::CreateBucket] {
        let done = reader.perform(&mut slot, &ask(operation, "k", body)).await;
        assert_eq!((done.failure, done.connect_ns), (None, 0), "{operation}");
    }
}

#[tokio::test]
async fn errors_in_answers_and_trailers_are_failures() {
    let directory = tempfile::tempdir().unwrap();
    let (target, _) = double(directory.path()).await;
    let mut slot = Slot::new(0);
    let body = Object::of(1, "k", 3, 0);
    let unknown = target.perform(&mut slot, &ask(Operation::Get, "k", body)).await;
    assert_eq!(&*unknown.failure.unwrap().code, "no-id");
    target.names.put("b", "gone", "bafy9").unwrap();
    let gone = target.perform(&mut slot, &ask(Operation::Get, "gone", body)).await.failure.unwrap();
    assert_eq!(
        (&*gone.code, gone.message.as_str()),
        ("500 ipld: could not find bafy9", "ipld: could not find bafy9")
    );
    target.names.put("b", "torn", "broken1").unwrap();
    let torn = target.perform(&mut slot, &ask(Operation::Get, "torn", body)).await.failure.unwrap();
    assert_eq!(torn.message, "block was not found");
    let list = target.perform(&mut slot, &ask(Operation::List, "", body)).await.failure.unwrap();
    assert_eq!(&*list.code, "unsupported");
}

#[test]
fn ids_are_found_in_the_last_line() {
    assert_eq!(id_of(b"{\"Hash\":\"a\"}\n{\"Hash\":\"b\"}\n").as_deref(), Some("b"));
    assert_eq!(id_of(b"{\"Key\":\"bafk\",\"Size\":3}").as_deref(), Some("bafk"));
    assert_eq!(id_of(b""), None);
    assert_eq!(id_of(b"no json"), None);
}
