//! Open files: a connection is one, and their number must not be a hidden pool limit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// More than anybody needs, and what systems that say "unlimited" can be asked for.
const OPEN_FILES: u64 = 1 << 20;

/// Raises the limit as far as this user may. Where it stays low, a run that meets it fails as invalid.
pub(crate) fn raise_open_files() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(OPEN_FILES);
    if soft < wanted {
        // Where it is refused, the old limit is what there is.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
    }
}
