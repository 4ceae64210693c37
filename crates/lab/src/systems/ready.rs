//! Whether a server is ready: it answers over HTTP, accepts a connection, or a program says so.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::machines::Machines;
use super::process::{Process, Ran};
use super::step::Ready;
use super::template::Values;

/// What one question may take.
const ASK: Duration = Duration::from_secs(2);
/// Below this a status means that the server is there, though it may refuse us.
const SERVER_ERROR: u16 = 500;
/// Enough for a status line.
const STATUS_BYTES: usize = 64;

/// Asks once.
pub(super) struct Check<'a> {
    pub(super) machines: &'a dyn Machines,
    pub(super) host: &'a str,
    pub(super) out: &'a Path,
    pub(super) log: &'a Path,
}

impl Check<'_> {
    /// Asks a program; it may take until the deadline.
    pub(super) fn by_command(&self, command: Command, deadline: Instant) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now()).max(ASK);
        match Process::run(command, self.out, self.log, left) {
            Ok(Ran::Ended(status)) if status.success() => Ok(()),
            Ok(Ran::Ended(status)) => Err(format!("the check ended with {status}")),
            Ok(Ran::TooLong) => Err("the check did not end".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Asks over the network, from the host itself.
    pub(super) fn by_network(&self, ready: &Ready, values: &Values, host: usize) -> Result<(), String> {
        match ready {
            Ready::Http { url, status } => {
                let url = values.fill_one(url, host).map_err(|unknown| unknown.0)?;
                let answer = self.get(&url)?;
                let fits = if status.is_empty() { answer < SERVER_ERROR } else { status.contains(&answer) };
                if fits { Ok(()) } else { Err(format!("{url} answers {answer}")) }
            }
            Ready::Tcp { address } => {
                let address = values.fill_one(address, host).map_err(|unknown| unknown.0)?;
                self.dial(&address).map(drop)
            }
            Ready::Run { .. } => Err("a program is asked otherwise".into()),
        }
    }

    fn dial(&self, address: &str) -> Result<std::net::TcpStream, String> {
        let to: SocketAddr = address.parse().map_err(|_| format!("{address} is no address and port"))?;
        self.machines.connect(self.host, to, ASK).map_err(|error| format!("{address}: {error}"))
    }

    /// The status of a GET.
    fn get(&self, url: &str) -> Result<u16, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url} is no http:// URL"))?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut stream = self.dial(address)?;
        let failed = |error: std::io::Error| format!("{url}: {error}");
        stream.set_read_timeout(Some(ASK)).map_err(failed)?;
        stream.set_write_timeout(Some(ASK)).map_err(failed)?;
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
            .map_err(failed)?;
        let mut answer = Vec::new();
        stream.take(STATUS_BYTES as u64).read_to_end(&mut answer).map_err(failed)?;
        status(&answer).ok_or_else(|| format!("{url} does not answer in HTTP"))
    }
}

/// The status of the first line of an answer.
fn status(answer: &[u8]) -> Option<u16> {
    let line = String::from_utf8_lossy(answer);
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_the_first_line() {
        assert_eq!(status(b"HTTP/1.1 403 Forbidden\r\nServer: x"), Some(403));
        assert_eq!(status(b"HTTP/1.0 200"), Some(200));
        assert_eq!(status(b"SSH-2.0"), None);
        assert_eq!(status(b""), None);
    }
}
