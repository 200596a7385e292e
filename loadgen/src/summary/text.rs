//! A summary for people.

use std::fmt::Write as _;

use super::{Spread, Summary};

/// Several lines, without the last end of line.
pub(crate) fn text(summary: &Summary) -> String {
    let mut out = head(summary);
    latencies(&mut out, summary);
    windows(&mut out, summary);
    tokens(&mut out, summary);
    generator(&mut out, summary);
    for line in warnings(summary) {
        line_of(&mut out, &line);
    }
    out.truncate(out.trim_end().len());
    out
}

fn line_of(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn head(summary: &Summary) -> String {
    let rate = summary.rate.map_or_else(String::new, |rate| format!(" at {rate} rps"));
    let mut out = format!(
        "\n{} ({})\n{}, {}{rate}, seed {}, {} s\n\n",
        summary.url,
        summary.model,
        summary.workload,
        summary.arrivals,
        summary.seed,
        tenths(summary.window_s)
    );
    let classes: Vec<_> =
        summary.classes.iter().map(|(name, count)| format!("{name} {count}")).collect();
    line_of(&mut out, &format!("requests    {}: {}", summary.requests, classes.join(", ")));
    line_of(
        &mut out,
        &format!(
            "rates       offered {:.3} rps, completed {:.3} rps, {:.1} tokens/s",
            summary.offered_rps, summary.completed_rps, summary.output_tokens_per_s
        ),
    );
    if let Some((goodput, share)) = summary.goodput_rps.zip(summary.goodput_share) {
        line_of(
            &mut out,
            &format!("goodput     {goodput:.3} rps, {:.1} % within {}", share * 100.0, summary.slo),
        );
    }
    out
}

/// To a tenth, which is said only where it is not 0.
pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn latencies(out: &mut String, summary: &Summary) {
    let rows = [
        ("E2E", &summary.e2e_ms),
        ("TTFT", &summary.ttft_ms),
        ("ITL", &summary.itl_ms),
        ("TPOT", &summary.tpot_ms),
        ("E2E from send", &summary.e2e_from_send_ms),
        ("TTFT from send", &summary.ttft_from_send_ms),
    ];
    if summary.e2e_ms.is_none() {
        return;
    }
    line_of(out, "\nms                    mean       p50       p90       p95       p99       max");
    for (name, spread) in rows {
        if let Some(spread) = spread {
            line_of(out, &format!("{name:<16}{}", numbers(spread)));
        }
    }
}

fn numbers(spread: &Spread) -> String {
    let Spread { mean, p50, p90, p95, p99, max, .. } = *spread;
    let mut out = String::new();
    for value in [mean, p50, p90, p95, p99, max] {
        write!(out, "{value:>10.1}").expect("a string takes everything");
    }
    out
}

fn windows(out: &mut String, summary: &Summary) {
    line_of(out, "\narrived in s        requests     ok   shed   E2E p50   E2E p99");
    for window in &summary.windows {
        let span = format!("{:.1} to {:.1}", window.from_s, window.to_s);
        let (p50, p99) = window.e2e_ms.map_or(("-".into(), "-".into()), |spread| {
            (format!("{:.1}", spread.p50), format!("{:.1}", spread.p99))
        });
        let (requests, ok, shed) = (window.requests, window.ok, window.shed);
        line_of(out, &format!("{span:<20}{requests:>8}{ok:>7}{shed:>7}{p50:>10}{p99:>10}"));
    }
}

fn tokens(out: &mut String, summary: &Summary) {
    let (asked, seen) = (summary.asked_prompt_tokens, summary.prompt_tokens);
    line_of(
        out,
        &format!(
            "\ntokens      prompts {seen} (made to be {asked}), {} of them cached; answers {}",
            summary.cached_tokens, summary.output_tokens
        ),
    );
    for (name, tier) in &summary.tiers {
        let bounds = if tier.bounded == 0 {
            String::new()
        } else {
            format!(", {} of {} bounds kept", tier.kept, tier.bounded)
        };
        line_of(out, &format!("tier        {name}: {} answers{bounds}", tier.requests));
    }
}

fn generator(out: &mut String, summary: &Summary) {
    if let Some(slip) = summary.slip_ms {
        let (p99, max, lag) = (slip.p99, slip.max, summary.lag_ms_max);
        let text =
            format!("generator   slip p99 {p99:.2} ms, max {max:.2} ms; lag max {lag:.2} ms");
        line_of(out, &text);
    }
    if let Some((distance, p)) = summary.ks {
        line_of(out, &format!("schedule    KS distance {distance:.4} from exponential, p {p:.3}"));
    }
}

fn warnings(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if !summary.complete {
        lines.push("\nPARTIAL: the run was stopped before all of it was sent and answered".into());
    }
    if let Some(why) = &summary.invalid {
        lines.push(format!("\nINVALID: {why}. This says nothing about the server."));
    }
    lines
}
