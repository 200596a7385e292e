//! Plugs are pulled: the others stay up, clients are told, and everything comes back by itself.

mod clock;
mod kills;
mod network;
mod pauses;
mod scene;
mod slow;
