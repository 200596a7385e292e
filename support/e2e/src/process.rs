//! One process of the stack.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// What a process is started with besides its arguments.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Further environment variables.
    pub vars: Vec<(String, String)>,
}

/// A running binary of the workspace. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    args: Vec<String>,
    conditions: Conditions,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts a binary with a log file in `dir`.
    ///
    /// # Panics
    /// The binary has not been built.
    #[must_use]
    pub fn start(name: &str, label: &str, args: &[String], dir: &Path) -> Self {
        Self::start_under(Conditions::default(), name, label, args, dir)
    }

    /// Starts a binary as [`start`](Self::start) does, under conditions.
    ///
    /// # Panics
    /// The binary has not been built.
    #[must_use]
    pub fn start_under(
        conditions: Conditions,
        name: &str,
        label: &str,
        args: &[String],
        dir: &Path,
    ) -> Self {
        let log = dir.join(format!("{label}.log"));
        let child = spawn(name, args, &conditions, &log);
        Self { name: name.into(), args: args.to_vec(), conditions, log, child }
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.name, &self.args, &self.conditions, &self.log);
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only for a process that has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGKILL, and does not wait: requests may borrow the stack meanwhile.
    ///
    /// # Panics
    /// The process is gone.
    pub fn kill_now(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Sends SIGTERM.
    ///
    /// # Panics
    /// The process is gone.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends SIGSTOP: it stands still, and its connections stay open.
    ///
    /// # Panics
    /// The process is gone.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Sends SIGCONT: it goes on, and knows nothing of the time between.
    ///
    /// # Panics
    /// The process is gone.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Whether it has not ended.
    ///
    /// # Panics
    /// The system cannot tell.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// It has not ended within `patience`.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "{} still runs:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its process id, for programs that do something to it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its resident memory in bytes.
    ///
    /// # Panics
    /// Not on Linux, or the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    /// See [`processor_time`].
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        processor_time(self.child.id())
    }

    /// Lets it have no more address space than this from now on, so that what runs away fails alone.
    ///
    /// # Panics
    /// There is no `prlimit`, or the process is gone.
    pub fn limit_memory(&self, bytes: u64) {
        let pid = self.child.id().to_string();
        let limit = format!("--as={bytes}");
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.expect("prlimit is there").success());
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are small"))
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the process is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(12).collect();
            eprintln!("--- {} ---", self.name);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Processor time that a process's living threads have used.
///
/// # Panics
/// Not on Linux, or the process is gone.
#[must_use]
pub fn processor_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("the process is there");
    let used = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

fn spawn(name: &str, args: &[String], conditions: &Conditions, log: &Path) -> Child {
    let file = fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
    let path = binary(name);
    assert!(path.is_file(), "{} is not there; run `make test`", path.display());
    Command::new(&path)
        .args(args)
        .envs(conditions.vars.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Beside the tests: `target/<profile>/deps/test` -> `target/<profile>/name`.
fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    profile.join(name)
}
