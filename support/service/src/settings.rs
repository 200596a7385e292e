//! Settings: flags over environment over one TOML file over defaults.
//!
//! A service declares its settings once, as a struct of clap arguments; the names of the environment
//! variables and of the file's keys follow from it. Every layer is checked by itself, so that an
//! error can name where the bad value stands.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use serde::Serialize;

use crate::{exit::REFUSED, health::Probe};

/// Sections that the file may have; each service reads its own.
const SECTIONS: [&str; 4] = ["gateway", "admission", "engine", "loadgen"];
const CONFIG_VAR: &str = "CADENCE_CONFIG";

/// The settings of one service.
pub trait Settings: Args + Serialize {
    /// The service's section in the file, and the middle of its variables' names:
    /// `CADENCE_<SECTION>_<KEY>`.
    const SECTION: &'static str;
    /// The name of the binary.
    const BINARY: &'static str;
    /// What `--help` says first.
    const ABOUT: &'static str;

    /// How a process with these settings is asked for its health.
    fn probe(&self) -> Probe;

    /// Checks what no single value shows.
    ///
    /// # Errors
    /// A line that names the keys.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read or is not TOML.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that is not one.
    #[error("{place}: unknown key {key:?}{hint}")]
    Unknown {
        /// The file or the environment.
        place: String,
        /// The key as it was written.
        key: String,
        /// A key that was perhaps meant.
        hint: String,
    },
    /// A value that does not do.
    #[error("{place}: {reason}")]
    Value {
        /// The file or the environment.
        place: String,
        /// What is wrong, with the key's name.
        reason: String,
    },
    /// The command line: a bad value, or a call for help or version.
    #[error("{0}")]
    CommandLine(#[from] clap::Error),
    /// The values do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request<S> {
    /// Run with these.
    Run(S),
    /// Print these, as TOML, and end.
    Print(String),
    /// Ask the process that serves with these for its health, and end.
    Healthcheck(Probe),
}

/// Reads the settings of this process, or ends it: with 0 after `--help`, `--version` and
/// `--print-config`, with 0 or 1 after `--healthcheck`, with [`REFUSED`] and one clear message after a
/// mistake.
///
/// # Errors
/// The exit code to end the process with.
pub fn load<S: Settings>() -> Result<S, ExitCode> {
    let vars = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    match read(std::env::args_os(), &vars) {
        Ok(Request::Run(settings)) => Ok(settings),
        Ok(Request::Print(text)) => {
            // A reader that went away is no fault of ours.
            let _ = io::stdout().write_all(text.as_bytes());
            Err(ExitCode::SUCCESS)
        }
        Ok(Request::Healthcheck(probe)) => Err(match probe.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "{}: not healthy: {error:#}", S::BINARY);
                ExitCode::FAILURE
            }
        }),
        Err(SettingsError::CommandLine(error)) => {
            let _ = error.print();
            Err(ExitCode::from(if error.use_stderr() { REFUSED } else { 0 }))
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", S::BINARY);
            Err(ExitCode::from(REFUSED))
        }
    }
}

/// Reads settings from `args` (the program's name first) and `vars`.
///
/// # Errors
/// See [`SettingsError`].
pub fn read<S: Settings>(
    args: impl IntoIterator<Item = OsString>,
    vars: &BTreeMap<String, String>,
) -> Result<Request<S>, SettingsError> {
    let bare = command::<S>();
    let args: Vec<OsString> = args.into_iter().collect();
    // An empty variable is how scripts and compose files spell "not set".
    let from_var = || vars.get(CONFIG_VAR).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = config_path(&bare, &args).or_else(from_var);

    let from_file = match &path {
        Some(path) => Layer::file::<S>(&bare, path)?,
        None => Layer::empty(),
    };
    let from_vars = Layer::vars::<S>(&bare, vars)?;
    from_file.check(&bare)?;
    from_vars.check(&bare)?;

    let matches = from_vars.apply(from_file.apply(bare)).try_get_matches_from(args)?;
    let settings = S::from_arg_matches(&matches)?;
    if matches.get_flag("print_config") {
        return Ok(Request::Print(print(&settings)?));
    }
    if matches.get_flag("healthcheck") {
        return Ok(Request::Healthcheck(settings.probe()));
    }
    settings.check().map_err(SettingsError::Conflict)?;
    Ok(Request::Run(settings))
}

fn print<S: Settings>(settings: &S) -> Result<String, SettingsError> {
    let section = BTreeMap::from([(S::SECTION, settings)]);
    toml::to_string(&section).map_err(|error| SettingsError::Conflict(error.to_string()))
}

