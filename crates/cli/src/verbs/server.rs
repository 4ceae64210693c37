//! `skerry server`: runs a site until it is told to stop.

use std::io::Read;

use clap::Args;
use skerry_node::config::Config;
use skerry_node::machine;
use skerry_node::server::{Options, Running, StartError};
use skerry_node::telemetry;
use skerry_node::trust::access::AccessKey;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::arenas;
use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::site_files::{self, Source};
use crate::verbs::version;

/// A thread without work ends after this: shorter than the pause of the workers, which would keep all alive.
const IDLE_THREAD: std::time::Duration = std::time::Duration::from_secs(2);

/// Run a site until SIGTERM or Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    source: Source,
    /// Access key with all rights that must exist; together with the secret key
    #[arg(long, value_name = "KEY", env = "SKERRY_ACCESS_KEY", requires = "secret_key")]
    access_key: Option<String>,
    /// Its secret key
    #[arg(
        long,
        value_name = "SECRET",
        env = "SKERRY_SECRET_KEY",
        hide_env_values = true,
        requires = "access_key"
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
        let access_key = self.access_key.zip(self.secret_key).map(|(id, secret)| AccessKey { id, secret });
        runtime.block_on(serve(&config, access_key, self.stop_with_stdin))
    }
}

async fn serve(config: &Config, access_key: Option<AccessKey>, stop_with_stdin: bool) -> Outcome {
    let stop = stop(stop_with_stdin)?;
    tokio::pin!(stop);
    let options = Options { access_key, commit: version::COMMIT, ..Options::default() };
    let running = tokio::select! {
        started = Running::start(config, options) => started.map_err(failure)?,
        () = &mut stop => return Ok(Exit::Done),
    };
    stop.await;
    running.shutdown().await;
    Ok(Exit::Done)
}

/// Ends when the process is asked to stop.
fn stop(with_stdin: bool) -> Outcome<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let closed = with_stdin.then(closed_stdin);
    Ok(async move {
        let closed = async {
            match closed {
                // A sender that is gone means the same: nobody holds the line any more.
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = closed => {}
        }
    })
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
