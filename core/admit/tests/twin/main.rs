//! Twins in a closed loop with the real scheduler, in virtual time.

mod asks;
mod plant;
mod promises;
mod refusals;
