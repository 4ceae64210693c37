//! The reference pages in Markdown, from the grammar and the configuration themselves: they cannot be out of date
//! without the gate seeing it.

use std::fmt::Write;

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory};

use crate::arguments::CommandLine;
use crate::exit::Exit;
use crate::place::Place;

const HEAD: &str = "# The command line

Written by `cargo xtask docs`; the gate compares it with the binary.

Noun and verb for things (`skerry key create`), a bare verb for acts (`skerry status`). `--dir` names a site's
directory for offline acts and tells live ones where the site listens and what its admin token is; from another
machine say `--endpoint` and `SKERRY_TOKEN`. Options that every verb understands stand at the end, as do those of all verbs
that ask a site: a verb says \"asks a site\" and does not repeat them.

With `--json` a result is one document on standard output, `{\"version\":1,\"kind\":…}`, or one per line where a verb
goes on (`skerry demo`); fields are added, never changed. Where a document has `site`, that is a site's id in some and its name in
others, for scripts that are there; `site_name` beside it is its name in all. A failure is `{\"version\":1,\"kind\":\"error\",\"exit\":…,
\"error\":…,\"message\":…}` on standard error.
";

/// docs/cli.md.
pub(crate) fn command_line() -> String {
    let mut root = CommandLine::command();
    root.build();
    let mut page = HEAD.to_owned();
    page.push_str("\n## Exit codes\n\n| code | word | meaning |\n|---|---|---|\n");
    for exit in Exit::ALL {
        push(&mut page, format_args!("| {} | {} | {} |\n", exit as u8, exit.word(), exit.meaning()));
    }
    page.push_str("\n## Verbs\n");
    for verb in root.get_subcommands().filter(|verb| shown(verb)) {
        describe(&mut page, "skerry", verb);
    }
    page.push_str("\n## Whom to ask\n\nOf every verb that asks a site.\n\n");
    options(&mut page, &Place::augment_args(Command::new("place")), |_| true);
    page.push_str("\n## Global options\n\n");
    options(&mut page, &root, |argument| argument.is_global_set());
    page
}

/// docs/configuration.md.
pub(crate) fn configuration() -> String {
    skerry_node::config::reference()
}

fn shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn describe(page: &mut String, path: &str, command: &Command) {
    let path = format!("{path} {}", command.get_name());
    let children: Vec<&Command> = command.get_subcommands().filter(|child| shown(child)).collect();
    if children.is_empty() {
        push(page, format_args!("\n### `{}`\n\n{}\n\n", usage(&path, command), about(command)));
        let asks = asks_a_site(command);
        options(page, command, |argument| !(argument.is_global_set() || asks && is_of_place(argument)));
        if asks {
            page.push_str("\nAsks a site: [options](#whom-to-ask).\n");
        }
    }
    for child in children {
        describe(page, &path, child);
    }
}

/// Whether a verb has the options of all that ask a site.
fn asks_a_site(command: &Command) -> bool {
    let of_place = Place::augment_args(Command::new("place"));
    of_place
        .get_arguments()
        .all(|option| command.get_arguments().any(|other| other.get_id() == option.get_id()))
}

fn is_of_place(argument: &Arg) -> bool {
    Place::augment_args(Command::new("place"))
        .get_arguments()
        .any(|option| option.get_id() == argument.get_id())
}

/// `skerry link cut <SITE> [OPTIONS]`.
fn usage(path: &str, command: &Command) -> String {
    let mut usage = path.to_owned();
    for argument in command.get_positionals() {
        let name = value_name(argument);
        let shape = if argument.is_required_set() { format!(" <{name}>") } else { format!(" [{name}]") };
        usage.push_str(&shape);
    }
    usage
}

fn about(command: &Command) -> String {
    command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default()
}

fn options(page: &mut String, command: &Command, wanted: impl Fn(&Arg) -> bool) {
    let built_in = |argument: &Arg| matches!(argument.get_id().as_str(), "help" | "version");
    let rows: Vec<String> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !built_in(argument) && wanted(argument))
        .map(option)
        .collect();
    if !rows.is_empty() {
        page.push_str("| argument | meaning |\n|---|---|\n");
        page.extend(rows);
    }
}

fn option(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    format!("| `{}` | {help}{} |\n", name(argument), facts(argument))
}

fn name(argument: &Arg) -> String {
    let value = value_name(argument);
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    match (argument.get_long(), argument.get_short()) {
        (None, _) => value,
        (Some(long), None) if takes_value => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (Some(long), Some(short)) if takes_value => format!("--{long} {value}, -{short}"),
        (Some(long), Some(short)) => format!("--{long}, -{short}"),
    }
}

fn value_name(argument: &Arg) -> String {
    let named = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    named.unwrap_or_else(|| argument.get_id().to_string().to_uppercase())
}

/// Default, choices and environment variable.
fn facts(argument: &Arg) -> String {
    let mut facts = Vec::new();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let choices: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| value.get_name().to_owned())
        .collect();
    if !choices.is_empty() {
        facts.push(format!("one of {}", choices.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        facts.push(format!("default {}", defaults.join(" ")));
    }
    if let Some(variable) = argument.get_env() {
        facts.push(format!("`{}`", variable.to_string_lossy()));
    }
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) }
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = page.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_verb_of_the_contract_is_in_the_reference() {
        let page = command_line();
        for verb in [
            "demo",
            "init",
            "server [DIR]",
            "invite <SITE>",
            "join <TOKEN>",
            "key create",
            "key list",
            "key disable <ID>",
            "bucket create <NAME>",
            "bucket list",
            "bucket info <NAME>",
            "bucket set <NAME>",
            "config show",
            "config ports",
            "status",
            "link cut <SITE>",
            "link heal <SITE>",
            "check",
            "du",
            "scrub status",
            "scrub start",
            "scrub pause",
            "scrub resume",
            "conflicts list",
            "bench six",
            "bench mixed",
            "bench write-read",
            "version",
            "completions <SHELL>",
        ] {
            assert!(page.contains(&format!("### `skerry {verb}")), "{verb}");
        }
        assert_eq!(page.matches("`--token TOKEN`").count(), 1, "said once");
        assert!(page.matches("(#whom-to-ask)").count() > 30);
        for option in ["--site SITE", "--json", "--timeout TIME", "--dry-run", "--yes, -y"] {
            assert!(page.contains(&format!("| `{option}` |")), "{option}");
        }
        assert!(page.contains("| 5 | refused |"));
    }
}
