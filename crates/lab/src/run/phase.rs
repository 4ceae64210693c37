//! One trial of one phase and of those beside it: work for each client, events on the network meanwhile, counters before
//! and after.
//!
//! Invariant: what a phase beside another does ends with that other one; the counters of both together are the other's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use skerry_bench::from_workload;
use skerry_bench::plan::{self, Connections, Keys, Order, Plan, Shape, SizeRange};
use skerry_bench::sample::{Sample, read_csv};
use skerry_bench::target::Operation;
use skerry_scenario::workload_size::ObjectSize;

use super::apart::Apart;
use super::caches::drop_caches;
use super::client::{Client, Place};
use super::error::RunError;
use super::ground::Ground;
use super::job::{Job, Until, Work};
use super::machine::wall_ms;
use super::screen::Screen;
use super::talk::Said;
use super::tally::Trial;
use super::watch::Watch;
use crate::plan::{Action, Phase, Setting, Whose, setting};
use crate::result::{Event, FLOWING, Traffic};
use crate::rivals::TargetConfig;
use crate::systems::{Kind, Running, log_tail};

/// Between the moment work is handed out and its common begin: all clients must have read it by then.
const LEAD: Duration = Duration::from_millis(120);
/// How long a phase may take if the scenario does not say.
const TIMEOUT_S: u64 = 300;
/// An operation is given up after so long.
const OPERATION_S: u64 = 60;
/// What a client that was asked to stop needs beyond its last operation.
const STOPPING: Duration = Duration::from_secs(10);
/// Inter-site traffic is looked at this often while it settles.
const SETTLE_LOOK: Duration = Duration::from_millis(250);
/// Bytes between sites since a step that waits began: now what it waits for is on its way.
const FLOWING_BYTES: u64 = 20_000;
/// How often that is looked at.
const FLOWING_LOOK: Duration = Duration::from_millis(20);
/// Bytes per site and look below which it counts as quiet: liveness goes on for ever.
const QUIET_BYTES: u64 = 1000;

/// Everything that stands and waits for work.
pub(super) struct Stand<'a> {
    pub(super) ground: &'a dyn Ground,
    pub(super) running: &'a mut Running,
    /// One for each client host, then those for steps beside others.
    pub(super) clients: &'a mut Vec<Client>,
    pub(super) sites: &'a [String],
    /// If one of them has a processor of its own.
    pub(super) apart: Option<&'a Apart>,
    /// A directory that all clients can write.
    pub(super) shared: &'a Path,
    pub(super) watch: &'a Watch,
    pub(super) screen: &'a mut Screen,
}

/// What a cell works on.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) setting: &'a Setting,
    /// The bucket, or what the names of all of them begin with.
    pub(super) bucket: String,
    /// Whether each site has one of its own.
    pub(super) is_per_site: bool,
    pub(super) seed: u64,
    /// What the workload file says, if there is one.
    pub(super) workload: Option<plan::Phase>,
}

impl Subject<'_> {
    /// The bucket of what clients of a site write.
    pub(super) fn bucket_of(&self, site: usize) -> String {
        if self.is_per_site { format!("{}-{}", self.bucket, site + 1) } else { self.bucket.clone() }
    }
}

/// An answer of a client to its ask.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) seconds: f64,
    pub(super) samples: Vec<Sample>,
    pub(super) examples: BTreeMap<String, String>,
}

