//! A stage for `up`: shell scripts as the three programs, free ports, and the test itself as the
//! gateway's HTTP.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Longer than anything here takes, shorter than anyone waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// A program that runs until SIGTERM.
pub(crate) const OBEDIENT: &str =
    "trap 'note stopped; exit 0' TERM\nnote started\nwhile :; do sleep 0.02; done\n";
/// A program that only SIGKILL ends.
pub(crate) const STUBBORN: &str = "trap '' TERM\nnote started\nwhile :; do sleep 0.02; done\n";
/// The three, in the order they start.
pub(crate) const NAMES: [&str; 3] = ["engine-worker", "admission-svc", "gateway"];

/// A folder with three programs, and ports for them.
pub(crate) struct Stage {
    dir: tempfile::TempDir,
    /// Of the three, and of the metrics of engine and admission.
    ports: [u16; 5],
}

impl Stage {
    /// All three obey.
    pub(crate) fn new() -> Self {
        let ports = [(); 5].map(|()| ports::free_port());
        let stage = Self { dir: tempfile::tempdir().expect("a folder"), ports };
        fs::create_dir(stage.dir.path().join("bin")).expect("a folder");
        NAMES.iter().for_each(|name| stage.program(name, OBEDIENT));
        stage
    }

    /// Makes `name` another program.
    pub(crate) fn program(&self, name: &str, body: &str) {
        let events = self.dir.path().join("events");
        let text = format!(
            "#!/bin/sh\nnote() {{ echo \"{name} $1\" >> '{}'; echo \"says $1\"; }}\n{body}",
            events.display()
        );
        // Written aside and renamed: a program that is open for writing cannot be run.
        let path = self.dir.path().join("bin").join(name);
        let aside = path.with_extension("new");
        fs::write(&aside, text).expect("a program");
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::rename(aside, path).expect("a program");
    }

    /// Starts `up`.
    pub(crate) fn up(&self, args: &[&str]) -> Up {
        let flags = ["--engine-port", "--admission-port", "--port"];
        let flags = flags.iter().chain(&["--engine-metrics-port", "--admission-metrics-port"]);
        let ports = self.ports.map(|port| port.to_string());
        let mut process = Command::new(env!("CARGO_BIN_EXE_up"))
            .args(flags.zip(&ports).flat_map(|(flag, port)| [flag, port.as_str()]))
            .env_remove("CADENCE_CONFIG")
            .arg("--bin-dir")
            .arg(self.dir.path().join("bin"))
            .arg("--run-dir")
            .arg(self.run_dir())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("up runs");
        let output = Arc::new(Mutex::new(String::new()));
        let (lines, sink) = (process.stdout.take().expect("a pipe"), output.clone());
        thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                *sink.lock().expect("unpoisoned") += &format!("{line}\n");
            }
        });
        Up { process, output }
    }

    /// Listens for the three, and answers the gateway's HTTP as a ready one does.
    pub(crate) fn answer(&self) -> [TcpListener; 2] {
        let [engine, admission, gateway] = NAMES
            .map(|name| self.port(name))
            .map(|port| TcpListener::bind(("127.0.0.1", port)).expect("the port is free"));
        thread::spawn(move || {
            for stream in gateway.incoming().map_while(Result::ok) {
                let mut request = [0; 512];
                let mut stream = stream;
                let length = stream.read(&mut request).unwrap_or(0);
                let models = request[..length].starts_with(b"GET /v1/models");
                let body = if models { r#"{"data":[{"id":"stub-model"}]}"# } else { "{}" };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + body).as_bytes());
            }
        });
        [engine, admission]
    }

    /// What the programs noted, line by line.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("events")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the programs noted this.
    pub(crate) fn wait_for_event(&self, event: &str) {
        eventually(event, || self.events().iter().any(|line| line == event));
    }

    /// Waits until all three started, and their ids are noted.
    pub(crate) fn wait_for_start(&self) {
        for name in NAMES {
            self.wait_for_event(&format!("{name} started"));
            eventually("a pid file", || self.pid(name).is_some());
        }
    }

    /// The noted process id.
    pub(crate) fn pid(&self, name: &str) -> Option<Pid> {
        let text = fs::read_to_string(self.run_dir().join(format!("{name}.pid"))).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn port(&self, name: &str) -> u16 {
        let index = NAMES.iter().position(|it| *it == name).expect("one of the three");
        self.ports[index]
    }

    /// Where the metrics of engine and admission are.
    pub(crate) fn metrics_ports(&self) -> &[u16] {
        &self.ports[NAMES.len()..]
    }

    /// Names of the pid files there are.
    pub(crate) fn pid_files(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.run_dir()) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.ends_with(".pid")).collect()
    }
}

/// A running `up`.
pub(crate) struct Up {
    process: Child,
    output: Arc<Mutex<String>>,
}

impl Up {
    pub(crate) fn output(&self) -> String {
        self.output.lock().expect("unpoisoned").clone()
    }

    /// Waits until it says this.
    pub(crate) fn wait_for(&self, text: &str) {
        eventually(&format!("{text:?} in {}", self.output()), || self.output().contains(text));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// Waits until it ends; returns how, and all that it said.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually(&format!("the end of {}", self.output()), || {
            status = self.process.try_wait().expect("a status");
            status.is_some()
        });
        // The reader holds the other half until it has read everything.
        eventually("the last output", || Arc::strong_count(&self.output) == 1);
        (status.expect("it ended"), self.output())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // Asked nicely and twice, so that a failed test leaves nothing behind.
            let pid = i32::try_from(self.process.id()).map(Pid::from_raw);
            let _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
            thread::sleep(Duration::from_millis(600));
            let _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
            let _ = self.process.wait();
        }
    }
}

/// Polls until `holds`.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process with this id exists.
pub(crate) fn is_alive(pid: Pid) -> bool {
    kill(pid, None).is_ok()
}
