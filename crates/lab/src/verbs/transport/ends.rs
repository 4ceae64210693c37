//! The two ends of an exchange, each a process in its host.
//!
//! Invariants: both are ended, however a measurement ends; every wait has a bound.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use serde_json::Value;

use super::What;
use crate::sys;
use crate::wan::{Host, Wan};

const PORT: u16 = 7000;
/// The longest silence of an end: warming, measuring and the patience of the last questions.
const SILENCE: Duration = Duration::from_secs(240);
const LINES: usize = 64;

/// Keys of all ends, in a file that is gone with this.
pub(super) struct Keys(PathBuf);

impl Keys {
    pub(super) fn make(program: &Path, count: usize) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let output = Command::new(program).args(["keys", "--count", &count.to_string()]).output();
        let output = output.map_err(failed)?;
        if !output.status.success() {
            return Err(format!("{} makes no keys", program.display()));
        }
        let path = std::env::temp_dir().join(format!("skerry-transport-keys-{}", std::process::id()));
        std::fs::write(&path, output.stdout).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // What is left is keys of nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What to start.
pub(super) struct Ends<'a> {
    pub(super) program: &'a Path,
    pub(super) keys: &'a Keys,
    pub(super) transport: &'a str,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) figures: Value,
    pub(super) shuttle_cpu_s: f64,
}

/// A process that ends with this, and what it prints.
struct End {
    child: Child,
    lines: Receiver<String>,
    name: &'static str,
}

impl End {
    fn start(name: &'static str, mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, name })
    }

    fn line(&self) -> Result<String, String> {
        self.lines.recv_timeout(SILENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("{}: nothing for {} s", self.name, SILENCE.as_secs()),
            RecvTimeoutError::Disconnected => format!("{}: ended early", self.name),
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        sys::kill_group(self.child.id());
        // It was just killed.
        let _ = self.child.wait();
    }
}

impl Ends<'_> {
    /// Starts both, hears the asking one out, ends both.
    pub(super) fn run(&self, wan: &Wan, what: What, words: &[String]) -> Result<Said, String> {
        let missing = || "the network lacks a host".to_owned();
        let answers = wan.servers(0).next().ok_or_else(missing)?;
        let asks = wan.clients(1).next().ok_or_else(missing)?;
        let at = SocketAddr::from((answers.address, PORT)).to_string();
        let mut command = self.command(wan, answers, "answer");
        command.args(["--listen", &at]);
        let answering = End::start("the answering end", command)?;
        if answering.line()? != "ready" {
            return Err("the answering end does not listen".into());
        }
        let place = if what == What::Near { answers } else { asks };
        let mut command = self.command(wan, place, "ask");
        command.args(["--to", &at]).args(words);
        let asking = End::start("the asking end", command)?;
        hear(wan, asks, asking)
    }

    fn command(&self, wan: &Wan, host: &Host, verb: &str) -> Command {
        let mut command = wan.command(host, self.program);
        command.arg(verb).args(["--transport", self.transport]).arg("--keys").arg(&self.keys.0);
        command
    }
}

/// Does what the asking end says, until it says what it measured.
fn hear(wan: &Wan, asks: &Host, mut asking: End) -> Result<Said, String> {
    let (mut begun, mut shuttle_cpu_s) = (0.0, 0.0);
    loop {
        let line = asking.line()?;
        let said: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        match said.get("event").and_then(Value::as_str).unwrap_or_default() {
            "begin" => begun = own_cpu_s(),
            "end" => shuttle_cpu_s = own_cpu_s() - begun,
            "move" => {
                wan.readdress(asks).map_err(|error| error.to_string())?;
                let input = asking.child.stdin.as_mut().ok_or("no input")?;
                input.write_all(b"moved\n").map_err(|error| error.to_string())?;
            }
            _ => {
                let figures = said.get("with").cloned().unwrap_or_default();
                return Ok(Said { figures, shuttle_cpu_s });
            }
        }
    }
}

/// Processor seconds of the lab: of its thread that carries packets, as it does nothing else meanwhile.
fn own_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some((_, fields)) = text.rsplit_once(") ") else { return 0.0 };
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
