//! The measurements.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde::Serialize;
use units::Span;
use workload::Draws;

use super::{
    Options,
    probe::{Prober, Sample, fresh},
};
use crate::{console, run::Shape, summary::quantile};

/// Requests of the workload whose lengths are looked at.
const LENGTHS: u64 = 2_000;

/// What was found. Times are milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    pub(super) workload: String,
    pub(super) prompt: Lengths,
    /// Caps on answers.
    pub(super) answer: Lengths,
    /// Share of prompt tokens that an earlier prompt of the workload began with.
    pub(super) shareable: f64,
    pub(super) prefill: Prefill,
    pub(super) decode: Vec<Decode>,
    /// Whole requests of the workload, one at a time.
    pub(super) unloaded_e2e_ms: Vec<f64>,
    /// How long answers were, as a share of their caps.
    pub(super) answered_share: f64,
    #[serde(skip)]
    pub(super) requests: Vec<Request>,
}

/// Lengths of a request of the workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) prompt: f64,
    /// What of the prompt an earlier one began with.
    pub(super) shared: f64,
    pub(super) cap: f64,
}

/// Of tokens.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Lengths {
    pub(super) p50: f64,
    pub(super) mean: f64,
    pub(super) p95: f64,
    pub(super) max: f64,
}

/// What a prompt costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Prefill {
    /// Of any request, until its first token.
    pub(super) base_ms: f64,
    pub(super) per_token_ms: f64,
    /// Server's count of a token that we made.
    pub(super) tokens_per_made: f64,
    /// What of its time a prompt is spared when it is asked again.
    pub(super) cached_share: f64,
}

/// How fast answers come when so many are made at once.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Decode {
    pub(super) width: u32,
    /// Streams that were seen to run at once.
    pub(super) together: bool,
    pub(super) tokens_per_s: f64,
    /// The median gap between tokens of a stream.
    pub(super) gap_ms: f64,
}

/// Measures everything in turn.
///
/// # Errors
/// A request fails.
pub(super) async fn measure(
    prober: &Arc<Prober>,
    shape: &Shape,
    options: &Options,
) -> anyhow::Result<Found> {
    // A server that was calibrated before must not know these prompts.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut ids = Draws::new(u64::try_from(now.as_micros()).unwrap_or(0), 0);
    let (prompts, requests, shareable) = lengths(shape);
    console::note("prefill ...");
    let prefill = prefill(prober, quantile(&prompts, 0.95), options.samples, &mut ids).await?;
    let mut decode = Vec::new();
    for &width in &options.streams {
        console::note(&format!("decode, {width} at once ..."));
        decode.push(decode_at(prober, width, options.decode_tokens, &mut ids).await?);
    }
    console::note("whole requests, one at a time ...");
    let mut samples = Vec::new();
    let mut caps = 0;
    for index in 0..u64::from(options.samples) {
        let ask = shape.ask(ids.bits(), index);
        caps += ask.max_tokens.0;
        samples.push(prober.ask(&ask, false).await.context("a request of the workload")?);
    }
    let answered: u32 = samples.iter().map(|sample| sample.tokens).sum();
    let mut caps_all: Vec<f64> = requests.iter().map(|request| request.cap).collect();
    caps_all.sort_by(f64::total_cmp);
    Ok(Found {
        workload: shape.name.clone(),
        prompt: Lengths::of(&prompts),
        answer: Lengths::of(&caps_all),
        shareable,
        prefill,
        decode,
        unloaded_e2e_ms: samples.iter().map(|sample| millis(sample.e2e)).collect(),
        answered_share: f64::from(answered) / f64::from(caps.max(1)),
        requests,
    })
}

/// Sorted lengths of prompts, the workload's requests, and the share of tokens that a perfect cache
/// would have.
fn lengths(shape: &Shape) -> (Vec<f64>, Vec<Request>, f64) {
    let mut seen = BTreeSet::new();
    let (mut prompts, mut requests) = (Vec::new(), Vec::new());
    let (mut all, mut shared) = (0.0, 0.0);
    for index in 0..LENGTHS {
        let ask = shape.ask(0, index);
        let tokens = f64::from(ask.prompt.tokens().0);
        // A prefix is shared as long as every passage before it is.
        let known = ask.prompt.passages().take_while(|passage| !seen.insert(**passage));
        let cached: f64 = known.map(|passage| f64::from(passage.tokens.0)).sum();
        all += tokens;
        shared += cached;
        prompts.push(tokens);
        let cap = f64::from(ask.max_tokens.0);
        requests.push(Request { prompt: tokens, shared: cached, cap });
    }
    prompts.sort_by(f64::total_cmp);
    (prompts, requests, if all > 0.0 { shared / all } else { 0.0 })
}

