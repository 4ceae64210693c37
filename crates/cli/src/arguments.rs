//! The grammar, for good: noun verb for things, bare verbs for acts, the same global options everywhere.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::verbs;
use crate::words;

/// An S3-compatible object store for a federation of small sites.
#[derive(Debug, Parser)]
#[command(
    name = "skerry",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options that every verb understands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Only this site of the directory; with --endpoint, the site that must listen there
    #[arg(long = "site", global = true, value_name = "SITE", env = "SKERRY_SITE")]
    pub(crate) only_site: Option<String>,
    /// Print JSON: one document, or one per line where a verb goes on
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long to wait for an answer, such as 500ms, 30s, 5m
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = words::wait)]
    pub(crate) timeout: Duration,
    /// Say what would be done and do nothing; the site is asked whether what is named is there, and refuses as for the act
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Do not ask before what cannot be undone
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run several sites on this machine, to try Skerry out
    ///
    /// Each site is a process with its own directory, identity and S3 endpoint, joined to the others over real
    /// sockets. Prints the endpoints, the credentials and settings for clients, shows the state of the sites, and
    /// stops them on Ctrl-C. Starting again on the same directory finds everything that was stored.
    Demo(verbs::demo::Demo),
    /// Make a federation and its first site
    ///
    /// The root key is written to a directory of its own: carry it away, it belongs on no site. What is there
    /// already is refused and stays.
    Init(verbs::init::Init),
    /// Run a site
    ///
    /// Until SIGTERM or Ctrl-C. A directory is enough, ./skerry where none is named; a configuration file is read if it is
    /// named or lies there as skerry.toml, and environment variables win over it (see `skerry config show --defaults`).
    Server(verbs::server::Server),
    /// Make a one-time token by which a new site joins
    Invite(verbs::invite::Invite),
    /// Make a site of a federation from a token
    ///
    /// The token is what `skerry invite` printed; the site that invited must be reachable. Afterwards the new
    /// site needs nobody: `skerry server` runs it.
    Join(verbs::join::Join),
    /// Access keys of users
    #[command(subcommand)]
    Key(verbs::key::Key),
    /// Buckets and their settings
    #[command(subcommand)]
    Bucket(verbs::bucket::Bucket),
    /// The configuration of a site
    #[command(subcommand)]
    Config(verbs::config::Config),
    /// Sites, round-trip times, lag, storage and conflicts
    ///
    /// Asks every site of a demo's directory, or the one that is named. Ends with 4 if some did not answer; if none did with 3,
    /// or with 5 if one was there and refused (another token). docs/operations.md says what the columns mean.
    Status(verbs::status::Status),
    /// Which sites a site tells what it holds and asks for what it lacks, and how far everybody is
    ///
    /// Levels of landmarks, the landmarks of this site, the sites whose landmark it is, the areas around it, and network
    /// coordinates with their error. Up to 16 sites there is one level and everybody is told. See docs/areas.md.
    Areas(verbs::areas::Areas),
    /// The sites of the federation, as one of them knows them: listed, frozen, emptied, renamed, expelled, lost, found
    #[command(subcommand)]
    Site(verbs::site::Site),
    /// The links between sites: cut and heal them to see what happens
    #[command(subcommand)]
    Link(verbs::link::Link),
    /// Where the disk of a site went
    ///
    /// By bucket it is answered from sums that are kept as records change. By class (live, noncurrent, conflicts) or
    /// origin (the site that wrote it) records are read, at most a million of them; if there are more the answer says
    /// that it is partial. Bytes are those of bodies as clients see them; what they take on the disk stands above.
    Du(verbs::du::Du),
    /// Read everything on a site's disk and say what is damaged
    ///
    /// For a site that does not run (one that does is refused with 5). The store is opened as a start of the site
    /// opens it. Names bucket, key and version of what is damaged; ends with 1 if anything is.
    Check(verbs::check::Check),
    /// Reading everything again, to find and mend damage
    #[command(subcommand)]
    Scrub(verbs::scrub::Scrub),
    /// Versions that lost against a concurrent one and are kept
    #[command(subcommand)]
    Conflicts(verbs::conflicts::Conflicts),
    /// Put load on an S3 service, this one or any other, and measure it
    ///
    /// Ends with 4 if some operations failed, with 1 if none succeeded and with 3 if nobody answered.
    #[command(subcommand)]
    Bench(verbs::bench::Bench),
    /// The release
    Version(verbs::version::Version),
    /// Completions for a shell
    Completions(verbs::completions::Completions),
    /// Print a page of the reference in Markdown
    #[command(hide = true)]
    Reference(verbs::reference::Reference),
}
