//! The figures, in the manner of the papers: few colours that the colour-blind tell apart, labels at the marks, units on every axis.
//!
//! Invariants: a figure knows nothing of results; it is given numbers and names. Panels of one figure share their value axis.

pub mod boxes;
pub mod curve;
pub mod dots;
pub mod frame;
pub mod map;
pub mod matrix;
pub mod timeline;

#[cfg(test)]
mod tests;
