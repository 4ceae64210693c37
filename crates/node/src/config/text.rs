//! The configuration as text for people: TOML with docs, and the reference page.

use std::fmt::Write as _;

use super::kinds::Setting as _;
use super::{Config, Fit, Fitted, PREFIX, table::Field};

/// The environment variable of a field.
fn variable(field: &Field) -> String {
    format!("{PREFIX}_{}_{}", field.section, field.name).to_ascii_uppercase()
}

fn fields(section: &str) -> impl Iterator<Item = &Field> {
    Config::FIELDS.iter().filter(move |field| field.section == section)
}

/// The configuration as a file that means the same; with docs, every field is explained. What is left to the machine is a comment,
/// for a release before does not know that it may be; and so is what it comes to here, if that is known.
pub fn show(config: &Config, docs: bool, here: Option<&Fitted>) -> String {
    let mut text = String::new();
    for (section, about) in Config::SECTIONS {
        let gap = if text.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = if docs {
            writeln!(text, "{gap}#{about}\n[{section}]")
        } else {
            writeln!(text, "{gap}[{section}]")
        };
        for field in fields(section) {
            if docs {
                let _ = writeln!(text, "#{} ({}; {})", field.doc, field.form, variable(field));
            }
            let value = here.and_then(|here| here.value(config, section, field.name));
            let comment = value.map(|value| format!(" # {} here", value.toml().trim_matches('"')));
            let (value, comment) = (config.toml(section, field.name), comment.unwrap_or_default());
            let unsaid = field.form == Fit::FORM && value == Fit::Auto.toml();
            let _ = writeln!(text, "{}{} = {value}{comment}", if unsaid { "# " } else { "" }, field.name);
        }
    }
    text
}

/// docs/configuration.md.
pub fn reference() -> String {
    let defaults = Config::default();
    let mut text = String::from(INTRODUCTION);
    for (section, about) in Config::SECTIONS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## [{section}]\n\n{}\n\n", about.trim());
        text.push_str("| field | default | form | variable | meaning |\n|---|---|---|---|---|\n");
        for field in fields(section) {
            let (name, form, doc) = (field.name, field.form, field.doc.trim());
            let default = defaults.toml(section, name);
            let variable = variable(field);
            let _ = writeln!(text, "| `{name}` | `{default}` | {form} | `{variable}` | {doc} |");
        }
    }
    text
}

const INTRODUCTION: &str = "\
# Configuration

A node reads one TOML file, `skerry.toml` in its directory or the one of `skerry server --config FILE`; no file is needed.
`skerry init` and `skerry join` write what is said to them (`--listen`, `--peer-listen`, `--advertise`, `--tls`); a site that
clients and other sites reach from other machines has one like this:

```
[s3]
listen = \"0.0.0.0:7600\"

[peer]
listen = \"0.0.0.0:7700\"
advertise = [\"box1.example:7700\"]

[tls]
certificate = \"/var/lib/skerry/tls/server.pem\"
key = \"/var/lib/skerry/tls/server.key\"
```

Each heading stands once. Every field has a default, and an
environment variable that wins over the file. An unknown field, an unknown variable of a section, or a bad value is
an error that names it, in a file with its line. `skerry config show --defaults` prints this page as TOML,
`skerry config ports` the firewall rules. `skerry config show` prints what a site here would use, and as comments what is left to
the machine, with what that comes to: `storage.memory`, `storage.dirty`, `storage.pace` and `scrub.pace`, in which releases before
26 November refuse `auto`.

This page is generated from the table in `crates/node/src/config/table.rs`; a test compares them.
";
