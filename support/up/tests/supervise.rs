//! `up` with shell scripts in place of the three programs.

mod harness;

use std::{fs, net::TcpListener};

use harness::{NAMES, OBEDIENT, STUBBORN, Stage, eventually, is_alive};
use nix::{
    sys::signal::{Signal, kill},
    unistd::getpgid,
};

#[test]
fn it_says_when_all_is_ready_and_stops_in_order() {
    let stage = Stage::new();
    let up = stage.up(&[]);
    stage.wait_for_start();
    up.wait_for("waiting for engine-worker, admission-svc, gateway to listen");
    let _listeners = stage.answer();
    up.wait_for("cadence: ready after");
    up.wait_for(&format!("curl -N http://127.0.0.1:{}/v1/chat/completions", stage.port("gateway")));
    up.wait_for(r#""model":"stub-model""#);

    up.signal(Signal::SIGINT);
    let (status, output) = up.end();
    assert!(status.success(), "{output}");
    let stopped: Vec<_> =
        stage.events().into_iter().filter(|event| event.ends_with("stopped")).collect();
    assert_eq!(stopped, ["gateway stopped", "admission-svc stopped", "engine-worker stopped"]);
    assert_eq!(stage.pid_files(), [""; 0]);
}

#[test]
fn each_is_out_of_the_reach_of_the_terminal() {
    let stage = Stage::new();
    let _up = stage.up(&[]);
    stage.wait_for_start();
    for name in NAMES {
        let pid = stage.pid(name).expect("a pid file");
        assert_eq!(getpgid(Some(pid)), Ok(pid), "{name} leads its own group");
    }
}

#[test]
fn one_that_is_killed_comes_back_and_the_others_never_notice() {
    let stage = Stage::new();
    let up = stage.up(&[]);
    stage.wait_for_start();
    let before = NAMES.map(|name| stage.pid(name).expect("a pid file"));

    kill(before[1], Signal::SIGKILL).expect("it runs");
    up.wait_for("admission-svc ended (signal 9), again in 100 ms; its last line: says started");
    eventually("another process", || {
        stage.pid("admission-svc").is_some_and(|pid| pid != before[1])
    });
    assert_eq!(
        [stage.pid("engine-worker"), stage.pid("gateway")],
        [Some(before[0]), Some(before[2])]
    );

    kill(stage.pid("admission-svc").expect("a pid file"), Signal::SIGKILL).expect("it runs");
    up.wait_for("admission-svc ended (signal 9), again in 200 ms");
}

#[test]
fn one_that_refuses_its_configuration_ends_all_with_its_last_words() {
    let stage = Stage::new();
    stage.program("engine-worker", "echo 'unknown key \"modle\"' >&2\nexit 78\n");
    let (status, output) = stage.up(&[]).end();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(
        output.contains(
            "engine-worker cannot run (exit code 78); its last lines:\n  unknown key \"modle\""
        ),
        "{output}"
    );
    assert_eq!(output.matches("engine-worker started").count(), 1, "{output}");
    assert_eq!(stage.pid_files(), [""; 0]);
}

#[test]
fn one_that_never_starts_ends_all() {
    let stage = Stage::new();
    stage.program("gateway", "exit 1\n");
    let (status, output) = stage.up(&[]).end();
    assert_eq!(status.code(), Some(1), "{output}");
    assert_eq!(output.matches("gateway started").count(), 5, "{output}");
}

#[test]
fn a_busy_port_is_named_before_anything_starts() {
    let stage = Stage::new();
    let port = stage.port("admission-svc");
    let _other = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let (status, output) = stage.up(&[]).end();
    assert_eq!(status.code(), Some(1));
    let wanted = format!(
        "cadence: address 127.0.0.1:{port} of admission-svc is in use by another program\n"
    );
    assert_eq!(output, wanted);
    assert_eq!(stage.events(), [""; 0]);
}

#[test]
fn a_busy_metrics_port_is_named_too() {
    let stage = Stage::new();
    for port in stage.metrics_ports() {
        let _other = TcpListener::bind(("127.0.0.1", *port)).expect("a free port");
        let (status, output) = stage.up(&[]).end();
        assert_eq!(status.code(), Some(1));
        assert!(output.starts_with(&format!("cadence: address 127.0.0.1:{port} of ")), "{output}");
    }
    assert_eq!(stage.events(), [""; 0]);
}

#[test]
fn two_of_the_three_cannot_share_a_port() {
    let stage = Stage::new();
    let port = stage.port("gateway");
    let (status, output) = stage.up(&["--admission-metrics-port", &port.to_string()]).end();
    assert_eq!(status.code(), Some(1));
    let wanted = format!(
        "cadence: admission-svc and gateway cannot share the address 127.0.0.1:{port}: move one of \
         them\n"
    );
    assert_eq!(output, wanted);
}

#[test]
fn a_setting_that_a_flag_overrules_is_told() {
    let stage = Stage::new();
    let config = stage.path().join("c.toml");
    fs::write(&config, "[gateway]\nlisten = '0.0.0.0:8000'\n").expect("a file");
    let up = stage.up(&["--config", &config.display().to_string()]);
    up.wait_for("gateway.listen of ");
    up.wait_for(&format!("does not count here: it is 127.0.0.1:{}", stage.port("gateway")));
}

#[test]
fn what_an_earlier_run_left_is_named() {
    let stage = Stage::new();
    let _left = TcpListener::bind(("127.0.0.1", stage.port("gateway"))).expect("a free port");
    fs::create_dir(stage.run_dir()).expect("a folder");
    let ours = std::process::id();
    fs::write(stage.run_dir().join("gateway.pid"), format!("{ours}\n")).expect("a pid file");
    let (_, output) = stage.up(&[]).end();
    assert!(output.contains(&format!("stop it with: kill {ours}\n")), "{output}");
}

#[test]
fn a_second_start_is_refused_and_the_first_goes_on() {
    let stage = Stage::new();
    let first = stage.up(&[]);
    stage.wait_for_start();
    let pid = stage.pid("up").expect("a pid file");
    let (status, output) = stage.up(&[]).end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(
        output,
        format!("cadence: already running as process {pid}; stop it with Ctrl-C there\n")
    );
    assert!(is_alive(stage.pid("gateway").expect("a pid file")));
    first.signal(Signal::SIGTERM);
    assert!(first.end().0.success());
}

#[test]
fn a_stale_pid_file_is_no_obstacle() {
    let stage = Stage::new();
    fs::create_dir(stage.run_dir()).expect("a folder");
    for name in ["up", "gateway"] {
        fs::write(stage.run_dir().join(format!("{name}.pid")), "1234567\n").expect("a pid file");
    }
    let _up = stage.up(&[]);
    stage.wait_for_start();
}

#[test]
fn one_that_does_not_stop_is_killed_after_its_grace() {
    let stage = Stage::new();
    stage.program("admission-svc", STUBBORN);
    let up = stage.up(&["--grace-ms", "200"]);
    stage.wait_for_start();
    up.signal(Signal::SIGTERM);
    let (status, output) = up.end();
    assert!(status.success(), "{output}");
    assert!(output.contains("admission-svc did not stop within 200 ms: killed"), "{output}");
    assert!(
        stage.events().contains(&"engine-worker stopped".into()),
        "the next one still in order"
    );
}

#[test]
fn a_second_ctrl_c_kills() {
    let stage = Stage::new();
    NAMES.iter().for_each(|name| stage.program(name, STUBBORN));
    let up = stage.up(&["--grace-ms", "600000", "--gateway-grace-ms", "600000"]);
    stage.wait_for_start();
    let pids = NAMES.map(|name| stage.pid(name).expect("a pid file"));
    up.signal(Signal::SIGINT);
    up.wait_for("stopping gateway");
    // One so soon is taken for an echo of the first; go on until one is not.
    eventually("the kill", || {
        up.signal(Signal::SIGINT);
        std::thread::sleep(std::time::Duration::from_millis(100));
        up.output().contains("engine-worker killed")
    });
    let (status, output) = up.end();
    assert!(status.success(), "{output}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{output}");
}

#[test]
fn a_stop_during_back_off_is_heard() {
    let stage = Stage::new();
    stage.program("gateway", "note started\nexit 3\n");
    let up = stage.up(&[]);
    up.wait_for("gateway ended (exit code 3), again in 400 ms");
    up.signal(Signal::SIGTERM);
    let (status, output) = up.end();
    assert!(status.success(), "{output}");
    assert!(!output.contains("again in 800 ms"), "{output}");
}

#[test]
fn missing_files_are_named_at_once() {
    let stage = Stage::new();
    let says = |args: &[&str], wanted: &str| {
        let (status, output) = stage.up(args).end();
        assert_eq!(status.code(), Some(1));
        assert!(output.contains(wanted), "{wanted:?} not in {output}");
    };
    says(&["--model", "no.gguf"], "cannot read the model no.gguf: No such file");
    says(&["--config", "no.toml"], "cannot read the configuration no.toml: No such file");
    let folder = stage.path().display().to_string();
    says(&["--model", &folder], &format!("the model {folder} is not a file"));
    fs::remove_file(stage.path().join("bin/gateway")).expect("a program");
    says(&[], &format!("there is no program {folder}/bin/gateway; build it first"));
    assert_eq!(stage.events(), [""; 0]);
}

/// An engine that, asked to optimise, notes how and does this, and otherwise notes the model that it serves.
fn optimizer(body: &str) -> String {
    format!(
        "if [ \"$1\" = optimize ]; then note \"asked: $*\"; {body}; fi\n\
         while [ $# -gt 1 ] && [ \"$1\" != --model ]; do shift; done; note \"serves $2\"\n{OBEDIENT}"
    )
}

/// A stage with a model, and the flags for it and for a copy of it.
fn stage_with_model(optimizing: &str) -> (Stage, [String; 4]) {
    let stage = Stage::new();
    stage.program("engine-worker", &optimizer(optimizing));
    let [model, copy] = ["model.gguf", "kept/copy.gguf"].map(|name| stage.path().join(name));
    fs::write(&model, "a model").expect("written");
    let [model, copy] = [model, copy].map(|path| path.display().to_string());
    (stage, ["--model".into(), model, "--optimized-model".into(), copy])
}

#[test]
fn a_copy_that_is_as_good_and_faster_is_served() {
    let (stage, flags) = stage_with_model("echo a table; echo 1.9x; exit 0");
    let [_, model, _, copy] = &flags;
    let up = stage.up(&flags.each_ref().map(String::as_str));
    stage.wait_for_event(&format!("engine-worker serves {copy}"));
    let asked = format!("engine-worker asked: optimize --refresh --model {model} --out {copy}");
    assert_eq!(stage.events()[0], asked);
    up.wait_for("cadence: once for this model: ");
    up.wait_for("cadence: serving a re-quantised copy: 1.9x");
}

#[test]
fn whatever_is_wrong_with_a_copy_the_model_is_served() {
    for (optimizing, said) in [
        ("echo 'perplexity 1.19x'; exit 3", "the model as it is: perplexity 1.19x"),
        ("echo 'no faster'; exit 4", "the model as it is: no faster"),
        ("exit 1", "the model as it is: there is no faster copy of it"),
        ("kill -9 $$", "the model as it is: there is no faster copy of it"),
    ] {
        let (stage, flags) = stage_with_model(optimizing);
        let up = stage.up(&flags.each_ref().map(String::as_str));
        stage.wait_for_event(&format!("engine-worker serves {}", flags[1]));
        up.wait_for(said);
    }
}

#[test]
fn a_folder_that_cannot_be_made_keeps_nobody_from_being_served() {
    let (stage, flags) = stage_with_model("exit 0");
    fs::write(stage.path().join("kept"), "a file").expect("written");
    let up = stage.up(&flags.each_ref().map(String::as_str));
    stage.wait_for_event(&format!("engine-worker serves {}", flags[1]));
    up.wait_for("the model as it is: cannot make the folder ");
}

#[test]
fn the_making_of_a_copy_can_be_stopped() {
    let (stage, flags) = stage_with_model(
        "trap 'note tidied; exit 1' TERM; note busy; while :; do sleep 0.02; done",
    );
    let up = stage.up(&flags.each_ref().map(String::as_str));
    stage.wait_for_event("engine-worker busy");
    up.signal(Signal::SIGTERM);
    let (status, output) = up.end();
    assert!(status.success() && output.ends_with("cadence: stopped\n"), "{output}");
    assert_eq!(stage.events()[1..], ["engine-worker busy", "engine-worker tidied"]);
    assert_eq!(stage.pid_files(), [""; 0]);
}
