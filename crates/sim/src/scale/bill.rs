//! What a run comes to: its phases, and its figures as a line of CSV.
//!
//! Beginning; an hour of rest; rest with churn; load; load with churn; everybody comes back; halves cut from each other while both write;
//! healed, until what was made on the other side is found and the machines say that they have all that they should have.

use std::rc::Rc;
use std::time::Duration;

use super::areas;
use super::rivals::{kademlia::Kademlia, pools, replicas::Replicas, tree};
use super::sea::{Sea, mix};
use super::skerry::Skerry;
use super::world::{Counts, Find, PATIENCE, World};
use super::{CARRIER, Machine, Object, Setting};

/// Over this, objects that a run begins with are made.
const FIRST: Duration = Duration::from_secs(60);
/// Searches across a cut that was healed.
const PROBES: usize = 200;
/// They are asked again, and machines looked at, so often …
const LOOK: Duration = Duration::from_secs(2);
/// … for so long.
const LONGEST: Duration = Duration::from_secs(1800);

/// A system that runs in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The machine that ships.
    Skerry,
    /// A distributed hash table.
    Kademlia,
    /// The tree of record servers.
    Tree,
    /// ElfStore's pools.
    Pools,
    /// All metadata everywhere.
    Replicas,
    /// Bunches of landmarks, computed rather than run.
    Areas,
}

impl System {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Skerry, Self::Kademlia, Self::Tree, Self::Pools, Self::Replicas, Self::Areas];

    /// On the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skerry => "skerry",
            Self::Kademlia => "kademlia",
            Self::Tree => "tree",
            Self::Pools => "pools",
            Self::Replicas => "replicas",
            Self::Areas => "areas",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Runs it; `resident` says how much memory the process has now.
    pub fn measure(self, setting: Setting, resident: &dyn Fn() -> u64) -> Bill {
        match self {
            Self::Skerry => measure(self, setting, resident, Skerry::new),
            Self::Kademlia => measure(self, setting, resident, Kademlia::new),
            Self::Replicas => measure(self, setting, resident, Replicas::new),
            Self::Areas => areas::measure(setting, resident),
            Self::Tree => {
                let ways = Rc::new(tree::Ways::new(&Sea::new(setting.sites, setting.seed)));
                measure(self, setting, resident, |me, sea| tree::Tree::new(me, sea, &ways))
            }
            Self::Pools => {
                let overlay = pools::Overlay::new(setting.sites);
                let subscribers = pools::Pools::subscribers(&overlay);
                let build =
                    |me: usize, sea: &Rc<Sea>| pools::Pools::new(me, sea, &overlay, subscribers[me].clone());
                measure(self, setting, resident, build)
            }
        }
    }
}

/// Bytes and messages of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Traffic {
    /// Bytes per site and second that are sent in the mean, as encoded.
    pub mean: f64,
    /// The same at the site that sends most.
    pub most: f64,
    /// The same in the mean, with what carries each message.
    pub carried: f64,
    /// The same at the site that sends most of that.
    pub carried_most: f64,
}

/// Searches of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Finding {
    /// That ended well.
    pub found: usize,
    /// That did not.
    pub missed: u64,
    /// Messages one after another, in the mean.
    pub hops: f64,
    /// Milliseconds, half of them and 99 of 100.
    pub took: [f64; 2],
    /// In round trips to the nearest holder.
    pub stretch: [f64; 2],
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// Of which system.
    pub system: System,
    /// Of what.
    pub setting: Setting,
    /// Rest, rest with churn, load, load with churn.
    pub traffic: [Traffic; 4],
    /// Load, load with churn.
    pub finding: [Finding; 2],
    /// Seconds after the heal until everything is found, and until the machines have all.
    pub healed: [Option<f64>; 2],
    /// Bytes that the process grew by for each site; 0 where it is not known.
    pub resident: u64,
    /// Bytes of tables by number and size, in the mean and at most.
    pub counted: Option<[u64; 2]>,
}

