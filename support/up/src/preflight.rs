//! What must hold before anything starts: each failure is one line that says what to do.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use nix::{sys::signal::kill, unistd::Pid};

use crate::{options::Options, stack::Spec};

const SELF: &str = "up";

/// This process's claim to a run folder, given back when dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    dir: &'a Path,
    /// The folder itself is what is locked: nothing to clean up, no id that a stranger may have by now.
    _lock: File,
}

impl<'a> Claim<'a> {
    /// Claims `dir`, which is made if it is missing.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be written.
    pub(crate) fn take(dir: &'a Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use {}", dir.display());
        fs::create_dir_all(dir).with_context(cannot)?;
        let lock = File::open(dir).with_context(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = read_pid(dir, SELF)
                    .map_or_else(String::new, |pid| format!(" as process {pid}"));
                bail!("already running{pid}; stop it with Ctrl-C there");
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        write_pid(dir, SELF, std::process::id()).with_context(cannot)?;
        Ok(Self { dir, _lock: lock })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        remove_pid(self.dir, SELF);
    }
}

/// Checks programs, model, configuration and ports.
///
/// # Errors
/// The first that is not as it must be.
pub(crate) fn check(options: &Options, specs: &[Spec]) -> anyhow::Result<()> {
    for spec in specs {
        let there = spec.program.is_file();
        anyhow::ensure!(there, "there is no program {}; build it first", spec.program.display());
    }
    for (what, file) in [("model", &options.model), ("configuration", &options.config)] {
        if let Some(file) = file {
            let opened = File::open(file).and_then(|it| it.metadata());
            let data =
                opened.with_context(|| format!("cannot read the {what} {}", file.display()))?;
            anyhow::ensure!(data.is_file(), "the {what} {} is not a file", file.display());
        }
    }
    let mut taken = BTreeMap::new();
    let run_dir = options.run_dir();
    for spec in specs {
        let name = spec.name;
        for address in spec.addresses() {
            if let Some(other) = taken.insert(address, name) {
                bail!("{other} and {name} cannot share the address {address}: move one of them");
            }
            check_address(name, address, &run_dir)?;
        }
    }
    Ok(())
}

fn check_address(name: &str, address: SocketAddr, run_dir: &Path) -> anyhow::Result<()> {
    let Err(error) = TcpListener::bind(address) else { return Ok(()) };
    if error.kind() != io::ErrorKind::AddrInUse {
        bail!("{name} cannot listen on {address}: {error}");
    }
    match read_pid(run_dir, name).filter(|pid| is_alive(*pid)) {
        Some(pid) => bail!(
            "address {address} of {name} is in use, it seems by process {pid} of an earlier run that \
             was cut short; stop it with: kill {pid}"
        ),
        None => bail!("address {address} of {name} is in use by another program"),
    }
}

fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

/// Notes the process id of `name`: a reader sees the whole number, or none.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn write_pid(dir: &Path, name: &str, pid: u32) -> io::Result<()> {
    let file = pid_file(dir, name);
    let aside = file.with_extension("new");
    fs::write(&aside, format!("{pid}\n"))?;
    fs::rename(aside, file)
}

/// Forgets the process id of `name`.
pub(crate) fn remove_pid(dir: &Path, name: &str) {
    // A note that is gone already is as good.
    let _ = fs::remove_file(pid_file(dir, name));
}

fn read_pid(dir: &Path, name: &str) -> Option<i32> {
    let pid = fs::read_to_string(pid_file(dir, name)).ok()?.trim().parse().ok()?;
    // Other numbers would name groups of processes.
    (pid > 1).then_some(pid)
}

fn pid_file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.pid"))
}
