//! `cargo run --release -p skerry-sim --example areas -- N SEED KIND [K]`: the figures of docs/areas.md.
//!
//! Kinds: metric, graph, random, testbed, king, planetlab, metered. On metric ones the bound is asserted for every
//! ordered pair; on the others its distribution is printed and the worst pairs are named with the triangle that is
//! to blame.

mod matrix;
mod print;
mod proof;

use matrix::{Kind, Matrix};
use proof::{Bunches, Looker};
use skerry_federation::areas::{level, ring};

const USAGE: &str = "areas N SEED metric|graph|random|testbed|king|planetlab|metered [K]";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let kind = words.get(2).and_then(|word| Kind::named(word));
    let (Some(n), Some(seed), Some(kind)) = (number(0), number(1), kind) else {
        println!("{USAGE}");
        return;
    };
    let n = n as usize;
    let matrix = Matrix::new(kind, n, seed);
    let k = number(3).map_or_else(|| level::levels(n, 1), |k| k as u8);
    println!("{n} sites, seed {seed}, {kind:?}, K = {k}");
    print::shape(&matrix, seed);
    println!("\nEvery distance known");
    let exact = proof::exact(&matrix, &vec![true; n], k, seed);
    report(&matrix, &exact, kind.is_metric());
    if n > 16 {
        println!("\nDistances estimated by coordinates, measured where the estimate leaves it open");
        let at = proof::coordinates(&matrix, 600, seed);
        print::estimates(&matrix, &at, seed);
        let estimated = proof::estimated(&matrix, &at, k, seed);
        println!("  measured per site           {:.1}", estimated.pings as f64 / n as f64);
        report(&matrix, &estimated, false);
        print::several(&matrix, &exact, Some(&at), seed);
    }
    print::several(&matrix, &exact, None, seed);
    print::churn(kind, n, k, seed);
}

/// Bunches, clusters, and every ordered pair.
fn report(matrix: &Matrix, bunches: &Bunches, metric: bool) {
    print::cost(matrix, bunches);
    let (n, k) = (matrix.len(), u64::from(bunches.k));
    let stride = (n / 2_500).max(1);
    let mut pairs = print::Pairs::new(k);
    for u in (0..n).step_by(stride) {
        let looker = Looker::new(matrix, bunches, u);
        for v in (0..n).filter(|v| *v != u) {
            let d = matrix.micros(u, v);
            let Some(find) = looker.find(v) else { panic(u, v, "share no landmark") };
            if metric {
                // Half a microsecond may be lost by halving; nothing else.
                if find.at_once > k * d || find.waves > 3 * k * d / 2 {
                    panic(u, v, "are beyond the bound");
                }
                let radius = ring::radius(find.ring).map_or(u64::MAX, |radius| radius.as_micros() as u64);
                if radius > 1000.max(2 * k * d) && find.ring < ring::RADII {
                    panic(u, v, "share no area that is small enough");
                }
            }
            pairs.add((u, v), d, &find, looker.asked(find.waves), looker.lopsided(v));
        }
    }
    pairs.print(matrix, bunches, if metric { "asserted" } else { "reported" });
}

#[expect(clippy::panic, reason = "a proof that fails must end loudly")]
fn panic(u: usize, v: usize, what: &str) -> ! {
    panic!("sites {u} and {v} {what}")
}