fn command<S: Settings>() -> Command {
    let prefix = var_prefix::<S>();
    let command = Command::new(S::BINARY)
        .about(S::ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .args_override_self(true)
        .after_help(format!(
            "Flags win over the environment ({prefix}<KEY>), which wins over the section [{}] of the \
             file, which wins over the defaults. Keys are the flags' names with _ for -.",
            S::SECTION
        ));
    S::augment_args(command)
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("The TOML file [env: CADENCE_CONFIG]"),
        )
        .arg(
            Arg::new("print_config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Print the settings in force as TOML, and end"),
        )
        .arg(
            Arg::new("healthcheck")
                .long("healthcheck")
                .action(ArgAction::SetTrue)
                .help("Ask the process that serves with these settings for its health, and end"),
        )
}

fn var_prefix<S: Settings>() -> String {
    format!("CADENCE_{}_", S::SECTION.to_uppercase())
}

/// The file that the command line names. Mistakes are left for the real parse to report.
fn config_path(bare: &Command, args: &[OsString]) -> Option<PathBuf> {
    let lenient: ArgMatches =
        bare.clone().ignore_errors(true).try_get_matches_from(args.iter().cloned()).ok()?;
    lenient.get_one::<PathBuf>("config").cloned()
}

fn keys(command: &Command) -> impl Iterator<Item = &str> {
    let meta = ["config", "print_config", "healthcheck", "help", "version"];
    command.get_arguments().map(|arg| arg.get_id().as_str()).filter(move |id| !meta.contains(id))
}

/// Values of one source, by key.
struct Layer {
    place: String,
    values: BTreeMap<String, Vec<String>>,
}

impl Layer {
    fn empty() -> Self {
        Self { place: String::new(), values: BTreeMap::new() }
    }

    fn file<S: Settings>(command: &Command, path: &Path) -> Result<Self, SettingsError> {
        let refuse = |reason| SettingsError::File { path: path.into(), reason };
        let place = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let file: toml::Table = text.parse().map_err(|error| refuse(not_toml(&text, &error)))?;
        if let Some(key) = file.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            return Err(unknown(place, key, SECTIONS.into_iter()));
        }
        let mut values = BTreeMap::new();
        let section = match file.get(S::SECTION) {
            None => return Ok(Self { place, values }),
            Some(toml::Value::Table(section)) => section,
            Some(_) => return Err(refuse(format!("{} is not a section", S::SECTION))),
        };
        for (key, value) in section {
            if !keys(command).any(|known| known == key) {
                return Err(unknown(place, &format!("{}.{key}", S::SECTION), keys(command)));
            }
            let value = words(value)
                .ok_or_else(|| refuse(format!("{}.{key} must be a plain value", S::SECTION)))?;
            values.insert(key.clone(), value);
        }
        Ok(Self { place, values })
    }

    fn vars<S: Settings>(
        command: &Command,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, SettingsError> {
        let place = String::from("environment");
        let prefix = var_prefix::<S>();
        let mut values = BTreeMap::new();
        for (var, value) in vars {
            let Some(key) = var.strip_prefix(&prefix) else { continue };
            let key = key.to_lowercase();
            if !keys(command).any(|known| known == key) {
                return Err(unknown(place, var, keys(command)));
            }
            values.insert(key, vec![value.clone()]);
        }
        Ok(Self { place, values })
    }

    /// Makes the values the command's defaults.
    fn apply(&self, command: Command) -> Command {
        self.values.iter().fold(command, |command, (key, values)| {
            let values = values.clone();
            command.mut_arg(key.clone(), |arg| arg.required(false).default_values(values))
        })
    }

    /// Parses the values of this layer alone, so that an error is known to be its.
    fn check(&self, command: &Command) -> Result<(), SettingsError> {
        let relaxed = command.clone().mut_args(|arg| arg.required(false));
        let Err(error) = self.apply(relaxed).try_get_matches_from([command.get_name()]) else {
            return Ok(());
        };
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return Ok(());
        }
        let text = error.render().to_string();
        let line = text.lines().next().unwrap_or_default();
        let reason = line.strip_prefix("error: ").unwrap_or(line);
        let reason = match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
                format!("{reason}: one of {}", valid.join(", "))
            }
            _ => reason.to_owned(),
        };
        Err(SettingsError::Value { place: self.place.clone(), reason })
    }
}

/// One line on what TOML does not allow, and where.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
    format!("line {line}: {}", error.message().replace('\n', ", "))
}

