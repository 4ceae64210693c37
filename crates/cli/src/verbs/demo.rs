//! `skerry demo`: several sites on this machine, one process each, until Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::arguments::Globals;
use crate::demo::children::{STOP, Site as Child};
use crate::demo::layout::{self, DEFAULT_DIRECTORY, Layout};
use crate::demo::prepare::Plan;
use crate::demo::state::Board;
use crate::demo::{assembly, ports, prepare, settings};
use crate::exit::{Exit, Failure, Outcome};
use crate::files;
use crate::output;
use crate::place::{Place, Site};
use crate::progress::Waiting;
use crate::site_files::has_site;
use crate::words;

/// How often the state is asked for.
const REFRESH: Duration = Duration::from_secs(2);

/// So many times in a row nobody may answer after all have ended, the first at once: who stops and starts them by hand one
/// after the other has a moment with none, and a busy machine answers late.
const SILENCES: u32 = 6;

/// Run several sites on this machine: each with its own directory, identity and S3 endpoint, joined over real
/// sockets. Starting again on the same directory finds everything that was stored.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How many sites; 3, or as many as the directory has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    sites: Option<u16>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY, env = "SKERRY_DIR")]
    dir: PathBuf,
    /// S3 port of site-1; site i is on P+i-1 and speaks to the others on P+100+i-1; 7600, or as it was
    #[arg(long, value_name = "P")]
    port: Option<u16>,
    /// Access key of the user; together with the secret key, else made once per directory
    #[arg(long, value_name = "KEY", env = "SKERRY_ACCESS_KEY", requires = "secret_key", value_parser = words::filled)]
    access_key: Option<String>,
    /// Secret key of the user
    #[arg(
        long,
        value_name = "SECRET",
        env = "SKERRY_SECRET_KEY",
        hide_env_values = true,
        requires = "access_key",
        value_parser = words::filled
    )]
    secret_key: Option<String>,
}

impl Demo {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        if has_site(&self.dir)? {
            let message = "holds a site; name another --dir for a demo (SKERRY_DIR may be set)";
            return Err(Failure::refused(format!("{} {message}", self.dir.display())));
        }
        let plan = Plan::new(&self.dir, self.sites, self.port)?;
        let what = format!("run {} sites in {} from port {}", plan.sites, self.dir.display(), plan.port);
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        if !self.dir.exists() {
            // What is refused leaves nothing behind.
            ports::check(plan.port, plan.peer_port, plan.sites)?;
        }
        files::directory(&self.dir)?;
        let _lock = files::lock(&self.dir)?;
        ports::check(plan.port, plan.peer_port, plan.sites)?;
        let layout = prepare::carry_out(&plan, &self.dir, self.access_key.zip(self.secret_key))?;
        // From here on a signal stops what was started.
        let mut stop = Stop::listen()?;
        let mut children = Vec::new();
        let outcome = accompany(&layout, &mut children, &mut stop, &globals).await;
        let unclean = finish(children, &globals).await?;
        match outcome {
            Ok(()) if unclean.is_empty() => Ok(Exit::Done),
            Ok(()) => Err(Failure::failed(unclean.join("\n"))),
            Err(failure) => Err(failure),
        }
    }
}

/// What ends a demo.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> Outcome<Self> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// From the first sign of life to the wish to stop.
async fn accompany(
    layout: &Layout,
    children: &mut Vec<Child>,
    stop: &mut Stop,
    globals: &Globals,
) -> Outcome<()> {
    let place = Place::of_directory_only(&layout.directory);
    let everywhere = Globals { only_site: None, ..globals.clone() };
    let begin = Instant::now();
    let sites = place.sites(&everywhere)?;
    tokio::select! {
        started = assembly::start(layout, &sites, children, globals) => started?,
        () = stop.asked() => return Ok(()),
    }
    announce(layout, children, begin.elapsed(), globals.json)?;
    // Once more: the admin tokens are there now.
    let sites = place.sites(&everywhere)?;
    let mut board = Board::new(&sites, globals.json);
    let watched = tokio::select! {
        ended = watch(&mut board, &sites, children, globals.json) => ended,
        () = stop.asked() => Ok(()),
    };
    board.close();
    watched
}

