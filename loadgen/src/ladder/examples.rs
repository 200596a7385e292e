//! A plan for tests.

/// Two rungs, three loads, two seeds, and one cell again.
pub(crate) const PLAN: &str = r#"
name = "example"
stack = "stack.toml"
rates = [1, 2, 4]
seeds = [1, 2]
duration_s = 5
warmup_s = 1
drain_s = 10
slo = "e2e:4000"

[settings.server]
service_ms = 100

[[rung]]
name = "one"
title = "one place"

[[rung]]
name = "two"
title = "two"
settings.server = { tokens = 8 }

[[replicate]]
rung = "two"
rate = 2
seed = 1
times = 2
"#;
