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

pub(crate) use options::{Options, WorkloadOptions};
pub(crate) use plan::Shape;
pub(crate) use session::run;