fn announce(layout: &Layout, children: &[Child], took: Duration, json: bool) -> Outcome<()> {
    let directory = absolute(&layout.directory);
    if json {
        let site = |(site, child): (&layout::Site, &Child)| json!({ "name": site.name, "endpoint": site.endpoint, "pid": child.pid });
        let sites: Vec<_> = layout.sites.iter().zip(children).map(site).collect();
        let body = json!({
            "directory": directory, "sites": sites, "access_key": layout.access_key, "secret_key": layout.secret_key,
            "millis": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        return output::document("ready", &body);
    }
    output::line(&format!(
        "Skerry: {} in {} (ready in {} ms)\n",
        crate::words::count(layout.sites.len() as u64, "site"),
        directory.display(),
        took.as_millis()
    ));
    for (site, child) in layout.sites.iter().zip(children) {
        output::line(&format!("  {}  {}  (process {})", site.name, site.endpoint, child.pid));
    }
    output::line(&format!("\n  access key  {}\n  secret key  {}\n", layout.access_key, layout.secret_key));
    output::line(&format!(
        "Try: written at one site, read at another\n{}\n",
        settings::three_commands(layout)
    ));
    output::line(&format!("Settings\n{}\n", settings::clients(layout)));
    output::line(&hint(layout));
    output::line("");
    Ok(())
}

/// What to try next.
fn hint(layout: &Layout) -> String {
    let dir = layout.directory.display();
    match layout.sites.as_slice() {
        [_, .., last] => {
            let cut = format!("`skerry link cut {} --dir {dir}`", last.name);
            format!("{cut} cuts one off, `heal` mends it. Ctrl-C stops all.")
        }
        _ => "Ctrl-C stops it.".into(),
    }
}

fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf())
}

/// Shows the state until no site is left. One that ends by itself is reported and stays away: whoever kills one
/// wants to see what the others do.
async fn watch(board: &mut Board, sites: &[Site], children: &mut [Child], json: bool) -> Outcome<()> {
    let mut tick = tokio::time::interval(REFRESH);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut gone: Vec<String> = Vec::new();
    let mut silences = 0;
    loop {
        tick.tick().await;
        for child in children.iter_mut().filter(|child| !gone.contains(&child.name)).collect::<Vec<_>>() {
            let Some(status) = child.has_ended() else { continue };
            let obituary = child.obituary(status);
            if json {
                output::document(
                    "ended",
                    &json!({ "site": child.name, "pid": child.pid, "message": obituary }),
                )?;
            } else {
                board.say(&obituary);
            }
            gone.push(child.name.clone());
        }
        // One that ended may have been started again by hand: as long as one answers, there is something to show.
        let nobody =
            board.refresh(sites).await? == 0 && gone.len() == children.len() && !any_lives(sites).await;
        silences = if nobody { silences + 1 } else { 0 };
        if silences == SILENCES {
            return Err(Failure::failed("no site is left"));
        }
    }
}

/// Whether a process of any site lives, if only to open its store.
async fn any_lives(sites: &[Site]) -> bool {
    for site in sites {
        if site.lives().await {
            return true;
        }
    }
    false
}

/// Tells all sites to stop, then waits for each; gives what is to be said of those that did not stop cleanly.
async fn finish(mut children: Vec<Child>, globals: &Globals) -> Outcome<Vec<String>> {
    let waiting = Waiting::new("stopping", globals.json);
    // A site that ended before was reported then; it does not make the stop unclean.
    children.retain_mut(|child| child.has_ended().is_none());
    children.iter().for_each(Child::tell);
    let by = tokio::time::Instant::now() + STOP;
    let mut unclean = Vec::new();
    for child in children {
        waiting.say(format!("stopping {}", child.name));
        unclean.extend(child.stopped(by).await.err());
    }
    drop(waiting);
    if globals.json {
        output::document("stopped", &json!({ "clean": unclean.is_empty() }))?;
    } else {
        output::line("stopped");
    }
    Ok(unclean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_names_a_site_that_is_there() {
        let mut layout = Layout::new("demo".as_ref());
        for name in ["site-1", "site-2"] {
            let has_another = !layout.sites.is_empty();
            layout.sites.push(layout::Site { name: name.into(), endpoint: String::new() });
            assert_eq!(
                hint(&layout).contains(&format!("link cut {name} ")),
                has_another,
                "{}",
                hint(&layout)
            );
        }
    }
}
