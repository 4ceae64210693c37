//! A system that serves: where, by which processes, at what cost so far; and its end.
//!
//! Invariants: dropping it ends every process it started; a process that ended by itself is reported with the end
//! of its log, never taken for a slow one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::SystemError;
use super::file::{Credentials, Durability, Kind, SystemFile};
use super::log;
use super::machines::{Machine, Machines};
use super::process::{Process, Ran};
use super::start::{Starting, command_at, data_of};
use super::template::Template;
use super::usage::{self, Usage};

/// What a command for a bucket may take.
const BUCKET: Duration = Duration::from_secs(60);
/// What asking for the version may take.
const VERSION: Duration = Duration::from_secs(20);

/// Where clients of a site go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The number of the site, from 0.
    pub site: usize,
    /// Its name.
    pub site_name: String,
    /// The host that answers.
    pub host: String,
    /// Where it answers.
    pub url: String,
}

/// A process as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessStatus {
    /// Its host.
    pub host: String,
    /// What the system file calls it.
    pub name: String,
    /// Its id.
    pub pid: u32,
    /// Where its output goes.
    pub log: PathBuf,
    /// What its group has used.
    pub usage: Usage,
}

/// One process that was started.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) host: usize,
    pub(super) host_name: String,
    pub(super) name: String,
    pub(super) process: Process,
}

impl Member {
    /// The error it is, if it has ended.
    pub(super) fn death(&mut self, system: &str) -> Option<SystemError> {
        let status = self.process.ended()?;
        Some(SystemError::Died {
            system: system.into(),
            process: self.name.as_str().into(),
            host: self.host_name.as_str().into(),
            status: status.to_string().into(),
            path: self.process.log.as_path().into(),
            log: log::tail(&self.process.log).into(),
        })
    }
}

/// A running system.
#[derive(Debug)]
pub struct Running {
    /// The file it was started from.
    pub system: SystemFile,
    /// What it says of its version.
    pub version: String,
    /// One per node, in the order of the sites; one per site where only the first host of all serves.
    pub endpoints: Vec<Endpoint>,
    /// Which programs were used.
    pub programs: BTreeMap<String, PathBuf>,
    /// How long it took until it was ready.
    pub started_in: Duration,
    values: super::template::Values,
    hosts: Vec<Machine>,
    dir: PathBuf,
    members: Vec<Member>,
}

impl Running {
    pub(super) fn new(starting: Starting<'_>, started_in: Duration) -> Result<Self, SystemError> {
        let version = version(&starting)?;
        let mut running = Self {
            system: starting.system.clone(),
            version,
            endpoints: Vec::new(),
            programs: starting.programs,
            started_in,
            values: starting.values,
            hosts: starting.hosts,
            dir: starting.dir,
            members: starting.members,
        };
        running.endpoints = running.serving()?;
        Ok(running)
    }