impl Stand<'_> {
    /// Plays one trial of a step and of those that go on beside it, which stand after it; one trial of each comes back.
    /// What made it doubtful goes into `warnings`.
    pub(super) fn play(
        &mut self,
        subject: &Subject<'_>,
        group: &[Phase],
        number: u64,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Trial>, RunError> {
        let Some(phase) = group.first() else { return Ok(Vec::new()) };
        if phase.fresh && subject.setting.drop_caches == Some(true) {
            warnings.extend(drop_caches().err());
        }
        let mut jobs = Vec::new();
        for (member, phase) in group.iter().enumerate() {
            jobs.extend(self.jobs(subject, phase, (member, number))?);
        }
        let operations = jobs.iter().filter(|job| job.member == 0).map(Job::expected).sum();
        self.screen.phase(&phase.name, operations);
        self.running.reset_peaks();
        let (processes, before) = (self.running.processes(), self.ground.traffic());
        let mut events = Vec::new();
        let begin = self.carry_out(subject, phase, &mut jobs, &mut events)?;
        let mut trials: Vec<Trial> = group.iter().map(|_| Trial { number, ..Trial::default() }).collect();
        let most = subject.setting.settle_s.unwrap_or(0.0);
        if let Some(first) = trials.first_mut() {
            first.events = events;
            // What is still on its way for steps beside it is not what it caused.
            first.settled = if group.len() == 1 { self.settle(most)? } else { 0.0 };
            first.traffic = self.ground.traffic().since(&before);
            first.processes = (processes, self.running.processes());
        }
        if group.len() > 1 {
            self.stop_beside(subject, group, &mut jobs)?;
            warnings.extend(too_short(group, &jobs, begin));
            self.settle(most)?;
        }
        for job in jobs {
            let (Some(trial), Some((answer, _))) = (trials.get_mut(job.member), job.answer) else { continue };
            trial.seconds = trial.seconds.max(answer.seconds);
            trial.samples.extend(answer.samples);
            trial.examples.extend(answer.examples);
        }
        Ok(trials)
    }

    /// Which client does what in a step; `member` is its place among those played together.
    fn jobs(
        &mut self,
        subject: &Subject<'_>,
        phase: &Phase,
        (member, trial): (usize, u64),
    ) -> Result<Vec<Job>, RunError> {
        if phase.action == Action::Converge && self.running.kind() != Kind::S3 {
            return Err(RunError::Plan(format!("phase {}: converge asks for listings over S3", phase.name)));
        }
        let site = phase.endpoint.as_ref().and_then(|name| self.sites.iter().position(|site| site == name));
        let mut jobs = Vec::new();
        for index in self.takers(phase)? {
            let work = self.work(subject, phase, (index, trial))?;
            let client = self.seat(index, member)?;
            let at = self.clients.get(client).map_or(0, |client| client.site);
            let target = target(self.running, site.unwrap_or(at), self.shared)?;
            jobs.push(Job::new(member, client, target, work));
        }
        Ok(jobs)
    }

    /// The clients of a step.
    fn takers(&self, phase: &Phase) -> Result<Vec<usize>, RunError> {
        let takes_part = |client: &&Client| {
            let site = self.sites.get(client.site);
            client.slot == 0
                && (phase.clients.is_empty() || site.is_some_and(|site| phase.clients.contains(site)))
        };
        let clients = self.clients.iter().filter(takes_part);
        let mut takers: Vec<usize> = clients.map(|client| client.number as usize - 1).collect();
        if matches!(phase.action, Action::CreateBucket | Action::DeleteBucket | Action::Fill) {
            takers.truncate(1);
        }
        if takers.is_empty() {
            return Err(RunError::Plan(format!("phase {}: there is no client at its sites", phase.name)));
        }
        Ok(takers)
    }

    /// What one client does in a step.
    fn work(
        &self,
        subject: &Subject<'_>,
        phase: &Phase,
        (index, trial): (usize, u64),
    ) -> Result<Work, RunError> {
        let Some(client) = self.clients.get(index) else {
            return Err(RunError::Plan(format!("there is no client {}", index + 1)));
        };
        let one = |work: plan::Phase| Plan {
            name: phase.name.clone(),
            seed: subject.seed,
            client: client.number,
            trials: 1,
            begin_wall_ms: None,
            phases: vec![work],
        };
        if phase.action == Action::Converge {
            let questions = self.questions(subject, phase, trial).into_iter();
            return Ok(Work::Until(Until::new(questions.map(one).collect())));
        }
        let owner = self.owner(client, &phase.objects);
        let place = (subject.bucket_of(owner.site), prefix(phase, trial, owner));
        Ok(Work::Once(one(match (phase.action, &subject.workload) {
            (Action::Fill, Some(workload)) => from_workload::preparation(workload),
            (Action::Workload, Some(workload)) => workload.clone(),
            (action, _) => bench_phase(subject, phase, operation(action)?, place),
        })))
    }

    /// Whether the last object of each writer is there; when it is, whether all are.
    fn questions(&self, subject: &Subject<'_>, phase: &Phase, trial: u64) -> Vec<plan::Phase> {
        let wrote = |client: &&Client| {
            let site = self.sites.get(client.site);
            client.slot == 0
                && (phase.writers.is_empty() || site.is_some_and(|site| phase.writers.contains(site)))
        };
        let all = self.clients.iter().filter(wrote).map(|writer| {
            let place = (subject.bucket_of(writer.site), prefix(phase, trial, writer));
            bench_phase(subject, phase, Operation::List, place)
        });
        let all: Vec<plan::Phase> = all.collect();
        let last = all.iter().map(|all| {
            let prefix = format!("{}{:04}", all.keys.prefix, all.keys.count.saturating_sub(1));
            plan::Phase { keys: Keys { count: 1, prefix, ..all.keys.clone() }, ..all.clone() }
        });
        let mut questions: Vec<plan::Phase> = last.collect();
        questions.extend(all);
        questions
    }

    /// The client process on the host of a client that has this slot; it is started if there is none.
    fn seat(&mut self, index: usize, slot: usize) -> Result<usize, RunError> {
        let Some(first) = self.clients.get(index).filter(|_| slot > 0) else { return Ok(index) };
        if let Some(there) =
            self.clients.iter().position(|client| client.host == first.host && client.slot == slot)
        {
            return Ok(there);
        }
        let machine = self.ground.clients().into_iter().find(|machine| machine.host == first.host);
        let machine = machine.ok_or_else(|| RunError::Plan(format!("there is no host {}", first.host)))?;
        let place = Place { number: self.clients.len() as u64 + 1, rank: first.rank, slot };
        let client = Client::start(self.ground, &machine, place, first.logs())?;
        self.apart.map_or(Ok(()), |apart| apart.started(client.site, client.pid()))?;
        self.clients.push(client);
        Ok(self.clients.len() - 1)
    }

    /// Whose objects a client works on: its own, or those of its like at another site.
    fn owner<'b>(&'b self, client: &'b Client, objects: &Whose) -> &'b Client {
        let Whose::Site(site) = objects else { return client };
        let like = |other: &&Client| other.slot == 0 && self.sites.get(other.site) == Some(site);
        let of: Vec<&Client> = self.clients.iter().filter(like).collect();
        of.get(client.rank % of.len().max(1)).copied().unwrap_or(client)
    }

    /// Hands out work and waits until the step itself has ended; those beside it go on. Answers when it began.
    fn carry_out(
        &mut self,
        subject: &Subject<'_>,
        phase: &Phase,
        jobs: &mut [Job],
        events: &mut Vec<Event>,
    ) -> Result<Instant, RunError> {
        let begin_wall_ms = wall_ms() + LEAD.as_millis() as u64;
        let begin = Instant::now() + LEAD;
        for job in jobs.iter_mut() {
            let Some(client) = self.clients.get_mut(job.client) else { continue };
            job.hand_out(client, begin, begin_wall_ms)?;
        }
        let within = subject.setting.timeout_s.unwrap_or(TIMEOUT_S);
        let mut deeds = phase.events.iter().peekable();
        let (ground, sites, screen) = (self.ground, self.sites, &*self.screen);
        let clients = &mut *self.clients;
        let mut quiet = ground.traffic().between_sites();
        let mut flow_at = (phase.action == Action::Converge).then_some(begin);
        let done = self.watch.wait(self.running, Duration::from_secs(within), || {
            while let Some(event) = deeds.next_if(|event| begin + event.at <= Instant::now()) {
                ground.sever(&event.deed.reach.ways(sites), event.deed.is_cut);
                let at_seconds = begin.elapsed().as_secs_f64();
                events.push(Event { at_seconds, what: event.deed.to_string() });
                // What was sent in vain before a heal flows nowhere.
                quiet = ground.traffic().between_sites();
            }
            if deeds.peek().is_none() && flow_at.is_some_and(|at| at <= Instant::now()) {
                let flows = ground.traffic().between_sites() - quiet > FLOWING_BYTES;
                flow_at = (!flows).then(|| Instant::now() + FLOWING_LOOK);
                let at_seconds = begin.elapsed().as_secs_f64();
                events.extend(flows.then(|| Event { at_seconds, what: FLOWING.into() }));
            }
            look(clients, jobs, begin)?;
            let own = jobs.iter().filter(|job| job.member == 0);
            screen.at(own.clone().map(|job| job.operations).sum());
            Ok(own.clone().all(|job| job.answer.is_some()))
        })?;
        if !done {
            return Err(self.hung(phase, within, jobs));
        }
        Ok(begin)
    }

    /// Ends what still goes on beside a step, and waits for its answers.
    fn stop_beside(
        &mut self,
        subject: &Subject<'_>,
        group: &[Phase],
        jobs: &mut [Job],
    ) -> Result<(), RunError> {
        for job in jobs.iter().filter(|job| job.answer.is_none()) {
            let Some(client) = self.clients.get_mut(job.client) else { continue };
            client.stop()?;
        }
        let operation = Duration::from_secs(subject.setting.operation_timeout_s.unwrap_or(OPERATION_S));
        let within = operation + STOPPING;
        let (now, clients) = (Instant::now(), &mut *self.clients);
        let done = self.watch.wait(self.running, within, || {
            look(clients, jobs, now)?;
            Ok(jobs.iter().all(|job| job.answer.is_some()))
        })?;
        let late = jobs.iter().find(|job| job.answer.is_none()).and_then(|job| group.get(job.member));
        match late.filter(|_| !done) {
            Some(phase) => Err(self.hung(phase, within.as_secs(), jobs)),
            None => Ok(()),
        }
    }

    fn hung(&self, phase: &Phase, seconds: u64, jobs: &[Job]) -> RunError {
        let late = jobs.iter().filter(|job| job.answer.is_none());
        let late: Vec<(&Job, &Client)> =
            late.filter_map(|job| Some((job, self.clients.get(job.client)?))).collect();
        let words = late.iter().map(|(job, client)| format!("{}{}", client.host, job.waits_for()));
        let waiting = words.collect::<Vec<_>>().join(", ");
        let sites: Vec<usize> = late.iter().map(|(_, client)| client.site).collect();
        let at_site = |host: &str| {
            self.ground.servers().iter().any(|server| server.host == host && sites.contains(&server.site))
        };
        let logs = self.running.processes().into_iter().filter(|process| at_site(&process.host));
        let tail: Vec<String> =
            logs.map(|process| format!("  {}:\n{}", process.log.display(), log_tail(&process.log))).collect();
        RunError::Hung { phase: phase.name.clone(), seconds, waiting, tail: tail.join("\n") }
    }

    /// Waits until hardly anything crosses between sites, so that what a phase caused is counted to it.
    pub(super) fn settle(&mut self, most: f64) -> Result<f64, RunError> {
        let begin = Instant::now();
        let quiet = QUIET_BYTES * self.sites.len() as u64;
        let mut last = self.ground.traffic().between_sites();
        while begin.elapsed().as_secs_f64() < most {
            self.watch.wait(self.running, SETTLE_LOOK, || Ok(false))?;
            let now = self.ground.traffic().between_sites();
            if now - last <= quiet {
                break;
            }
            last = now;
        }
        Ok(if most > 0.0 { begin.elapsed().as_secs_f64() } else { 0.0 })
    }
}

