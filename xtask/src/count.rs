//! `cargo xtask count`: what one operation costs a site, in instructions or in CPU time.
//!
//! Why instructions: they are the same on a busy machine as on a quiet one, so that a change of a few per cent
//! shows. What they do not show is the kernel's work and the waiting: `--cpu` runs the same operations without
//! valgrind and reads the CPU time of the process and the clock instead. `docs/counts.tsv` keeps the figures of the last commit that
//! changed them; `--check` fails where one has grown by more than 15 %, is not kept, or is kept and counted no more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::callgrind::Profile;
use crate::counted::{Counter, Site, sync_floor};
use crate::run;

/// Where the figures are kept, from the root.
const KEPT: &str = "docs/counts.tsv";
/// What a figure may grow by before `--check` fails: equal runs differ by 0 to 4 %.
const GROWTH: f64 = 0.15;

/// A kind of operation: name, weights, size, keys, bucket; operations under valgrind (0: not counted) and without.
struct Cell(&'static str, &'static str, &'static str, u64, &'static str, u64, u64);

/// In this order: the later ones ask for what the earlier ones wrote.
const CELLS: [Cell; 10] = [
    Cell("put-4KiB", "put=1", "4KiB", 3000, "small", 200, 3000),
    Cell("get-4KiB", "get=1", "4KiB", 200, "small", 200, 6000),
    Cell("head", "head=1", "4KiB", 200, "small", 200, 6000),
    Cell("put-1MiB", "put=1", "1MiB", 160, "large", 16, 160),
    Cell("get-1MiB", "get=1", "1MiB", 16, "large", 16, 600),
    Cell("put-10MiB", "put=1", "10MiB", 20, "larger", 0, 40),
    Cell("get-10MiB", "get=1", "10MiB", 4, "larger", 0, 80),
    Cell("create-1KiB", "put=1", "1KiB", 3000, "many", 1200, 3000),
    Cell("list-1000", "list=1", "1KiB", 3000, "many", 10, 200),
    Cell("delete", "delete=1", "4KiB", 3000, "small", 200, 3000),
];

struct Options {
    binary: Option<PathBuf>,
    directory: PathBuf,
    counter: Counter,
    threads: u64,
    top: usize,
    parts: bool,
    check: bool,
    write: bool,
    signed: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            binary: None,
            directory: run::root().join("target/count"),
            counter: Counter::Instructions,
            threads: 4,
            top: 0,
            parts: false,
            check: false,
            write: false,
            signed: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--binary" => options.binary = Some(value()?.into()),
                "--dir" => options.directory = value()?.into(),
                "--threads" => options.threads = value()?.parse().map_err(|_| "--threads needs a number")?,
                "--top" => options.top = value()?.parse().map_err(|_| "--top needs a number")?,
                "--parts" => options.parts = true,
                "--cpu" => options.counter = Counter::Cpu,
                "--check" => options.check = true,
                "--write" => options.write = true,
                "--signed" => options.signed = true,
                other => return Err(format!("count does not know {other}")),
            }
        }
        if options.counter == Counter::Cpu && (options.check || options.write) {
            return Err(format!("{KEPT} holds instructions; leave --cpu out"));
        }
        Ok(options)
    }

    fn binary(&self) -> Result<PathBuf, String> {
        if let Some(binary) = &self.binary {
            return std::path::absolute(binary).map_err(|error| format!("{}: {error}", binary.display()));
        }
        run::show(&mut run::cargo(&["build", "--release", "--locked", "--package", "skerry-cli"]))?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| run::root().join("target"), PathBuf::from);
        Ok(target.join("release/skerry"))
    }
}

/// Runs `cargo xtask count`.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    if options.counter == Counter::Instructions && !run::succeeds(Command::new("valgrind").arg("--version")) {
        return Err("valgrind is needed to count instructions: apt install valgrind (or say --cpu)".into());
    }
    let binary = options.binary()?;
    let site = Site::start(&binary, &options.directory, options.counter)?;
    let mut figures = BTreeMap::new();
    match options.counter {
        Counter::Instructions => println!("{:12} {:>12} {:>8}", "operation", "instructions", "kept"),
        Counter::Cpu => {
            println!("one fdatasync here: {:.2} ms", sync_floor(&options.directory)?);
            println!(
                "{:12} {:>8} {:>6} {:>6} {:>6} {:>6} {:>9} {:>8} {:>8}",
                "operation", "ms CPU", "user", "kernel", "MiB", "most", "ops/s", "p50 ms", "p99 ms"
            );
        }
    }
    let kept = read_kept(&run::root().join(KEPT));
    for cell in &CELLS {
        match options.counter {
            Counter::Instructions if cell.5 == 0 => {}
            Counter::Instructions => {
                let profile = counted(&site, cell, &options)?;
                let each = profile.total() / cell.5;
                let before = kept.get(cell.0).map_or_else(|| "-".into(), u64::to_string);
                println!("{:12} {each:>12} {before:>8}", cell.0);
                for (name, cost) in profile.top(options.top) {
                    println!("{:>25} {}", cost / cell.5, name.chars().take(100).collect::<String>());
                }
                for (part, cost) in profile.parts().into_iter().filter(|_| options.parts) {
                    if cost * 100 >= profile.total() {
                        println!("{:>25} {:>3} % {part}", cost / cell.5, cost * 100 / profile.total());
                    }
                }
                figures.insert(cell.0, each);
            }
            Counter::Cpu => timed(&site, cell, &options)?,
        }
    }
    drop(site);
    std::fs::remove_dir_all(&options.directory).ok();
    if options.write {
        write_kept(&figures)?;
    }
    if options.check { check(&figures, &kept) } else { Ok(()) }
}

