//! Cassandra as a target, over its native protocol: a bucket is a keyspace, an object a row with a blob.
//!
//! A keyspace carries the placement (`{'class': 'NetworkTopologyStrategy', 'oslo': 1}`), as in the paper, where each
//! user had one that kept the data at the user's site. Statements are prepared once per connection; with a new
//! connection for each operation that costs its round trips too, as it would any client.
//! Invariants: one request at a time on a connection; a connection whose answer was not read to its end is not kept.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use skerry_bench::target::{Ask, CONNECT, Done, Failure, Operation, Slot, Target, WRONG_LISTING};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::answer::{broken, judge, nothing, since};
use super::cql::{self, Answer, Consistency, Options, opcode, result};

/// Rows of a page of a listing.
const PAGE: i32 = 1000;
/// How long all nodes have to learn of a new keyspace.
const AGREEMENT: Duration = Duration::from_secs(30);
/// How often they are asked.
const POLL: Duration = Duration::from_millis(100);
/// The longest name of a keyspace.
const KEYSPACE_BYTES: usize = 48;

/// How to reach a node and what to ask of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CassandraConfig {
    /// `ADDRESS:9042`.
    pub endpoint: String,
    /// Replication of new keyspaces in CQL; `SITE` stands for the name of the client's site.
    #[serde(default)]
    pub replication: Option<String>,
    /// How many replicas must answer: `ONE` (default), `LOCAL_QUORUM` and so on.
    #[serde(default)]
    pub consistency: Option<String>,
    /// The client's site.
    #[serde(default)]
    pub site: String,
}

/// A node under load.
#[derive(Debug)]
pub struct CassandraTarget {
    address: String,
    replication: String,
    consistency: Consistency,
}

impl CassandraTarget {
    /// Checks the settings; connects to nothing.
    pub fn new(config: CassandraConfig) -> Result<Self, String> {
        let word = config.consistency.as_deref().unwrap_or("ONE");
        let consistency = Consistency::of_word(word).ok_or_else(|| format!("no consistency {word:?}"))?;
        let replication =
            config.replication.as_deref().unwrap_or("{'class': 'SimpleStrategy', 'replication_factor': 1}");
        Ok(Self {
            address: config.endpoint,
            replication: replication.replace("SITE", &config.site),
            consistency,
        })
    }

