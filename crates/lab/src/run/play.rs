//! A whole run: cells with the same network share it, the system and the clients.

use std::path::{Path, PathBuf};
use std::time::Instant;

use skerry_scenario::topology::Topology;

use super::apart::Apart;
use super::cell::{self, Shared};
use super::client::{Client, Place};
use super::directory::Directory;
use super::error::RunError;
use super::ground::Ground;
use super::limits::{self, Limits};
use super::machine;
use super::phase::Stand;
use super::screen::Screen;
use super::watch::Watch;
use crate::plan::network::{self, Matrix};
use crate::plan::setting::Demand;
use crate::plan::{PlannedCell, Scale, Scenario, statistic};
use crate::result::{LabResult, OK, VERSION};
use crate::systems::{self, Running, SystemFile};

/// Load above which figures are doubtful, per processor, before the run itself begins.
const LOAD_MAX: f64 = 0.5;

/// Cells that store more than this together get systems of their own, one after the other.
const STORED_MAX: u64 = 8_000_000_000;

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// How large.
    pub scale: Scale,
    /// The system under test.
    pub system: SystemFile,
    /// Round-trip times instead of the scenario's.
    pub matrix: Option<Matrix>,
    /// Where results go.
    pub out: PathBuf,
    /// The seed of every draw.
    pub seed: u64,
    /// What repeats the run.
    pub command: String,
}

/// Builds a network; the emulator, unless a test has another one.
pub type Builder<'a> = &'a dyn Fn(&Topology, u64) -> Result<Box<dyn Ground>, String>;

/// Plays a scenario and writes `result.json`; answers the result and its directory.
pub fn play(
    scenario: &Scenario,
    options: &Options,
    build: Builder<'_>,
    watch: &Watch,
    screen: &mut Screen,
) -> Result<(LabResult, PathBuf), RunError> {
    let begin = Instant::now();
    let started = machine::wall_ms();
    let stamp = machine::rfc3339(started);
    let mut result = blank(scenario, options, &stamp);
    let time: String = stamp.chars().filter(|c| c.is_ascii_digit() || *c == 'T').take(15).collect();
    let name = format!("{}-{}-{}-{time}", scenario.id, options.system.name, options.scale.name());
    let directory = Directory::make(&options.out, &name)?;
    if let Some(needs) = &scenario.needs {
        result.status = format!("needs {needs}: not yet");
    } else {
        Run { scenario, options, build, watch, directory: &directory }.cells(&mut result, screen)?;
    }
    result.seconds = begin.elapsed().as_secs_f64();
    result.machine.load_after = machine::load();
    statistic::remember(directory.path(), &mut result);
    result.write(directory.path()).map_err(RunError::machine("result.json"))?;
    Ok((result, directory.finish()))
}

