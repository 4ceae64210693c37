//! The figures, as tables of text.

use skerry_federation::areas::{Coordinate, level, ring};

use crate::matrix::{Kind, Matrix, mix};
use crate::proof::{self, Bunches, Find, Looker, MOST};

/// A distribution in hundredths.
pub(crate) struct Ratios {
    bins: Vec<u64>,
    count: u64,
    sum: f64,
    max: f64,
}

impl Ratios {
    pub(crate) fn new() -> Self {
        Self { bins: vec![0; 200_001], count: 0, sum: 0.0, max: 0.0 }
    }

    pub(crate) fn add(&mut self, ratio: f64) {
        let bin = ((ratio * 100.0) as usize).min(self.bins.len() - 1);
        self.bins[bin] += 1;
        (self.count, self.sum, self.max) = (self.count + 1, self.sum + ratio, self.max.max(ratio));
    }

    pub(crate) fn at(&self, share: f64) -> f64 {
        let mut left = (self.count as f64 * share) as u64;
        for (bin, count) in self.bins.iter().enumerate() {
            if left < *count {
                return bin as f64 / 100.0;
            }
            left -= count;
        }
        self.max
    }

    pub(crate) fn line(&self, what: &str) {
        let mean = self.sum / self.count.max(1) as f64;
        let (p50, p99) = (self.at(0.5), self.at(0.99));
        println!("  {what:<27} mean {mean:.2}  p50 {p50:.2}  p99 {p99:.2}  max {:.2}", self.max);
    }
}

/// What kind of space it is.
pub(crate) fn shape(matrix: &Matrix, seed: u64) {
    let n = matrix.len() as u64;
    let mut lengths = Ratios::new();
    let (mut detour, mut fifth, mut pairs) = (0, 0, 0);
    let (mut violated, mut triangles) = (0u64, 0u64);
    for turn in 0..2000 {
        let (a, b) = ((mix(seed + 20, turn, 0) % n) as usize, (mix(seed + 20, turn, 1) % n) as usize);
        if a == b {
            continue;
        }
        let d = matrix.micros(a, b);
        lengths.add(d as f64 / 1000.0);
        // Third nodes: all of a small set, a thousand of a large one, as the measured sets had.
        let third =
            (0..n.min(1000)).map(|t| if n <= 1000 { t } else { mix(seed + 21, turn, t) % n } as usize);
        let ways: Vec<u64> =
            third.filter(|c| *c != a && *c != b).map(|c| matrix.micros(a, c) + matrix.micros(c, b)).collect();
        triangles += ways.len() as u64;
        violated += ways.iter().filter(|way| **way < d).count() as u64;
        let shortest = ways.into_iter().min().unwrap_or(u64::MAX);
        pairs += 1;
        detour += u64::from(shortest < d);
        fifth += u64::from(shortest * 5 <= d * 4);
    }
    lengths.line("round trip, ms");
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    println!(
        "  pairs with a shorter detour  {:.0} %, by a fifth {:.0} %; triangles violated {:.1} %",
        percent(detour, pairs),
        percent(fifth, pairs),
        percent(violated, triangles)
    );
}

/// Landmarks and clusters.
pub(crate) fn cost(matrix: &Matrix, bunches: &Bunches) {
    let n = matrix.len();
    let expected = f64::from(bunches.k) * (n as f64).powf(1.0 / f64::from(bunches.k));
    let sizes: Vec<usize> = bunches.of.iter().map(Vec::len).collect();
    let mean = sizes.iter().sum::<usize>() as f64 / n as f64;
    let most = sizes.iter().copied().max().unwrap_or(0);
    let mut clusters = vec![0usize; n];
    for near in bunches.of.iter().flatten() {
        clusters[near.site] += 1;
    }
    println!("  landmarks per site           mean {mean:.1}  max {most}; K·n^(1/K) = {expected:.1}");
    for level in (0..bunches.k).rev() {
        let of: Vec<usize> = (0..n).filter(|w| bunches.levels[*w] == level).map(|w| clusters[w]).collect();
        let mean = of.iter().sum::<usize>() as f64 / of.len().max(1) as f64;
        let most = of.iter().copied().max().unwrap_or(0);
        println!("  level {level}: {:>5} sites, told by  mean {mean:.1}  max {most}", of.len());
    }
    if bunches.left_out > 0 {
        println!("  left out above {MOST} landmarks: {} entries", bunches.left_out);
    }
    let rings = areas(bunches, 3);
    println!("  areas of 3 sites or more     {} in all, {:.1} per site", rings.0, rings.1);
}

