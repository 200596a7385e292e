//! Findings and advice for people.

use std::fmt::Write as _;

use super::{
    advice::Advice,
    measure::{Found, Lengths},
};

/// Several lines, without the last end of line.
pub(super) fn text(found: &Found, advice: &Advice, url: &str) -> String {
    let mut out = String::new();
    measured(&mut out, found);
    implied(&mut out, found, advice);
    proposed(&mut out, advice, url);
    out
}

fn line(out: &mut String, name: &str, text: &str) {
    writeln!(out, "{name:<24}{text}").expect("a string takes everything");
}

fn measured(out: &mut String, found: &Found) {
    out.push_str("\nmeasured\n");
    let lengths = |it: &Lengths| {
        let Lengths { p50, mean, p95, max } = *it;
        format!("p50 {p50:.0}, mean {mean:.0}, p95 {p95:.0}, max {max:.0} tokens")
    };
    line(out, "prompts", &format!("{}: {}", found.workload, lengths(&found.prompt)));
    line(out, "caps on answers", &lengths(&found.answer));
    let prefill = &found.prefill;
    let rate = if prefill.per_token_ms > 0.0 {
        format!("{:.0} tokens/s", 1_000.0 / prefill.per_token_ms)
    } else {
        "too fast to be measured".into()
    };
    let each = format!("{rate}, and {:.1} ms a request", prefill.base_ms);
    line(out, "prefill", &each);
    let counted = format!("{:.2} tokens of the server for each of ours", prefill.tokens_per_made);
    line(out, "", &counted);
    let cached = format!(
        "a prompt that is asked again is spared {:.0} % of its time",
        prefill.cached_share * 100.0
    );
    line(out, "prefix cache", &cached);
    for decode in &found.decode {
        let serial = if decode.together { "" } else { ", not all at once" };
        let speed = format!(
            "{:.1} tokens/s in all, {:.1} ms between tokens{serial}",
            decode.tokens_per_s, decode.gap_ms
        );
        line(out, &format!("decode, {} at once", decode.width), &speed);
    }
    let mut e2e = found.unloaded_e2e_ms.clone();
    e2e.sort_by(f64::total_cmp);
    let e2e: Vec<_> = e2e.iter().map(|millis| format!("{millis:.0}")).collect();
    line(out, "E2E, one at a time", &format!("{} ms", e2e.join(", ")));
    let share = format!("{:.0} % of their caps", found.answered_share * 100.0);
    line(out, "answers", &share);
}

fn implied(out: &mut String, found: &Found, advice: &Advice) {
    out.push_str("\nimplied\n");
    let unloaded = format!(
        "p50 {:.0}, p90 {:.0}, p95 {:.0} ms, with what the workload shares cached",
        advice.unloaded_e2e_p50_ms, advice.unloaded_e2e_p90_ms, advice.unloaded_e2e_p95_ms
    );
    line(out, "E2E on an idle server", &unloaded);
    line(out, "one after the other", &format!("{:.2} rps", advice.serial_rps));
    let best = format!(
        "{:.2} rps, decoding {} at once; {:.0} % of prompt tokens are shared",
        advice.capacity_rps,
        advice.fastest_width,
        found.shareable * 100.0
    );
    line(out, "at best", &best);
}

fn proposed(out: &mut String, advice: &Advice, url: &str) {
    out.push_str("\nproposed\n");
    let rates: Vec<_> = advice.rates.iter().map(ToString::to_string).collect();
    line(out, "rates", &format!("{} rps", rates.join(", ")));
    line(out, "", "a quarter of the best case to three times it, so that the knee lies inside");
    line(out, "E2E target", &format!("{} ms", advice.e2e_ms));
    line(out, "", "met by 9 of 10 requests on an idle server: load decides about it, not lengths");
    line(out, "TTFT target", &format!("{} ms", advice.ttft_ms));
    line(out, "", "2.5 times what a long prompt takes on an idle server");
    line(out, "ITL target", &format!("{} ms", advice.itl_ms));
    line(out, "", "three times the gap with eight streams");
    let slo = format!("e2e:{},ttft:{},itl:{}", advice.e2e_ms, advice.ttft_ms, advice.itl_ms);
    let rate = advice.rates.get(2).copied().unwrap_or(1.0);
    out.push_str("\nwith the options of the workload that was measured here:\n");
    write!(out, "loadgen run --url {url} --rate {rate} --duration 180 --slo {slo}")
        .expect("a string takes everything");
}
