//! Folders that somebody has just let go.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use admission_svc::{Caps, Disk, StoreError};

/// Opens a folder as the service does, which waits for a predecessor. A process that another test is starting
/// holds every lock of this one from its fork to its exec.
pub(crate) fn opened(path: &Path, caps: Caps) -> Disk {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Disk::open(path, caps) {
            Err(StoreError::InUse { .. }) if Instant::now() < deadline => {
                sleep(Duration::from_millis(10));
            }
            opened => return opened.expect("a folder"),
        }
    }
}
