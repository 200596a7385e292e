//! How the next token is chosen, as it is asked for.

use std::collections::BTreeMap;

use proto::v1::{LogitBias, Sampling};

use super::fields::Fields;
use crate::error::ApiError;

/// A request may bias at most this many tokens.
const BIASES_MAX: usize = 1_024;
const BIAS: &str = "logit_bias";

/// Takes the members that say how to sample; absent ones have OpenAI's defaults. `vocabulary` bounds
/// token ids, where it is known.
///
/// # Errors
/// Names the member that is wrong.
#[expect(clippy::cast_possible_truncation, reason = "to f32, within the ranges just checked")]
pub(super) fn take(fields: &mut Fields, vocabulary: Option<u32>) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0);
    let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0);
    if top_p as f32 <= 0.0 {
        return Err(fields.must("top_p", "be above 0"));
    }
    let min_p = fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0);
    // Both 0 and -1 are in use for "off".
    let top_k = fields.integer("top_k", -1..=i64::MAX)?.unwrap_or(0).max(0);
    let seed = fields.integer("seed", i64::MIN..=i64::MAX)?;
    let presence_penalty = fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0);
    let frequency_penalty = fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0);
    Ok(Sampling {
        temperature: temperature as f32,
        top_k: u32::try_from(top_k).unwrap_or(u32::MAX),
        top_p: top_p as f32,
        min_p: min_p as f32,
        seed: seed.map(i64::cast_unsigned),
        presence_penalty: presence_penalty as f32,
        frequency_penalty: frequency_penalty as f32,
        repeat_penalty: repeat_penalty(fields)?,
        logit_bias: logit_bias(fields, vocabulary)?,
        ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
    })
}

/// One parameter that goes by two names.
fn repeat_penalty(fields: &mut Fields) -> Result<Option<f32>, ApiError> {
    let names = ["repeat_penalty", "repetition_penalty"];
    let mut given = [None; 2];
    for (name, slot) in names.into_iter().zip(&mut given) {
        *slot = factor(fields, name)?;
    }
    match given {
        [Some(one), Some(other)] if one != other => {
            let be = format!("equal {} when both are given, but {other} is not {one}", names[0]);
            Err(fields.must(names[1], &be))
        }
        [one, other] => Ok(one.or(other).filter(|factor| *factor != 1.0)),
    }
}

/// Above 0, at most 10.
#[expect(clippy::cast_possible_truncation, reason = "to f32, within the range just checked")]
fn factor(fields: &mut Fields, name: &str) -> Result<Option<f32>, ApiError> {
    match fields.number(name, 0.0..=10.0)?.map(|factor| factor as f32) {
        Some(factor) if factor <= 0.0 => Err(fields.must(name, "be above 0")),
        factor => Ok(factor),
    }
}

/// `{"token id": bias}`, in the order of the ids.
#[expect(clippy::cast_possible_truncation, reason = "to f32, within the range just checked")]
fn logit_bias(fields: &mut Fields, vocabulary: Option<u32>) -> Result<Vec<LogitBias>, ApiError> {
    let Some(members) = fields.members(BIAS)? else { return Ok(Vec::new()) };
    if members.len() > BIASES_MAX {
        let be = format!("have at most {BIASES_MAX} tokens, not {}", members.len());
        return Err(fields.must(BIAS, &be));
    }
    let mut biases = BTreeMap::new();
    for (name, value) in members {
        let Some(token) = token(&name, vocabulary) else {
            let name: String = name.chars().take(20).collect();
            let be = format!("have token ids of this model as names, not {name:?}");
            return Err(fields.must(BIAS, &be));
        };
        match value.as_f64() {
            Some(bias) if (-100.0..=100.0).contains(&bias) => {
                if biases.insert(token, bias as f32).is_some() {
                    return Err(fields.must(BIAS, &format!("name each token once, {token} too")));
                }
            }
            _ => return Err(fields.must(BIAS, "have numbers from -100 to 100 as values")),
        }
    }
    Ok(biases.into_iter().map(|(token, bias)| LogitBias { token, bias }).collect())
}

fn token(name: &str, vocabulary: Option<u32>) -> Option<u32> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    // Without the vocabulary the engine is the one to object.
    let known = |id: &u32| vocabulary.is_none_or(|size| *id < size);
    name.parse().ok().filter(|id| digits && known(id))
}