fn arguments(cell: &Cell, options: &Options) -> Vec<String> {
    let &Cell(_, mix, size, keys, bucket, ..) = cell;
    let (keys, threads) = (keys.to_string(), options.threads.to_string());
    let mut arguments: Vec<String> =
        ["--mix", mix, "-s", size, "-n", &keys, "-b", bucket, "-t", &threads].map(Into::into).into();
    if options.signed {
        arguments.push("--sign-payload".into());
    }
    arguments
}

fn counted(site: &Site, cell: &Cell, options: &Options) -> Result<Profile, String> {
    site.zero()?;
    site.load(&arguments(cell, options), cell.5)?;
    Ok(Profile::read(&site.dump()?))
}

fn timed(site: &Site, cell: &Cell, options: &Options) -> Result<(), String> {
    // Readers ask for what the writers of this run wrote.
    let mut arguments = arguments(cell, options);
    if let (true, Some(keys)) =
        (cell.1.starts_with("get") || cell.1.starts_with("head"), arguments.get_mut(5))
    {
        *keys = match cell.4 {
            "larger" => "20".into(),
            "large" => "160".into(),
            _ => "3000".into(),
        };
    }
    let before = site.cpu()?;
    let pace = site.load(&arguments, cell.6)?;
    let after = site.cpu()?;
    let each = |from: u64, to: u64, unit: f64| (to - from) as f64 * unit / cell.6 as f64;
    println!(
        "{:12} {:>8.3} {:>6.3} {:>6.3} {:>6} {:>6} {:>9.1} {:>8.2} {:>8.2}",
        cell.0,
        each(before.nanos, after.nanos, 1e-6),
        each(before.user_ticks, after.user_ticks, 10.0),
        each(before.kernel_ticks, after.kernel_ticks, 10.0),
        after.rss_kib >> 10,
        after.peak_kib >> 10,
        pace.per_second,
        pace.p50,
        pace.p99,
    );
    Ok(())
}

fn read_kept(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, figure)| Some((name.to_owned(), figure.parse().ok()?))).collect()
}

fn write_kept(figures: &BTreeMap<&str, u64>) -> Result<(), String> {
    let lines: String = figures.iter().map(|(name, figure)| format!("{name}\t{figure}\n")).collect();
    let text = format!("operation\tinstructions\n{lines}");
    std::fs::write(run::root().join(KEPT), text).map_err(|error| format!("{KEPT}: {error}"))
}

fn check(figures: &BTreeMap<&str, u64>, kept: &BTreeMap<String, u64>) -> Result<(), String> {
    let names: BTreeSet<&str> = figures.keys().copied().chain(kept.keys().map(String::as_str)).collect();
    let wrong = names.into_iter().filter_map(|name| match (figures.get(name), kept.get(name)) {
        (Some(&now), Some(&before)) => {
            let growth = now as f64 / before as f64 - 1.0;
            (growth > GROWTH)
                .then(|| format!("{name}: {now} instructions, {before} kept ({:+.0} %)", growth * 100.0))
        }
        (Some(now), None) => Some(format!("{name}: {now} instructions, none kept")),
        _ => Some(format!("{name}: kept, and nothing of this name is counted")),
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nmend it, or keep the new figures: cargo xtask count --write", wrong.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_bound_fails() {
        let kept = BTreeMap::from([("head".to_owned(), 100)]);
        assert!(check(&BTreeMap::from([("head", 114)]), &kept).is_ok());
        assert!(check(&BTreeMap::from([("head", 116)]), &kept).is_err_and(|why| why.contains("+16 %")));
    }

    #[test]
    fn a_figure_that_nothing_is_compared_with_fails() {
        let kept = BTreeMap::from([("head".to_owned(), 100)]);
        let new = check(&BTreeMap::from([("head", 100), ("new", 9)]), &kept);
        assert!(new.is_err_and(|why| why.contains("new: 9 instructions, none kept")));
        assert!(check(&BTreeMap::new(), &kept).is_err_and(|why| why.contains("head: kept")));
    }

    #[test]
    fn what_is_counted_is_what_is_kept() {
        let kept = read_kept(&run::root().join(KEPT));
        let counted: BTreeSet<&str> = CELLS.iter().filter(|cell| cell.5 > 0).map(|cell| cell.0).collect();
        assert_eq!(counted, kept.keys().map(String::as_str).collect());
    }
}
