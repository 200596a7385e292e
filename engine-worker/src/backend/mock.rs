//! The mock backend: the cost model of `sched`, slept through, and a vocabulary of plain words.

use std::{sync::Arc, thread, time::Instant};

use anyhow::anyhow;
use sched::{Answers, Engine, EngineError, MockEngine, StepCost, StepOutcome, StepPlan};
use text::{Kind, Tokenizer, Vocabulary};
use units::Token;

use super::{Backend, ModelFacts, Sizes, model_id};
use crate::{
    calibration::{self, CostSource},
    scheduling,
    settings::EngineSettings,
};

const CONTEXT_TRAIN: u32 = 8_192;
/// As if its KV were as large as that of a model of 135 million parameters.
const KV_BYTES_PER_TOKEN: u64 = 23_040;
/// Prompt bytes that make one token, as in ordinary English.
const BYTES_PER_TOKEN: usize = 4;
const SYLLABLES: [&str; 16] = [
    "ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "xu", "za",
];

pub(super) fn backend(settings: &EngineSettings) -> anyhow::Result<Backend> {
    let sizes = Sizes::choose(settings, KV_BYTES_PER_TOKEN, CONTEXT_TRAIN);
    let (cost, source) = cost(settings)?;
    let tokenizer = MockTokenizer::new();
    let answers = Answers {
        words: tokenizer.first_word..tokenizer.first_word + words(),
        end: tokenizer.end,
        tokens: settings.mock_answer_tokens,
    };
    Ok(Backend {
        name: "mock",
        tokenizer: Arc::new(tokenizer),
        sizes,
        model: ModelFacts {
            id: model_id(settings, None),
            architecture: "mock".into(),
            file_bytes: 0,
            context_train: CONTEXT_TRAIN,
            derived: None,
        },
        owners: scheduling::owners(&settings.scheduling, sizes.slots, true),
        keeps: false,
        token_bytes: KV_BYTES_PER_TOKEN,
        cost: Some((cost, source)),
        with_engine: Box::new(move |run| {
            run(&mut Sleeping(MockEngine::new(sizes.slots, cost, answers)));
            Ok(())
        }),
    })
}

/// What its steps cost: what was measured of a real engine, or what is set.
fn cost(settings: &EngineSettings) -> anyhow::Result<(StepCost, CostSource)> {
    if let Some(path) = &settings.cost_model {
        let artifact = calibration::read(path)
            .map_err(|reason| anyhow!("cost_model: {}: {reason}", path.display()))?;
        return Ok((artifact.cost(), CostSource::MockCalibrated));
    }
    let cost = StepCost {
        base_us: settings.mock_base_us,
        per_decode_us: settings.mock_decode_us,
        per_prefill_token_us: settings.mock_prefill_us,
        per_cell_us: settings.mock_cell_us,
        per_tiled_cell_us: settings.mock_cell_us,
        ..StepCost::GUESS
    };
    Ok((cost, CostSource::Mock))
}

/// Takes the time that its engine says it would have taken.
struct Sleeping<E>(E);

impl<E: Engine> Engine for Sleeping<E> {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        let mut outcome = self.0.execute(plan)?;
        let begun = Instant::now();
        thread::sleep(outcome.took.into());
        outcome.spent.decoding = begun.elapsed().into();
        Ok(outcome)
    }
}

/// Answers are words of two syllables; prompts are a token for every few bytes, whose ids are a
/// digest of them.
struct MockTokenizer {
    vocabulary: Vocabulary,
    end: Token,
    first_word: u32,
}

fn words() -> u32 {
    let syllables = u32::try_from(SYLLABLES.len()).expect("a short list");
    syllables * syllables
}

impl MockTokenizer {
    fn new() -> Self {
        let mut builder = Vocabulary::builder();
        builder.push("<|im_start|>", Kind::Control);
        let end = builder.push("<|im_end|>", Kind::End);
        let mut first_word = None;
        for first in SYLLABLES {
            for second in SYLLABLES {
                let word = builder.push(format!(" {first}{second}"), Kind::Text);
                first_word.get_or_insert(word.0);
            }
        }
        let vocabulary = builder.eos(Some(end)).build();
        Self { vocabulary, end, first_word: first_word.expect("there are words") }
    }
}

impl Tokenizer for MockTokenizer {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn encode_plain(&self, text: &str, out: &mut Vec<Token>) {
        out.extend(text.as_bytes().chunks(BYTES_PER_TOKEN).map(|chunk| {
            let digest = chunk
                .iter()
                .fold(17u32, |digest, byte| digest.wrapping_mul(31).wrapping_add(u32::from(*byte)));
            Token(self.first_word + digest % words())
        }));
    }

    fn chat_template(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_words_and_never_control_tokens() {
        let tokenizer = MockTokenizer::new();
        let mut tokens = Vec::new();
        tokenizer.encode_plain("<|im_start|>system\u{0}\u{1f980}", &mut tokens);
        assert_eq!(tokens.len(), 6);
        assert!(tokens.iter().all(|token| !tokenizer.vocabulary.is_control(*token)));
    }
}
