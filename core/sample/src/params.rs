//! How a token is drawn.

/// The highest temperature: above it text is noise.
const TEMPERATURE_MAX: f32 = 2.0;

/// Sampling parameters of one request. Plain data; [`Sampling::validate`] says what is allowed.
///
/// The filters apply in this order: `top_k`, `top_p`, `min_p`, temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy, and then nothing else matters; up to 2.
    pub temperature: f32,
    /// Draw among this many likeliest tokens; 0 is off, more than the vocabulary has is off too.
    pub top_k: u32,
    /// Draw among the likeliest tokens that have this much probability together, from 0 (only the
    /// likeliest) to 1 (off).
    pub top_p: f32,
    /// Draw among tokens that have this share of the likeliest one's probability, from 0 (off) to 1
    /// (only the likeliest and its equals).
    pub min_p: f32,
    /// Seed of the request's own generator.
    pub seed: u64,
}

/// A parameter is out of its range or not a number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// See [`Sampling::temperature`].
    #[error("temperature must be from 0 to {TEMPERATURE_MAX}, not {0}")]
    Temperature(f32),
    /// See [`Sampling::top_p`].
    #[error("top_p must be from 0 to 1, not {0}")]
    TopP(f32),
    /// See [`Sampling::min_p`].
    #[error("min_p must be from 0 to 1, not {0}")]
    MinP(f32),
}

impl Sampling {
    /// Whether all parameters are numbers within their ranges.
    ///
    /// # Errors
    /// Names the first one that is not.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let within = |value: f32, max: f32| (0.0..=max).contains(&value);
        if !within(self.temperature, TEMPERATURE_MAX) {
            return Err(SamplingError::Temperature(self.temperature));
        }
        if !within(self.top_p, 1.0) {
            return Err(SamplingError::TopP(self.top_p));
        }
        if !within(self.min_p, 1.0) {
            return Err(SamplingError::MinP(self.min_p));
        }
        Ok(())
    }

    /// Whether the likeliest token is taken, and nothing is drawn.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

impl SamplingError {
    /// The name of the field that is wrong.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Temperature(_) => "temperature",
            Self::TopP(_) => "top_p",
            Self::MinP(_) => "min_p",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Sampling = Sampling { temperature: 0.7, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };

    #[test]
    fn the_ends_of_every_range_are_allowed() {
        let widest = Sampling { temperature: 2.0, top_k: u32::MAX, top_p: 0.0, min_p: 1.0, ..FINE };
        let narrowest = Sampling { temperature: 0.0, ..FINE };
        assert_eq!([widest, narrowest, FINE].map(|it| it.validate()), [Ok(()); 3]);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for bad in [-0.1, 2.1, f32::NAN, f32::INFINITY] {
            for wrong in [
                Sampling { temperature: bad, ..FINE },
                Sampling { top_p: bad, ..FINE },
                Sampling { min_p: bad, ..FINE },
            ] {
                let error = wrong.validate().expect_err("out of range");
                assert!(error.to_string().starts_with(error.field()), "{error}");
            }
        }
    }
}