/// A plain TOML value as the words of a command line.
fn words(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Float(number) => Some(vec![number.to_string()]),
        toml::Value::Boolean(flag) => Some(vec![flag.to_string()]),
        toml::Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(words).collect();
            Some(items?.concat())
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

fn unknown<'a>(place: String, key: &str, known: impl Iterator<Item = &'a str>) -> SettingsError {
    let written = key.rsplit(['.', '_']).next().unwrap_or(key).to_lowercase();
    let hint = known
        .filter(|known| known.split('_').any(|word| word.starts_with(&written)))
        .min()
        .map_or_else(String::new, |near| format!(" (perhaps {near:?}?)"));
    SettingsError::Unknown { place, key: key.into(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Args, Serialize)]
    struct Sample {
        /// A number.
        #[arg(long, default_value_t = 5)]
        depth: u32,
        /// Names.
        #[arg(long, value_delimiter = ',', default_value = "a")]
        names: Vec<String>,
    }

    impl Settings for Sample {
        const SECTION: &'static str = "engine";
        const BINARY: &'static str = "sample";
        const ABOUT: &'static str = "A sample.";

        fn probe(&self) -> Probe {
            let port = u16::try_from(self.depth).expect("a small number");
            Probe::Http { listen: ([127, 0, 0, 1], port).into(), path: "/" }
        }

        fn check(&self) -> Result<(), String> {
            if self.depth > 100 { Err("depth: at most 100".into()) } else { Ok(()) }
        }
    }

    fn try_read(file: &str, vars: &[(&str, &str)], args: &[&str]) -> Result<Sample, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("cadence.toml");
        fs::write(&path, file).expect("a file");
        let mut vars: BTreeMap<_, _> =
            vars.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        vars.insert(CONFIG_VAR.into(), path.display().to_string());
        let args = ["sample"].iter().chain(args).map(OsString::from);
        match read::<Sample>(args, &vars) {
            Ok(Request::Run(sample)) => Ok(sample),
            Ok(Request::Print(text)) => Err(text),
            Ok(Request::Healthcheck(probe)) => Err(format!("{probe:?}")),
            Err(error) => {
                Err(error.to_string().replace(&path.display().to_string(), "cadence.toml"))
            }
        }
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let depth = |file, vars: &[_], args: &[_]| try_read(file, vars, args).map(|it| it.depth);
        let file = "[engine]\ndepth = 6\n[gateway]\nwhatever = 1";
        let vars = [("CADENCE_ENGINE_DEPTH", "7"), ("CADENCE_GATEWAY_X", "1")];
        assert_eq!(depth("", &[], &[]), Ok(5));
        assert_eq!(depth(file, &[], &[]), Ok(6));
        assert_eq!(depth(file, &vars, &[]), Ok(7));
        assert_eq!(depth(file, &vars, &["--depth", "8"]), Ok(8));
    }

    #[test]
    fn lists_are_read_from_every_layer() {
        let names = |file, vars: &[_], args: &[_]| try_read(file, vars, args).map(|it| it.names);
        assert_eq!(
            names("[engine]\nnames = ['b', 'c']", &[], &[]),
            Ok(vec!["b".into(), "c".into()])
        );
        assert_eq!(names("", &[("CADENCE_ENGINE_NAMES", "d,e")], &[]).map(|it| it.len()), Ok(2));
    }

    #[test]
    fn mistakes_are_named() {
        let says = |file, vars: &[_], args: &[_], wanted: &str| {
            let error = try_read(file, vars, args).expect_err("a mistake");
            assert!(error.contains(wanted), "{error:?} does not say {wanted:?}");
        };
        says(
            "[engine]\ndept = 6",
            &[],
            &[],
            "cadence.toml: unknown key \"engine.dept\" (perhaps \"depth\"?)",
        );
        says("[engin]\ndepth = 6", &[], &[], "unknown key \"engin\" (perhaps \"engine\"?)");
        says(
            "[engine]\ndepth = 'x'",
            &[],
            &[],
            "cadence.toml: invalid value 'x' for '--depth <DEPTH>'",
        );
        says("\n[engine]\ndepth", &[], &[], "cadence.toml: line 3: ");
        says(
            "",
            &[("CADENCE_ENGINE_DEPT", "6")],
            &[],
            "environment: unknown key \"CADENCE_ENGINE_DEPT\"",
        );
        says("", &[("CADENCE_ENGINE_DEPTH", "-1")], &[], "environment: invalid value '-1'");
        says("", &[], &["--depth", "x"], "invalid value 'x' for '--depth <DEPTH>'");
        says("", &[], &["--depht", "1"], "unexpected argument '--depht'");
        says("[engine]\ndepth = 101", &[], &[], "depth: at most 100");
    }

    #[test]
    fn an_empty_path_in_the_environment_is_no_file() {
        let vars = BTreeMap::from([(CONFIG_VAR.to_owned(), String::new())]);
        let read = read::<Sample>([OsString::from("sample")], &vars);
        assert!(matches!(read, Ok(Request::Run(Sample { depth: 5, .. }))), "{read:?}");
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        let text = try_read("", &[], &["--depth", "9", "--print-config"]).expect_err("printed");
        assert_eq!(text, "[engine]\ndepth = 9\nnames = [\"a\"]\n");
        assert_eq!(try_read(&text, &[], &[]).map(|it| it.depth), Ok(9));
    }

    #[test]
    fn a_healthcheck_asks_where_the_settings_say() {
        let asked = try_read("[engine]\ndepth = 6", &[], &["--healthcheck"]).expect_err("a probe");
        assert!(asked.contains("127.0.0.1:6"), "{asked}");
    }
}
