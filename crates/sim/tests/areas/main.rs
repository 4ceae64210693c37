//! Areas: the properties of bunches and look-ups on drawn matrices, and the machines of many sites in one thread.
#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "the example uses the rest")]
#[path = "../../examples/areas/matrix.rs"]
mod matrix;
#[expect(dead_code, reason = "the example uses the rest")]
#[path = "../../examples/areas/proof.rs"]
mod proof;

mod bounds;
mod churn;
mod coordinates;
mod finding;
mod world;
