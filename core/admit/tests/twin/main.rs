//! Twins in a closed loop with the real scheduler, in virtual time.

mod asks;
mod hostile;
mod plant;
mod promises;
mod refusals;
