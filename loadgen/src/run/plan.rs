//! From options to a schedule: everything that is decided before the first request.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::Context as _;
use units::{Micros, Span, TokenCount};
use workload::{Arrivals, Ask, Budgets, Ks, Lengths, Mix, Source, ks_exponential, trace};

use super::options::{Named, Options, Process, WorkloadOptions};

/// Bytes of a file of prompts or a trace.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Of the scaled workload, where nothing else is said.
const SCALE: f64 = 0.25;

/// What is asked, and its name.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) source: Source,
    pub(crate) name: String,
    max_tokens: Option<TokenCount>,
}

/// When, and what.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) at: Vec<Micros>,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    /// In words.
    pub(crate) arrivals: String,
    pub(crate) rate: Option<f64>,
    pub(crate) duration: Span,
    /// Of the scheduled gaps, where they should be exponential.
    pub(crate) ks: Option<Ks>,
    budgets: Budgets,
}

impl Shape {
    /// The workload that the options name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn new(options: &WorkloadOptions) -> anyhow::Result<Self> {
        let scale = options.scale.unwrap_or(SCALE);
        let max_tokens = options.max_tokens.map(TokenCount);
        let (source, name) = match (&options.prompts, options.workload) {
            (Some(file), _) => {
                let prompts = trace::parse_prompts(&read(file)?);
                let prompts = prompts.with_context(|| file.display().to_string())?;
                let answer = Mix::cadence().answer;
                (Source::Given { prompts, answer }, format!("prompts of {}", file.display()))
            }
            (None, Named::Cadence) => (Source::Mix(Mix::cadence()), "cadence".into()),
            (None, Named::Uniform) => (Source::Mix(Mix::uniform()), "uniform".into()),
            (None, Named::Scaled) => {
                (Source::Mix(Mix::cadence().scaled(scale)), format!("cadence scaled by {scale}"))
            }
        };
        Ok(Self { source, name, max_tokens })
    }

    /// What request `index` asks.
    pub(crate) fn ask(&self, seed: u64, index: u64) -> Ask {
        let mut ask = self.source.ask(seed, index);
        ask.max_tokens = self.max_tokens.unwrap_or(ask.max_tokens);
        ask
    }
}

impl Plan {
    /// The plan that the options make.
    ///
    /// # Errors
    /// They make none.
    pub(crate) fn new(options: &Options) -> anyhow::Result<Self> {
        let plan = match &options.replay {
            Some(file) => Self::replay(options, file)?,
            None => Self::draw(options)?,
        };
        anyhow::ensure!(
            !plan.at.is_empty(),
            "the schedule is empty: raise the duration or the rate"
        );
        let counts = plan.at.last().is_some_and(|last| last.0 >= options.warmup.0);
        anyhow::ensure!(counts, "nothing is left after the warm-up");
        Ok(plan)
    }

    fn draw(options: &Options) -> anyhow::Result<Self> {
        let rate = options.rate;
        let burstiness = options.burstiness.unwrap_or(1.0);
        let arrivals = match options.arrivals {
            Process::Poisson => Arrivals::Poisson { rate },
            Process::Constant => Arrivals::Constant { rate },
            Process::Gamma => Arrivals::Gamma { rate, burstiness },
        };
        let name = match options.arrivals {
            Process::Poisson => "poisson".into(),
            Process::Constant => "constant".into(),
            Process::Gamma => format!("gamma, burstiness {burstiness}"),
        };
        let at = arrivals.schedule(options.duration, options.seed)?;
        let ks = match options.arrivals {
            Process::Poisson => ks_exponential(&at, rate),
            Process::Constant | Process::Gamma => None,
        };
        Ok(Self {
            at,
            shape: Shape::new(&options.workload)?,
            seed: options.seed,
            arrivals: name,
            rate: Some(rate),
            duration: options.duration,
            ks,
            budgets: options.budget,
        })
    }

    fn replay(options: &Options, file: &Path) -> anyhow::Result<Self> {
        let speed = options.speed.unwrap_or(1.0);
        let entries = trace::parse(&read(file)?);
        let entries = entries.with_context(|| file.display().to_string())?;
        let at = |at: Micros| Micros(Span(at.0).mul_f64(1.0 / speed).0);
        let (at, prompts): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|entry| (at(entry.at), entry.given)).unzip();
        let answer = Lengths::Fixed(TokenCount(128));
        Ok(Self {
            duration: length(&at),
            at,
            shape: Shape {
                source: Source::Given { prompts, answer },
                name: format!("trace {}", file.display()),
                max_tokens: options.workload.max_tokens.map(TokenCount),
            },
            seed: options.seed,
            arrivals: format!("replay at {speed} times its speed"),
            rate: None,
            ks: None,
            budgets: options.budget,
        })
    }

    /// What request `index` asks, with its budgets.
    pub(crate) fn ask(&self, index: u64) -> Ask {
        let mut ask = self.shape.ask(self.seed, index);
        let (own, all) = (ask.budgets, self.budgets);
        ask.budgets = Budgets {
            e2e: own.e2e.or(all.e2e),
            ttft: own.ttft.or(all.ttft),
            patience: own.patience.or(all.patience),
        };
        ask
    }
}

/// For how long a trace's requests arrive: the last of them has a gap after it too, of the mean length, so
/// that what is offered is the rate of the gaps. One that has no gaps stands for a second.
fn length(at: &[Micros]) -> Span {
    let last = at.last().map_or(0, |at| at.0);
    let gaps = at.len().saturating_sub(1) as u64;
    if last == 0 { Span::from_secs_f64(1.0) } else { Span(last + last.div_ceil(gaps.max(1))) }
}

/// A file, a pipe or a device; bounded whatever it is.
fn read(file: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", file.display());
    let mut text = String::new();
    let opened = File::open(file).with_context(cannot)?;
    let bytes = opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(cannot)?;
    let fits = bytes as u64 <= FILE_BYTES_MAX;
    anyhow::ensure!(fits, "{} has more than {FILE_BYTES_MAX} bytes", file.display());
    // A byte order mark is what some editors begin a file with.
    let marked = text.starts_with('\u{feff}');
    Ok(if marked { text.split_off('\u{feff}'.len_utf8()) } else { text })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_trace_lasts_as_long_as_its_gaps_say() {
        let length = |at: &[u64]| length(&at.iter().map(|at| Micros(*at)).collect::<Vec<_>>());
        assert_eq!(length(&[0, 500_000, 1_000_000]), Span(1_500_000), "two a second");
        assert_eq!(length(&[0]), Span(1_000_000));
        assert_eq!(length(&[0, 0, 0]), Span(1_000_000));
        assert_eq!(length(&[0, 1]), Span(2));
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompts.txt");
        fs::write(&file, "\u{feff}one\r\n").unwrap();
        assert_eq!(read(&file).unwrap(), "one\r\n");
        fs::write(&file, [0xff, 0]).unwrap();
        assert!(read(&file).is_err());
    }
}
