//! How fast two files are, in turn within one run: a machine that changes speed changes both.

use std::time::Instant;

use llama::{LayoutKind, Model, Options, Yardstick};
use units::Token;

use super::{Order, Progress, Stop};
use crate::provenance::Speed;

/// Sequences that decode at once, at most.
const SEQUENCES: u32 = 8;

/// Tokens before those that are decoded, and how many are.
const DEPTH: usize = 32;
const STEPS: u32 = 16;

/// Tokens that a sequence has room for at least: both together, and one more.
const ROOM_MIN: u32 = 64;

/// Kinds of work.
const WORKS: [Work; 3] = [Work::Prefill, Work::Decode(1), Work::Decode(SEQUENCES)];

#[derive(Clone, Copy, Debug)]
enum Work {
    /// The whole prompt, in one batch.
    Prefill,
    /// So many sequences at once.
    Decode(u32),
}

impl Work {
    fn name(self) -> String {
        match self {
            Self::Prefill => "prefill".into(),
            Self::Decode(sequences) => format!("decode at {sequences}"),
        }
    }

    /// Does it once; tokens per second.
    fn run(self, bare: &mut Yardstick<'_>, prompt: &[Token]) -> anyhow::Result<f64> {
        let tokens = match self {
            Self::Prefill => prompt.len(),
            Self::Decode(sequences) => {
                bare.start(sequences, &prompt[..DEPTH.min(prompt.len() / 2)])?;
                // The first step after a prompt pays for what the prompt left undone.
                bare.step()?;
                (sequences * STEPS) as usize
            }
        };
        let began = Instant::now();
        match self {
            Self::Prefill => bare.start(1, prompt)?,
            Self::Decode(_) => (0..STEPS).try_for_each(|_| bare.step())?,
        }
        Ok(tokens as f64 / began.elapsed().as_secs_f64())
    }
}

/// Measures both files, which swap places every time, on a prompt.
///
/// # Errors
/// llama.cpp fails, there is not enough memory, or somebody wants to stop.
pub(super) fn measure(
    files: [&Model; 2],
    prompt: &[Token],
    order: &Order,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<Vec<Speed>> {
    let room = u32::try_from(prompt.len())?.max(ROOM_MIN);
    let options = Options {
        slots: SEQUENCES,
        context_tokens: room,
        batch_tokens: room,
        threads: order.threads,
        owners: 0,
        layout: LayoutKind::Streams,
    };
    let [original, optimized] = files;
    let mut bare = [original.yardstick(&options)?, optimized.yardstick(&options)?];
    let mut rounds = vec![Vec::new(); WORKS.len()];
    let count = order.rounds as usize;
    let mut stage = progress.stage("measuring both in turn", count + 1);
    // The first round warms up.
    for round in 0..=count {
        for (work, rounds) in WORKS.iter().zip(&mut rounds) {
            stop.check()?;
            let turns = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            let mut speeds = [0.0; 2];
            for file in turns {
                speeds[file] = work.run(&mut bare[file], prompt)?;
            }
            if round > 0 {
                rounds.push(speeds);
            }
        }
        stage.done(round + 1);
    }
    Ok(WORKS.iter().zip(&rounds).map(|(work, rounds)| speed(work.name(), rounds)).collect())
}

/// Of rounds of the original's and the new file's tokens per second.
fn speed(work: String, rounds: &[[f64; 2]]) -> Speed {
    let ratios = sorted(rounds.iter().map(|[original, optimized]| optimized / original));
    Speed {
        work,
        original: median(&sorted(rounds.iter().map(|it| it[0]))),
        optimized: median(&sorted(rounds.iter().map(|it| it[1]))),
        ratio: median(&ratios),
        ratio_min: ratios[0],
        ratio_max: ratios[ratios.len() - 1],
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle one; of an even number, the upper one of two.
fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The machine was half as fast in the second round.
        let speed = speed("prefill".into(), &[[100.0, 200.0], [50.0, 90.0], [100.0, 190.0]]);
        assert_eq!((speed.original, speed.optimized), (100.0, 190.0));
        assert_eq!((speed.ratio_min, speed.ratio, speed.ratio_max), (1.8, 1.9, 2.0));
    }
}
