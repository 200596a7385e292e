//! Bounds by arithmetic.

use units::Span;
use workload::Lengths;

use super::{Job, Price};

/// Shares of machine time that prompts may take, tried one by one.
const PROMPT_SHARES: u32 = 64;

/// How many of `jobs` any schedule can answer within `slo` in `time` of machine time: each is charged the
/// least machine time that its own deadline allows, and the cheapest come first; the last one in part.
///
/// Rigorous for a machine without noise, and loose: it lets every request have the batch that suits it.
#[must_use]
pub fn lp(jobs: &[Job], price: &Price, slo: Span, time: Span) -> f64 {
    let costs = jobs.iter().filter_map(|job| {
        let prompt = price.prompt(job);
        let left = slo.as_secs_f64() - prompt;
        let tokens = f64::from(job.tokens);
        // The first token comes with the prompt.
        let cost = price.cheapest(left / (tokens - 1.0).max(1.0))?;
        (left >= 0.0).then_some(prompt + (tokens - 1.0) * cost)
    });
    fill(costs.map(|cost| (cost, 0.0)).collect(), time.as_secs_f64(), f64::INFINITY)
}

/// How many of `jobs` a machine can answer within `slo` if it stays at one operating point: so many sequences
/// at once, such a share of its time for prompts. The best point is taken.
///
/// It ignores randomness, and mixtures of points within seconds, so it is near to a bound and no theorem.
#[must_use]
pub fn fluid(jobs: &[Job], price: &Price, slo: Span, time: Span) -> f64 {
    best_point(price, |step, token, share| {
        let pace = step / (1.0 - share);
        let costs = jobs
            .iter()
            .filter(|job| price.prompt(job) + f64::from(job.tokens) * pace <= slo.as_secs_f64());
        let costs = costs.map(|job| {
            let prompt = price.prompt(job);
            (prompt + f64::from(job.tokens) * token, prompt)
        });
        fill(costs.collect(), time.as_secs_f64(), share * time.as_secs_f64())
    })
}

/// What of `jobs` a machine can answer within `slo` if nobody knows how long answers will be, only their
/// `law`: each is given up after as many tokens as can be had in time, and is worth the chance that it has
/// ended by then.
#[must_use]
pub fn blind(jobs: &[Job], price: &Price, slo: Span, time: Span, law: &Lengths) -> f64 {
    let law = Survival::of(law);
    best_point(price, |step, token, share| {
        let offers = jobs.iter().filter_map(|job| {
            let prompt = price.prompt(job);
            let left = slo.as_secs_f64() - prompt;
            #[expect(clippy::cast_possible_truncation, reason = "float to int saturates")]
            #[expect(clippy::cast_sign_loss, reason = "what is left is not below 0 there")]
            let most = (left > 0.0).then(|| (left * (1.0 - share) / step) as u32)?;
            let tokens = most.min(job.cap);
            let value = if tokens == job.cap { 1.0 } else { law.ends_by(tokens) };
            (value > 0.0).then(|| (value, prompt + law.expected(tokens) * token, prompt))
        });
        fill_worth(offers.collect(), time.as_secs_f64(), share * time.as_secs_f64())
    })
}

/// An estimate of what somebody who does not know lengths can have: no bound.
#[must_use]
pub fn blind_ceiling(blind: f64, clairvoyant: f64, fluid: f64) -> f64 {
    if fluid > 0.0 { blind * clairvoyant / fluid } else { 0.0 }
}

/// The share that any rule has to refuse if a share of `missed` is late without it and at most `alpha` of
/// those who are let in may be: were the others refused and everybody else as before.
#[must_use]
pub fn refusal_floor(missed: f64, alpha: f64) -> f64 {
    if alpha >= 1.0 { 0.0 } else { ((missed - alpha) / (1.0 - alpha)).max(0.0) }
}

/// The most over all operating points: seconds of a step and of a token, and the share of prompts.
fn best_point(price: &Price, served: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let shares = 1..PROMPT_SHARES;
    price
        .points()
        .flat_map(|(step, token)| shares.clone().map(move |share| (step, token, share)))
        .map(|(step, token, share)| {
            served(step, token, f64::from(share) / f64::from(PROMPT_SHARES))
        })
        .fold(0.0, f64::max)
}

/// How many fit, the cheapest first, the last one in part: of costs, and the part of each that prompts are,
/// for which there is `prompts` at most.
fn fill(costs: Vec<(f64, f64)>, time: f64, prompts: f64) -> f64 {
    fill_worth(costs.into_iter().map(|(cost, prompt)| (1.0, cost, prompt)).collect(), time, prompts)
}

