//! From a system file to a system that serves: its steps, one after the other, on all hosts at once.
//!
//! Invariants: a step that fails or takes too long ends the start with the end of the log, and everything that was
//! started before ends with it; a process that dies while another is waited for is noticed at once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::error::SystemError;
use super::file::SystemFile;
use super::log;
use super::machines::{Machine, Machines};
use super::process::{Process, Ran};
use super::programs;
use super::ready;
use super::running::{Member, Running};
use super::step::{Action, Reach, Step};
use super::template::{Template, Unknown, Values};

/// How often readiness is asked for.
const POLL: Duration = Duration::from_millis(20);

/// Starts a system on hosts; everything it writes lies in `dir`.
pub fn start(system: &SystemFile, machines: &dyn Machines, dir: &Path) -> Result<Running, SystemError> {
    let begin = Instant::now();
    let mut starting = Starting::new(system, machines, dir)?;
    for step in &system.steps {
        starting.step(step)?;
    }
    starting.finish(begin)
}

/// A system on its way.
pub(super) struct Starting<'a> {
    pub(super) system: &'a SystemFile,
    pub(super) machines: &'a dyn Machines,
    pub(super) hosts: Vec<Machine>,
    pub(super) dir: PathBuf,
    pub(super) values: Values,
    pub(super) programs: BTreeMap<String, PathBuf>,
    pub(super) members: Vec<Member>,
}

impl<'a> Starting<'a> {
    fn new(system: &'a SystemFile, machines: &'a dyn Machines, dir: &Path) -> Result<Self, SystemError> {
        let hosts = machines.servers();
        let dir = std::path::absolute(dir).map_err(SystemError::machine("the run's directory"))?;
        let places = hosts.iter().map(|machine| data(&dir, machine)).chain([dir.join("logs")]);
        for place in places {
            let failed = SystemError::machine(format!("making {}", place.display()));
            std::fs::create_dir_all(&place).map_err(failed)?;
        }
        let mut values = Values { shared: shared(system, &hosts, &dir), hosts: own(&hosts, &dir) };
        let programs = programs::find(system, &values)?;
        for (name, path) in &programs {
            values.shared.insert(name.clone(), path.display().to_string());
        }
        Ok(Self { system, machines, hosts, dir, values, programs, members: Vec::new() })
    }

    fn step(&mut self, step: &Step) -> Result<(), SystemError> {
        let hosts = reached(step.on, &self.hosts);
        let mut captured = Vec::new();
        for some in hosts.chunks(step.at_once) {
            for (host, done) in self.at_once(step, some) {
                match done? {
                    Done::Nothing => {}
                    Done::Printed(value) => captured.push((host, value)),
                    Done::Started(member) => self.members.push(member),
                }
            }
        }
        for (host, value) in captured {
            if let (Some((name, _)), Some(values)) = (&step.capture, self.values.hosts.get_mut(host)) {
                values.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// Carries a step out for some hosts at the same time. All are awaited, so that what was started is known.
    fn at_once(&mut self, step: &Step, hosts: &[usize]) -> Vec<(usize, Result<Done, SystemError>)> {
        let dead = Mutex::new(&mut self.members);
        let work = Work {
            system: self.system,
            machines: self.machines,
            hosts: &self.hosts,
            dir: &self.dir,
            values: &self.values,
            members: &dead,
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = hosts
                .iter()
                .map(|host| {
                    (
                        *host,
                        scope.spawn({
                            let work = &work;
                            let host = *host;
                            move || work.carry_out(step, host)
                        }),
                    )
                })
                .collect();
            started
                .into_iter()
                .map(|(host, thread)| (host, thread.join().unwrap_or_else(|_| Err(panicked()))))
                .collect()
        })
    }

    fn finish(self, begin: Instant) -> Result<Running, SystemError> {
        Running::new(self, begin.elapsed())
    }
}

fn panicked() -> SystemError {
    SystemError::Machine { what: "a thread of the lab".into(), error: io::Error::other("it panicked") }
}

/// What came of a step at a host.
enum Done {
    Nothing,
    Printed(String),
    Started(Member),
}

/// What threads of a step share.
struct Work<'a> {
    system: &'a SystemFile,
    machines: &'a dyn Machines,
    hosts: &'a [Machine],
    dir: &'a Path,
    values: &'a Values,
    members: &'a Mutex<&'a mut Vec<Member>>,
}

impl Work<'_> {
    fn carry_out(&self, step: &Step, host: usize) -> Result<Done, SystemError> {
        match &step.action {
            Action::Write { path, lines } => self.write(step, host, path, lines).map(|()| Done::Nothing),
            Action::Run { command } => self.run(step, host, command),
            Action::Start { name, command, hold_stdin } => {
                let launch = self.launch(step, host, name, command, *hold_stdin)?;
                Ok(Done::Started(launch))
            }
            Action::Ready(ready) => self.wait(step, host, ready).map(|()| Done::Nothing),
        }
    }