fn traffic(before: &Counts, after: &Counts, span: Duration) -> Traffic {
    let seconds = span.as_secs_f64().max(1e-9);
    let plain: Vec<u64> =
        after.bytes.iter().zip(&before.bytes).map(|(after, before)| after - before).collect();
    let sent = after.messages.iter().zip(&before.messages).map(|(after, before)| after - before);
    let carried: Vec<u64> = plain.iter().zip(sent).map(|(bytes, sent)| bytes + sent * CARRIER).collect();
    let mean = |of: &[u64]| of.iter().sum::<u64>() as f64 / of.len().max(1) as f64 / seconds;
    let most = |of: &[u64]| of.iter().max().copied().unwrap_or(0) as f64 / seconds;
    Traffic { mean: mean(&plain), most: most(&plain), carried: mean(&carried), carried_most: most(&carried) }
}

/// The value that half, and 99 of 100, do not exceed.
fn percentiles(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [50, 99].map(|percent| values.get(last * percent / 100).copied().unwrap_or(0.0))
}

/// What searches came to.
pub fn finding(finds: &[Find], missed: u64) -> Finding {
    let of = |value: fn(&Find) -> f64| finds.iter().map(value).collect::<Vec<f64>>();
    Finding {
        found: finds.len(),
        missed,
        hops: of(|find| f64::from(find.hops)).iter().sum::<f64>() / finds.len().max(1) as f64,
        took: percentiles(of(|find| find.took.as_secs_f64() * 1000.0)),
        stretch: percentiles(of(|find| find.stretch)),
    }
}

fn phase<M: Machine>(world: &mut World<M>, span: Duration) -> Traffic {
    let before = world.counts.clone();
    world.run(span);
    traffic(&before, &world.counts, span)
}

fn begin<M: Machine>(world: &mut World<M>, setting: Setting) {
    // Who joins one by one has five minutes for it.
    let joining = Duration::from_secs(330).min(setting.settle / 2);
    let parts = setting.spread.min(joining).as_secs();
    for part in 0..parts {
        world.meet(part, parts);
        world.run(Duration::from_secs(1));
    }
    world.run(joining.saturating_sub(Duration::from_secs(parts)));
    let pause = FIRST / (setting.objects.max(1) * setting.sites.max(1) as u32);
    for _ in 0..setting.objects {
        for site in 0..setting.sites {
            world.write(site);
            world.run(pause);
        }
    }
    world.run(setting.settle.saturating_sub(Duration::from_secs(390)));
}

/// A phase in which sites write and search.
fn under_load<M: Machine>(world: &mut World<M>, span: Duration) -> (Traffic, Finding) {
    (world.finds, world.missed) = (Vec::new(), 0);
    world.load(true);
    let traffic = phase(world, span);
    world.load(false);
    world.run(PATIENCE);
    world.give_up();
    (traffic, finding(&world.finds, world.missed))
}

fn measure<M: Machine>(
    system: System,
    setting: Setting,
    resident: &dyn Fn() -> u64,
    build: impl Fn(usize, &Rc<Sea>) -> M,
) -> Bill {
    let before = resident();
    let mut world = World::new(setting, build);
    begin(&mut world, setting);
    let rest = phase(&mut world, setting.rest);
    let grown = resident().saturating_sub(before) / setting.sites.max(1) as u64;
    let memory: Option<Vec<u64>> = world.machines.iter().map(Machine::memory).collect();
    let counted = memory.map(|bytes| {
        [bytes.iter().sum::<u64>() / bytes.len().max(1) as u64, bytes.iter().max().copied().unwrap_or(0)]
    });
    world.churn(true);
    let rest_churn = phase(&mut world, setting.rest);
    world.churn(false);
    wait_for_all(&mut world);
    let (load, calm) = under_load(&mut world, setting.load);
    world.churn(true);
    // Churn as it is in the long run: some are away already.
    world.run(setting.away.min(setting.load));
    let (load_churn, stormy) = under_load(&mut world, setting.load);
    world.churn(false);
    wait_for_all(&mut world);
    let healed = heal(&mut world, setting);
    Bill {
        system,
        setting,
        traffic: [rest, rest_churn, load, load_churn],
        finding: [calm, stormy],
        healed,
        resident: grown,
        counted,
    }
}

/// Everybody comes back, and a while passes.
fn wait_for_all<M: Machine>(world: &mut World<M>) {
    for _ in 0..1000 {
        if world.all_up() {
            break;
        }
        world.run(Duration::from_secs(30));
    }
    world.run(Duration::from_secs(120));
}

