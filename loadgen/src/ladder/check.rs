//! Whether a plan makes sense. Every refusal names the key.

use std::str::FromStr as _;

use anyhow::ensure;
use workload::{Budgets, Slo};

use super::plan::{Plan, ProbePlan};
use crate::run::Named;

/// Cells of a plan: more is a mistake.
const CELLS_MAX: usize = 10_000;
/// Characters of a name: it becomes part of file names.
const NAME_MAX: usize = 40;

/// Checks all of it.
///
/// # Errors
/// The first key that does not do.
pub(super) fn check(plan: &Plan) -> anyhow::Result<()> {
    name("name", &plan.name)?;
    grid(plan)?;
    times(plan)?;
    load(plan)?;
    rungs(plan)?;
    replicates(plan)?;
    let cells = plan.rates.len() * plan.seeds.len() * plan.rungs.len();
    ensure!(cells <= CELLS_MAX, "rates, seeds and rungs: {cells} cells, at most {CELLS_MAX}");
    Ok(())
}

fn name(key: &str, name: &str) -> anyhow::Result<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (1..=NAME_MAX).contains(&name.len()) && name.chars().all(fits);
    ensure!(good, "{key}: {name:?} is not 1 to {NAME_MAX} of a to z, 0 to 9 and -");
    Ok(())
}

fn grid(plan: &Plan) -> anyhow::Result<()> {
    let rising = plan.rates.windows(2).all(|pair| pair[0] < pair[1]);
    let sane = plan.rates.iter().all(|rate| (1e-3..=1e6).contains(rate));
    ensure!(!plan.rates.is_empty() && rising && sane, "rates: rising, from 0.001 to 1000000");
    let mut seeds = plan.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    let once = seeds.len() == plan.seeds.len();
    ensure!(!seeds.is_empty() && once, "seeds: at least one, each once");
    Ok(())
}

fn times(plan: &Plan) -> anyhow::Result<()> {
    let keys = [
        ("duration_s", plan.duration_s, 0.1),
        ("warmup_s", plan.warmup_s, 0.0),
        ("drain_s", plan.drain_s, 0.0),
        ("timeout_s", plan.timeout_s, 0.1),
    ];
    for (key, value, least) in keys {
        ensure!((least..=1e6).contains(&value), "{key}: {value} is not from {least} to 1000000");
    }
    let (warmup, duration) = (plan.warmup_s, plan.duration_s);
    ensure!(warmup < duration, "warmup_s: {warmup} leaves nothing of duration_s, {duration}");
    Ok(())
}

fn load(plan: &Plan) -> anyhow::Result<()> {
    Slo::from_str(&plan.slo).map_err(|error| anyhow::anyhow!("slo: {error}"))?;
    if !plan.budget.is_empty() {
        Budgets::from_str(&plan.budget).map_err(|error| anyhow::anyhow!("budget: {error}"))?;
    }
    let scaled = plan.workload == Named::Scaled;
    ensure!(scaled || plan.scale.is_none(), "scale: it belongs to workload = \"scaled\"");
    let sane = plan.scale.is_none_or(|scale| (0.001..=100.0).contains(&scale));
    ensure!(sane, "scale: from 0.001 to 100");
    let sane = plan.max_tokens.is_none_or(|tokens| (1..=1_000_000).contains(&tokens));
    ensure!(sane, "max_tokens: from 1 to 1000000");
    let ProbePlan { times, prompt_tokens, answer_tokens } = plan.probe;
    ensure!(times <= 100, "probe.times: {times}, at most 100");
    let sane = (8..=100_000).contains(&prompt_tokens);
    ensure!(sane, "probe.prompt_tokens: {prompt_tokens} is not from 8 to 100000");
    let sane = (2..=100_000).contains(&answer_tokens);
    ensure!(sane, "probe.answer_tokens: {answer_tokens} is not from 2 to 100000");
    Ok(())
}

fn rungs(plan: &Plan) -> anyhow::Result<()> {
    ensure!(!plan.rungs.is_empty(), "rung: there is none");
    let mut known: Vec<&str> = Vec::new();
    for rung in &plan.rungs {
        name("rung.name", &rung.name)?;
        ensure!(!known.contains(&&*rung.name), "rung.name: {:?} is there twice", rung.name);
        if let Some(against) = &rung.against {
            let earlier = known.contains(&against.as_str());
            ensure!(earlier, "rung.against: {against:?} is no rung before {:?}", rung.name);
        }
        known.push(&rung.name);
    }
    let layers = plan.rungs.iter().map(|rung| &rung.settings).chain([&plan.settings]);
    for (process, key) in
        layers.flatten().flat_map(|(process, keys)| keys.keys().map(move |key| (process, key)))
    {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let good = !key.is_empty() && key.chars().all(fits);
        ensure!(good, "settings.{process}.{key}: a key is of a to z, 0 to 9 and _");
    }
    Ok(())
}

