//! Failures that users of other servers have reported, tried on this one. docs/COMPATIBILITY.md lists
//! them all, and where each is tried.

mod input;
mod leaving;
mod load;
mod model;
mod secrets;
mod text;
