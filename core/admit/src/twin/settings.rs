//! The parts of a twin, each of which can be left out.

use units::Span;

/// Promises that rest on a simulation of the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Twin {
    /// How answers are foreseen.
    pub foresight: Foresight,
    /// Share of promises that are to be kept, above 0.5 and below 1; it is told as the confidence.
    pub level: f64,
    /// Whether the effect on promises already made counts. Without, promises are not protected: an arm for
    /// comparisons.
    pub impact: bool,
    /// Whether step costs are learnt. Without, the engine's own model is believed as it stands.
    pub learns_cost: bool,
    /// Whether margins follow how promises turned out.
    pub conformal: bool,
    /// Holding requests that do not fit yet.
    pub deferral: Option<Deferral>,
    /// Who is let in without a promise when none can be made.
    pub best_effort: BestEffort,
    /// A request is let in as best effort if it is in time with at least this probability, 0 to 1.
    pub best_effort_level: f64,
    /// Best-effort requests that one promise may evict, at most 8.
    pub evictions_max: u32,
    /// Machine time that requests may ask for together, as a share of it, before the dearest are priced
    /// out, 0.1 to 10. None: nobody is.
    pub price: Option<f64>,
    /// While everything is refused, one request is let in without a promise this often, so that what is
    /// believed of the engine can be found wrong.
    pub canary: Span,
    /// Time between the engine and the client that no model knows, taken off each budget.
    pub overhead: Span,
}

/// How answers are foreseen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Foresight {
    /// Every answer goes to its cap; predictions are widened by a margin.
    Caps {
        /// The margin before anything was measured, a logarithm: 0.12 adds an eighth. 0 to 2.
        margin: f64,
    },
    /// Answers are as long as answers were, in many scenarios.
    Learnt {
        /// How many. A power of two, 1 to 256.
        scenarios: u32,
    },
}

/// Holding requests that do not fit yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// How many held requests are looked at each time that something changes, the cheapest first; at
    /// least 1.
    pub tries: u32,
}

/// Who is let in without a promise when none can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestEffort {
    /// Who accepts that.
    Asked,
    /// Everybody who has a fair chance to be in time; an answer always says that nothing was promised.
    Anyone,
}

impl Twin {
    /// `twin`: deterministic, on caps.
    pub const CAPS: Self = Self {
        foresight: Foresight::Caps { margin: 0.12 },
        level: 0.99,
        impact: true,
        learns_cost: true,
        conformal: true,
        deferral: None,
        best_effort: BestEffort::Asked,
        best_effort_level: 0.2,
        evictions_max: 0,
        price: None,
        canary: Span::from_secs(2),
        overhead: Span::from_millis(5),
    };

    /// `twin-mc`: over scenarios of answer lengths and step costs.
    pub const SCENARIOS: Self =
        Self { foresight: Foresight::Learnt { scenarios: 64 }, level: 0.98, ..Self::CAPS };

    /// `full`: with deferral, best effort, evictions and a price.
    pub const FULL: Self = Self {
        deferral: Some(Deferral { tries: 12 }),
        best_effort: BestEffort::Anyone,
        evictions_max: 4,
        price: Some(1.0),
        level: 0.99,
        ..Self::SCENARIOS
    };

    /// Its name, after its parts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.foresight, self.deferral) {
            (_, Some(_)) => "full",
            (Foresight::Caps { .. }, None) => "twin",
            (Foresight::Learnt { .. }, None) => "twin-mc",
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The name of the first member outside its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let foresight = match self.foresight {
            Foresight::Caps { margin } => within(margin, 0.0, 2.0),
            Foresight::Learnt { scenarios } => {
                scenarios.is_power_of_two() && scenarios <= SCENARIOS_MAX
            }
        };
        let checks = [
            ("foresight", foresight),
            ("level", within(self.level, 0.5, 0.9999)),
            ("deferral", self.deferral.is_none_or(|it| it.tries >= 1)),
            ("best_effort_level", within(self.best_effort_level, 0.0, 1.0)),
            ("evictions_max", self.evictions_max <= 8),
            ("price", self.price.is_none_or(|it| within(it, 0.1, 10.0))),
            ("canary", self.canary >= Span::from_millis(100)),
        ];
        checks.iter().find(|(_, good)| !good).map_or(Ok(()), |(name, _)| Err(name))
    }
}

const SCENARIOS_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_in_range_and_have_their_names() {
        for (twin, name) in
            [(Twin::CAPS, "twin"), (Twin::SCENARIOS, "twin-mc"), (Twin::FULL, "full")]
        {
            assert_eq!((twin.validate(), twin.name()), (Ok(()), name));
        }
        assert_eq!(Twin { level: f64::NAN, ..Twin::CAPS }.validate(), Err("level"));
        let scenarios = Foresight::Learnt { scenarios: 60 };
        assert_eq!(Twin { foresight: scenarios, ..Twin::CAPS }.validate(), Err("foresight"));
    }
}
