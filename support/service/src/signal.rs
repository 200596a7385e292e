//! Signals that end a process.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes when the process is asked to stop: SIGTERM or SIGINT. The signals count from this call on.
/// Must be called inside a tokio runtime.
///
/// # Errors
/// The handlers could not be installed.
pub fn shutdown() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
