//! `skerry-lab export SCENARIO`: the topology and the workload of a scenario as files that the simulator reads.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Ending;
use crate::plan::network::topology;
use crate::plan::{Action, Scale, Scenario, Setting};

/// Write the topology and the workload of a scenario as files, to play them in the simulator
#[derive(Debug, Args)]
pub struct Export {
    /// The scenario: an id such as F-S7, or a file
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// How large
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    pub scale: Scale,
    /// Which of its cells, from 1
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub cell: usize,
    /// Where the topology goes
    #[arg(long, default_value = "topology.toml", value_name = "FILE")]
    pub topology: PathBuf,
    /// Where the workload goes
    #[arg(long, default_value = "workload.toml", value_name = "FILE")]
    pub workload: PathBuf,
}

impl Export {
    /// Writes both.
    pub fn run(self) -> Ending {
        let scenario = Scenario::load(&self.scenario)?;
        let cells = scenario.cells(self.scale);
        let cell = self.cell.checked_sub(1).and_then(|index| cells.get(index));
        let cell = cell.ok_or_else(|| format!("{} has cells 1 to {}", scenario.id, cells.len()))?;
        let files = [
            (&self.topology, topology(&scenario.id, &cell.setting, None)?),
            (&self.workload, workload(&scenario, &cell.setting)),
        ];
        for (path, text) in files {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let (topology, workload) = (self.topology.display(), self.workload.display());
        println!("skerry-sim run --topology {topology} --workload {workload}");
        Ok(ExitCode::SUCCESS)
    }
}

/// A scenario's steps as one mix: the simulator draws operations, it does not play steps one after the other.
pub(crate) fn workload(scenario: &Scenario, setting: &Setting) -> String {
    let count = |action: Action| scenario.phases.iter().filter(|phase| phase.action == action).count();
    let pairs = count(Action::Pairs);
    let mix = [
        ("put", count(Action::Put) + pairs),
        ("get", count(Action::Get) + pairs),
        ("list", count(Action::List)),
        ("delete", count(Action::Delete)),
    ];
    let objects = setting.object_count().max(setting.pairs.unwrap_or(1));
    let mut text = format!(
        "# The steps of {} as one mix.\nversion = 1\nname = {:?}\nclients = {}\nthink_ms = [0, 0]\nbuckets = 1\n\n[mix]\n",
        scenario.id,
        scenario.title,
        setting.clients.unwrap_or(1)
    );
    let none = mix.iter().all(|(_, weight)| *weight == 0);
    for (word, weight) in mix.into_iter().filter(|(word, weight)| *weight > 0 || none && *word == "put") {
        let _ = writeln!(text, "{word} = {}", weight.max(1));
    }
    let bytes = setting.bytes();
    let _ = write!(
        text,
        "\n[keys]\ncount = {objects}\ndistribution = \"uniform\"\n\n[[size]]\nbytes = [{bytes}, {bytes}]\nweight = 1\n"
    );
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::plan::places;
    use skerry_scenario::topology::Topology;
    use skerry_scenario::workload::Workload;

    #[test]
    fn every_cell_of_every_scenario_becomes_files_that_the_simulator_reads() {
        for (name, _) in places::all("scenarios") {
            let scenario = Scenario::load(&name).unwrap();
            for cell in scenario.cells(Scale::Paper) {
                let text = workload(&scenario, &cell.setting);
                Workload::parse(&name, &text).unwrap();
                Topology::parse(&name, &topology(&name, &cell.setting, None).unwrap()).unwrap();
            }
        }
    }
}
