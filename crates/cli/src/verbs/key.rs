//! `skerry key create|list|disable`: access keys of users.

use clap::{Args, Subcommand};
use serde_json::json;
use skerry_node::admin_shapes::{KeyCreate, KeyCreated, KeyList, KeyStatus};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::look;
use crate::output;
use crate::place::Place;
use crate::words;

/// Access keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make an access key; its secret is shown once
    Create(Create),
    /// List access keys
    List(List),
    /// Disable an access key for ever, wherever it is heard
    ///
    /// There is no way back: make another key, move the programs to it, then disable the old one.
    Disable(Disable),
}

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What to call it
    #[arg(value_parser = words::said)]
    name: Option<String>,
    /// Whom it belongs to; the first owner by default
    #[arg(long, value_parser = words::owner)]
    owner: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Where to look.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Disable {
    /// The access key
    #[arg(value_parser = words::said)]
    id: String,
    #[command(flatten)]
    place: Place,
}

impl Key {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::Create(create) => create.run(globals).await,
            Self::List(list) => list.run(globals).await,
            Self::Disable(disable) => disable.run(globals).await,
        }
    }
}

impl Create {
    async fn run(self, globals: Globals) -> Outcome {
        let site = self.place.site(&globals).await?;
        let about = async { look::keys(&site).await.map(drop) };
        if look::dry_run(&globals, "make an access key", about).await? {
            return Ok(Exit::Done);
        }
        let request = KeyCreate { name: self.name, owner: self.owner };
        let created: KeyCreated = site.client.post("/_skerry/v1/keys", &request).await?;
        if globals.json {
            output::document("key", &created)?;
        } else {
            output::note("the secret is shown this once:");
            output::line(&format!("access key  {}\nsecret key  {}", created.key.id, created.secret));
        }
        output::check_shown(&format!(
            "the key {0} was made and its secret is lost: `skerry key disable {0}`, and make another",
            created.key.id
        ))?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, globals: Globals) -> Outcome {
        let list: KeyList = self.place.site(&globals).await?.client.get("/_skerry/v1/keys").await?;
        if globals.json {
            output::document("keys", &list)?;
            return Ok(Exit::Done);
        }
        let mut rows = vec![["ACCESS KEY", "NAME", "OWNER", "MADE", "STATE"].map(str::to_owned).to_vec()];
        rows.extend(list.keys.iter().map(row));
        output::line(&output::table(&rows));
        Ok(Exit::Done)
    }
}

fn row(key: &KeyStatus) -> Vec<String> {
    let state = match (key.enabled, key.known_to.join(", ")) {
        (false, _) => "disabled".to_owned(),
        (true, known_to) if known_to.is_empty() => "enabled".to_owned(),
        (true, known_to) => format!("enabled, known to {known_to} (gone): disable it"),
    };
    vec![key.id.clone(), key.name.clone(), key.owner.clone(), words::wall(key.created_ms), state]
}

impl Disable {
    async fn run(self, globals: Globals) -> Outcome {
        let site = self.place.site(&globals).await?;
        let found = look::key(&site, &self.id).await?;
        if output::dry_run(globals.dry_run, &format!("disable {}", self.id), globals.json)? {
            return Ok(Exit::Done);
        }
        let called = if found.name.is_empty() { String::new() } else { format!(" ({})", found.name) };
        let question = format!(
            "Disable {}{called} for ever? Programs that use it are refused at every site that hears of it.",
            self.id
        );
        output::confirm(&question, globals.yes)?;
        let path = format!("/_skerry/v1/keys/{}/disable", segment(&self.id));
        let key: KeyStatus = site.client.post(&path, &json!({})).await?;
        if globals.json {
            output::document("key", &key)?;
        } else {
            output::line(&format!("{} is disabled", key.id));
        }
        Ok(Exit::Done)
    }
}
