//! `loadgen validate`: are the arrivals what theory expects?

use serde::Serialize;
use units::Span;
use workload::{Arrivals, ks_exponential};

use crate::{console, exit::Exit};

/// The level of the test.
const ALPHA: f64 = 0.05;

/// Check that arrivals are distributed as they should be.
///
/// One schedule can be unlucky: a sound generator fails a test at 5 % with one seed in twenty. Many seeds
/// tell. Exit status 1 if the share of rejections lies outside its 99 % interval.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many seeds, from 0 on
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=1_000_000))]
    seeds: u64,
    /// Requests a second
    #[arg(long, value_name = "RPS", default_value_t = 1.4)]
    rate: f64,
    /// Seconds of each schedule
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    duration: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found, each beside what should be.
#[derive(Clone, Debug, Serialize)]
struct Findings {
    seeds: u64,
    rate: f64,
    duration_s: u64,
    rejected: u64,
    rejected_share: f64,
    /// The interval in which the share lies with a probability of 99 %.
    rejected_low: f64,
    rejected_high: f64,
    p_median: f64,
    arrivals_mean: f64,
    arrivals_mean_expected: f64,
    arrivals_sd: f64,
    arrivals_sd_expected: f64,
    sound: bool,
}

/// Draws the schedules and says what they are.
///
/// # Errors
/// The rate or the duration makes no schedule.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let findings = find(options)?;
    if options.json {
        console::say(&serde_json::to_string_pretty(&findings)?);
    } else {
        console::say(&text(&findings));
    }
    Ok(if findings.sound { Exit::Done } else { Exit::Failed })
}

fn find(options: &Options) -> anyhow::Result<Findings> {
    let arrivals = Arrivals::Poisson { rate: options.rate };
    let (mut p_values, mut counts) = (Vec::new(), Vec::new());
    for seed in 0..options.seeds {
        let at = arrivals.schedule(Span::from_secs(options.duration), seed)?;
        counts.push(at.len() as f64);
        let tested = ks_exponential(&at, options.rate);
        let tested =
            tested.ok_or_else(|| anyhow::anyhow!("too few arrivals: raise the duration"))?;
        p_values.push(tested.p_value);
    }
    p_values.sort_by(f64::total_cmp);
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let expected = options.rate * options.duration as f64;
    let rejected = p_values.iter().filter(|p| **p < ALPHA).count() as u64;
    let (low, high) = interval(options.seeds, ALPHA);
    Ok(Findings {
        seeds: options.seeds,
        rate: options.rate,
        duration_s: options.duration,
        rejected,
        rejected_share: rejected as f64 / n,
        rejected_low: low as f64 / n,
        rejected_high: high as f64 / n,
        p_median: p_values[p_values.len() / 2],
        arrivals_mean: mean,
        arrivals_mean_expected: expected,
        arrivals_sd: variance.sqrt(),
        arrivals_sd_expected: expected.sqrt(),
        sound: (low..=high).contains(&rejected),
    })
}

/// The counts between the quantiles of 0.5 % and 99.5 % of a binomial distribution.
fn interval(n: u64, p: f64) -> (u64, u64) {
    // In logarithms: the probability of no rejection in many seeds is smaller than a number can be.
    let mut log_term = n as f64 * (1.0 - p).ln();
    let (mut below, mut low) = (0.0, None);
    for count in 0..=n {
        below += log_term.exp();
        if low.is_none() && below > 0.005 {
            low = Some(count);
        }
        if below >= 0.995 {
            return (low.unwrap_or(count), count);
        }
        log_term += ((n - count) as f64 / (count + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    (low.unwrap_or(0), n)
}

fn text(found: &Findings) -> String {
    let Findings { rejected_low: low, rejected_high: high, .. } = *found;
    let verdict = if found.sound { "sound" } else { "NOT as they should be" };
    format!(
        "poisson arrivals at {} rps for {} s, {} seeds\n\n\
         {:<28}{:>10}   expected\n\
         {:<28}{:>8.1} %   5.0 %, from {:.1} to {:.1} %\n\
         {:<28}{:>10.3}   0.5\n\
         {:<28}{:>10.1}   {:.1}\n\
         {:<28}{:>10.2}   {:.2}\n\n\
         the arrivals are {verdict}",
        found.rate,
        found.duration_s,
        found.seeds,
        "",
        "measured",
        "KS rejections at 5 %",
        found.rejected_share * 100.0,
        low * 100.0,
        high * 100.0,
        "median p-value",
        found.p_median,
        "mean arrivals",
        found.arrivals_mean,
        found.arrivals_mean_expected,
        "SD of arrivals",
        found.arrivals_sd,
        found.arrivals_sd_expected,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_with(seeds: u64, rate: f64) -> Findings {
        find(&Options { seeds, rate, duration: 180, json: false }).expect("schedules")
    }

    #[test]
    fn ours_are_sound() {
        let found = find_with(200, 1.4);
        assert!(found.sound, "{found:?}");
        assert!((found.arrivals_mean - 252.0).abs() < 4.0, "{found:?}");
        assert!((found.arrivals_sd - 15.9).abs() < 3.0, "{found:?}");
    }

    #[test]
    fn the_interval_is_the_binomial_one() {
        assert_eq!(interval(200, 0.05), (3, 19));
        assert_eq!(interval(20, 0.05), (0, 4));
        let (low, high) = interval(100_000, 0.05);
        assert!((4_800..4_850).contains(&low) && (5_150..5_200).contains(&high), "{low} {high}");
    }
}
