//! The sites of a demo as child processes: started, watched and stopped by this one.
//!
//! Invariants: a child ends when its standard input closes, so it never outlives the demo, however that ends;
//! it is told to stop by SIGTERM and killed, by its own pid, only after a bounded wait; each has a process
//! group of its own, so that Ctrl-C at the terminal reaches the demo alone.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

use super::layout::Layout;
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::site_files::CONFIGURATION;

/// What the sites have to put their affairs in order before they are killed.
pub(crate) const STOP: Duration = Duration::from_secs(30);
/// How much of a log is shown when a site ends by itself.
const TAIL_BYTES: u64 = 4096;

/// A running site.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) pid: u32,
    log: PathBuf,
    child: Child,
    /// Held open as long as the site is to run.
    _line: Option<ChildStdin>,
}

impl Site {
    /// Starts a site of a demo; what it says goes to `skerry.log` in its directory. The user's access key comes
    /// with it, so that every site knows it before it is ready for the first time.
    pub(crate) fn start(layout: &Layout, name: &str) -> Outcome<Self> {
        let directory = layout.site_directory(name);
        let failed = |error: std::io::Error| Failure::failed(format!("{name} cannot be started: {error}"));
        let path = directory.join("skerry.log");
        let log = files::log(&path)?;
        let beside = log.try_clone().map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for variable in foreign_settings() {
            command.env_remove(variable);
        }
        let mut child = command
            .args(["server", "--stop-with-stdin", "--config"])
            .arg(directory.join(CONFIGURATION))
            .env("SKERRY_ACCESS_KEY", &layout.access_key)
            .env("SKERRY_SECRET_KEY", &layout.secret_key)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(beside)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pid = child.id().ok_or_else(|| Failure::failed(format!("{name} ended at once")))?;
        let line = child.stdin.take();
        Ok(Self { name: name.to_owned(), pid, log: path, child, _line: line })
    }

    /// How it ended, if it has.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Why it ended by itself, with the end of its log.
    pub(crate) fn obituary(&self, status: ExitStatus) -> String {
        let tail = files::tail(&self.log, TAIL_BYTES);
        let lines: Vec<&str> = tail.lines().rev().take(12).collect();
        let lines: Vec<String> = lines.iter().rev().map(|line| format!("    {line}")).collect();
        format!(
            "{} ended by itself ({status}); the end of {}:\n{}",
            self.name,
            self.log.display(),
            lines.join("\n")
        )
    }

    /// Asks it to stop.
    pub(crate) fn tell(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // A site that has just ended by itself is what we want.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for it to stop, and kills it if it has not by then. Says why, if it did not stop cleanly.
    pub(crate) async fn stopped(mut self, by: Instant) -> Result<(), String> {
        let how = match tokio::time::timeout_at(by, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => format!("ended badly ({status})"),
            Ok(Err(error)) => format!("could not be waited for: {error}"),
            Err(_) => {
                // It may have ended in between.
                let _ = self.child.kill().await;
                "had to be killed".to_owned()
            }
        };
        let tail = files::tail(&self.log, TAIL_BYTES);
        let last = tail.lines().last().unwrap_or("it says nothing");
        Err(format!("{} {how}; the end of {}: {last}", self.name, self.log.display()))
    }
}

/// Variables that would lay the same setting over every site: where it listens, where its directory is.
fn foreign_settings() -> impl Iterator<Item = String> {
    let alike = ["SKERRY_LOG_", "SKERRY_STORAGE_", "SKERRY_LIMITS_", "SKERRY_AUTH_", "SKERRY_BUCKET_"];
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(move |name| {
        name.starts_with("SKERRY_") && !alike.iter().any(|prefix| name.starts_with(prefix))
    })
}
