//! `skerry config show|ports`: the configuration in force, its reference, and the firewall rules it needs.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use skerry_node::config::kinds::Setting as _;
use skerry_node::config::{self, Config as Settings, Fitted};

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::site_files::Source;

/// The configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the configuration in force
    Show(Show),
    /// Show the ports as firewall rules
    Ports(Ports),
}

/// Which, and how.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    source: Source,
    /// Every field with its default, its environment variable and what it is for
    #[arg(long)]
    defaults: bool,
}

/// Which.
#[derive(Debug, Args)]
pub(crate) struct Ports {
    #[command(flatten)]
    source: Source,
}

impl Config {
    pub(crate) fn run(&self, globals: &Globals) -> Outcome {
        match self {
            Self::Show(show) => show.run(globals),
            Self::Ports(ports) => ports.run(globals),
        }
    }
}

impl Show {
    fn run(&self, globals: &Globals) -> Outcome {
        let settings = if self.defaults { Settings::default() } else { self.source.load()? };
        // The reference is the same on every machine.
        let here = if self.defaults { None } else { Some(Fitted::here(&settings)) };
        if globals.json {
            output::document("config", &json!({ "fields": fields(&settings, here.as_ref()) }))?;
        } else {
            output::line(config::show(&settings, self.defaults, here.as_ref()).trim_end());
        }
        Ok(Exit::Done)
    }
}

/// Every field with its value as TOML and what it is for; of what is left to the machine what it comes to here.
fn fields(settings: &Settings, here: Option<&Fitted>) -> Map<String, Value> {
    let field = |field: &config::table::Field| {
        let value = settings.toml(field.section, field.name);
        let variable = format!("SKERRY_{}_{}", field.section, field.name).to_uppercase();
        let mut about =
            json!({ "toml": value, "form": field.form, "variable": variable, "doc": field.doc.trim() });
        if let Some(here) = here.and_then(|here| here.value(settings, field.section, field.name)) {
            about["here"] = here.toml().into();
        }
        (format!("{}.{}", field.section, field.name), about)
    };
    Settings::FIELDS.iter().map(field).collect()
}

impl Ports {
    fn run(&self, globals: &Globals) -> Outcome {
        let rules = config::ports(&self.source.load()?);
        if globals.json {
            output::document("ports", &json!({ "rules": rules.lines().collect::<Vec<_>>() }))?;
        } else {
            output::line(rules.trim_end());
        }
        Ok(Exit::Done)
    }
}
