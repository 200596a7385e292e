//! How much alike two files are: the probabilities that they give to the tokens of one text.
//!
//! Every window is read by itself and its second half is scored, when there is something before each token. The
//! differences are taken token by token, so that what makes a text hard is in neither ratio nor error.

use anyhow::ensure;
use llama::{Model, Scored};
use units::Token;

use super::{Progress, Stop};
use crate::provenance::Likeness;

/// Reads the windows, which have equal lengths, with both files.
///
/// # Errors
/// llama.cpp fails, there is not enough memory, or somebody wants to stop.
pub(super) fn measure(
    files: [&Model; 2],
    windows: &[Vec<Token>],
    threads: u32,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<Likeness> {
    let length = windows.iter().map(Vec::len).max().unwrap_or(0);
    let mut stage = progress.stage("reading a text with both files", 2 * windows.len());
    let [mut original, mut optimized] = [Vec::new(), Vec::new()];
    for (file, (model, scored)) in
        files.into_iter().zip([&mut original, &mut optimized]).enumerate()
    {
        let mut evaluator = model.evaluator(u32::try_from(length)?, threads)?;
        for (at, window) in windows.iter().enumerate() {
            stop.check()?;
            // As in llama.cpp's own tool, so that figures can be compared.
            scored.extend(evaluator.score(window, length / 2 + 1)?);
            stage.done(file * windows.len() + at + 1);
        }
    }
    let likeness = compare(&original, &optimized);
    let sound = [likeness.original, likeness.ratio, likeness.ratio_error];
    ensure!(sound.iter().all(|it| it.is_finite()), "a file's perplexity is no number");
    Ok(likeness)
}

/// Of the same tokens under two files.
fn compare(original: &[Scored], optimized: &[Scored]) -> Likeness {
    let tokens = original.len().min(optimized.len());
    let count = tokens as f64;
    let mean =
        |scored: &[Scored]| scored.iter().map(|it| f64::from(it.logprob)).sum::<f64>() / count;
    let pairs = || original.iter().zip(optimized);
    let gaps = || pairs().map(|(old, new)| f64::from(old.logprob) - f64::from(new.logprob));
    let gap = gaps().sum::<f64>() / count;
    let variance = gaps().map(|it| (it - gap).powi(2)).sum::<f64>() / (count - 1.0);
    let same = pairs().filter(|(old, new)| old.top.is_some() && old.top == new.top).count();
    let ratio = gap.exp();
    Likeness {
        tokens,
        original: (-mean(original)).exp(),
        optimized: (-mean(optimized)).exp(),
        ratio,
        ratio_error: ratio * (variance / count).sqrt(),
        same_top: same as f64 / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(logprobs: &[f32], tops: &[u32]) -> Vec<Scored> {
        let each = logprobs.iter().zip(tops);
        each.map(|(&logprob, &top)| Scored { logprob, top: Some(Token(top)) }).collect()
    }

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-6, "{left} {right}");
    }

    #[test]
    fn a_file_is_like_itself() {
        let file = scored(&[-1.0, -2.0, -3.0], &[1, 2, 3]);
        let Likeness { tokens, original, optimized, ratio, ratio_error, same_top } =
            compare(&file, &file);
        assert_eq!((tokens, ratio, ratio_error, same_top), (3, 1.0, 0.0, 1.0));
        assert_eq!(original, optimized);
        near(original, 2_f64.exp());
    }

    #[test]
    fn the_error_is_that_of_the_differences() {
        let original = scored(&[-1.0, -9.0, -2.0, -4.0], &[1, 2, 3, 4]);
        let optimized = scored(&[-1.5, -9.5, -2.0, -4.0], &[1, 2, 3, 0]);
        let likeness = compare(&original, &optimized);
        near(likeness.ratio, 0.25_f64.exp());
        near(likeness.optimized / likeness.original, likeness.ratio);
        // Differences of 0.5, 0.5, 0 and 0: a variance of 1/12.
        near(likeness.ratio_error, likeness.ratio * (1.0_f64 / 12.0 / 4.0).sqrt());
        near(likeness.same_top, 0.75);
    }

    #[test]
    fn a_file_without_a_likeliest_token_agrees_with_none() {
        let silent = vec![Scored { logprob: -9_999.0, top: None }; 2];
        near(compare(&silent, &silent).same_top, 0.0);
    }
}
