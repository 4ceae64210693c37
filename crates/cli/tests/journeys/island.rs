//! The true binary as a child process: run to its end, or a demo that lives as long as the value.

#![expect(clippy::panic, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes longer on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A command line of the binary, without variables of the surroundings.
pub(crate) fn skerry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skerry"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SKERRY_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs to the end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    skerry(arguments).output().unwrap()
}

/// Exit code, standard output and standard error.
pub(crate) fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Standard output as JSON; the exit code must be as expected.
pub(crate) fn json(arguments: &[&str], code: i32) -> Value {
    let (found, out, err) = told(&run(arguments));
    assert_eq!(found, code, "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}{err}"))
}

/// Polls until it gives something; never longer than [`PATIENCE`].
pub(crate) fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port P such that P.. and P+100.. are free for three sites, and no other test of this run is given.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    wait_for("free ports", || {
        let start = 20_000 + (std::process::id() % 40) as u16 * 200;
        let base = start + 3 * GIVEN.fetch_add(1, Ordering::Relaxed).checked_rem(33)?;
        (0..3).all(|site| free(base + site) && free(base + 100 + site)).then_some(base)
    })
}

/// Sends a signal to a process that a test started.
pub(crate) fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Whether a process runs; one that is dead and not yet collected does not.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    !matches!(state, None | Some('Z' | 'X'))
}

/// A running demo of three sites.
pub(crate) struct Demo {
    pub(crate) process: Child,
    pub(crate) directory: PathBuf,
    events: Receiver<Value>,
    /// What it said when it was ready.
    pub(crate) ready: Value,
}

impl Demo {
    /// Starts it and waits until all sites are ready.
    pub(crate) fn start(directory: &Path, port: u16) -> Self {
        let dir = directory.to_str().unwrap();
        let mut process =
            skerry(&["demo", "--json", "--timeout", "90s", "--dir", dir, "--port", &port.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let (sender, events) = sync_channel(10_000);
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    // The test may have ended.
                    let _ = sender.send(event);
                }
            }
        });
        let mut demo = Self { process, directory: directory.into(), events, ready: Value::Null };
        demo.ready = demo.event("ready");
        demo
    }

    /// Waits for the next event of a kind.
    pub(crate) fn event(&self, kind: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) if event["kind"] == kind => return event,
                Ok(_) => {}
                Err(error) => panic!("no event {kind}: {error}"),
            }
        }
    }

    /// The pid of a site, from 1.
    pub(crate) fn pid(&self, site: usize) -> u32 {
        u32::try_from(self.ready["sites"][site - 1]["pid"].as_u64().unwrap()).unwrap()
    }

    /// The command line on this demo's directory.
    pub(crate) fn json(&self, arguments: &[&str], code: i32) -> Value {
        json(&[arguments, &["--json", "--dir", self.directory.to_str().unwrap()]].concat(), code)
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn stop(mut self) -> i32 {
        signal(self.process.id(), "TERM");
        wait_for("the demo to end", || self.process.try_wait().unwrap()).code().unwrap_or(-1)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Its sites end with it: they hold the other end of a pipe.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
