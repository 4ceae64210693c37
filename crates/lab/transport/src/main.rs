//! `skerry-transport`: the two ends that `skerry-lab transport` starts in hosts, for each transport the same exchange.
//!
//! Why a package of its own: what is measured here beside our links is no dependency of the product. Invariants: the
//! exchange knows no transport, a transport knows nothing of the exchange; each end counts its own processor time.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ask;
mod carriers;
mod exchange;
mod keys;
// The very files that sites run; without the rest of a site, which would be minutes of building for nothing.
#[path = "../../../node/src/clock.rs"]
#[expect(dead_code, unreachable_pub, reason = "not all of it is needed here")]
mod clock;
#[path = "../../../node/src/net/mod.rs"]
#[expect(dead_code, unreachable_pub, reason = "not all of it is needed here")]
mod net;
#[path = "../../../node/src/trust/mod.rs"]
#[expect(dead_code, unreachable_pub, unused_imports, reason = "not all of it is needed here")]
mod trust;

/// One end of an exchange over a transport
#[derive(Debug, Parser)]
#[command(name = "skerry-transport", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write private keys, one a line: the first is the answering end's
    Keys {
        /// How many
        #[arg(long, default_value_t = 2)]
        count: usize,
    },
    /// Answer questions until killed
    Answer {
        /// Such as tcp, tcp/cubic/unsent=16384, quinn/bbr
        #[arg(long)]
        transport: String,
        /// Where to listen
        #[arg(long)]
        listen: std::net::SocketAddr,
        /// File of `keys`
        #[arg(long)]
        keys: PathBuf,
    },
    /// Ask, and print what it was like
    Ask(ask::Ask),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Keys { count } => keys::write(count),
        Verb::Answer { transport, listen, keys } => answer(&transport, listen, &keys).await,
        Verb::Ask(verb) => verb.run().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("skerry-transport: {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn answer(transport: &str, listen: std::net::SocketAddr, keys: &std::path::Path) -> Result<(), String> {
    let spec = carriers::Spec::parse(transport)?;
    let keys = keys::read(keys)?;
    let mut pipes = carriers::listen(&spec, listen, &keys).await.map_err(|error| error.to_string())?;
    println!("ready");
    while let Some(pipe) = pipes.recv().await {
        tokio::spawn(exchange::answer(pipe));
    }
    Err("the listener ended".into())
}
