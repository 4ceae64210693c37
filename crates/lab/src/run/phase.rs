//! One trial of one phase: work for each client, events on the network meanwhile, counters before and after.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use skerry_bench::from_workload;
use skerry_bench::plan::{self, Connections, Keys, Order, Plan, Shape, SizeRange};
use skerry_bench::sample::{Sample, read_csv};
use skerry_bench::target::Operation;
use skerry_scenario::workload_size::Size;

use super::caches::drop_caches;
use super::client::Client;
use super::error::RunError;
use super::ground::Ground;
use super::machine::wall_ms;
use super::screen::Screen;
use super::talk::{Ask, Said};
use super::tally::Trial;
use super::watch::Watch;
use crate::plan::{Action, Phase, Setting, Whose, setting};
use crate::result::{Event, Traffic};
use crate::rivals::TargetConfig;
use crate::systems::{Running, log_tail};

/// Between the moment work is handed out and its common begin: all clients must have read it by then.
const LEAD: Duration = Duration::from_millis(120);
/// How long a phase may take if the scenario does not say.
const TIMEOUT_S: u64 = 300;
/// An operation is given up after so long.
const OPERATION_S: u64 = 60;
/// Inter-site traffic is looked at this often while it settles.
const SETTLE_LOOK: Duration = Duration::from_millis(250);
/// Bytes per site and look below which it counts as quiet: liveness goes on for ever.
const QUIET_BYTES: u64 = 1000;