fn replicates(plan: &Plan) -> anyhow::Result<()> {
    for replicate in &plan.replicates {
        let rung = &replicate.rung;
        let known = plan.rungs.iter().any(|it| it.name == *rung);
        ensure!(known, "replicate.rung: there is no rung {rung:?}");
        let (rate, seed, times) = (replicate.rate, replicate.seed, replicate.times);
        ensure!(plan.rates.contains(&rate), "replicate.rate: {rate} is none of the rates");
        ensure!(plan.seeds.contains(&seed), "replicate.seed: {seed} is none of the seeds");
        ensure!((1..=100).contains(&times), "replicate.times: {times} is not from 1 to 100");
        let same =
            |it: &&super::plan::Replicate| it.rung == *rung && it.rate == rate && it.seed == seed;
        let once = plan.replicates.iter().filter(same).count() == 1;
        ensure!(once, "replicate: {rung:?} at {rate} with seed {seed} is there twice");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::examples::PLAN;

    /// What is said about the example with `from` replaced by `to`.
    fn refused(from: &str, to: &str) -> String {
        assert!(PLAN.contains(from), "{from}");
        let changed = Plan::parse(&PLAN.replacen(from, to, 1));
        format!("{:#}", changed.expect_err(to))
    }

    #[test]
    fn the_example_does() {
        Plan::parse(PLAN).expect("a plan");
    }

    #[test]
    fn so_do_those_that_ship_with_it() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        let paths = folder.read_dir().expect("plans").map(|entry| entry.expect("a plan").path());
        let plans: Vec<_> = paths.filter(|path| !path.ends_with("cadence.toml")).collect();
        assert!(plans.len() >= 8, "{plans:?}");
        for path in plans {
            let plan = Plan::read(&path).unwrap_or_else(|error| panic!("{error:#}"));
            let file = path.file_stem().expect("a name");
            assert_eq!(file, plan.name.as_str(), "a plan is called as its file");
        }
    }

    #[test]
    fn every_refusal_names_the_key() {
        let cases = [
            ("seeds =", "sedes =", "unknown field `sedes`"),
            ("name = \"example\"", "", "missing field `name`"),
            ("name = \"example\"", "name = \"Über\"", "name: \"Über\" is not"),
            ("rates = [1, 2, 4]", "rates = [2, 1]", "rates: rising"),
            ("rates = [1, 2, 4]", "rates = [0]", "rates: rising, from 0.001"),
            ("rates = [1, 2, 4]", "rates = [nan]", "rates: rising"),
            ("rates = [1, 2, 4]", "rates = []", "rates: rising"),
            ("seeds = [1, 2]", "seeds = [1, 1]", "seeds: at least one, each once"),
            ("seeds = [1, 2]", "seeds = [-1]", "seeds"),
            ("duration_s = 5", "duration_s = 0", "duration_s: 0 is not from 0.1"),
            ("warmup_s = 1", "warmup_s = 5", "warmup_s: 5 leaves nothing of duration_s, 5"),
            ("drain_s = 10", "drain_s = inf", "drain_s: inf"),
            ("slo = \"e2e:4000\"", "slo = \"e2e\"", "slo: `e2e` is not name:milliseconds"),
            ("slo = \"e2e:4000\"", "slo = \"\"", "slo: "),
            ("slo =", "budget = \"x:1\"\nslo =", "budget: `x` is none of"),
            ("slo =", "workload = \"chat\"\nslo =", "unknown variant `chat`"),
            ("slo =", "scale = 0.5\nslo =", "scale: it belongs to"),
            ("slo =", "max_tokens = 0\nslo =", "max_tokens: from 1"),
            ("slo =", "retries = \"often\"\nslo =", "unknown variant `often`"),
            ("slo =", "probe.times = 101\nslo =", "probe.times: 101"),
            ("slo =", "probe.tokens = 1\nslo =", "unknown field `tokens`"),
            ("title = \"two\"", "titel = \"two\"", "unknown field `titel`"),
            ("name = \"two\"", "name = \"one\"", "rung.name: \"one\" is there twice"),
            ("title = \"two\"", "title = \"\"\nagainst = \"six\"", "rung.against: \"six\""),
            ("{ tokens = 8 }", "{ To-kens = 8 }", "settings.server.To-kens: a key is"),
            ("{ tokens = 8 }", "{ tokens = [8] }", "tokens"),
            ("rate = 2\n", "rate = 3\n", "replicate.rate: 3 is none of the rates"),
            ("seed = 1\n", "seed = 9\n", "replicate.seed: 9 is none"),
            ("times = 2\n", "times = 0\n", "replicate.times: 0"),
        ];
        for (from, to, wanted) in cases {
            let said = refused(from, to);
            assert!(said.contains(wanted), "{to}: {said:?} does not say {wanted:?}");
        }
    }

    #[test]
    fn what_looks_different_and_says_the_same_is_the_same_plan() {
        let digest = |text: &str| Plan::parse(text).expect("a plan").digest();
        let same = digest(PLAN);
        assert_eq!(digest(&format!("# A comment.\n{PLAN}")), same);
        assert_eq!(digest(&PLAN.replace("5\n", "5.0\n")), same);
        assert_ne!(digest(&PLAN.replace("seeds = [1, 2]", "seeds = [1, 3]")), same);
        assert_eq!(digest(&format!("bin_dir = \"elsewhere\"\n{PLAN}")), same);
    }
}