    fn options(&self) -> Options<'static> {
        Options { consistency: self.consistency, page: None, state: None }
    }

    async fn ask(&self, slot: &mut Slot, ask: &Ask, done: &mut Done) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut connection = match slot.take::<Connection>() {
            Some(connection) => connection,
            None => {
                let connection = Connection::open(&self.address).await?;
                done.connect_ns = since(begin);
                connection
            }
        };
        let keyspace = keyspace(&ask.bucket);
        match ask.operation {
            Operation::CreateBucket => self.create(&mut connection, &keyspace).await?,
            Operation::DeleteBucket => {
                connection.order(&format!("DROP KEYSPACE IF EXISTS {keyspace}"), self.options()).await?;
                connection.agree(self.options()).await?;
            }
            Operation::List => self.list(&mut connection, ask, &keyspace).await?,
            _ => {
                let judged = self.row(&mut connection, ask, (&keyspace, begin), done).await?;
                slot.keep(connection);
                return judged.map_or(Ok(()), Err);
            }
        }
        slot.keep(connection);
        Ok(())
    }

    async fn create(&self, connection: &mut Connection, keyspace: &str) -> Result<(), Failure> {
        let replication = &self.replication;
        let made = format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}");
        connection.order(&made, self.options()).await?;
        let table =
            format!("CREATE TABLE IF NOT EXISTS {keyspace}.objects (name text PRIMARY KEY, body blob)");
        connection.order(&table, self.options()).await?;
        connection.agree(self.options()).await
    }

    async fn list(&self, connection: &mut Connection, ask: &Ask, keyspace: &str) -> Result<(), Failure> {
        let text = format!("SELECT name FROM {keyspace}.objects");
        let mut state: Option<Vec<u8>> = None;
        let mut seen = 0;
        loop {
            let options = Options { page: Some(PAGE), state: state.as_deref(), ..self.options() };
            connection.send(&cql::query(&text, options)).await.map_err(broken)?;
            let mut answer = connection.result(result::ROWS).await?;
            let rows = answer.rows().await.map_err(broken)?;
            seen += u64::try_from(rows.count).unwrap_or_default();
            answer.finish().await.map_err(broken)?;
            state = rows.state;
            if state.is_none() || ask.expected.is_none() {
                break;
            }
        }
        match ask.expected {
            Some(expected) if expected != seen => {
                Err(Failure::new(WRONG_LISTING, format!("{seen} keys in {keyspace} for {expected}")))
            }
            _ => Ok(()),
        }
    }

    /// What concerns one row. The outer error ends the connection, the inner one does not.
    async fn row(
        &self,
        connection: &mut Connection,
        ask: &Ask,
        (keyspace, begin): (&str, Instant),
        done: &mut Done,
    ) -> Result<Option<Failure>, Failure> {
        let text = match ask.operation {
            Operation::Put => format!("INSERT INTO {keyspace}.objects (name, body) VALUES (?, ?)"),
            Operation::Get => format!("SELECT body FROM {keyspace}.objects WHERE name = ?"),
            Operation::Head => format!("SELECT name FROM {keyspace}.objects WHERE name = ?"),
            _ => format!("DELETE FROM {keyspace}.objects WHERE name = ?"),
        };
        let id = connection.prepared(text).await?;
        let is_put = ask.operation == Operation::Put;
        let blob = is_put.then_some(ask.body.length);
        connection.send(&cql::execute(&id, self.options(), &ask.key, blob)).await.map_err(broken)?;
        if is_put {
            for frame in ask.body.frames() {
                connection.send(&frame).await.map_err(broken)?;
            }
            done.bytes = ask.body.length;
        }
        let mut answer = connection.any_result().await?;
        done.first_byte_ns = since(begin);
        let kind = answer.int().await.map_err(broken)?;
        if kind != result::ROWS {
            answer.finish().await.map_err(broken)?;
            return Ok(None);
        }
        let rows = answer.rows().await.map_err(broken)?;
        let missing = Failure::new("no-row", format!("{} is not there", ask.key));
        let length = if rows.count == 0 { None } else { answer.value().await.map_err(broken)? };
        let Some(length) = length else {
            answer.finish().await.map_err(broken)?;
            return Ok(Some(missing));
        };
        let mut checker = ask.body.check();
        answer.stream(length, |piece| checker.take(piece)).await.map_err(broken)?;
        answer.finish().await.map_err(broken)?;
        if ask.operation != Operation::Get {
            return Ok(None);
        }
        done.bytes = checker.seen();
        Ok(judge(ask, &checker))
    }
}

#[async_trait]
impl Target for CassandraTarget {
    fn describe(&self) -> String {
        format!("cassandra {}", self.address)
    }

    async fn perform(&self, slot: &mut Slot, ask: &Ask) -> Done {
        let mut done = nothing();
        done.failure = self.ask(slot, ask, &mut done).await.err();
        done
    }
}

/// The keyspace of a bucket: letters, digits and underscores.
fn keyspace(bucket: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let name: String = bucket.chars().map(plain).collect();
    let name =
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("b_{name}") };
    name.chars().take(KEYSPACE_BYTES).collect()
}

