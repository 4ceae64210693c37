//! Few arenas for the C library's allocator, and none for whole chunks: it takes these from the environment before a program
//! begins.
//!
//! Why: unless told otherwise it keeps eight arenas a processor, so one for nearly each thread, and each keeps what it once
//! held, chunks of payload between longer lived things among it: a site after load had twice the memory. Setting it from within
//! needs unsafe code, another allocator took more (docs/decisions/2026-11-22-memory.md): so the server starts itself anew once,
//! in the same process, with the variables set. Invariant: whoever sets a variable is left his number, and starting anew happens
//! once at most.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the allocator reads.
pub(crate) const VARIABLE: &str = "MALLOC_ARENA_MAX";
/// One for each of the two processors of a small machine.
const ARENAS: &str = "2";
/// From this size on memory comes from the system and goes back to it at once. Left alone the bound rises to the size of what
/// was freed, so to that of a chunk.
const APART: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "524288");
/// So much at the end of an arena is kept for what comes next; beyond it memory goes back to the system. Twice the other one, as
/// the allocator has it where neither is set: once that one is, it would give back what a page of a listing took, 128 KiB at
/// a time, and fault it in again for the next page (55 to 94 page faults each, 0.4 to 6 with this).
const KEPT: (&str, &str) = ("MALLOC_TRIM_THRESHOLD_", "1048576");

/// Puts this program, told of the arenas, in the place of itself: same process, same arguments, same open files. Comes back
/// only where that cannot be; then the server runs all the same and takes more memory.
pub(crate) fn start_anew() {
    // Nobody listens yet to whom the reason could be told.
    drop(replace());
}

/// Does that; comes back with why it could not.
pub(crate) fn replace() -> io::Error {
    let mut arguments = std::env::args_os();
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let wanted = [(VARIABLE, ARENAS), APART, KEPT];
    command.envs(wanted.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()));
    command.args(arguments).exec()
}
