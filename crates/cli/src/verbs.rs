//! The verbs, one file each.

pub(crate) mod areas;
pub(crate) mod bench;
pub(crate) mod bucket;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conflicts;
pub(crate) mod demo;
pub(crate) mod du;
pub(crate) mod init;
pub(crate) mod invite;
pub(crate) mod join;
pub(crate) mod key;
pub(crate) mod link;
pub(crate) mod membership;
pub(crate) mod pins;
pub(crate) mod reference;
pub(crate) mod scrub;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod status;
pub(crate) mod version;

use crate::arguments::{CommandLine, Verb};
use crate::exit::{Failure, Outcome};

/// Carries out a command line.
pub(crate) fn run(line: CommandLine) -> Outcome {
    let globals = line.globals;
    match line.verb {
        Verb::Demo(verb) => wait(verb.run(globals)),
        Verb::Init(verb) => verb.run(&globals),
        Verb::Server(verb) => verb.run(&globals),
        Verb::Invite(verb) => wait(verb.run(globals)),
        Verb::Join(verb) => wait(verb.run(globals)),
        Verb::Key(verb) => wait(verb.run(globals)),
        Verb::Bucket(verb) => wait(verb.run(globals)),
        Verb::Config(verb) => verb.run(&globals),
        Verb::Status(verb) => wait(verb.run(globals)),
        Verb::Areas(verb) => wait(verb.run(globals)),
        Verb::Site(verb) => wait(verb.run(globals)),
        Verb::Link(verb) => wait(verb.run(globals)),
        Verb::Du(verb) => wait(verb.run(globals)),
        Verb::Check(verb) => verb.run(&globals),
        Verb::Scrub(verb) => wait(verb.run(globals)),
        Verb::Conflicts(verb) => wait(verb.run(globals)),
        Verb::Bench(verb) => wait(verb.run(globals)),
        Verb::Version(verb) => verb.run(&globals),
        Verb::Completions(verb) => verb.run(),
        Verb::Reference(verb) => verb.run(),
    }
}

/// Runs a verb that talks to sites, on this thread.
fn wait(verb: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("runtime: {error}")))?.block_on(verb)
}
