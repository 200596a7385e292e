//! Limits of the system that tests meet before the stack does.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Makes room for this many open files (sockets are some) in this process and those it starts.
///
/// # Panics
/// The system does not allow as many.
pub fn allow_open_files(count: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if soft < count {
        assert!(hard >= count, "this test opens {count} files, `ulimit -Hn` says {hard}");
        setrlimit(Resource::RLIMIT_NOFILE, count, hard).expect("a soft limit may be raised");
    }
}
