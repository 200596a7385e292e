//! `loadgen run`.

mod collect;
mod dispatch;
mod lag;
mod options;
mod outputs;
mod plan;
mod progress;
mod request;
mod retry;
mod session;

pub(crate) use options::{
    Named, Options, Process, Retries, WorkloadOptions, budgets, burstiness, rate, seconds, slo,
};
pub(crate) use outputs::{make_way, write_json};
pub(crate) use plan::{Plan, Shape};
pub(crate) use session::{connect, perform, run};
