//! The admission service over loopback: a fake engine that the test plays, and real clients.

mod alone;
mod engine;
mod stack;
mod watched;