    fn serving(&self) -> Result<Vec<Endpoint>, SystemError> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for (number, machine) in self.hosts.iter().enumerate() {
            let from = if self.system.only_first_serves { 0 } else { number };
            if from != number && endpoints.iter().any(|endpoint| endpoint.site == machine.site) {
                continue;
            }
            let url = self.fill(&self.system.endpoint, from)?;
            let host = self.hosts.get(from).map_or_else(String::new, |machine| machine.host.clone());
            endpoints.push(Endpoint { site: machine.site, site_name: machine.site_name.clone(), host, url });
        }
        Ok(endpoints)
    }

    fn fill(&self, template: &Template, host: usize) -> Result<String, SystemError> {
        self.values.fill_one(template, host).map_err(|unknown| SystemError::File {
            file: self.system.path.display().to_string(),
            reason: unknown.0,
        })
    }

    /// What it speaks.
    pub fn kind(&self) -> Kind {
        self.system.kind
    }

    /// The program that was measured: the one that is asked for its version, or the first.
    pub fn binary(&self) -> Option<&PathBuf> {
        let asked = self.system.version_of.first();
        let named = asked.and_then(|word| word.names().find_map(|name| self.programs.get(name)));
        named.or_else(|| self.programs.values().next())
    }

    /// A setting of the file, as it was started with.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.system.settings.get(name).cloned()
    }

    /// Keys of the user.
    pub fn credentials(&self) -> &Credentials {
        &self.system.credentials
    }

    /// What it has done when it acknowledges, with settings of a bucket taken into account.
    pub fn durability(&self, bucket: &BTreeMap<String, String>) -> Durability {
        let mut durability = self.system.durability.clone();
        if durability.every_node {
            durability.copies *= self.nodes_of_a_site();
        }
        if let Some(scope) = bucket.get("scope").filter(|_| self.system.bucket_settings.contains_key("scope"))
        {
            scope.clone_into(&mut durability.acknowledged);
            let copies = scope.strip_prefix("sites=").and_then(|copies| copies.parse().ok());
            durability.copies = copies.unwrap_or(durability.copies);
        }
        durability
    }

    /// Nodes of the site that has fewest.
    fn nodes_of_a_site(&self) -> u32 {
        let mut nodes: BTreeMap<usize, u32> = BTreeMap::new();
        for machine in &self.hosts {
            *nodes.entry(machine.site).or_default() += 1;
        }
        nodes.into_values().min().unwrap_or(1)
    }

    /// Every process with what it has used so far.
    pub fn processes(&self) -> Vec<ProcessStatus> {
        let usage = usage::of_groups(&self.leaders());
        let status = |member: &Member| ProcessStatus {
            host: member.host_name.clone(),
            name: member.name.clone(),
            pid: member.process.pid,
            log: member.process.log.clone(),
            usage: usage.get(&member.process.pid).copied().unwrap_or_default(),
        };
        self.members.iter().map(status).collect()
    }

    /// Starts the count of peak memory afresh, before a phase.
    pub fn reset_peaks(&self) {
        usage::reset_peak(&self.leaders());
    }

    fn leaders(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.process.pid).collect()
    }

    /// The first process that has ended by itself, with the end of its log.
    pub fn is_dead(&mut self) -> Option<SystemError> {
        let name = self.system.name.clone();
        self.members.iter_mut().find_map(|member| member.death(&name))
    }

    /// Whether a client still has to make a bucket over S3 after [`Self::bucket`].
    pub fn client_makes_buckets(&self) -> bool {
        self.system.client_makes_buckets
    }

    /// Whether it keeps a bucket's payload where the bucket was made, so that each site needs one of its own.
    pub fn has_bucket_per_site(&self) -> bool {
        self.system.bucket_per_site
    }

    /// Makes a bucket at a site if the system has a verb of its own for it (else clients make it over S3), and
    /// lays settings on it. Answers which settings this system has no words for.
    pub fn bucket(
        &self,
        machines: &dyn Machines,
        site: usize,
        bucket: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, SystemError> {
        self.bucket_command(machines, site, &self.system.bucket_create, (bucket, ""))?;
        let mut unknown = Vec::new();
        for (name, value) in settings {
            match self.system.bucket_settings.get(name) {
                Some(command) => self.bucket_command(machines, site, command, (bucket, value))?,
                None => unknown.push(name.clone()),
            }
        }
        Ok(unknown)
    }

    fn bucket_command(
        &self,
        machines: &dyn Machines,
        site: usize,
        command: &[Template],
        (bucket, value): (&str, &str),
    ) -> Result<(), SystemError> {
        if command.is_empty() {
            return Ok(());
        }
        let host = self.hosts.iter().position(|machine| machine.site == site).unwrap_or_default();
        let name = self.hosts.get(host).map_or("", |machine| &machine.host);
        let mut values = self.values.clone();
        values.shared.extend([("bucket".into(), bucket.to_owned()), ("value".into(), value.to_owned())]);
        let failed = |reason: String, log: String| SystemError::Step {
            system: self.system.name.as_str().into(),
            step: format!("bucket {bucket}").into(),
            host: name.into(),
            reason: reason.into(),
            log: log.into(),
        };
        let words = values.fill_all(command, host).map_err(|unknown| failed(unknown.0, String::new()))?;
        let place = data_of(&self.dir, name);
        let (out, log) = self.step_files(name);
        let command = command_at(machines, name, &words).map(|mut command| {
            command.env("HOME", &place).current_dir(&place);
            command
        });
        let ran = command.and_then(|command| Process::run(command, &out, &log, BUCKET));
        match ran {
            Ok(Ran::Ended(status)) if status.success() => Ok(()),
            Ok(Ran::Ended(status)) => Err(failed(format!("it ended with {status}"), log::tail(&log))),
            Ok(Ran::TooLong) => Err(failed(format!("not done after {BUCKET:?}"), log::tail(&log))),
            Err(error) => Err(failed(error.to_string(), String::new())),
        }
    }

    fn step_files(&self, host: &str) -> (PathBuf, PathBuf) {
        let file = |what: &str| self.dir.join("logs").join(format!("{host}-{what}"));
        (file("out"), file("steps.log"))
    }

    /// Ends every process of a host at once, as a power cut does. They then count as ended on purpose.
    pub fn kill(&mut self, host: &str) -> usize {
        let (doomed, others) =
            std::mem::take(&mut self.members).into_iter().partition(|m| m.host_name == host);
        self.members = others;
        let doomed: Vec<Member> = doomed;
        doomed.len()
    }

    /// Stops it: all are asked at once, and killed after a bounded wait. Answers who had to be killed.
    pub fn stop(mut self) -> Vec<String> {
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        for member in &mut self.members {
            member.process.tell();
        }
        let by = Instant::now() + Duration::from_secs(self.system.stop_seconds);
        let mut killed = Vec::new();
        for mut member in std::mem::take(&mut self.members) {
            if member.process.wait(by).is_none() {
                killed.push(format!("{} on {}", member.name, member.host_name));
            }
        }
        killed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first line of what it says of its version.
fn version(starting: &Starting<'_>) -> Result<String, SystemError> {
    let in_file =
        |reason: String| SystemError::File { file: starting.system.path.display().to_string(), reason };
    let words =
        starting.values.fill_all(&starting.system.version_of, 0).map_err(|unknown| in_file(unknown.0))?;
    let Some(first) = starting.hosts.first().filter(|_| !words.is_empty()) else {
        return Ok("unknown".into());
    };
    let out = starting.dir.join("logs").join("version");
    let ran = command_at(starting.machines, &first.host, &words)
        .and_then(|command| Process::run(command, &out, &out.with_extension("log"), VERSION));
    let said = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    match ran {
        Ok(Ran::Ended(_)) => {
            let said = said(&out) + &said(&out.with_extension("log"));
            Ok(said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown").to_owned())
        }
        Ok(Ran::TooLong) => Err(in_file(format!("{} does not end", words.join(" ")))),
        Err(error) => Err(in_file(format!("{}: {error}", words.join(" ")))),
    }
}
