//! `engine-worker calibrate`: compares configurations, measures the best, writes that down.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use service::{
    clock::{Clock, unix_now},
    exit::refused,
    settings::{Request, read},
    telemetry,
};
use units::Span;

use crate::{
    backend,
    calibration::{Artifact, Calibrator, Candidate, Folder, Provenance, Residual, Told},
    identity::Identity,
    settings::{EngineSettings, LayoutChoice},
};

/// A large file is read for minutes.
const HASHING: Duration = Duration::from_secs(3_600);

/// What to calibrate. Everything else is as the engine's settings in the environment and the file say.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// The GGUF file
    #[arg(long)]
    model: PathBuf,
    /// Threads of llama.cpp; without, several counts are compared
    #[arg(long)]
    threads: Option<u32>,
    /// Where sequences live; `auto` compares
    #[arg(long, value_enum, default_value = "auto")]
    layout: LayoutChoice,
    /// Sequences at once
    #[arg(long)]
    slots: Option<u32>,
    /// Layers on a GPU
    #[arg(long)]
    gpu_layers: Option<u32>,
    /// How long it may take, about
    #[arg(long, default_value_t = 50)]
    seconds: u64,
    /// A third of the time, for a rougher result
    #[arg(long)]
    quick: bool,
    /// Measure further steps that the model was not fitted to, for as long again, and say how far off it is
    #[arg(long)]
    check: bool,
    /// Where to write the calibration; without, beside the model or in the folder that is set
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Options {
    /// The engine's settings, with what was said here.
    fn settings(&self) -> anyhow::Result<EngineSettings> {
        let mut args: Vec<OsString> =
            vec!["engine-worker".into(), "--backend".into(), "llama".into()];
        let mut say = |flag: &str, value: OsString| args.extend([flag.into(), value]);
        say("--model", self.model.clone().into());
        if self.layout != LayoutChoice::Auto {
            let layout = clap::ValueEnum::to_possible_value(&self.layout);
            let name = layout.expect("every layout has a name").get_name().to_owned();
            say("--layout", name.into());
        }
        let numbers = [
            ("--threads", self.threads),
            ("--slots", self.slots),
            ("--gpu-layers", self.gpu_layers),
        ];
        for (flag, number) in numbers {
            number.into_iter().for_each(|number| say(flag, number.to_string().into()));
        }
        if let Some(dir) = &self.dir {
            say("--calibration-dir", dir.clone().into());
        }
        let vars: BTreeMap<String, String> = std::env::vars().collect();
        match read::<EngineSettings>(args, &vars)? {
            Request::Run(settings) => Ok(settings),
            Request::Print(_) | Request::Healthcheck(_) => {
                bail!("the settings ask for something else")
            }
        }
    }

    fn patience(&self) -> Span {
        let whole = Span::from_secs(self.seconds.clamp(3, 3_600));
        if self.quick { whole.mul_f64(1.0 / 3.0) } else { whole }
    }
}

/// Calibrates, and tells progress on standard error and the result on standard output.
pub(super) fn run(options: Options) -> anyhow::Result<()> {
    let settings = options.settings().map_err(refused)?;
    let logs = telemetry::Logs { log: "warn".into(), ..settings.logs.clone() };
    telemetry::start_logs(&logs).map_err(refused)?;
    let path = settings.model.clone().context("model: a GGUF file")?;
    let folder = Folder::of(&path, settings.calibration_dir.as_deref());
    if !options.dry_run {
        folder.probe().map_err(|error| refused(unwritable(&folder, &error)))?;
    }

    let identity = Identity::of_file(path);
    let opened = backend::open(&settings).map_err(refused)?;
    // Beside nothing else: reading takes processors too.
    let sha256 = identity.wait(HASHING).context("the model file cannot be read")?.to_owned();
    let (bytes, version) = opened.measurable().context("only a model can be measured")?;
    let provenance = Provenance::new(sha256, bytes, version);

    let clock = Clock::start();
    let mut told = |told: Told| progress(&clock, told);
    let calibrator = Calibrator { opened: &opened, settings: &settings, clock };
    let calibrated = calibrator.run(options.patience(), &mut told)?;
    let now = Duration::from_micros(unix_now().0);
    let artifact = calibrated.artifact(provenance, now);
    let checked = options
        .check
        .then(|| calibrator.check(&artifact, options.patience(), &mut told))
        .transpose()?;

    let mut out = io::stdout().lock();
    print(&mut out, &calibrated.tried, &artifact)?;
    if let Some(residuals) = checked {
        writeln!(
            out,
            "\nsteps that it was not fitted to, as a scheduler would have predicted them:\n"
        )?;
        print_residuals(&mut out, &residuals, |it| if it.holds() { "" } else { "too far off" })?;
    }
    if !options.dry_run {
        let path = folder.write(&artifact).map_err(|error| unwritable(&folder, &error))?;
        writeln!(out, "\nwritten to {}", path.display())?;
    }
    Ok(())
}

