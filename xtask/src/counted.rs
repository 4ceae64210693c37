//! One site under a counter, for `cargo xtask count`: started in a directory of its own, put under load, looked at.
//!
//! Invariants: all of it on loopback; the site is ended when this is dropped, whatever happened.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::run;

/// Nobody's key: the site lives for minutes and on loopback.
const KEY: [&str; 2] = ["AKIACOUNTCOUNTCOUNT1", "count-count-count-count-count-count-count"];
/// How long a site may take to answer, also under valgrind.
const START: Duration = Duration::from_secs(120);

/// How often the device is synced to know what one sync takes.
const SYNCS: usize = 201;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Instructions, by valgrind.
    Instructions,
    /// CPU time, by the kernel.
    Cpu,
}

/// A running site.
pub(crate) struct Site {
    binary: PathBuf,
    directory: PathBuf,
    address: SocketAddr,
    counter: Counter,
    child: Child,
}

impl Site {
    /// Makes and starts a site in this directory, which is emptied first.
    pub(crate) fn start(binary: &Path, directory: &Path, counter: Counter) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        if directory.exists() {
            std::fs::remove_dir_all(directory).map_err(failed)?;
        }
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut init = Command::new(binary);
        init.arg("init").arg("--dir").arg(directory.join("site")).arg("--root").arg(directory.join("root"));
        // What it says about keys is for those who keep a site.
        if !run::succeeds(&mut init) {
            return Err(format!("{} init failed in {}", binary.display(), directory.display()));
        }
        let log = std::fs::File::create(directory.join("log")).map_err(failed)?;
        let (address, peers) = (free_port()?, free_port()?);
        let mut command = match counter {
            Counter::Cpu => Command::new(binary),
            Counter::Instructions => valgrind(binary, directory),
        };
        command.arg("server").arg(directory.join("site")).env("SKERRY_S3_LISTEN", address.to_string());
        command.env("SKERRY_PEER_LISTEN", peers.to_string());
        // As a server sets it for itself, by starting anew: then valgrind would lose sight of it.
        command.env("MALLOC_ARENA_MAX", "2");
        command.env("SKERRY_ACCESS_KEY", KEY[0]).env("SKERRY_SECRET_KEY", KEY[1]);
        command.stdout(log.try_clone().map_err(failed)?).stderr(log).stdin(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start the site: {error}"))?;
        let (binary, directory) = (binary.to_owned(), directory.to_owned());
        let mut site = Self { binary, directory, address, counter, child };
        site.wait()?;
        Ok(site)
    }

