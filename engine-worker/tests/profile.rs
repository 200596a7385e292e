//! The real binary on the mock, profiled: what it wrote names the step loop, however it ended.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use proto::v1::{self, engine_client::EngineClient};
use tonic::transport::Channel;
use units::RequestId;

/// Steps that take no time once prompts are kept, so that all there is to see is our own.
const FREE: [&str; 6] =
    ["--mock-base-us", "0", "--mock-decode-us", "0", "--mock-prefill-us", "10000"];

fn command(profile: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine-worker"));
    command.args(["--backend", "mock", "--metrics-listen", "", "--log", "error"]).args(FREE);
    command.arg("--profile").arg(profile).env_remove("CADENCE_CONFIG");
    command
}

/// A process that does not outlive the test.
struct Worker {
    child: Child,
    client: EngineClient<Channel>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    async fn start(profile: &Path, args: &[&str]) -> Self {
        let address = ports::free_address().to_string();
        let channel = service::grpc::connect_lazily(&address).expect("an address");
        let mut command = command(profile);
        command.args(["--listen", &address]).args(args);
        let client = EngineClient::new(channel);
        let mut worker = Self { child: command.spawn().expect("it starts"), client };
        for _ in 0..1_000 {
            if worker.client.info(v1::InfoRequest {}).await.is_ok() {
                return worker;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it never serves");
    }

    /// A whole answer.
    async fn ask(mut client: EngineClient<Channel>, number: u128, prompt: u32, tokens: u32) {
        let request_id = RequestId(number).to_string();
        let request = v1::GenerateRequest {
            request_id,
            prompt: Some(v1::generate_request::Prompt::TokenIds(v1::TokenIds {
                ids: vec![5; prompt as usize],
            })),
            max_tokens: tokens,
            ..Default::default()
        };
        let mut stream = client.generate(request).await.expect("accepted").into_inner();
        while stream.message().await.expect("no error").is_some() {}
    }

    /// Some hundred thousand tokens, eight answers at a time.
    async fn work(&self) {
        for round in 0..24 {
            let asked = (0..8)
                .map(|at| tokio::spawn(Self::ask(self.client.clone(), 8 * round + at, 64, 3_900)));
            for answer in asked.collect::<Vec<_>>() {
                answer.await.expect("no panic");
            }
        }
    }

    fn signal(&self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    }
}

fn names_of_the_step_loop(svg: &str) {
    for name in ["engine: ", "plan_step", "commit_step", "publish"] {
        assert!(svg.contains(name), "{name} is nowhere: {}", &svg[..svg.len().min(60_000)]);
    }
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_is_drawn_when_the_process_stops() {
    let folder = tempfile::tempdir().expect("a place");
    let path = folder.path().join("steps.svg");
    fs::write(&path, "the last one").expect("room");
    let mut worker = Worker::start(&path, &["--drain-ms", "60000", "--slots", "9"]).await;
    worker.work().await;
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "the last one");
    // Forty seconds of prompt: the profile does not wait for the drain.
    let slow = tokio::spawn(Worker::ask(worker.client.clone(), 1_000, 4_000, 1));
    while worker.client.info(v1::InfoRequest {}).await.expect("info").into_inner().running == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.signal();
    while fs::read_to_string(&path).expect("it is there") == "the last one" {
        let ended = worker.child.try_wait().expect("it is ours");
        assert!(ended.is_none(), "it ended without a word: {ended:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    names_of_the_step_loop(&fs::read_to_string(&path).expect("it is there"));
    slow.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_ends_by_itself_and_the_process_goes_on() {
    let folder = tempfile::tempdir().expect("a place");
    let path = folder.path().join("second.svg");
    let mut worker = Worker::start(&path, &["--profile-seconds", "1"]).await;
    for number in 0..1_000 {
        Worker::ask(worker.client.clone(), number, 64, 500).await;
        if path.exists() {
            break;
        }
    }
    assert!(fs::read_to_string(&path).expect("it is there").contains("samples of processor time"));
    Worker::ask(worker.client.clone(), 5_000, 64, 3).await;
    worker.signal();
    assert!(worker.child.wait().expect("it ends").success());
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

fn refusal(path: &Path) -> String {
    let mut command = command(path);
    command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    let Output { status, stderr, .. } = command.output().expect("it starts");
    let told = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(78), "{told}");
    assert!(told.contains(&path.display().to_string()), "{told}");
    told
}

#[test]
fn what_cannot_be_written_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a place");
    let inside = |name: &str| folder.path().join(name);
    assert!(refusal(folder.path()).contains("is not a file"));
    assert!(refusal(&inside("missing/there.svg")).contains("not found"));
    assert!(refusal(Path::new("/dev/null")).contains("is not a file"));
    fs::write(inside("plain"), "x").expect("room");
    refusal(&inside("plain/there.svg"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
}