fn unwritable(folder: &Folder, error: &io::Error) -> anyhow::Error {
    let place = folder.path().display();
    anyhow!("cannot write to {place}: {error}; another folder can be set, calibration_dir")
}

/// One line of progress. With nobody to read it, the result still tells.
fn progress(clock: &Clock, told: Told) {
    let at = clock.now().0 / 1_000_000;
    let _ = match told {
        Told::Tried(it) => writeln!(
            io::stderr(),
            "{at:>3} s: {} with {} threads: {:.0} tokens/s",
            it.layout.name(),
            it.threads,
            it.rate()
        ),
        Told::Skipped { layout, threads } => {
            writeln!(io::stderr(), "{at:>3} s: {} with {threads} threads: too slow", layout.name())
        }
        Told::Measuring { layout, threads, span } => writeln!(
            io::stderr(),
            "{at:>3} s: measuring {} with {threads} threads for {span}",
            layout.name()
        ),
        Told::Checking { span } => writeln!(io::stderr(), "{at:>3} s: checking for {span}"),
    };
}

fn print(out: &mut impl Write, tried: &[Candidate], artifact: &Artifact) -> io::Result<()> {
    let picked = &artifact.configuration;
    writeln!(
        out,
        "| layout | threads | 1 decoding, ms | several, ms | prompt token, ms | tokens/s | |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for it in tried {
        let is_picked = (it.layout, it.threads) == (picked.layout, picked.threads);
        writeln!(
            out,
            "| {} | {} | {:.1} | {}: {:.1} | {:.2} | {:.0} | {} |",
            it.layout.name(),
            it.threads,
            it.one.as_secs_f64() * 1e3,
            it.width,
            it.many.as_secs_f64() * 1e3,
            it.token.as_secs_f64() * 1e3,
            it.rate(),
            if is_picked { "picked" } else { "" }
        )?;
    }
    writeln!(
        out,
        "\npicked for the most tokens a second of 8 requests at once, each 128 prompt tokens and 64 of answer;\n\
         where that is within 3 %, for the fewest threads, then for streams\n\
         {} prompt tokens a step: the fewest that cost at most 2 % more each than the best\n\
         {} rows a batch, so that such a step is one batch\n",
        picked.prefill_tokens, picked.batch_tokens
    )?;
    writeln!(out, "how far off the model is, on the steps that it was fitted to:\n")?;
    print_residuals(out, &artifact.residuals, |_| "")
}

fn print_residuals(
    out: &mut impl Write,
    residuals: &[Residual],
    verdict: impl Fn(&Residual) -> &'static str,
) -> io::Result<()> {
    writeln!(
        out,
        "| steps | | error, median | 95 of 100 | equal steps apart, median | 95 of 100 | |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    let percent = |part: f64| part * 100.0;
    for it in residuals {
        writeln!(
            out,
            "| {} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {} |",
            it.kind,
            it.steps,
            percent(it.error_p50),
            percent(it.error_p95),
            percent(it.spread_p50),
            percent(it.spread_p95),
            verdict(it)
        )?;
    }
    Ok(())
}
