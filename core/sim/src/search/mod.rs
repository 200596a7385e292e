//! Random worlds with faults, to be run until one breaks a rule, and that one made small.
//!
//! Worlds are small on purpose: with few slots, few blocks and short budgets everything that can collide
//! does so within seconds.

mod draw;
mod shrink;

pub use draw::draw;
pub use shrink::shrink;

#[cfg(test)]
mod tests;
