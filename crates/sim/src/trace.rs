//! The story of a run: every event as a line, hashed; kept or printed only when somebody wants to read it.
//!
//! Two runs of a seed must have the same hash. The hash covers the full text, so whatever a line mentions is
//! covered by the comparison.

use std::fmt;

use skerry_base::Instant;

/// Where the lines go besides the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sink {
    /// Nowhere: a swarm wants the verdict only.
    #[default]
    Hash,
    /// The last so many lines are kept, for the report of a failure.
    Keep(usize),
    /// To standard output as they come.
    Print,
}

/// The running story.
#[derive(Debug, Default)]
pub struct Trace {
    hasher: blake3::Hasher,
    sink: Sink,
    kept: std::collections::VecDeque<String>,
    line: String,
    count: u64,
}

impl Trace {
    /// A story told to `sink`.
    pub fn new(sink: Sink) -> Self {
        Self { sink, ..Self::default() }
    }

    /// Adds a line. `who` is a site's number or the world.
    pub fn tell(&mut self, now: Instant, who: Who, what: fmt::Arguments<'_>) {
        use fmt::Write;
        self.line.clear();
        let seconds = now.0 / 1_000_000_000;
        let micros = now.0 / 1_000 % 1_000_000;
        // Writing to a String cannot fail.
        let _ = write!(self.line, "{seconds:>7}.{micros:06} {who} {what}");
        self.hasher.update(self.line.as_bytes());
        self.hasher.update(b"\n");
        self.count += 1;
        if self.sink != Sink::Hash {
            self.write(self.line.clone());
        }
    }

    /// Adds what only a reader wants to know; what it says must be covered by a told line.
    pub fn explain(&mut self, what: impl FnOnce() -> String) {
        if self.sink != Sink::Hash {
            self.write(format!("                       {}", what()));
        }
    }

    fn write(&mut self, line: String) {
        match self.sink {
            Sink::Hash => {}
            Sink::Print => say(&line),
            Sink::Keep(most) => {
                while self.kept.len() >= most.max(1) {
                    self.kept.pop_front();
                }
                self.kept.push_back(line);
            }
        }
    }

    /// The hash of all lines so far.
    pub fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// How many lines were told.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The lines kept.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }
}

/// Says a line to whoever reads along. Nobody may: `… | head` is no reason to fail.
pub fn say(line: impl fmt::Display) {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}").ok();
}

/// Who a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The world itself: faults, phases, verdicts.
    World,
    /// A site, by its number.
    Site(usize),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world "),
            Self::Site(number) => write!(f, "site-{}", number + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_time_teller_and_text() {
        let tell = |at, who, text: &str| {
            let mut trace = Trace::new(Sink::Keep(1));
            trace.tell(Instant(at), who, format_args!("{text}"));
            trace.hash()
        };
        let first = tell(1_000, Who::World, "a");
        assert_eq!(tell(1_000, Who::World, "a"), first);
        assert_ne!(tell(2_000, Who::World, "a"), first);
        assert_ne!(tell(1_000, Who::Site(0), "a"), first);
        assert_ne!(tell(1_000, Who::World, "b"), first);
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut trace = Trace::new(Sink::Keep(2));
        for n in 0..5 {
            trace.tell(Instant(0), Who::World, format_args!("{n}"));
        }
        assert_eq!(trace.kept().map(|line| line.chars().last()).collect::<Vec<_>>(), [Some('3'), Some('4')]);
        assert_eq!(trace.count(), 5);
    }
}
