//! `cargo xtask arm`: the binary for 64-bit Arm on a machine of another kind, and the journeys against it under an emulator.
//!
//! The standard library for Arm comes from rustup where that has it; else it is built from the sources that a
//! distribution packages with its compiler (Debian: `rust-web-src`), which needs cargo's unstable `build-std`.
//! Emulated figures say nothing about a Pi's speed; what is shown is that every path runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{journeys, run};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// It comes with the linker.
const STRIP: &str = "aarch64-linux-gnu-strip";
/// Where a distribution puts the C library for Arm: the emulator's root for shared objects.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// What Debian's emulator wants the kernel to be told.
const HANDLER: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";
/// The binary may be so large.
const LIMIT_MIB: f64 = 20.0;
/// What is run if nothing is named: every API through real clients, cuts, restarts.
const JOURNEYS: [&str; 4] = ["boto", "islands", "locality", "again"];

const PACKAGES: &str = "apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static";

/// `arm [--build-only] [--register] [JOURNEY..]`
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (flags, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| !["--build-only", "--register"].contains(&flag.as_str()))
    {
        return Err(format!("arm: {unknown} is unknown; there are --build-only and --register"));
    }
    if std::env::consts::ARCH == "aarch64" {
        return Err("this machine is one: cargo build --profile dist --package skerry-cli".into());
    }
    let binary = build()?;
    // The profile says so, and a distribution's compiler leaves them in where it links for another machine: 12 MiB of names.
    run::show(Command::new(STRIP).arg(&binary))?;
    weigh(&binary)?;
    if flags.iter().any(|flag| *flag == "--build-only") {
        return Ok(());
    }
    emulator(&binary, flags.iter().any(|flag| *flag == "--register"))?;
    let names: Vec<String> = if names.is_empty() {
        JOURNEYS.map(String::from).to_vec()
    } else {
        names.into_iter().cloned().collect()
    };
    journeys::emulated(&names, &binary, LIBRARIES)
}

/// Builds it as it is shipped.
fn build() -> Result<PathBuf, String> {
    if !run::succeeds(Command::new(LINKER).arg("--version")) {
        return Err(format!("{LINKER} is missing: {PACKAGES}"));
    }
    let mut command = run::cargo(&[
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "skerry-cli",
        "--target",
        TARGET,
    ]);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    if !has_library() {
        let compiler = compiler_with_source()?;
        println!("the standard library for {TARGET} is built from the sources of {compiler}");
        command.args(["-Zbuild-std=std,panic_unwind"]).env("RUSTC", compiler).env("RUSTC_BOOTSTRAP", "1");
    }
    run::show(&mut command)?;
    Ok(run::target().join(TARGET).join("dist/skerry"))
}

/// Whether the compiler in use brings the library for Arm.
fn has_library() -> bool {
    let directory = run::read(Command::new("rustc").args(["--target", TARGET, "--print", "target-libdir"]));
    directory.is_ok_and(|path| Path::new(path.trim()).is_dir())
}

/// A compiler that lies beside the sources of its own library: no other version will do.
fn compiler_with_source() -> Result<&'static str, String> {
    let has = |compiler: &&&str| {
        run::read(Command::new(compiler).args(["--print", "sysroot"])).is_ok_and(|root| {
            Path::new(root.trim()).join("lib/rustlib/src/rust/library/Cargo.lock").is_file()
        })
    };
    ["rustc", "/usr/bin/rustc"].iter().find(has).copied().ok_or_else(|| {
        format!("the standard library for {TARGET} is missing: rustup target add {TARGET}, or Debian's compiler with its sources: apt install rustc-web rust-web-src")
    })
}

fn weigh(binary: &Path) -> Result<(), String> {
    let bytes = std::fs::metadata(binary).map_err(|error| format!("{}: {error}", binary.display()))?.len();
    let mib = bytes as f64 / f64::from(1 << 20);
    println!("{}: {mib:.1} MiB (at most {LIMIT_MIB})", binary.display());
    if mib > LIMIT_MIB { Err("the binary is too large".into()) } else { Ok(()) }
}

/// Sees that the kernel hands Arm binaries to the emulator: the demo starts its sites by itself.
fn emulator(binary: &Path, register: bool) -> Result<(), String> {
    let runs = || run::succeeds(Command::new(binary).arg("version").env("QEMU_LD_PREFIX", LIBRARIES));
    if runs() {
        return Ok(());
    }
    if register {
        let line =
            std::fs::read_to_string(HANDLER).map_err(|error| format!("{HANDLER}: {error}; {PACKAGES}"))?;
        let door = Path::new("/proc/sys/fs/binfmt_misc");
        if !door.join("register").exists() {
            run::show(Command::new("mount").args(["-t", "binfmt_misc", "none"]).arg(door))?;
        }
        std::fs::write(door.join("register"), line.trim())
            .map_err(|error| format!("{}: {error}", door.display()))?;
    }
    if runs() {
        return Ok(());
    }
    Err(format!(
        "the kernel does not hand Arm binaries to an emulator: {PACKAGES}, then as root: cargo xtask arm --register"
    ))
}