    fn wait(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < START {
            if is_ready(self.address) {
                return Ok(());
            }
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        Err(format!("the site does not answer:\n{log}"))
    }

    /// Asks the site for so many operations of one kind; all of them must succeed. Answers how they went.
    pub(crate) fn load(&self, arguments: &[String], operations: u64) -> Result<Pace, String> {
        let mut command = Command::new(&self.binary);
        command.args(["bench", "mixed", "--json", "--no-load", "--keep", "--verify", "length"]);
        command.args(["--order", "sequential", "--endpoint", &format!("http://{}", self.address)]);
        command.args(arguments).args(["--operations", &operations.to_string()]);
        command.env("SKERRY_ACCESS_KEY", KEY[0]).env("SKERRY_SECRET_KEY", KEY[1]);
        Pace::read(&run::read(&mut command)?).ok_or("the load generator said something else".into())
    }

    /// Begins to count anew.
    pub(crate) fn zero(&self) -> Result<(), String> {
        self.tell(&["zero"])
    }

    /// What was counted since, as valgrind writes it.
    pub(crate) fn dump(&self) -> Result<String, String> {
        self.tell(&["dump"])?;
        let entries = std::fs::read_dir(&self.directory).map_err(|error| error.to_string())?;
        let paths = entries.flatten().map(|entry| entry.path());
        let dump =
            paths.filter(|path| path.file_name().is_some_and(|name| name != "callgrind.out")).find(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind.out"))
            });
        let dump = dump.ok_or("callgrind wrote nothing")?;
        let text = std::fs::read(&dump).map_err(|error| format!("{}: {error}", dump.display()))?;
        std::fs::remove_file(&dump).map_err(|error| format!("{}: {error}", dump.display()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn tell(&self, words: &[&str]) -> Result<(), String> {
        debug_assert_eq!(self.counter, Counter::Instructions, "only valgrind listens");
        let mut command = Command::new("vgdb");
        command.arg(prefix(&self.directory)).arg(format!("--pid={}", self.child.id()));
        command.args(words).stderr(Stdio::null());
        command.output().map_err(|error| format!("vgdb: {error}")).map(drop)
    }

    /// Nanoseconds that all threads ran, with the shares of user and kernel.
    pub(crate) fn cpu(&self) -> Result<Cpu, String> {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut cpu = Cpu::default();
        for thread in std::fs::read_dir(proc.join("task")).map_err(|error| error.to_string())?.flatten() {
            // A thread that has just ended takes its nanoseconds along: few of ours end.
            let Ok(text) = read(thread.path().join("schedstat")) else { continue };
            cpu.nanos += text.split(' ').next().and_then(|ran| ran.parse::<u64>().ok()).unwrap_or(0);
        }
        let stat = read(proc.join("stat"))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
        (cpu.user_ticks, cpu.kernel_ticks) = (ticks(11), ticks(12));
        let status = read(proc.join("status"))?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
        };
        (cpu.rss_kib, cpu.peak_kib) = (kib("VmRSS"), kib("VmHWM"));
        Ok(cpu)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Without an orderly end: nothing of it is needed any more.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// How the operations of a load went, as the load generator saw them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Operations in a second.
    pub(crate) per_second: f64,
    /// Milliseconds that half of them stayed below.
    pub(crate) p50: f64,
    /// Milliseconds that all but one in a hundred stayed below.
    pub(crate) p99: f64,
}

impl Pace {
    fn read(json: &str) -> Option<Self> {
        let document: serde_json::Value = serde_json::from_str(json).ok()?;
        let summary = document.get("phases")?.as_array()?.last()?.get("summary")?;
        let number = |name: &str| summary.get(name)?.as_f64();
        let (p50, p99) = (number("p50")? * 1e3, number("p99")? * 1e3);
        Some(Self { per_second: number("operations_per_s")?, p50, p99 })
    }
}

/// Milliseconds of one `fdatasync` after 4 KiB were appended to a file in this directory, the median: no synced write
/// can be quicker.
pub(crate) fn sync_floor(directory: &Path) -> Result<f64, String> {
    let path = directory.join("floor");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = std::fs::File::create(&path).map_err(failed)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let begin = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).map_err(failed)?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times.get(SYNCS / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3))
}

/// What the kernel says of the site so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// Time on a CPU.
    pub(crate) nanos: u64,
    /// Of it in the program, in hundredths of a second.
    pub(crate) user_ticks: u64,
    /// Of it in the kernel.
    pub(crate) kernel_ticks: u64,
    /// Memory now.
    pub(crate) rss_kib: u64,
    /// The most so far.
    pub(crate) peak_kib: u64,
}

fn prefix(directory: &Path) -> String {
    format!("--vgdb-prefix={}", directory.join("vgdb").display())
}

fn valgrind(binary: &Path, directory: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "-q", "--dump-line=no"]);
    command.arg(format!("--callgrind-out-file={}", directory.join("callgrind.out").display()));
    command.arg(prefix(directory)).arg(binary);
    command
}

fn free_port() -> Result<SocketAddr, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(
            b"GET /_skerry/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_phase() {
        let json = r#"{"phases":[{"summary":{"p50":1,"p99":1,"operations_per_s":1}},
            {"summary":{"p50":0.002,"p99":0.25,"operations_per_s":10.5}}]}"#;
        assert_eq!(Pace::read(json), Some(Pace { per_second: 10.5, p50: 2.0, p99: 250.0 }));
        assert_eq!(Pace::read("{}"), None);
    }
}