/// Everything that stands and waits for work.
pub(super) struct Stand<'a> {
    pub(super) ground: &'a dyn Ground,
    pub(super) running: &'a mut Running,
    pub(super) clients: &'a mut [Client],
    pub(super) sites: &'a [String],
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
    /// Plays one trial. What made it doubtful goes into `warnings`.
    pub(super) fn play(
        &mut self,
        subject: &Subject<'_>,
        phase: &Phase,
        number: u64,
        warnings: &mut Vec<String>,
    ) -> Result<Trial, RunError> {
        if phase.fresh && subject.setting.drop_caches == Some(true) {
            warnings.extend(drop_caches().err());
        }
        let work = self.work(subject, phase, number)?;
        let operations = work.iter().filter_map(|(_, plan)| plan.phases.first()?.operations).sum();
        self.screen.phase(&phase.name, operations);
        self.running.reset_peaks();
        let (processes, traffic) = (self.running.processes(), self.ground.traffic());
        let mut events = Vec::new();
        let answers = self.carry_out(subject, phase, work, &mut events)?;
        let settled = self.settle(subject.setting.settle_s.unwrap_or(0.0))?;
        let mut trial = Trial {
            number,
            settled,
            events,
            traffic: self.ground.traffic().since(&traffic),
            processes: (processes, self.running.processes()),
            ..Trial::default()
        };
        for answer in answers {
            trial.seconds = trial.seconds.max(answer.seconds);
            trial.samples.extend(answer.samples);
            trial.examples.extend(answer.examples);
        }
        Ok(trial)
    }

    /// Which client does what.
    fn work(&self, subject: &Subject<'_>, phase: &Phase, trial: u64) -> Result<Vec<(usize, Plan)>, RunError> {
        let takes_part = |client: &&Client| {
            let site = self.sites.get(client.site);
            phase.clients.is_empty() || site.is_some_and(|site| phase.clients.contains(site))
        };
        let mut clients: Vec<&Client> = self.clients.iter().filter(takes_part).collect();
        if matches!(phase.action, Action::CreateBucket | Action::DeleteBucket | Action::Fill) {
            clients.truncate(1);
        }
        if clients.is_empty() {
            return Err(RunError::Plan(format!("phase {}: there is no client at its sites", phase.name)));
        }
        let work = clients.into_iter().map(|client| {
            let owner = self.owner(client, &phase.objects);
            let prefix = format!("t{trial}/{}/", owner.host);
            let work = match (phase.action, &subject.workload) {
                (Action::Fill, Some(workload)) => from_workload::preparation(workload),
                (Action::Workload, Some(workload)) => workload.clone(),
                (action, _) => {
                    let bucket = subject.bucket_of(owner.site);
                    bench_phase(subject, phase, operation(action)?, (bucket, prefix))
                }
            };
            let plan = Plan {
                name: phase.name.clone(),
                seed: subject.seed,
                client: client.number,
                trials: 1,
                begin_wall_ms: None,
                phases: vec![work],
            };
            Ok((client.number as usize - 1, plan))
        });
        work.collect()
    }

    /// Whose objects a client works on: its own, or those of its like at another site.
    fn owner<'b>(&'b self, client: &'b Client, objects: &Whose) -> &'b Client {
        let Whose::Site(site) = objects else { return client };
        let of: Vec<&Client> =
            self.clients.iter().filter(|other| self.sites.get(other.site) == Some(site)).collect();
        of.get(client.rank % of.len().max(1)).copied().unwrap_or(client)
    }

    /// Hands out work and waits for every answer, in the order of the work.
    fn carry_out(
        &mut self,
        subject: &Subject<'_>,
        phase: &Phase,
        work: Vec<(usize, Plan)>,
        events: &mut Vec<Event>,
    ) -> Result<Vec<Answer>, RunError> {
        let begin_wall_ms = Some(wall_ms() + LEAD.as_millis() as u64);
        let begin = Instant::now() + LEAD;
        let mut waiting = Vec::new();
        for (index, plan) in work {
            let site =
                phase.endpoint.as_ref().and_then(|name| self.sites.iter().position(|site| site == name));
            let Some(client) = self.clients.get_mut(index) else { continue };
            let target = target(self.running, site.unwrap_or(client.site), self.shared)?;
            client.ask(&Ask { plan: Plan { begin_wall_ms, ..plan }, target })?;
            waiting.push(index);
        }
        let within = subject.setting.timeout_s.unwrap_or(TIMEOUT_S);
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
        let mut deeds = phase.events.iter().peekable();
        let (ground, sites, screen) = (self.ground, self.sites, &*self.screen);
        let clients = &mut *self.clients;
        let done = self.watch.wait(self.running, Duration::from_secs(within), || {
            while let Some(event) = deeds.next_if(|event| begin + event.at <= Instant::now()) {
                let site = sites.iter().position(|site| site == event.deed.site()).unwrap_or_default();
                match event.deed {
                    crate::plan::phase::Deed::Cut(_) => ground.cut_site(site),
                    crate::plan::phase::Deed::Heal(_) => ground.heal_site(site),
                }
                let at_seconds = begin.elapsed().as_secs_f64();
                events.push(Event { at_seconds, what: event.deed.to_string() });
            }
            for index in
                waiting.iter().filter(|index| !answers.contains_key(index)).copied().collect::<Vec<_>>()
            {
                let Some(client) = clients.get_mut(index) else { continue };
                match heard(client)? {
                    Some(Heard::At(operations)) => {
                        counts.insert(index, operations);
                        screen.at(counts.values().sum());
                    }
                    Some(Heard::Answer(answer)) => {
                        answers.insert(index, answer);
                    }
                    None => {}
                }
            }
            Ok(answers.len() == waiting.len())
        })?;
        if !done {
            let late = waiting.into_iter().filter(|index| !answers.contains_key(index)).collect();
            return Err(self.hung(phase, within, late));
        }
        Ok(answers.into_values().collect())
    }

    fn hung(&self, phase: &Phase, seconds: u64, late: Vec<usize>) -> RunError {
        let late: Vec<&Client> = late.into_iter().filter_map(|index| self.clients.get(index)).collect();
        let waiting = late.iter().map(|client| client.host.clone()).collect::<Vec<_>>().join(", ");
        let sites: Vec<usize> = late.iter().map(|client| client.site).collect();
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
        Action::Pairs => return Err(RunError::Plan("pairs are played by themselves".into())),
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
    let objects = setting.object_count();
    let single = matches!(operation, Operation::CreateBucket | Operation::DeleteBucket | Operation::List);
    let workers = phase.threads.unwrap_or_else(|| setting.thread_count()).min(objects).max(1);
    let arrival = match setting.arrival {
        Some(setting::Arrival::Spread) if !single => plan::Arrival::Spread(1000),
        _ => plan::Arrival::AtOnce,
    };
    let connections = match setting.connections {
        Some(setting::Connections::New) => Connections::New,
        _ => Connections::Keep,
    };
    plan::Phase {
        workers: if single { 1 } else { workers },
        operations: Some(if single { 1 } else { objects }),
        arrival,
        connections,
        buckets: vec![bucket],
        keys: Keys { count: objects, prefix, order: Order::Sequential, ..Keys::default() },
        sizes: vec![SizeRange { bytes: Size(setting.bytes()), to: None, weight: 1, shape: Shape::Uniform }],
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
