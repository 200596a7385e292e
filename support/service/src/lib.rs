//! The process shell that the three services share: configuration, telemetry, clock, signals, and
//! the defaults of every gRPC connection.
//!
//! A service reads its settings once ([`settings::load`]), installs logs and metrics
//! ([`telemetry`]), binds its addresses before it does anything slow ([`net::bind`]), serves, and
//! drains when [`signal::shutdown`] returns. [`health`] asks a running one how it is. How it ends is told by
//! its [`exit`] code.

pub mod clock;
pub mod exit;
pub mod grpc;
pub mod health;
pub mod net;
pub mod settings;
pub mod signal;
pub mod telemetry;
