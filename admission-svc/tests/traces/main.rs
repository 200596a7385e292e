//! Traces on disk: the store by itself, the real service over it, and whatever can happen to both.

mod damage;
mod export;
mod full_disk;
mod fuzz;
mod kills;
mod opened;
mod outputs;
mod service;
mod store;
