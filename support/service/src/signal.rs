//! Signals that end a process.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the process is asked to stop: SIGTERM or SIGINT.
///
/// # Errors
/// The handlers could not be installed.
pub async fn shutdown() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