/// Looks what became of each part.
fn look(clients: &mut [Client], jobs: &mut [Job], begin: Instant) -> Result<(), RunError> {
    for job in jobs {
        let Some(client) = clients.get_mut(job.client) else { continue };
        job.look(client, begin)?;
    }
    Ok(())
}

/// Steps that were to go on beside the first one and had nothing left to do before it ended.
fn too_short(group: &[Phase], jobs: &[Job], begin: Instant) -> Vec<String> {
    let seconds =
        |job: &Job| job.answer.as_ref().map(|(_, at)| at.saturating_duration_since(begin).as_secs_f64());
    let own = jobs.iter().filter(|job| job.member == 0);
    let end = own.filter_map(seconds).fold(0.0, f64::max);
    let mut short: BTreeMap<usize, f64> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.member > 0) {
        let Some(at) = seconds(job).filter(|at| *at < end) else { continue };
        let first = short.entry(job.member).or_insert(at);
        *first = first.min(at);
    }
    let words = |(member, at): (usize, f64)| {
        let (phase, leader) = (group.get(member)?, group.first()?);
        Some(format!(
            "phase {}: it ran out of objects after {at:.1} s of the {end:.1} s that {} took: give it more",
            phase.name, leader.name
        ))
    };
    short.into_iter().filter_map(words).collect()
}

