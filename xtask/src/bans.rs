//! What code may not call, where, and what to use instead: the one table behind all `clippy.toml` files.
//!
//! Clippy reads the nearest `clippy.toml`: the root's holds every ban (so the pure crates need none of their
//! own), a room's holds all but what is its trade. `cargo xtask docs` writes them, the gate compares.
//! Inside a room that may, one module says `#![expect(clippy::disallowed_methods, reason = "…")]` if the ban
//! is meant for the rest of it.

use std::fmt::Write;

/// A trade: what belongs to it and what the others use instead.
struct Ban {
    /// Functions.
    methods: &'static [&'static str],
    /// Types.
    types: &'static [&'static str],
    /// What to use, and why.
    instead: &'static str,
    /// Crates whose trade it is.
    rooms: &'static [&'static str],
}

/// Crates with a `clippy.toml` of their own.
const ROOMS: [&str; 8] = ["storage", "gateway", "node", "bench", "cli", "sim", "lab", "xtask"];

const BANS: &[Ban] = &[
    Ban {
        methods: &["std::time::SystemTime::now", "std::time::Instant::now", "tokio::time::Instant::now"],
        types: &[],
        instead: "time comes in as base::Instant or base::WallTime; node::clock reads the machine's clocks",
        rooms: &["bench", "cli", "lab", "xtask"],
    },
    Ban {
        methods: &["rand::rng", "rand::random", "rand::make_rng", "std::hash::RandomState::new"],
        types: &[],
        instead: "the seed comes in as an argument; node draws it from ring::rand::SystemRandom",
        rooms: &["xtask"],
    },
    Ban {
        methods: &["std::thread::spawn", "std::thread::Builder::spawn"],
        types: &[],
        instead: "give the work back as an effect; threads are started by node (tokio) and by storage's committer",
        rooms: &["cli", "lab", "xtask"],
    },
    Ban {
        methods: &["tokio::spawn", "tokio::task::spawn", "tokio::task::spawn_local"],
        types: &[],
        instead: "return a future; node decides what runs beside what, and stops it",
        rooms: &["node", "bench", "cli", "lab"],
    },
    Ban {
        methods: &["std::thread::sleep", "tokio::time::sleep"],
        types: &[],
        instead: "wait for the condition (channel, Notify, Condvar) with tokio::time::timeout, or return next_wake(); \
                  paced loops use tokio::time::interval or sleep_until",
        rooms: &["cli", "lab", "xtask"],
    },
    Ban {
        methods: &[
            "std::fs::File::open",
            "std::fs::File::create",
            "std::fs::File::create_new",
            "std::fs::OpenOptions::new",
            "std::fs::read",
            "std::fs::read_to_string",
            "std::fs::read_dir",
            "std::fs::write",
            "std::fs::rename",
            "std::fs::copy",
            "std::fs::create_dir",
            "std::fs::create_dir_all",
            "std::fs::remove_file",
            "std::fs::remove_dir",
            "std::fs::remove_dir_all",
            "tokio::fs::read",
            "tokio::fs::read_to_string",
            "tokio::fs::write",
            "tokio::fs::File::open",
            "tokio::fs::File::create",
        ],
        types: &["std::fs::File", "tokio::fs::File"],
        instead: "storage::Disk keeps data; node::config and node::trust read the few files of a site's directory",
        rooms: &["storage", "cli", "lab", "xtask"],
    },
    Ban {
        methods: &[
            "std::net::TcpListener::bind",
            "std::net::TcpStream::connect",
            "std::net::UdpSocket::bind",
            "tokio::net::TcpListener::bind",
            "tokio::net::TcpStream::connect",
            "tokio::net::UdpSocket::bind",
        ],
        types: &[],
        instead: "peers are reached through node::net::Net, clients come in through gateway::http",
        rooms: &["bench", "cli", "lab", "xtask"],
    },
    Ban {
        methods: &[
            "std::process::Command::new",
            "tokio::process::Command::new",
            "std::process::exit",
            "std::process::abort",
        ],
        types: &[],
        instead: "return an error; only the command line starts and ends processes",
        rooms: &["cli", "lab", "xtask"],
    },
    Ban {
        methods: &["std::env::var", "std::env::var_os", "std::env::set_current_dir", "std::env::current_dir"],
        types: &[],
        instead: "settings come in as arguments; node::config reads the environment once, clap declares its variables",
        rooms: &["cli", "lab", "xtask"],
    },
    Ban {
        methods: &[],
        types: &["std::collections::HashMap", "std::collections::HashSet"],
        instead: "BTreeMap and BTreeSet: their order is the same in every run, so the simulator can compare runs",
        rooms: &["storage", "gateway", "node", "bench", "cli", "lab", "xtask"],
    },
    Ban {
        methods: &["tokio::sync::mpsc::unbounded_channel", "std::sync::mpsc::channel"],
        types: &[],
        instead: "a channel with a bound that is named in base::limits; a queue without one is a bug",
        rooms: &["xtask"],
    },
];

/// Settings of other lints, the same everywhere.
const SETTINGS: &str = "too-many-arguments-threshold = 6\navoid-breaking-exported-api = false\n";

/// Every file that belongs to the table: path below the root, and content.
pub(crate) fn files() -> Vec<(String, String)> {
    let mut files = vec![("clippy.toml".to_owned(), render(None))];
    for room in ROOMS {
        let directory = if room == "xtask" { room.to_owned() } else { format!("crates/{room}") };
        files.push((format!("{directory}/clippy.toml"), render(Some(room))));
    }
    files
}

fn render(room: Option<&str>) -> String {
    let mut text = String::from("# Written by `cargo xtask docs` from xtask/src/bans.rs; change it there.\n");
    text.push_str(SETTINGS);
    let applies = |ban: &&Ban| room.is_none_or(|room| !ban.rooms.contains(&room));
    text.push_str("disallowed-methods = [\n");
    for ban in BANS.iter().filter(applies) {
        lines(&mut text, ban.methods, ban.instead);
    }
    text.push_str("]\ndisallowed-types = [\n");
    for ban in BANS.iter().filter(applies) {
        lines(&mut text, ban.types, ban.instead);
    }
    text.push_str("]\n");
    text
}

/// `allow-invalid`: a crate that does not link tokio can not resolve its paths, and need not.
fn lines(text: &mut String, paths: &[&str], instead: &str) {
    for path in paths {
        let local = if path.starts_with("std::") { "" } else { ", allow-invalid = true" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {{ path = \"{path}\", reason = \"{instead}\"{local} }},");
    }
}
