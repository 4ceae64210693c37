//! Log lines: tracing to standard error, as text or JSON.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Reads levels like `info,skerry_node::net=debug`.
pub fn filter(levels: &str) -> Result<EnvFilter, String> {
    let bad = levels.split(',').map(str::trim).find(|part| !is_directive(part));
    if let Some(part) = bad {
        return Err(format!(
            "`{part}` is no level (off, error, warn, info, debug, trace) and no target=level"
        ));
    }
    // The parser takes no blanks.
    let dense: String = levels.chars().filter(|letter| !letter.is_whitespace()).collect();
    EnvFilter::try_new(dense).map_err(|error| error.to_string())
}

/// The filter takes a bare word for a target; here it is a mistyped level.
fn is_directive(part: &str) -> bool {
    let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.iter().any(|known| known.eq_ignore_ascii_case(level))
}

/// Starts logging for the whole process; a second start is refused.
pub fn start(levels: &str, format: LogFormat) -> Result<(), String> {
    let builder = tracing_subscriber::fmt().with_env_filter(filter(levels)?).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            builder.with_ansi(std::io::stderr().is_terminal()).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn levels_are_read_and_mistakes_are_named() {
        for good in ["info", "WARN", "info,skerry_node::net=debug", "off, hyper=trace"] {
            filter(good).unwrap();
        }
        assert!(filter("loud").unwrap_err().contains("`loud`"));
        assert!(filter("info,hyper=loud").unwrap_err().contains("`hyper=loud`"));
        assert!(filter("").is_err());
    }
}