/// What the names of the objects of a client in a step begin with.
fn prefix(phase: &Phase, trial: u64, owner: &Client) -> String {
    let set = phase.set.as_ref().map_or_else(String::new, |set| format!("-{set}"));
    format!("t{trial}{set}/{}/", owner.host)
}

/// Where clients of a site go.
pub(super) fn target(running: &Running, site: usize, shared: &Path) -> Result<TargetConfig, RunError> {
    let target = TargetConfig::of(running, site, shared.to_path_buf());
    target.ok_or_else(|| RunError::Plan(format!("the system has no endpoint at site {}", site + 1)))
}

/// What a client said.
pub(super) enum Heard {
    /// How far it is.
    At(u64),
    /// It is done.
    Answer(Answer),
}

/// What a client said since the last time.
pub(super) fn heard(client: &mut Client) -> Result<Option<Heard>, RunError> {
    Ok(match client.said()? {
        None => None,
        Some(Said::Progress { operations, .. }) => Some(Heard::At(operations)),
        Some(Said::Failed { reason }) => return Err(client.wrong(reason)),
        Some(Said::Done { seconds, csv, examples, .. }) => {
            let samples = read_csv(csv.as_bytes()).map_err(|error| client.wrong(error.to_string()))?;
            Some(Heard::Answer(Answer { seconds, samples, examples }))
        }
    })
}

