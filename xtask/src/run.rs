//! Running other programs: from the root of the checkout, with an error that names the command.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the checkout that cargo runs this from: not of the one it was built in, where a target directory
/// is shared.
pub(crate) fn root() -> PathBuf {
    let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = running.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The build directory.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A cargo command in the root.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    if in_ci() && std::env::var_os(INCREMENTAL).is_none() {
        command.env(INCREMENTAL, "0");
    }
    command
}

/// What a later build could go on from is of no use where each begins with nothing, and costs an eighth of the time to compile the node.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Runs to the end with its output shown; a failing status is an error.
pub(crate) fn show(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name(command))) }
}

/// Runs to the end and gives what it wrote to standard output; its standard error is shown.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", name(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", name(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", name(command)))
}

/// Whether it can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs to the end, shows each line of standard output as it comes and hands it to `line`.
/// The answer is whether it succeeded.
pub(crate) fn watch(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool, String> {
    let failed = |error: std::io::Error, name: String| format!("{name}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| failed(error, name(command)))?;
    if let Some(output) = child.stdout.take() {
        for bytes in BufReader::new(output).split(b'\n') {
            let bytes = bytes.map_err(|error| failed(error, name(command)))?;
            let text = String::from_utf8_lossy(&bytes);
            println!("{text}");
            line(&text);
        }
    }
    child.wait().map(|status| status.success()).map_err(|error| failed(error, name(command)))
}

/// The command as one would type it.
fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether this runs in CI, where a skip is a failure.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "0" && value != "false")
}
