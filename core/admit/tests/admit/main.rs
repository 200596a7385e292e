//! The controller from outside: scenarios of the domain, and a naive model.

mod engines;
mod model;
mod offers;
mod standalone;
mod traces;
mod world;
