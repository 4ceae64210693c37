//! `skerry server`: runs a site until it is told to stop.

use std::io::Read;

use clap::Args;
use skerry_node::config::Config;
use skerry_node::machine;
use skerry_node::server::{Options, Running, StartError};
use skerry_node::telemetry;
use skerry_node::trust::access::AccessKey;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::arenas;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::site_files::{self, Source};
use crate::verbs::version;
use crate::words;

/// A thread without work ends after this: shorter than the pause of the workers, which would keep all alive.
const IDLE_THREAD: std::time::Duration = std::time::Duration::from_secs(2);

/// Run a site until SIGTERM or Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    source: Source,
    /// Access key with all rights that must exist; together with the secret key
    #[arg(long, value_name = "KEY", env = "SKERRY_ACCESS_KEY", requires = "secret_key", value_parser = words::filled)]
    access_key: Option<String>,
    /// Its secret key
    #[arg(
        long,
        value_name = "SECRET",
        env = "SKERRY_SECRET_KEY",
        hide_env_values = true,
        requires = "access_key",
        value_parser = words::filled
    )]
    secret_key: Option<String>,
    /// Arenas of the allocator: said by whoever started this process, or by itself when it starts anew
    #[arg(long, hide = true, env = arenas::VARIABLE)]
    arenas: Option<String>,
    /// Stop when standard input closes: how a demo's sites end with it
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

impl Server {
    pub(crate) fn run(self, globals: &Globals) -> Outcome {
        if self.arenas.is_none() {
            arenas::start_anew();
        }
        let config = self.source.load()?;
        site_files::known(config.node.dir.as_ref())?;
        if output::dry_run(globals.dry_run, &format!("run the site in {}", config.node.dir), globals.json)? {
            return Ok(Exit::Done);
        }
        telemetry::log::start(&config.log.level, config.log.format).map_err(Failure::failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(machine::workers())
            .max_blocking_threads(machine::blocking())
            .thread_keep_alive(IDLE_THREAD)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("runtime: {error}")))?;
        machine::raise_open_files();
        let access_key = self.access_key.zip(self.secret_key).map(|(id, secret)| AccessKey { id, secret });
        let ended = runtime.block_on(serve(&config, access_key, self.stop_with_stdin));
        // Whoever was told to stop does not wait for a store that is being opened, or a name that is looked up: what is on disk
        // is whole wherever the process ends.
        runtime.shutdown_background();
        match ended? {
            Ended::Stopped => Ok(Exit::Done),
            Ended::BeginsAnew => {
                let why = arenas::replace();
                Err(Failure::failed(format!("the site could not start itself anew ({why}); start it again")))
            }
        }
    }
}

/// Why a site serves no more.
enum Ended {
    /// It was told so.
    Stopped,
    /// It is to be started anew by itself.
    BeginsAnew,
}

async fn serve(config: &Config, access_key: Option<AccessKey>, stop_with_stdin: bool) -> Outcome<Ended> {
    let mut stop = Stop::listen(stop_with_stdin)?;
    let options = Options { access_key, commit: version::COMMIT, ..Options::default() };
    let running = tokio::select! {
        started = Running::start(config, options) => started.map_err(failure)?,
        () = stop.asked() => {
            output::note("stopped before it served");
            return Ok(Ended::Stopped);
        }
    };
    let ended = tokio::select! {
        why = running.fell() => Err(Failure::failed(why)),
        () = running.begins_anew() => Ok(Ended::BeginsAnew),
        () = stop.asked() => Ok(Ended::Stopped),
    };
    tokio::select! {
        () = running.shutdown() => {}
        () = stop.asked_twice() => {
            return Err(Failure::failed("told to stop twice: requests under way were not let end"));
        }
    }
    match ended {
        // Told so while its requests were let end: that comes first.
        Ok(Ended::BeginsAnew) if stop.heard != [0, 0] => Ok(Ended::Stopped),
        ended => ended,
    }
}

/// What a process is asked to stop by.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
    closed: Option<oneshot::Receiver<()>>,
    /// How often by each signal: a demo's sites hear Ctrl-C of the terminal and then SIGTERM of the demo, which is once.
    heard: [u32; 2],
}

impl Stop {
    fn listen(with_stdin: bool) -> Outcome<Self> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            closed: with_stdin.then(closed_stdin),
            heard: [0; 2],
        })
    }

    /// Ends when the process is asked to stop once more, in any way.
    async fn asked(&mut self) {
        let Self { terminate, interrupt, closed, heard: [by_terminate, by_interrupt] } = self;
        let gone = async {
            match closed {
                // A sender that is gone means the same: nobody holds the line any more.
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        let is_gone = tokio::select! {
            _ = terminate.recv() => { *by_terminate += 1; false }
            _ = interrupt.recv() => { *by_interrupt += 1; false }
            () = gone => true,
        };
        if is_gone {
            self.closed = None;
        }
    }

    /// Ends when one signal came twice.
    async fn asked_twice(&mut self) {
        while self.heard.iter().all(|times| *times < 2) {
            self.asked().await;
        }
    }
}

/// Watches standard input on a thread of its own, which ends with the process.
fn closed_stdin() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 64];
        while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
        // The server may have stopped for another reason.
        let _ = sender.send(());
    });
    receiver
}

/// The kind of a failed start.
fn failure(error: StartError) -> Failure {
    match &error {
        StartError::Config(_) | StartError::Certificate(_) => Failure::usage(error.to_string()),
        _ if error.in_use() => Failure::refused(error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}
