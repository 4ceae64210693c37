//! `skerry-lab run SCENARIO…`: plays scenarios against a system and writes their results.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use skerry_scenario::topology::Topology;

use super::Ending;
use crate::plan::network::Matrix;
use crate::plan::{Scale, Scenario, places};
use crate::report;
use crate::result::LabResult;
use crate::run::{self, Ground, Options, Screen, Watch};
use crate::systems::SystemFile;
use crate::wan::{Settings, Wan};

/// Play scenarios
#[derive(Debug, Args)]
pub struct Run {
    /// Scenarios: ids such as F-S7, or files; `all` is every one of the lab's
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    /// The system under test: a name in crates/lab/systems, or a file
    #[arg(long, default_value = "skerry", value_name = "SYSTEM")]
    pub system: String,
    /// How large
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
    /// Round-trip times in milliseconds between sites, instead of the scenario's: rows of numbers
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// A topology file instead of the scenario's sites and links
    #[arg(long, value_name = "FILE", conflicts_with = "matrix")]
    pub topology: Option<PathBuf>,
    /// A workload file, for scenarios that play one (replay)
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Where results go; one directory per scenario is made in it
    #[arg(long, default_value = "target/lab", value_name = "DIR")]
    pub out: PathBuf,
    /// The seed of every draw
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Run {
    /// Plays them one after the other; the first that fails ends it.
    pub fn run(self) -> Ending {
        // Files first: a mistake in the last one must not cost the time of all before it.
        let scenarios = self.scenarios()?;
        let system = places::find("systems", &self.system)?;
        let system = SystemFile::load(&system).map_err(|refusal| refusal.to_string())?;
        let matrix = self.matrix.as_deref().map(Matrix::read).transpose()?;
        crate::sys::isolate().map_err(|error| error.to_string())?;
        let watch = Watch::signals().map_err(|error| format!("signals: {error}"))?;
        for (name, scenario) in &scenarios {
            let options = Options {
                scale: self.scale,
                system: system.clone(),
                matrix: matrix.clone(),
                out: self.out.clone(),
                seed: self.seed,
                command: self.command(name),
            };
            let mut screen = Screen::new();
            let played = run::play(scenario, &options, &emulate, &watch, &mut screen);
            screen.end();
            let (result, directory) = played.map_err(|error| format!("{}: {error}", scenario.id))?;
            report::write(&directory, &result)
                .map_err(|error| format!("{}: {error}", directory.display()))?;
            print!("{}", short(&result));
            println!("{}", directory.join("result.json").display());
        }
        Ok(ExitCode::SUCCESS)
    }

    fn scenarios(&self) -> Result<Vec<(String, Scenario)>, String> {
        let names: Vec<String> = match self.scenarios.as_slice() {
            [all] if all == "all" => places::all("scenarios").into_iter().map(|(name, _)| name).collect(),
            named => named.to_vec(),
        };
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let (topology, workload) = (text(&self.topology), text(&self.workload));
        let load = |name: String| {
            let mut scenario = Scenario::load(&name)?;
            scenario.point_to(topology.as_deref(), workload.as_deref());
            Ok((name, scenario))
        };
        names.into_iter().map(load).collect()
    }

    fn command(&self, name: &str) -> String {
        let mut command = format!(
            "skerry-lab run {name} --system {} --scale {} --seed {}",
            self.system,
            self.scale.name(),
            self.seed
        );
        let files = [("matrix", &self.matrix), ("topology", &self.topology), ("workload", &self.workload)];
        for (option, file) in files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?))) {
            command += &format!(" --{option} {}", file.display());
        }
        command
    }
}

/// The emulator as the ground of a run.
pub fn emulate(topology: &Topology, seed: u64) -> Result<Box<dyn Ground>, String> {
    let wan = Wan::build_with(topology, Settings { seed, ..Settings::default() });
    wan.map(|wan| Box::new(wan) as Box<dyn Ground>).map_err(|error| error.to_string())
}

/// A result in a few lines.
fn short(result: &LabResult) -> String {
    let mut text = format!(
        "{} on {} ({}), {} scale: {}, {:.1} s\n",
        result.scenario, result.system, result.system_version, result.scale, result.status, result.seconds
    );
    for cell in &result.cells {
        let labels: Vec<String> = cell.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        text += &format!("  {}: {}\n", labels.join(" "), cell.status);
        for phase in &cell.phases {
            text += &format!(
                "    {:<12} {:>6} operations, {} failed; mean {:.4} s, p99 {:.4} s; {:.1} MB/s; {:.3} MB between sites\n",
                phase.name,
                phase.operations,
                phase.failures,
                phase.summary.mean,
                phase.summary.p99,
                phase.summary.throughput_bytes_per_s / 1e6,
                phase.traffic.between_sites() as f64 / 1e6
            );
        }
    }
    for warning in result.warnings.iter().chain(result.cells.iter().flat_map(|cell| &cell.warnings)) {
        text += &format!("  warning: {warning}\n");
    }
    text
}
