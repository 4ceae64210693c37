//! `skerry bucket pin|unpin|prefetch|pins`: what a site keeps copies of.

use std::time::Duration;

use clap::Args;
use skerry_node::admin_shapes::{PinAct, PinList, PinRequest, PinStatus};

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::look;
use crate::output;
use crate::place::Place;
use crate::progress::Waiting;
use crate::words;

/// The path of pins.
const PATH: &str = "/_skerry/v1/pins";
/// How often it is asked how far it is.
const AGAIN: Duration = Duration::from_millis(300);

/// Below which prefix.
#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// The bucket
    name: String,
    /// Keys that begin so; all by default
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    place: Place,
}

/// The same, and whether to wait.
#[derive(Debug, Args)]
pub(crate) struct Prefetch {
    #[command(flatten)]
    pin: Pin,
    /// Begin and return; `skerry bucket pins` tells how far it is
    #[arg(long)]
    no_wait: bool,
}

/// Where to look.
#[derive(Debug, Args)]
pub(crate) struct Pins {
    #[command(flatten)]
    place: Place,
}

impl Pin {
    pub(crate) async fn run(self, act: PinAct, globals: Globals) -> Outcome {
        let verb = match act {
            PinAct::Pin => "pin",
            PinAct::Unpin => "unpin",
            PinAct::Prefetch => "fetch",
        };
        let what = format!("{verb} what lies below {:?} in {}", self.prefix, self.name);
        let site = self.place.site(&globals).await?;
        let about = async {
            look::bucket(&site, &self.name).await?;
            let pins: PinList = site.client.get(PATH).await?;
            let is_it = |pin: &PinStatus| pin.bucket == self.name && pin.prefix == self.prefix;
            if act == PinAct::Unpin && !pins.pins.iter().any(is_it) {
                let why = format!("{} below {:?} is not pinned here", self.name, self.prefix);
                return Err(look::refused(&site, why));
            }
            Ok(())
        };
        if look::dry_run(&globals, &what, about).await? {
            return Ok(Exit::Done);
        }
        let request = PinRequest { bucket: self.name, prefix: self.prefix, act };
        show(&site.client.post(PATH, &request).await?, globals.json)
    }
}

impl Prefetch {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let Pin { name, prefix, place } = self.pin;
        let what = format!("fetch {name} below {prefix:?}");
        let site = place.site(&globals).await?;
        let about = async { look::bucket(&site, &name).await.map(drop) };
        if look::dry_run(&globals, &what, about).await? {
            return Ok(Exit::Done);
        }
        let request = PinRequest { bucket: name.clone(), prefix: prefix.clone(), act: PinAct::Prefetch };
        let mut list: PinList = site.client.post(PATH, &request).await?;
        let this =
            |list: &PinList| list.pins.iter().find(|pin| pin.bucket == name && pin.prefix == prefix).cloned();
        let waiting = Waiting::new(&what, globals.json);
        while !self.no_wait
            && let Some(pin) = this(&list).filter(is_under_way)
        {
            waiting.say(format!("{what}: {} of {}", words::bytes(pin.here_bytes), words::bytes(pin.bytes)));
            tokio::time::sleep(AGAIN).await;
            list = site.client.get(PATH).await?;
        }
        drop(waiting);
        show(&list, globals.json)?;
        match self.no_wait {
            true => Ok(Exit::Done),
            false => fetched(this(&list).as_ref(), &what),
        }
    }
}

/// Whether there is something to wait for: more of it may come by itself.
fn is_under_way(pin: &PinStatus) -> bool {
    !pin.complete && (pin.reason.is_none() || pin.taking)
}

/// What a prefetch that nobody waits for any more came to: whoever goes to sea with it has to know.
fn fetched(pin: Option<&PinStatus>, what: &str) -> Outcome {
    let why = match pin {
        Some(pin) if pin.complete => return Ok(Exit::Done),
        Some(pin) => pin.reason.clone().unwrap_or_else(|| "it is under way".into()),
        None => {
            "the site knows of it no more: it was unpinned, or the site was started anew; say it again".into()
        }
    };
    let here = pin.map_or_else(String::new, |pin| {
        format!(", {} of {} are here", words::bytes(pin.here_bytes), words::bytes(pin.bytes))
    });
    Err(Failure { exit: Exit::Partial, message: format!("{what}: not all came{here}: {why}") })
}

impl Pins {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        show(&self.place.site(&globals).await?.client.get(PATH).await?, globals.json)
    }
}

/// How a pin stands, in words.
pub(crate) fn state(pin: &PinStatus) -> String {
    match &pin.reason {
        Some(reason) => reason.clone(),
        None if pin.complete => "complete".into(),
        None => "under way".into(),
    }
}

fn show(list: &PinList, json: bool) -> Outcome {
    if json {
        output::document("pins", list)?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![["BUCKET", "PREFIX", "KIND", "OBJECTS", "HERE", "STATE"].map(str::to_owned).to_vec()];
    rows.extend(list.pins.iter().map(|pin| {
        vec![
            pin.bucket.clone(),
            pin.prefix.clone(),
            if pin.pinned { "pinned" } else { "once" }.into(),
            pin.objects.to_string(),
            format!("{} of {}", words::bytes(pin.here_bytes), words::bytes(pin.bytes)),
            state(pin),
        ]
    }));
    output::line(&output::table(&rows));
    let (pinned, most) = (words::bytes(list.pinned_bytes), words::bytes(list.most_bytes));
    output::line(&format!("pinned copies: {pinned} of at most {most}"));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_prefetch_that_came_to_no_end_is_not_done() {
        let pin = |complete, reason: Option<&str>, taking| PinStatus {
            complete,
            reason: reason.map(str::to_owned),
            taking,
            ..PinStatus::default()
        };
        let exit = |pin: Option<&PinStatus>| fetched(pin, "fetch x").map_err(|failure| failure.exit);
        assert_eq!(exit(Some(&pin(true, None, false))), Ok(Exit::Done));
        let lacks = pin(false, Some("k is not here"), false);
        assert!(!is_under_way(&lacks) && exit(Some(&lacks)) == Err(Exit::Partial));
        assert!(fetched(Some(&lacks), "fetch x").unwrap_err().message.contains("k is not here"));
        assert_eq!(exit(None), Err(Exit::Partial), "unpinned");
        // The first thing that a site says which was no member.
        assert!(is_under_way(&pin(false, Some("this site is still taking the bucket's records"), true)));
        assert!(is_under_way(&pin(false, None, false)) && !is_under_way(&pin(true, None, false)));
    }
}