    /// The host where a step runs, which is not always the one it is for.
    fn at(&self, step: &Step, host: usize) -> usize {
        if step.at_first { 0 } else { host }
    }

    fn name(&self, host: usize) -> &str {
        self.hosts.get(host).map_or("", |machine| &machine.host)
    }

    fn error(&self, step: &Step, host: usize, reason: impl Into<String>, log: String) -> SystemError {
        SystemError::Step {
            system: self.system.name.as_str().into(),
            step: step.title().into(),
            host: self.name(host).into(),
            reason: reason.into().into(),
            log: log.into(),
        }
    }

    fn unknown(&self, step: &Step, host: usize) -> impl Fn(Unknown) -> SystemError {
        move |unknown| self.error(step, host, unknown.0, String::new())
    }

    fn write(
        &self,
        step: &Step,
        host: usize,
        path: &Template,
        lines: &[Template],
    ) -> Result<(), SystemError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.values.fill_one(path, host).map_err(self.unknown(step, host))?;
        let mut text = self.values.fill_all(lines, host).map_err(self.unknown(step, host))?.join("\n");
        text.push('\n');
        let path = Path::new(&path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let mut options = std::fs::OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let written = made
            .and_then(|()| options.open(path))
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(|error| self.error(step, host, format!("{}: {error}", path.display()), String::new()))
    }

    fn run(&self, step: &Step, host: usize, command: &[Template]) -> Result<Done, SystemError> {
        let (out, log) = (self.file(host, "out"), self.file(host, "steps.log"));
        let within = Duration::from_secs(step.seconds);
        let command = self.command(step, host, command)?;
        let ran = Process::run(command, &out, &log, within)
            .map_err(|error| self.error(step, host, error.to_string(), String::new()))?;
        let said = || {
            let said = [log::tail(&out), log::tail(&log)];
            said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        };
        match ran {
            Ran::TooLong => {
                let reason = format!("not done after {} s", step.seconds);
                Err(self.error(step, host, reason, said()))
            }
            Ran::Ended(status) if !status.success() => {
                Err(self.error(step, host, format!("it ended with {status}"), said()))
            }
            Ran::Ended(_) => match &step.capture {
                None => Ok(Done::Nothing),
                Some((_, pointer)) => self.captured(step, host, &out, pointer.as_deref()),
            },
        }
    }

    fn captured(
        &self,
        step: &Step,
        host: usize,
        out: &Path,
        pointer: Option<&str>,
    ) -> Result<Done, SystemError> {
        let printed = std::fs::read_to_string(out)
            .map_err(|error| self.error(step, host, error.to_string(), String::new()))?;
        let Some(pointer) = pointer else { return Ok(Done::Printed(printed.trim().to_owned())) };
        let value: Option<serde_json::Value> = serde_json::from_str(&printed).ok();
        let found = value.as_ref().and_then(|value| value.pointer(pointer));
        match found {
            Some(serde_json::Value::String(text)) => Ok(Done::Printed(text.clone())),
            Some(other) => Ok(Done::Printed(other.to_string())),
            None => Err(self.error(step, host, format!("no {pointer} in what it printed"), log::tail(out))),
        }
    }

    fn launch(
        &self,
        step: &Step,
        host: usize,
        name: &str,
        command: &[Template],
        hold_stdin: bool,
    ) -> Result<Member, SystemError> {
        let log = self.file(host, &format!("{name}.log"));
        let ready = self.command(step, host, command)?;
        let process = Process::start(ready, &log, hold_stdin)
            .map_err(|error| self.error(step, host, error.to_string(), String::new()))?;
        Ok(Member { host, host_name: self.name(host).to_owned(), name: name.to_owned(), process })
    }

    fn wait(&self, step: &Step, host: usize, ready: &super::step::Ready) -> Result<(), SystemError> {
        let deadline = Instant::now() + Duration::from_secs(step.seconds);
        let log = self.file(host, "steps.log");
        loop {
            let check = ready::Check {
                machines: self.machines,
                host: self.name(host),
                out: &self.file(host, "out"),
                log: &log,
            };
            let why = match ready {
                super::step::Ready::Run { command } => {
                    check.by_command(self.command(step, host, command)?, deadline)
                }
                _ => check.by_network(ready, self.values, host),
            };
            let Err(why) = why else { return Ok(()) };
            self.nobody_died()?;
            if Instant::now() >= deadline {
                let reason = format!("not ready after {} s: {why}", step.seconds);
                return Err(self.error(step, host, reason, self.last_words(host)));
            }
            std::thread::sleep(POLL);
        }
    }

