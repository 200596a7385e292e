//! `loadgen` as a process, and servers that misbehave on purpose.

#![allow(dead_code, reason = "each test file uses some of this")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails where it stands")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

/// Events of a good answer, in three tokens.
pub(crate) const GOOD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"c\"},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12,\
    \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";

/// The head of an event stream without a length, to be ended by closing.
pub(crate) const SSE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A server whose every connection is `behave`; it counts them.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn new(behave: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&connections);
        let behave = Arc::new(behave);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, behave) = (stream.unwrap(), Arc::clone(&behave));
                counts.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || behave(&mut stream));
            }
        });
        Self { address, connections }
    }

    /// One that reads a request, says `answer` and closes.
    pub(crate) fn saying(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::new(move |stream| {
            if read_request(stream) {
                // A client that has heard enough may be gone.
                let _ = stream.write_all(answer.as_bytes());
            }
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Reads a request to its end; false when there is none.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            return reader.read_exact(&mut body).is_ok();
        }
    }
}

/// A folder, and `loadgen` in it.
pub(crate) struct Bench {
    folder: TempDir,
}

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The summary as JSON, if there was one.
    pub(crate) summary: Value,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
        command.args(args).current_dir(self.folder.path()).env_remove("OPENAI_API_KEY");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        command
    }

    pub(crate) fn loadgen(&self, args: &[&str]) -> Outcome {
        self.outcome(self.command(args).output().unwrap())
    }

    pub(crate) fn outcome(&self, output: Output) -> Outcome {
        let text = std::fs::read_to_string(self.path("summary.json")).unwrap_or_default();
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            summary: serde_json::from_str(&text).unwrap_or(Value::Null),
        }
    }

    /// A short run against `url`: ten requests within half a second.
    pub(crate) fn run(&self, url: &str, more: &[&str]) -> Outcome {
        self.loadgen(&run_args(url, more))
    }

    /// `loadgen stub` on a port of its own.
    pub(crate) fn stub(&self, more: &[&str]) -> Stub {
        let args = [&["stub", "--port", "0"], more].concat();
        let mut child = self.command(&args).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().last().expect("it says where it listens").to_owned();
        Stub { child, url }
    }
}

/// The arguments of a short run; what `more` says wins.
pub(crate) fn run_args<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = [
        ("--url", url),
        ("--model", "m"),
        ("--arrivals", "constant"),
        ("--rate", "20"),
        ("--duration", "0.52"),
        ("--workload", "scaled"),
        ("--out", "run.parquet"),
        ("--json", "summary.json"),
    ];
    let unsaid = usual.into_iter().filter(|(name, _)| !more.contains(name));
    let mut args = vec!["run"];
    args.extend(unsaid.flat_map(|(name, value)| [name, value]));
    args.extend(more);
    args
}

impl Outcome {
    /// Whether it ran to its end: on a machine that is too busy it may be invalid, and says so.
    pub(crate) fn has_run(&self) -> bool {
        matches!(self.code, Some(0 | 2)) && self.summary["complete"] == true
    }

    pub(crate) fn classes(&self) -> BTreeMap<String, u64> {
        let classes = self.summary["classes"].as_object();
        let classes = classes.unwrap_or_else(|| panic!("no summary: {}", self.stderr));
        classes.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap())).collect()
    }
}

/// A stub that ends with its test.
pub(crate) struct Stub {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a folder holds exactly these files.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
