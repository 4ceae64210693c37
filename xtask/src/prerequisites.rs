//! What the tests need beside cargo: looked at first, named with the line that installs it.
//!
//! A C compiler is needed to build at all. Python and the second awscli only widen the journeys, Go the
//! judgement of histories: where they are missing those count as skipped. In CI as root they are installed, because there a skip is a failure.

use std::path::Path;
use std::process::Command;

use crate::run;

/// Something the tests use.
struct Tool {
    what: &'static str,
    packages: &'static str,
    present: fn() -> bool,
    /// Whether nothing can be done without it.
    needed: bool,
}

const TOOLS: [Tool; 4] = [
    Tool {
        what: "a C compiler",
        packages: "build-essential",
        present: || run::succeeds(Command::new("cc").arg("--version")),
        needed: true,
    },
    Tool {
        what: "Python with venv (awscli v1, boto3 and s3cmd run in one)",
        packages: "python3 python3-venv",
        present: python_has_venv,
        needed: false,
    },
    Tool {
        what: "Go (histories are judged by a checker that is not ours)",
        packages: "golang-go",
        present: || run::succeeds(Command::new("go").arg("version")),
        needed: false,
    },
    Tool { what: "awscli v2", packages: "awscli", present: || aws_v2().is_some(), needed: false },
];

fn python_has_venv() -> bool {
    run::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// Where Debian's awscli is, if it is version 2.
pub(crate) fn aws_v2() -> Option<&'static str> {
    let path = "/usr/bin/aws";
    let output = Path::new(path).exists().then(|| Command::new(path).arg("--version").output().ok())??;
    output.stdout.starts_with(b"aws-cli/2").then_some(path)
}

/// Looks for everything; in CI as root installs what is missing. An error if one cannot go on.
pub(crate) fn check() -> Result<(), String> {
    let mut missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !(tool.present)()).collect();
    if !missing.is_empty()
        && run::in_ci()
        && run::succeeds(Command::new("sh").args(["-c", "test $(id -u) = 0"]))
    {
        install(&missing);
        missing.retain(|tool| !(tool.present)());
    }
    for tool in &missing {
        println!("missing: {}; apt install {}", tool.what, tool.packages);
    }
    match missing.iter().find(|tool| tool.needed) {
        Some(tool) => Err(format!("{} is needed: apt install {}", tool.what, tool.packages)),
        None => Ok(()),
    }
}

fn install(missing: &[&Tool]) {
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages.split(' ')).collect();
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run::show(&mut command)
    };
    // A failure shows as a tool that is still missing, which is what counts.
    let done = apt(&["update", "-qq"]).and_then(|()| {
        apt(&[&["install", "-y", "-qq", "--no-install-recommends"], packages.as_slice()].concat())
    });
    if let Err(reason) = done {
        println!("{reason}");
    }
}