/// One connection and what was prepared on it.
struct Connection {
    socket: BufReader<TcpStream>,
    prepared: BTreeMap<String, Vec<u8>>,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let unreachable = |error: io::Error| Failure::new(CONNECT, format!("{address}: {error}"));
        let socket = TcpStream::connect(address).await.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let mut connection =
            Self { socket: BufReader::with_capacity(64 << 10, socket), prepared: BTreeMap::new() };
        connection.send(&cql::startup()).await.map_err(unreachable)?;
        let mut answer = connection.answer().await?;
        let kind = answer.opcode;
        answer.finish().await.map_err(broken)?;
        match kind {
            opcode::READY => Ok(connection),
            opcode::AUTHENTICATE => {
                Err(Failure::new("authenticate", "it wants a password; the lab has none"))
            }
            other => Err(broken(format!("opcode {other:#04x} after STARTUP"))),
        }
    }

    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(frame).await
    }

    /// An answer that is no error.
    async fn answer(&mut self) -> Result<Answer<'_, BufReader<TcpStream>>, Failure> {
        let mut answer = Answer::read(&mut self.socket).await.map_err(broken)?;
        if answer.opcode != opcode::ERROR {
            return Ok(answer);
        }
        let code = answer.int().await.map_err(broken)?;
        let message = answer.text().await.map_err(broken)?;
        Err(Failure::new(format!("{code:#06x} {}", error_name(code)), message))
    }

    async fn any_result(&mut self) -> Result<Answer<'_, BufReader<TcpStream>>, Failure> {
        let answer = self.answer().await?;
        match answer.opcode {
            opcode::RESULT => Ok(answer),
            other => Err(broken(format!("opcode {other:#04x} for a result"))),
        }
    }

    async fn result(&mut self, kind: i32) -> Result<Answer<'_, BufReader<TcpStream>>, Failure> {
        let mut answer = self.any_result().await?;
        match answer.int().await.map_err(broken)? {
            found if found == kind => Ok(answer),
            found => Err(broken(format!("a result of kind {found} for {kind}"))),
        }
    }

    /// Carries out a statement whose answer says nothing.
    async fn order(&mut self, text: &str, options: Options<'_>) -> Result<(), Failure> {
        self.send(&cql::query(text, options)).await.map_err(broken)?;
        self.any_result().await?.finish().await.map_err(broken)
    }

    async fn prepared(&mut self, text: String) -> Result<Vec<u8>, Failure> {
        if let Some(id) = self.prepared.get(&text) {
            return Ok(id.clone());
        }
        self.send(&cql::prepare(&text)).await.map_err(broken)?;
        let mut answer = self.result(result::PREPARED).await?;
        let id = answer.short_bytes().await.map_err(broken)?;
        answer.finish().await.map_err(broken)?;
        self.prepared.insert(text, id.clone());
        Ok(id)
    }

    /// Waits until all nodes that this one sees have the same schema, as drivers do after a change.
    async fn agree(&mut self, options: Options<'_>) -> Result<(), Failure> {
        let by = Instant::now() + AGREEMENT;
        loop {
            let mut versions = self.column("SELECT schema_version FROM system.local", options).await?;
            versions.append(&mut self.column("SELECT schema_version FROM system.peers", options).await?);
            versions.dedup();
            if versions.len() <= 1 {
                return Ok(());
            }
            if Instant::now() >= by {
                return Err(Failure::new(
                    "schema",
                    format!("no agreement on the schema within {AGREEMENT:?}"),
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The first column of a small table.
    async fn column(&mut self, text: &str, options: Options<'_>) -> Result<Vec<Vec<u8>>, Failure> {
        self.send(&cql::query(text, options)).await.map_err(broken)?;
        let mut answer = self.result(result::ROWS).await?;
        let rows = answer.rows().await.map_err(broken)?;
        let mut column = Vec::new();
        for _ in 0..rows.count {
            if let Some(length) = answer.value().await.map_err(broken)? {
                column.push(answer.piece(length).await.map_err(broken)?);
            }
        }
        answer.finish().await.map_err(broken)?;
        Ok(column)
    }
}

/// What the protocol calls its more frequent errors.
fn error_name(code: i32) -> &'static str {
    match code {
        0x0000 => "server",
        0x000A => "protocol",
        0x1000 => "unavailable",
        0x1001 => "overloaded",
        0x1100 => "write-timeout",
        0x1200 => "read-timeout",
        0x2000 => "syntax",
        0x2200 => "invalid",
        0x2300 => "configuration",
        0x2500 => "unprepared",
        _ => "error",
    }
}

#[cfg(test)]
#[path = "cassandra_tests.rs"]
mod tests;