/// The same of values: who gives most for its cost comes first.
fn fill_worth(mut offers: Vec<(f64, f64, f64)>, mut time: f64, mut prompts: f64) -> f64 {
    offers.sort_by(|(value, cost, _), (other, other_cost, _)| {
        (cost / value).total_cmp(&(other_cost / other))
    });
    let mut worth = 0.0;
    for (value, cost, prompt) in offers {
        let share = |room: f64, needs: f64| if needs > room { room / needs } else { 1.0 };
        let part = share(time, cost).min(share(prompts, prompt));
        worth += value * part;
        if part < 1.0 {
            break;
        }
        time -= cost;
        prompts -= prompt;
    }
    worth
}

/// How long answers go on.
struct Survival {
    /// The chance to have ended by so many tokens.
    ends: Vec<f64>,
    /// The expected number of tokens if it is given up then.
    tokens: Vec<f64>,
}

/// Lengths that are drawn to know a law.
const DRAWN: usize = 20_000;
/// Longer answers count as this long.
const LONGEST: usize = 4_096;

impl Survival {
    fn of(law: &Lengths) -> Self {
        let mut draws = workload::Draws::new(0, 0);
        let mut counts = vec![0_u32; LONGEST + 1];
        for _ in 0..DRAWN {
            counts[(law.draw(&mut draws).0 as usize).min(LONGEST)] += 1;
        }
        let (mut ended, mut expected) = (0.0, 0.0);
        let mut survival = Self { ends: Vec::new(), tokens: Vec::new() };
        for count in counts {
            survival.tokens.push(expected);
            ended += f64::from(count) / DRAWN as f64;
            survival.ends.push(ended);
            // Whoever has not ended by now goes on for one more.
            expected += 1.0 - ended;
        }
        survival
    }

    fn ends_by(&self, tokens: u32) -> f64 {
        self.ends[(tokens as usize).min(LONGEST)]
    }

    fn expected(&self, tokens: u32) -> f64 {
        self.tokens[(tokens as usize).min(LONGEST)]
    }
}

#[cfg(test)]
mod tests {
    use units::TokenCount;

    use super::{
        super::job::tests::{job, price},
        *,
    };

    const SLO: Span = Span::from_secs(4);

    #[test]
    fn bounds_are_in_order() {
        let jobs: Vec<Job> =
            (0..100).zip(0..).map(|(index, more)| job(index, 20, 20 + 3 * more)).collect();
        let time = Span::from_secs(10);
        let (lp, fluid) = (lp(&jobs, &price(), SLO, time), fluid(&jobs, &price(), SLO, time));
        assert!(fluid <= lp + 1e-9, "{fluid} {lp}");
        assert!(fluid > 10.0 && lp <= 100.0);
        let law = Lengths::Between { min: TokenCount(20), max: TokenCount(317) };
        let blind = blind(&jobs, &price(), SLO, time, &law);
        assert!(blind > 0.0 && blind <= lp, "{blind} {lp}");
    }

    #[test]
    fn with_time_enough_everybody_who_can_is_answered() {
        let jobs: Vec<Job> = (0..50).map(|index| job(index, 20, 50)).collect();
        assert_eq!(lp(&jobs, &price(), SLO, Span::from_secs(1_000)), 50.0);
        let hopeless = [job(0, 5_000, 10), job(1, 1, 100_000)];
        assert_eq!(lp(&hopeless, &price(), SLO, Span::from_secs(1_000)), 0.0);
        assert_eq!(fluid(&hopeless, &price(), SLO, Span::from_secs(1_000)), 0.0);
    }

    #[test]
    fn the_floor_is_arithmetic() {
        assert!((refusal_floor(0.5, 0.05) - 0.45 / 0.95).abs() < 1e-12);
        assert_eq!(refusal_floor(0.01, 0.05), 0.0);
        assert_eq!(refusal_floor(0.5, 0.0), 0.5);
    }

    #[test]
    fn a_law_is_known_from_its_draws() {
        let law = Survival::of(&Lengths::Fixed(TokenCount(10)));
        assert_eq!((law.ends_by(9), law.ends_by(10)), (0.0, 1.0));
        assert_eq!((law.expected(4), law.expected(10), law.expected(99)), (4.0, 10.0, 10.0));
    }
}