/// Areas of at least so many sites, and how many hold a site in the mean.
fn areas(bunches: &Bunches, fewest: usize) -> (usize, f64) {
    let n = bunches.of.len();
    let mut clusters: Vec<Vec<core::time::Duration>> = vec![Vec::new(); n];
    for (v, bunch) in bunches.of.iter().enumerate() {
        for near in bunch.iter().filter(|near| near.site != v) {
            clusters[near.site].push(core::time::Duration::from_micros(near.believed));
        }
    }
    let (mut count, mut places) = (0, 0);
    for (w, cluster) in clusters.iter().enumerate() {
        let rings = ring::around(proof::id(w), cluster.iter().copied(), fewest);
        count += rings.len();
        places += rings.iter().map(|area| area.sites).sum::<usize>();
    }
    (count, places as f64 / n as f64)
}

/// All pairs.
pub(crate) struct Pairs {
    k: u64,
    at_once: Ratios,
    waves: Ratios,
    without: Ratios,
    lopsided: Ratios,
    asked: Ratios,
    asked_near: Ratios,
    across: Ratios,
    beyond: u64,
    beyond_waves: u64,
    stranded: u64,
    worst: Vec<(u64, (usize, usize))>,
}

impl Pairs {
    pub(crate) fn new(k: u64) -> Self {
        let new = Ratios::new;
        let [at_once, waves, without, lopsided] = [new(), new(), new(), new()];
        let [asked, asked_near, across] = [new(), new(), new()];
        let (beyond, beyond_waves, stranded, worst) = (0, 0, 0, Vec::new());
        Self {
            k,
            at_once,
            waves,
            without,
            lopsided,
            asked,
            asked_near,
            across,
            beyond,
            beyond_waves,
            stranded,
            worst,
        }
    }

    pub(crate) fn add(&mut self, pair: (usize, usize), d: u64, find: &Find, asked: usize, lopsided: u64) {
        let d = d.max(1);
        let ratio = |time: u64| time as f64 / d as f64;
        self.at_once.add(ratio(find.at_once));
        self.waves.add(ratio(find.waves));
        self.lopsided.add(ratio(lopsided));
        self.asked.add(asked as f64);
        if d <= 20_000 {
            self.asked_near.add(asked as f64);
        }
        match find.without_best {
            u64::MAX => self.stranded += 1,
            time => self.without.add(ratio(time)),
        }
        if let Some(radius) = ring::radius(find.ring) {
            self.across.add(2.0 * ratio(radius.as_micros() as u64));
        }
        self.beyond += u64::from(find.at_once > self.k * d);
        self.beyond_waves += u64::from(find.waves > 3 * self.k * d / 2);
        let excess = find.at_once.saturating_sub(self.k * d);
        if excess > 0 {
            self.worst.push((excess, pair));
            self.worst.sort_unstable_by(|one, other| other.cmp(one));
            self.worst.truncate(3);
        }
    }

    pub(crate) fn print(&self, matrix: &Matrix, bunches: &Bunches, how: &str) {
        let percent = |part: u64| part as f64 * 100.0 / self.at_once.count.max(1) as f64;
        let bound = self.k as f64;
        println!("  found / distance over {} ordered pairs, bound {how}:", self.at_once.count);
        self.at_once.line("  at once");
        println!("    beyond {bound:.1}: {:.3} % of pairs", percent(self.beyond));
        self.waves.line("  in waves");
        println!("    beyond {:.1}: {:.3} % of pairs", 1.5 * bound, percent(self.beyond_waves));
        self.lopsided.line("  at once, one-way legs");
        self.without.line("  soonest landmark dead");
        println!("    no landmark left: {:.3} % of pairs", percent(self.stranded));
        self.asked.line("landmarks asked in waves");
        self.asked_near.line("  when d is 20 ms or less");
        self.across.line("smallest common area / d");
        for (excess, (u, v)) in &self.worst {
            let d = matrix.micros(*u, *v) as f64 / 1000.0;
            let over = *excess as f64 / 1000.0;
            match proof::culprit(matrix, bunches, *u, *v) {
                Some(found) => println!(
                    "    pair {u}-{v} at {d:.1} ms is {over:.1} ms beyond: triangle {}-{}-{} is violated by {:.1} ms",
                    found.landmark,
                    found.near,
                    found.far,
                    found.excess as f64 / 1000.0
                ),
                None => println!(
                    "    pair {u}-{v} at {d:.1} ms is {over:.1} ms beyond: by estimates, not by a triangle"
                ),
            }
        }
    }
}

