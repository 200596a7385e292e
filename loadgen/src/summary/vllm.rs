//! A summary under the names that `vllm bench serve --save-result` uses.

use serde_json::{Map, Value, json};
use units::Span;

use super::{Spread, Summary};
use crate::{
    record::{Row, Run},
    wire::Class,
};

/// Names are theirs. Latencies are ours: from the intended arrival, which `latency_from` says; theirs
/// count from the moment of sending.
pub(crate) fn vllm(run: &Run, summary: &Summary) -> Value {
    let rows: Vec<&Row> = run.rows.iter().filter(|row| !row.warmup).collect();
    let completed = rows.iter().filter(|row| row.class == Class::Ok).count();
    let secs = summary.until_end_s;
    let per_second = |count: u64| if secs > 0.0 { count as f64 / secs } else { 0.0 };
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("date", json!(date(run.provenance.started_unix_us)));
    put(
        "endpoint_type",
        json!(if run.provenance.api == "chat" { "openai-chat" } else { "openai" }),
    );
    put("backend", json!("loadgen"));
    put("label", Value::Null);
    put("model_id", json!(summary.model));
    put("tokenizer_id", json!(summary.model));
    put("num_prompts", json!(rows.len()));
    put("request_rate", json!(summary.rate));
    put("max_concurrency", Value::Null);
    put("latency_from", json!("intended_arrival"));
    put("duration", json!(secs));
    put("completed", json!(completed));
    put("failed", json!(rows.len() - completed));
    put("total_input_tokens", json!(summary.prompt_tokens));
    put("total_output_tokens", json!(summary.output_tokens));
    put("request_throughput", json!(summary.completed_rps));
    put("request_goodput", json!(summary.goodput_rps));
    put("output_throughput", json!(summary.output_tokens_per_s));
    let all = summary.prompt_tokens + summary.output_tokens;
    put("total_token_throughput", json!(per_second(all)));
    put("input_lens", list(&rows, |row| json!(row.prompt_tokens.unwrap_or(0))));
    put("output_lens", list(&rows, |row| json!(row.tokens())));
    put("ttfts", list(&rows, |row| json!(row.ttft().map_or(0.0, Span::as_secs_f64))));
    put(
        "itls",
        list(&rows, |row| {
            json!(row.gaps_us.iter().map(|gap| f64::from(*gap) / 1e6).collect::<Vec<_>>())
        }),
    );
    put("errors", list(&rows, |row| json!(row.detail.as_deref().unwrap_or(""))));
    let spreads = [
        ("ttft", summary.ttft_ms),
        ("tpot", summary.tpot_ms),
        ("itl", summary.itl_ms),
        ("e2el", summary.e2e_ms),
    ];
    for (name, spread) in spreads {
        put_spread(&mut out, name, spread);
    }
    Value::Object(out)
}

fn list(rows: &[&Row], get: impl Fn(&Row) -> Value) -> Value {
    rows.iter().map(|row| get(row)).collect()
}

fn put_spread(out: &mut Map<String, Value>, name: &str, spread: Option<Spread>) {
    let values = [
        ("mean", spread.map(|spread| spread.mean)),
        ("median", spread.map(|spread| spread.p50)),
        ("std", spread.map(|spread| spread.sd)),
        ("p50", spread.map(|spread| spread.p50)),
        ("p90", spread.map(|spread| spread.p90)),
        ("p95", spread.map(|spread| spread.p95)),
        ("p99", spread.map(|spread| spread.p99)),
    ];
    for (what, value) in values {
        out.insert(format!("{what}_{name}_ms"), json!(value.unwrap_or(0.0)));
    }
}

/// `YYYYMMDD-HHMMSS`, in UTC.
fn date(unix_us: u64) -> String {
    let secs = unix_us / 1_000_000;
    let (days, of_day) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Year, month and day of a day since 1970. Years are counted from March, so that the leap day is last,
/// and in eras of 400 years, which all have as many days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "19700101-000000");
        assert_eq!(date(951_782_400_000_000), "20000229-000000");
        assert_eq!(date(1_767_225_599_999_999), "20251231-235959");
    }
}
