//! Signals that end a process.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

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

/// Like [`shutdown`], and beside it a future for who cannot wait: it completes when the process is asked
/// a second time. Each counts from this call on, polled or not.
///
/// # Errors
/// The handlers could not be installed.
pub fn shutdown_twice() -> io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let asked = watch::Sender::new(0_u32);
    let times = |count: u32, mut asked: watch::Receiver<u32>| async move {
        if asked.wait_for(|times| *times >= count).await.is_err() {
            // The runtime is going down, and with it whoever waits.
            std::future::pending::<()>().await;
        }
    };
    let (once, twice) = (times(1, asked.subscribe()), times(2, asked.subscribe()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            asked.send_modify(|times| *times = times.saturating_add(1));
        }
    });
    Ok((once, twice))
}