/// How good the coordinates are.
pub(crate) fn estimates(matrix: &Matrix, at: &[Coordinate], seed: u64) {
    let n = matrix.len() as u64;
    let mut errors = Ratios::new();
    for turn in 0..50_000 {
        let (a, b) = ((mix(seed + 22, turn, 0) % n) as usize, (mix(seed + 22, turn, 1) % n) as usize);
        if a != b {
            let (true_, guess) = (matrix.micros(a, b) as f64, at[a].distance(&at[b]).as_micros() as f64);
            errors.add((guess - true_).abs() / true_);
        }
    }
    errors.line("estimate's relative error");
    let sure = at.iter().map(|at| f64::from(at.confidence())).sum::<f64>() / n as f64;
    println!("  confidence                   mean {sure:.2}");
}

/// Buckets with several members, by both rules of passing on.
pub(crate) fn several(matrix: &Matrix, bunches: &Bunches, at: Option<&[Coordinate]>, seed: u64) {
    let n = matrix.len() as u64;
    let k = u64::from(bunches.k);
    println!(
        "\nSeveral members, at once, {}",
        if at.is_some() { "by coordinates" } else { "every distance known" }
    );
    for members in [2u64, 5, 20] {
        let mut ratios = [Ratios::new(), Ratios::new(), Ratios::new()];
        let mut beyond = [0u64; 3];
        for turn in 0..if n > 2000 { 2_000 } else { 20_000 } {
            let u = (mix(seed + 23, turn, members) % n) as usize;
            let mut holders: Vec<usize> =
                (0..members).map(|m| (mix(seed + 24, turn * 32 + m, members) % n) as usize).collect();
            holders.retain(|holder| *holder != u);
            let Some(d) = holders.iter().map(|holder| matrix.micros(u, *holder)).min() else { continue };
            let believed = |w: usize, y: usize| match at {
                Some(at) if w != u && w != y => at[y].distance(&at[u]).as_micros() as u64,
                _ => matrix.micros(y, u),
            };
            let found = Looker::new(matrix, bunches, u).several(&holders, believed);
            for ((ratios, beyond), found) in ratios.iter_mut().zip(&mut beyond).zip(found) {
                ratios.add(found as f64 / d as f64);
                *beyond += u64::from(found > k * d);
            }
        }
        let rules = ["nearest to landmark", "shortest whole way", "both race"];
        for ((rule, ratios), beyond) in rules.iter().zip(&ratios).zip(beyond) {
            let percent = beyond as f64 * 100.0 / ratios.count.max(1) as f64;
            ratios.line(&format!("{members:>2}: {rule}"));
            println!("    beyond {k}: {percent:.3} %");
        }
    }
}

/// What one join, leave or move changes at the others.
pub(crate) fn churn(kind: Kind, n: usize, k: u8, seed: u64) {
    let trials = if n > 2000 { 4 } else { 20.min(n) };
    let matrix = Matrix::new(kind, n + trials, seed);
    let base: Vec<bool> = (0..n + trials).map(|site| site < n).collect();
    let before = proof::exact(&matrix, &base, k, seed);
    let entries = before.of.iter().map(Vec::len).sum::<usize>() as f64;
    let mut sums = [[0.0f64; 3]; 3];
    let mut most = [0usize; 3];
    for trial in 0..trials {
        let leaver = (mix(seed + 25, trial as u64, 0) % n as u64) as usize;
        let changed = |out: Option<usize>, into: Option<usize>| {
            let mut there = base.clone();
            out.into_iter().for_each(|site| there[site] = false);
            into.into_iter().for_each(|site| there[site] = true);
            there
        };
        let cases = [
            changed(None, Some(n + trial)),
            changed(Some(leaver), None),
            changed(Some(leaver), Some(n + trial)),
        ];
        for (case, there) in cases.iter().enumerate() {
            let after = proof::exact(&matrix, there, level::levels(n, k).max(k), seed);
            let (changes, touched) =
                proof::difference(&before, &after, if case == 0 { n + trial } else { leaver });
            let turned =
                (0..n).filter(|site| there[*site] && before.levels[*site] != after.levels[*site]).count();
            for (sum, value) in sums[case].iter_mut().zip([changes, touched, turned]) {
                *sum += value as f64 / trials as f64;
            }
            most[case] = most[case].max(changes);
        }
    }
    println!("\nOne site of {n} (mean of {trials}; entries in all bunches: {entries})");
    for (case, what) in ["joins", "leaves", "leaves and another comes"].iter().enumerate() {
        let [changes, touched, turned] = sums[case];
        println!(
            "  {what:<25} {changes:.1} entries change at others ({:.3} %, max {}), {touched:.1} sites touched, {turned:.2} levels",
            changes * 100.0 / entries,
            most[case]
        );
    }
}