    fn nobody_died(&self) -> Result<(), SystemError> {
        let Ok(mut members) = self.members.lock() else { return Ok(()) };
        let dead = members.iter_mut().find_map(|member| member.death(&self.system.name));
        dead.map_or(Ok(()), Err)
    }

    /// The end of the log of what was started on a host last.
    fn last_words(&self, host: usize) -> String {
        let Ok(members) = self.members.lock() else { return String::new() };
        let last = members.iter().rev().find(|member| member.host == host);
        last.map_or_else(String::new, |member| log::tail(&member.process.log))
    }

    fn file(&self, host: usize, what: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{}-{what}", self.name(host)))
    }

    fn command(&self, step: &Step, host: usize, command: &[Template]) -> Result<Command, SystemError> {
        let words = self.values.fill_all(command, host).map_err(self.unknown(step, host))?;
        let at = self.at(step, host);
        let failed = |error: io::Error| self.error(step, host, error.to_string(), String::new());
        let mut command = command_at(self.machines, self.name(at), &words).map_err(failed)?;
        command.current_dir(data_of(self.dir, self.name(at)));
        command.env("HOME", data_of(self.dir, self.name(at)));
        for (name, template) in self.system.environment.iter().chain(&step.environment) {
            let value = self.values.fill_one(template, host).map_err(self.unknown(step, host))?;
            command.env(name, value);
        }
        Ok(command)
    }
}

/// A command on a host without what the lab's own environment says, but for the ways of this machine.
pub(super) fn command_at(machines: &dyn Machines, host: &str, words: &[String]) -> io::Result<Command> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::other("a command without a program"))?;
    let mut command = machines.command(host, Path::new(program))?;
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if !KEPT.iter().any(|kept| name == *kept) {
            command.env_remove(&name);
        }
    }
    Ok(command)
}

/// Variables that say how this machine is, not what the lab's caller wants.
const KEPT: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR"];

fn data(dir: &Path, machine: &Machine) -> PathBuf {
    data_of(dir, &machine.host)
}

pub(super) fn data_of(dir: &Path, host: &str) -> PathBuf {
    dir.join("data").join(host)
}

fn shared(system: &SystemFile, hosts: &[Machine], dir: &Path) -> BTreeMap<String, String> {
    let mut shared = system.settings.clone();
    let sites = hosts.iter().map(|machine| machine.site).max().map_or(0, |last| last + 1);
    let keys = &system.credentials;
    let more = [
        ("dir", dir.display().to_string()),
        ("host_count", hosts.len().to_string()),
        ("site_count", sites.to_string()),
        ("access_key", keys.access_key.clone()),
        ("secret_key", keys.secret_key.clone()),
        ("region", keys.region.clone()),
    ];
    shared.extend(more.map(|(name, value)| (name.to_owned(), value)));
    shared.extend(programs::places(&system.path));
    shared
}

fn own(hosts: &[Machine], dir: &Path) -> Vec<BTreeMap<String, String>> {
    let values = |(number, machine): (usize, &Machine)| {
        let of_site = |hosts: &[Machine]| hosts.iter().filter(|other| other.site == machine.site).count();
        let before = hosts.get(..number).unwrap_or_default();
        let values = [
            ("host", machine.host.clone()),
            ("number", (number + 1).to_string()),
            ("site", machine.site_name.clone()),
            ("site_number", (machine.site + 1).to_string()),
            ("node", (of_site(before) + 1).to_string()),
            ("node_count", of_site(hosts).to_string()),
            ("address", machine.address.to_string()),
            ("data", data(dir, machine).display().to_string()),
        ];
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    hosts.iter().enumerate().map(values).collect()
}

/// The hosts a step is for.
fn reached(on: Reach, hosts: &[Machine]) -> Vec<usize> {
    let is_first_of_site = |at: usize| {
        hosts.get(at).is_some_and(|host| hosts.iter().take(at).all(|other| other.site != host.site))
    };
    let wanted = |at: &usize| match on {
        Reach::Each => true,
        Reach::First => *at == 0,
        Reach::Others => *at > 0,
        Reach::Sites => is_first_of_site(*at),
        Reach::OtherSites => *at > 0 && is_first_of_site(*at),
        Reach::Nodes => !is_first_of_site(*at),
    };
    (0..hosts.len()).filter(wanted).collect()
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
