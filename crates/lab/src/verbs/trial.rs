//! `skerry-lab try SYSTEM`: starts a system, shows where it serves, and stops it when standard input ends.
//!
//! Why: whoever writes a system file wants to see it start before a scenario depends on it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use clap::Args;

use super::Ending;
use crate::run::Watch;
use crate::systems::{Loopback, Running, SystemFile, start};

/// Network of the loopback double: 127.N.0.0/16.
const NETWORK: u8 = 90;
/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Start a system by its file on loopback addresses, show where it serves, stop it with Ctrl-C
#[derive(Debug, Args)]
pub struct Try {
    /// Its name in crates/lab/systems, or a file
    system: String,
    /// How many sites
    #[arg(long, default_value_t = 3)]
    sites: u8,
    /// How many nodes each of them has
    #[arg(long, default_value_t = 1)]
    nodes: u8,
    /// Another value for a setting of the file
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Where its data and logs go
    #[arg(long, default_value = "target/lab/try")]
    dir: PathBuf,
}

impl Try {
    /// Runs the verb.
    pub fn run(self) -> Ending {
        let file = load(&self.system, &self.set)?;
        // What an earlier trial left would be found by programs that refuse to begin twice.
        if self.dir.exists() {
            std::fs::remove_dir_all(&self.dir).map_err(|error| format!("{}: {error}", self.dir.display()))?;
        }
        // Without it Ctrl-C would end the lab alone: the system's processes have groups of their own.
        let watch = Watch::signals().map_err(|error| format!("signals: {error}"))?;
        let running = start(&file, &Loopback::new(NETWORK, self.sites, self.nodes), &self.dir);
        let mut running = running.map_err(|error| error.to_string())?;
        show(&running);
        let closed = closed_stdin();
        while !watch.interrupted() && closed.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if let Some(dead) = running.is_dead() {
                return Err(dead.to_string());
            }
        }
        for process in running.processes() {
            let usage = process.usage;
            println!(
                "{} {} {}: {:.2} CPU s, peak {} MB, {} MB written",
                process.host,
                process.name,
                process.pid,
                usage.cpu_seconds,
                usage.peak_rss_bytes / 1_000_000,
                usage.written_bytes / 1_000_000
            );
        }
        for who in running.stop() {
            println!("{who} had to be killed");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Tells when standard input has ended, from a thread that ends with the process.
fn closed_stdin() -> Receiver<()> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
        // Nobody may be waiting any more.
        let _ = sender.send(());
    });
    receiver
}

/// A file by path or by the name it has in this checkout.
fn load(system: &str, set: &[String]) -> Result<SystemFile, String> {
    let named = PathBuf::from(format!("crates/lab/systems/{system}.toml"));
    let path = if named.is_file() { named.as_path() } else { Path::new(system) };
    let file = SystemFile::load(path).map_err(|refusal| refusal.to_string())?;
    let mut settings = BTreeMap::new();
    for setting in set {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("--set {setting}: NAME=VALUE"))?;
        settings.insert(name.to_owned(), value.to_owned());
    }
    file.with(&settings).map_err(|refusal| refusal.to_string())
}

fn show(running: &Running) {
    println!(
        "{} ({}), ready in {:.1} s",
        running.system.title,
        running.version,
        running.started_in.as_secs_f64()
    );
    if let Some(why) = &running.system.untested {
        println!("untested: {why}");
    }
    for endpoint in &running.endpoints {
        println!("{} {}", endpoint.site_name, endpoint.url);
    }
    for process in running.processes() {
        println!("{} {} {} {}", process.host, process.name, process.pid, process.log.display());
    }
    let keys = running.credentials();
    println!("access key {}, secret key {}, region {}", keys.access_key, keys.secret_key, keys.region);
    println!("Ctrl-C or Ctrl-D stops it");
}