fn operation(action: Action) -> Result<Operation, RunError> {
    Ok(match action {
        Action::CreateBucket => Operation::CreateBucket,
        Action::Put => Operation::Put,
        Action::Get => Operation::Get,
        Action::Head => Operation::Head,
        Action::List => Operation::List,
        Action::Delete => Operation::Delete,
        Action::DeleteBucket => Operation::DeleteBucket,
        Action::Pairs | Action::Converge => {
            return Err(RunError::Plan("pairs and converge are no single operations".into()));
        }
        Action::Fill | Action::Workload => {
            return Err(RunError::Plan("the operations fill and workload need a workload file".into()));
        }
    })
}

/// A phase as the load engine has it, on the keys of a prefix in a bucket.
pub(super) fn bench_phase(
    subject: &Subject<'_>,
    phase: &Phase,
    operation: Operation,
    (bucket, prefix): (String, String),
) -> plan::Phase {
    let setting = subject.setting;
    let objects = phase.count.unwrap_or_else(|| setting.object_count());
    let bytes = phase.size.map_or_else(|| setting.bytes(), |size| size.0);
    let single = matches!(operation, Operation::CreateBucket | Operation::DeleteBucket | Operation::List);
    let workers = phase.threads.unwrap_or_else(|| setting.thread_count()).min(objects).max(1);
    let arrival = match (phase.rate_per_s, setting.arrival) {
        (Some(rate), _) => plan::Arrival::Rate(rate),
        (None, Some(setting::Arrival::Spread)) if !single => plan::Arrival::Spread(1000),
        _ => plan::Arrival::AtOnce,
    };
    let connections = match setting.connections {
        Some(setting::Connections::New) => Connections::New,
        _ => Connections::Keep,
    };
    plan::Phase {
        workers: if single { 1 } else { workers },
        operations: (!phase.again).then_some(if single { 1 } else { objects }),
        seconds: phase.again.then_some(setting.timeout_s.unwrap_or(TIMEOUT_S) as f64),
        arrival,
        connections,
        buckets: vec![bucket],
        keys: Keys { count: objects, prefix, order: Order::Sequential, ..Keys::default() },
        sizes: vec![SizeRange { bytes: ObjectSize(bytes), to: None, weight: 1, shape: Shape::Uniform }],
        timeout_seconds: setting.operation_timeout_s.unwrap_or(OPERATION_S) as f64,
        list_all: operation == Operation::List,
        ..plan::Phase::new(phase.name.clone(), operation)
    }
}

impl Traffic {
    /// What came on top of an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        difference.combine(earlier, u64::saturating_sub);
        difference
    }

    /// Adds another one.
    pub(super) fn add(&mut self, other: &Self) {
        if self.bytes.is_empty() {
            self.clone_from(other);
        } else {
            self.combine(other, u64::saturating_add);
        }
    }

    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let matrices = [(&mut self.bytes, &other.bytes), (&mut self.packets, &other.packets)];
        for (own, other) in matrices {
            for (own, other) in own.iter_mut().flatten().zip(other.iter().flatten()) {
                *own = with(*own, *other);
            }
        }
        for (name, own) in &mut self.hosts {
            let other = other.hosts.get(name).copied().unwrap_or_default();
            own.sent_bytes = with(own.sent_bytes, other.sent_bytes);
            own.received_bytes = with(own.received_bytes, other.received_bytes);
        }
    }
}