/// Cuts, writes on both sides, heals, and waits until all is well.
fn heal<M: Machine>(world: &mut World<M>, setting: Setting) -> [Option<f64>; 2] {
    let Some(probes) = cut(world, setting) else { return [None, None] };
    world.probes = vec![None; probes.len()];
    let healed = world.now();
    world.cut(false);
    let mut settled = None;
    while world.now().since(healed) < LONGEST {
        world.ask_again(&probes);
        if settled.is_none() && world.machines.iter().all(|machine| machine.settled(&world.made)) {
            settled = Some(world.now().since(healed).as_secs_f64());
        }
        if settled.is_some() && world.probes.iter().all(Option::is_some) {
            break;
        }
        world.run(LOOK);
    }
    let found: Option<Vec<f64>> =
        world.probes.iter().map(|at| at.map(|at| at.since(healed).as_secs_f64())).collect();
    [found.map(|found| found.into_iter().fold(0.0, f64::max)), settled]
}

/// The searches that only the other side can answer: for what was made, and copied, over there during the cut.
fn cut<M: Machine>(world: &mut World<M>, setting: Setting) -> Option<Vec<(usize, Object)>> {
    let n = setting.sites;
    let sides = [true, false].map(|side| (0..n).filter(|site| Sea::side(*site) == side).count());
    if setting.cut.is_zero() || sides.contains(&0) {
        return None;
    }
    let before = world.made.clone();
    world.cut(true);
    let round = (3600.0 / setting.writes.max(0.1)) as u64;
    let rounds = (setting.cut.as_secs() / round.max(1)).max(1);
    for _ in 0..rounds {
        (0..n).for_each(|site| world.write(site));
        world.run(setting.cut / rounds as u32);
    }
    let pick = |at: u64, turn: u64| (mix(setting.seed + 99, at, turn) % n as u64) as usize;
    let made = |maker: usize| Object { maker, number: before[maker] + 1 };
    let pairs = (0..PROBES as u64 * 20).map(|at| (pick(at, 0), made(pick(at, 1))));
    let across = pairs.filter(|(site, object)| Sea::side(*site) != Sea::side(object.maker));
    let foreign = across.filter(|(site, object)| *site != world.sea.partner(object.maker));
    Some(foreign.take(PROBES).collect())
}

/// The first line of the table.
pub const HEAD: &str = "system,sites,rest_mean,rest_most,rest_carried,rest_carried_most,rest_churn_mean,rest_churn_most,rest_churn_carried,\
rest_churn_carried_most,load_mean,load_most,load_carried,load_carried_most,load_churn_mean,load_churn_most,load_churn_carried,\
load_churn_carried_most,found,missed,hops,took_p50,took_p99,stretch_p50,stretch_p99,churn_found,churn_missed,churn_hops,churn_took_p50,\
churn_took_p99,churn_stretch_p50,churn_stretch_p99,healed_found,healed_settled,resident,counted,counted_most,rest_seconds,load_seconds,cut_seconds,\
spread_seconds";

impl Bill {
    /// A line of the table; what was not measured is empty.
    pub fn line(&self) -> String {
        let number = |value: f64| format!("{value:.3}");
        let maybe = |value: Option<f64>| value.map(number).unwrap_or_default();
        let mut fields = vec![self.system.name().to_owned(), self.setting.sites.to_string()];
        for part in self.traffic {
            fields.extend([part.mean, part.most, part.carried, part.carried_most].map(number));
        }
        for part in self.finding {
            fields.extend([part.found.to_string(), part.missed.to_string(), number(part.hops)]);
            fields.extend(part.took.into_iter().chain(part.stretch).map(number));
        }
        fields.extend(self.healed.map(maybe));
        fields.push(self.resident.to_string());
        let counted = self.counted.map(|counted| counted.map(|bytes| bytes.to_string()));
        fields.extend(counted.unwrap_or_default());
        let spans = [self.setting.rest, self.setting.load, self.setting.cut, self.setting.spread];
        fields.extend(spans.map(|span| span.as_secs().to_string()));
        fields.join(",")
    }
}