fn blank(scenario: &Scenario, options: &Options, started: &str) -> LabResult {
    let promised = options.system.durability.clone();
    let machine = machine::describe();
    let mut warnings: Vec<String> = options.system.untested.clone().into_iter().collect();
    let load = machine.load_before.first().copied().unwrap_or(0.0);
    if load > LOAD_MAX * f64::from(machine.cores.max(1)) {
        warnings.push(format!("load {load} on {} processors before the run began", machine.cores));
    }
    LabResult {
        version: VERSION,
        scenario: scenario.id.clone(),
        title: scenario.title.clone(),
        paper: scenario.paper.clone(),
        paper_figures: scenario.figures.clone(),
        system: options.system.name.clone(),
        system_version: String::new(),
        scale: options.scale.name().into(),
        started: started.into(),
        seconds: 0.0,
        commit: machine::commit(),
        binary_blake3: String::new(),
        machine,
        seed: options.seed,
        topology: String::new(),
        command: options.command.clone(),
        durability: promised.into(),
        cannot_reproduce: scenario.cannot_reproduce.clone(),
        status: OK.into(),
        warnings,
        cells: Vec::new(),
        paper_rows: scenario.rows.clone(),
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    build: Builder<'a>,
    watch: &'a Watch,
    directory: &'a Directory,
}

impl Run<'_> {
    fn cells(&self, result: &mut LabResult, screen: &mut Screen) -> Result<(), RunError> {
        let cells = self.scenario.cells(self.options.scale);
        let mut networks: Vec<(String, Vec<(usize, &PlannedCell)>)> = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            // Files that a cell points to are read before anything is built.
            if let Some(file) = &cell.setting.workload {
                cell::workload(file, "lab", &mut Vec::new())?;
            }
            let text = network::topology(&self.scenario.id, &cell.setting, self.options.matrix.as_ref());
            let text = text.map_err(RunError::Plan)?;
            match networks.last_mut() {
                Some((last, members))
                    if *last == text && same_hosts(members, cell) && fits(members, cell) =>
                {
                    members.push((index, cell))
                }
                _ => networks.push((text, vec![(index, cell)])),
            }
        }
        result.topology = networks.first().map(|(text, _)| text.clone()).unwrap_or_default();
        let count = networks.len();
        for (number, (text, members)) in networks.into_iter().enumerate() {
            screen.place(format!(
                "{} {} network {}/{count}",
                self.scenario.id,
                self.options.system.name,
                number + 1
            ));
            let played = self.network(number + 1, &text, &members, result, screen);
            self.directory.clear(number + 1);
            played?;
        }
        let mut statuses = result.cells.iter().map(|cell| cell.status.as_str());
        if result.cells.iter().all(|cell| cell.status != OK) {
            result.status = statuses.next_back().unwrap_or("no cell").to_owned();
        }
        Ok(())
    }

    fn network(
        &self,
        number: usize,
        text: &str,
        members: &[(usize, &PlannedCell)],
        result: &mut LabResult,
        screen: &mut Screen,
    ) -> Result<(), RunError> {
        let Some((_, first)) = members.first() else { return Ok(()) };
        let topology = Topology::parse(&self.scenario.path.display().to_string(), text);
        let topology = topology.map_err(|refusal| RunError::Plan(refusal.to_string()))?;
        let sites: Vec<String> = topology.sites.iter().map(|site| site.name.clone()).collect();
        self.scenario.check_sites(&sites).map_err(RunError::Plan)?;
        let apart = first.setting.own_processor.as_ref();
        let apart = apart.map(|name| Apart::of(name, &sites)).transpose()?;
        screen.note("building the network");
        let ground = (self.build)(&topology, self.options.seed).map_err(RunError::Network)?;
        let work = self.directory.work(number)?;
        if let Some(why) = limits::unfit(&work, first.setting.memory_mb) {
            return Err(RunError::Unfit(why));
        }
        ground.own(&work).map_err(RunError::machine(work.display()))?;
        screen.note("starting the system");
        self.watch.check()?;
        let mut running = systems::start(&self.options.system, &*ground, &work)?;
        let limits = Limits::apply(&running, first.setting.memory_mb, first.setting.cpu_share);
        if first.setting.limits == Some(Demand::Must) && !limits.refused.is_empty() {
            return Err(RunError::Limits(limits.refused.join("; ")));
        }
        result.warnings.extend(limits.refused.iter().cloned());
        told(result, &running);
        let shared = work.join("shared");
        std::fs::create_dir_all(&shared).map_err(RunError::machine(shared.display()))?;
        let mut clients = clients(&*ground, &work.join("logs"))?;
        if let Some(apart) = &apart {
            settle(apart, &*ground, &running, &clients)?;
        }
        let mut stand = Stand {
            ground: &*ground,
            running: &mut running,
            clients: &mut clients,
            sites: &sites,
            apart: apart.as_ref(),
            shared: &shared,
            watch: self.watch,
            screen,
        };
        let common = Shared {
            scenario: self.scenario,
            topology: &topology,
            text,
            is_foreign: self.options.matrix.is_some(),
            seed: self.options.seed,
            directory: self.directory.path(),
        };
        let count = self.scenario.cells(self.options.scale).len();
        for (index, planned) in members {
            let labels: Vec<String> =
                planned.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let place = format!("{} cell {}/{count} {}", self.scenario.id, index + 1, labels.join(" "));
            stand.screen.place(place);
            let before = limits.read(true);
            let mut cells = cell::play(&mut stand, &common, planned, index + 1)?;
            let felt = limits::since(limits.read(false), &before);
            cells.iter_mut().for_each(|cell| cell.limits.clone_from(&felt));
            result.cells.extend(cells);
        }
        drop(clients);
        stopped(running, result);
        // The network takes the rest along.
        self.directory.clear(number);
        drop(limits);
        Ok(())
    }
}

/// What runs when all has started.
fn settle(apart: &Apart, ground: &dyn Ground, running: &Running, clients: &[Client]) -> Result<(), RunError> {
    let servers = ground.servers();
    for process in running.processes() {
        if let Some(machine) = servers.iter().find(|machine| machine.host == process.host) {
            apart.started(machine.site, process.pid)?;
        }
    }
    clients.iter().try_for_each(|client| apart.started(client.site, client.pid()))
}

fn same_hosts(members: &[(usize, &PlannedCell)], cell: &PlannedCell) -> bool {
    members.last().is_none_or(|(_, last)| {
        let hosts = |cell: &PlannedCell| {
            let setting = &cell.setting;
            (setting.memory_mb, setting.cpu_share, setting.own_processor.clone())
        };
        hosts(last) == hosts(cell)
    })
}

/// Whether the objects of these cells and of one more fit the disk side by side.
fn fits(members: &[(usize, &PlannedCell)], cell: &PlannedCell) -> bool {
    let stored = |cell: &PlannedCell| {
        let setting = &cell.setting;
        let clients = setting.sites.unwrap_or(1) * setting.clients.unwrap_or(1);
        setting.bytes() * setting.object_count() * setting.trials.unwrap_or(1) * clients
    };
    members.iter().map(|(_, member)| stored(member)).sum::<u64>() + stored(cell) <= STORED_MAX
}

/// Notes what the running system says of itself.
fn told(result: &mut LabResult, running: &Running) {
    result.system_version.clone_from(&running.version);
    if let Some(program) = running.binary().filter(|_| result.binary_blake3.is_empty()) {
        result.binary_blake3 = machine::blake3(program);
    }
}

fn stopped(running: Running, result: &mut LabResult) {
    let killed = running.stop();
    if !killed.is_empty() {
        result.warnings.push(format!("did not stop when asked and was killed: {}", killed.join(", ")));
    }
}

fn clients(ground: &dyn Ground, logs: &Path) -> Result<Vec<Client>, RunError> {
    let mut clients: Vec<Client> = Vec::new();
    for (index, machine) in ground.clients().iter().enumerate() {
        let rank = clients.iter().filter(|client| client.site == machine.site).count();
        let place = Place { number: index as u64 + 1, rank, slot: 0 };
        clients.push(Client::start(ground, machine, place, logs)?);
    }
    Ok(clients)
}
