//! kubo's HTTP API as a target: an object is added, its content id is remembered, reading is `cat` of the id.
//!
//! | operation | request |
//! |---|---|
//! | put | `add` in leaves of 1 MiB, or `block/put` as the paper did (kubo refuses blocks above 2 MiB today) |
//! | get | `cat`, or `block/get` |
//! | head | `block/stat` of the root |
//! | delete | `pin/rm` of an added object (its blocks go with the next collection), `block/rm` of a block |
//! | list, buckets | nothing: IPFS knows neither |
//!
//! Invariant: an error that kubo sends in the trailer of an answer is a failure, not a short object.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use skerry_bench::body::{Checker, Frames};
use skerry_bench::target::{Ask, CONNECT, Done, Failure, Operation, Slot, Target};
use tokio::net::TcpStream;

use super::answer::{broken, judge, nothing, since, unsupported};
use super::names::Names;

/// Leaves of added objects: what bitswap carries at most in one message is a little more.
const LEAF: u32 = 1 << 20;
/// Between the parts of a form.
const BOUNDARY: &str = "skerry-lab-7f3d1c";
/// The longest answer that is read as a whole.
const ANSWER_BYTES: usize = 1 << 20;

/// How to reach a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpfsConfig {
    /// `http://ADDRESS:5001`.
    pub endpoint: String,
    /// A directory where clients of one run tell each other the ids of keys.
    pub names: PathBuf,
    /// How objects are written: `add` (default) or `block`.
    #[serde(default)]
    pub write: Option<String>,
}

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// As files of several blocks.
    Add,
    /// As one block.
    Block,
}

/// A node under load.
#[derive(Debug)]
pub struct IpfsTarget {
    address: String,
    names: Names,
    write: Write,
}

type Body = StreamBody<futures::stream::Iter<Form>>;

impl IpfsTarget {
    /// Checks the settings; connects to nothing.
    pub fn new(config: IpfsConfig) -> Result<Self, String> {
        let address =
            config.endpoint.strip_prefix("http://").map(|rest| rest.trim_end_matches('/').to_owned());
        let address = address.ok_or_else(|| format!("{}: an http:// endpoint is needed", config.endpoint))?;
        let write = match config.write.as_deref() {
            None | Some("add") => Write::Add,
            Some("block") => Write::Block,
            Some(other) => return Err(format!("write = {other:?}: add or block")),
        };
        let names =
            Names::open(&config.names).map_err(|error| format!("{}: {error}", config.names.display()))?;
        Ok(Self { address, names, write })
    }

    async fn ask(&self, slot: &mut Slot, ask: &Ask, done: &mut Done) -> Result<(), Failure> {
        let begin = Instant::now();
        let path = self.path(ask)?;
        let mut connection = match slot.take::<Connection>() {
            Some(connection) if !connection.0.is_closed() => connection,
            _ => {
                let connection = Connection::open(&self.address).await?;
                done.connect_ns = since(begin);
                connection
            }
        };
        let form = if ask.operation == Operation::Put { Form::of(ask) } else { Form::default() };
        let response = connection.send(&self.address, &path, form).await?;
        done.first_byte_ns = since(begin);
        let status = response.status();
        if !status.is_success() {
            let said = whole(response.into_body()).await?;
            let message = message(&said);
            return Err(Failure::new(format!("{} {}", status.as_u16(), short(&message)), message));
        }
        self.take(ask, response, done).await?;
        slot.keep(connection);
        Ok(())
    }

    fn path(&self, ask: &Ask) -> Result<String, Failure> {
        let block = self.write == Write::Block;
        if ask.operation == Operation::Put {
            return Ok(if block {
                "/api/v0/block/put?cid-codec=raw&mhtype=sha2-256&allow-big-block=true".into()
            } else {
                format!(
                    "/api/v0/add?cid-version=1&raw-leaves=true&chunker=size-{LEAF}&pin=true&quieter=true&progress=false"
                )
            });
        }
        let id = self.names.get(&ask.bucket, &ask.key).map_err(broken)?;
        let id = id.ok_or_else(|| Failure::new("no-id", format!("nobody told the id of {}", ask.key)))?;
        Ok(match (ask.operation, block) {
            (Operation::Get, false) => format!("/api/v0/cat?arg={id}&progress=false"),
            (Operation::Get, true) => format!("/api/v0/block/get?arg={id}"),
            (Operation::Head, _) => format!("/api/v0/block/stat?arg={id}"),
            (_, false) => format!("/api/v0/pin/rm?arg={id}"),
            (_, true) => format!("/api/v0/block/rm?arg={id}&force=true"),
        })
    }