impl Lengths {
    fn of(sorted: &[f64]) -> Self {
        Self {
            p50: quantile(sorted, 0.5),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p95: quantile(sorted, 0.95),
            max: quantile(sorted, 1.0),
        }
    }
}

/// From prompts of two lengths, and from one that is asked again.
async fn prefill(
    prober: &Prober,
    long: f64,
    samples: u32,
    ids: &mut Draws,
) -> anyhow::Result<Prefill> {
    #[expect(clippy::cast_possible_truncation, reason = "a length that came from a u32")]
    #[expect(clippy::cast_sign_loss, reason = "a length")]
    let long = (long as u32).max(64);
    let short = long / 8;
    // The first request of a server may pay for much.
    prober.ask(&fresh(ids.bits(), short, 1), true).await.context("the first request")?;
    let (mut shorts, mut longs) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        shorts.push(prober.ask(&fresh(ids.bits(), short, 1), true).await?);
        longs.push(prober.ask(&fresh(ids.bits(), long, 1), true).await?);
    }
    let mut agains = Vec::new();
    for _ in 0..samples {
        let again = fresh(ids.bits(), long, 1);
        prober.ask(&again, true).await?;
        agains.push(prober.ask(&again, true).await?);
    }
    let ttft_ms = |samples: &[Sample]| median(samples, |it| millis(it.ttft));
    let (short_ms, long_ms, again_ms) = (ttft_ms(&shorts), ttft_ms(&longs), ttft_ms(&agains));
    let tokens = |samples: &[Sample]| median(samples, |it| f64::from(it.prompt_tokens));
    let (short_tokens, long_tokens) = (tokens(&shorts), tokens(&longs));
    let per_token_ms = ((long_ms - short_ms) / (long_tokens - short_tokens).max(1.0)).max(0.0);
    let base_ms = (short_ms - per_token_ms * short_tokens).max(0.0);
    let spared_ms = (long_ms - again_ms).max(0.0);
    Ok(Prefill {
        base_ms,
        per_token_ms,
        tokens_per_made: (long_tokens - short_tokens) / f64::from(long - short),
        cached_share: (spared_ms / (long_ms - base_ms).max(1e-3)).min(1.0),
    })
}

/// Speed while all of `width` streams are being answered.
async fn decode_at(
    prober: &Arc<Prober>,
    width: u32,
    tokens: u32,
    ids: &mut Draws,
) -> anyhow::Result<Decode> {
    let asks = (0..width).map(|_| fresh(ids.bits(), 16, tokens)).collect();
    let samples = prober.ask_all(asks).await.with_context(|| format!("{width} at once"))?;
    let ends = samples.iter().filter_map(|it| Some((*it.contents.first()?, *it.contents.last()?)));
    let (first, last): (Vec<_>, Vec<_>) = ends.unzip();
    let (earliest, latest) = (first.iter().min().copied(), last.iter().max().copied());
    let (begin, end) = (first.into_iter().max(), last.into_iter().min());
    let span = |(from, to): (units::Micros, units::Micros)| to.since(from);
    let inside = begin.zip(end).map(span).unwrap_or_default();
    let together = width == 1 || inside > Span::ZERO;
    // Streams that follow each other have no time in common: then all of it counts.
    let (begin, end) = if together { (begin, end) } else { (earliest, latest) };
    let length = begin.zip(end).map(span).unwrap_or_default().as_secs_f64();
    let within =
        |at: &&units::Micros| begin.is_some_and(|b| **at > b) && end.is_some_and(|e| **at <= e);
    let count = samples.iter().flat_map(|it| &it.contents).filter(within).count();
    let mut gaps: Vec<f64> = samples
        .iter()
        .flat_map(|it| it.contents.windows(2).map(|pair| millis(pair[1].since(pair[0]))))
        .collect();
    gaps.sort_by(f64::total_cmp);
    anyhow::ensure!(!gaps.is_empty() && length > 0.0, "answers of one token: nothing to measure");
    Ok(Decode {
        width,
        together,
        tokens_per_s: count as f64 / length,
        gap_ms: quantile(&gaps, 0.5),
    })
}

fn median(samples: &[Sample], get: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(get).collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}