    /// Reads the answer to its end.
    async fn take(&self, ask: &Ask, response: Response<Incoming>, done: &mut Done) -> Result<(), Failure> {
        if ask.operation == Operation::Get {
            let mut checker = ask.body.check();
            read(response.into_body(), &mut checker).await?;
            done.bytes = checker.seen();
            return judge(ask, &checker).map_or(Ok(()), Err);
        }
        let said = whole(response.into_body()).await?;
        if ask.operation == Operation::Put {
            let id = id_of(&said).ok_or_else(|| broken(format!("no id in {}", short(&message(&said)))))?;
            self.names.put(&ask.bucket, &ask.key, &id).map_err(broken)?;
            done.bytes = ask.body.length;
        }
        Ok(())
    }
}

#[async_trait]
impl Target for IpfsTarget {
    fn describe(&self) -> String {
        format!("ipfs http://{}", self.address)
    }

    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done {
        let mut done = nothing();
        done.failure = match ask.operation {
            Operation::CreateBucket | Operation::DeleteBucket => None,
            Operation::List => Some(unsupported("a listing")),
            _ => self.ask(slot, ask, &mut done).await.err(),
        };
        done
    }
}

/// One connection. The task that moves its bytes ends with it.
struct Connection(SendRequest<Body>);

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let unreachable = |error: io::Error| Failure::new(CONNECT, format!("{address}: {error}"));
        let socket = TcpStream::connect(address).await.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await.map_err(broken)?;
        // Its errors are those of the request under way, which reports them.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self(sender))
    }

    async fn send(&mut self, address: &str, path: &str, form: Form) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::post(path).header("host", address).header("user-agent", "skerry-lab");
        request = request.header("content-length", form.length());
        if form.length() > 0 {
            request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
        }
        let request = request.body(StreamBody::new(futures::stream::iter(form))).map_err(broken)?;
        self.0.ready().await.map_err(broken)?;
        self.0.send_request(request).await.map_err(broken)
    }
}

/// A form with one file: its head, the frames of the object, its foot.
#[derive(Debug, Default)]
struct Form {
    head: Option<Bytes>,
    frames: Option<Frames>,
    foot: Option<Bytes>,
    length: u64,
}

impl Form {
    fn of(ask: &Ask) -> Self {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"object\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let foot = format!("\r\n--{BOUNDARY}--\r\n");
        let length = head.len() as u64 + ask.body.length + foot.len() as u64;
        Self { head: Some(head.into()), frames: Some(ask.body.frames()), foot: Some(foot.into()), length }
    }

    const fn length(&self) -> u64 {
        self.length
    }
}

impl Iterator for Form {
    type Item = Result<Frame<Bytes>, io::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.head.take().or_else(|| self.frames.as_mut()?.next()).or_else(|| self.foot.take())?;
        Some(Ok(Frame::data(piece)))
    }
}

/// Reads an object; kubo tells of a failure in its midst by a trailer.
async fn read(mut body: Incoming, checker: &mut Checker) -> Result<(), Failure> {
    while let Some(frame) = body.frame().await {
        match frame.map_err(broken)?.into_data() {
            Ok(piece) => checker.take(&piece),
            Err(frame) => {
                let trailer = frame.trailers_ref().and_then(|trailers| trailers.get("x-stream-error"));
                if let Some(error) = trailer {
                    return Err(broken(String::from_utf8_lossy(error.as_bytes())));
                }
            }
        }
    }
    Ok(())
}

async fn whole(mut body: Incoming) -> Result<Vec<u8>, Failure> {
    let mut said = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(broken)?.into_data() {
            let room = ANSWER_BYTES.saturating_sub(said.len());
            said.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
        }
    }
    Ok(said)
}

/// The id in the last line of an answer: `add` says `Hash`, `block/put` says `Key`.
fn id_of(said: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(said).ok()?;
    let last = text.lines().rfind(|line| !line.trim().is_empty())?;
    let value: serde_json::Value = serde_json::from_str(last).ok()?;
    ["Hash", "Key"].iter().find_map(|name| value.get(name)?.as_str().map(str::to_owned))
}

/// What an error says.
fn message(said: &[u8]) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(said).ok();
    let message = value.as_ref().and_then(|value| value.get("Message")?.as_str());
    message.map_or_else(|| String::from_utf8_lossy(said).into_owned(), str::to_owned)
}

/// The first words of a story, without ids, so that failures can be counted by it.
fn short(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().filter(|word| word.len() < 24).take(5).collect();
    words.join(" ")
}

#[cfg(test)]
#[path = "ipfs_tests.rs"]
mod tests;
