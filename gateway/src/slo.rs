//! Budgets: what a client asks for in headers, and what is left of it.

use actix_web::http::header::{HeaderMap, HeaderName};
use proto::v1::Budget;
use units::{Micros, Span};

use crate::error::ApiError;

/// No budget may be longer than this, in milliseconds: a day.
const BUDGET_MS_MAX: u64 = 86_400_000;
/// No patience may be longer than this, in milliseconds.
const PATIENCE_MS_MAX: u64 = 600_000;

pub(crate) const E2E: &str = "x-slo-e2e-ms";
const TTFT: &str = "x-slo-ttft-ms";
/// The name that another gateway uses.
const TTFT_ALIAS: &str = "x-llm-d-slo-ttft-ms";
const PATIENCE: &str = "x-slo-patience-ms";
const MODE: &str = "x-slo-mode";
/// What the names of these headers begin with. A name that begins so and is none of them is a mistake
/// that would cost its author the budget.
const PREFIX: &str = "x-slo-";
const NAMES: [&str; 4] = [E2E, TTFT, PATIENCE, MODE];

/// What a client wants of the timing of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) e2e: Option<Span>,
    pub(crate) ttft: Option<Span>,
    /// It gave `ttft` by the name that another gateway uses.
    aliased: bool,
    /// How long it will wait for a verdict.
    pub(crate) patience: Option<Span>,
    /// Serve without a promise if none can be made.
    pub(crate) best_effort: bool,
}

impl Wishes {
    /// Reads the `x-slo-` headers.
    ///
    /// # Errors
    /// A name that is not one, or a value; the header is named.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let names = headers.keys().map(HeaderName::as_str);
        if let Some(name) = { names }.find(|it| it.starts_with(PREFIX) && !NAMES.contains(it)) {
            let known = NAMES.join(", ");
            return Err(ApiError::invalid(name, format!("{name} is none of {known}")));
        }
        let budget = |name| millis(headers, name, 1, BUDGET_MS_MAX);
        let best_effort = match text(headers, MODE)? {
            None => false,
            Some("best-effort") => true,
            Some(_) => {
                return Err(ApiError::invalid(MODE, format!("{MODE} must be best-effort")));
            }
        };
        let (own, alias) = (budget(TTFT)?, budget(TTFT_ALIAS)?);
        if own.is_some() && alias.is_some() {
            let message = format!("{TTFT_ALIAS} must not be given beside {TTFT}");
            return Err(ApiError::invalid(TTFT_ALIAS, message));
        }
        let patience = millis(headers, PATIENCE, 0, PATIENCE_MS_MAX)?;
        let (ttft, aliased) = (own.or(alias), alias.is_some());
        Ok(Self { e2e: budget(E2E)?, ttft, aliased, patience, best_effort })
    }

    /// What the client calls `header`.
    pub(crate) fn called(&self, header: &'static str) -> &'static str {
        if header == TTFT && self.aliased { TTFT_ALIAS } else { header }
    }

    /// The budget that `header` asked for.
    pub(crate) fn budget(&self, header: &str) -> Option<Span> {
        if header == TTFT { self.ttft } else { self.e2e }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::invalid(name, format!("{name} must be given once")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim())),
        Err(_) => Err(ApiError::invalid(name, format!("{name} must be plain text"))),
    }
}

fn millis(headers: &HeaderMap, name: &str, min: u64, max: u64) -> Result<Option<Span>, ApiError> {
    let Some(text) = text(headers, name)? else { return Ok(None) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(millis) if digits && (min..=max).contains(&millis) => {
            Ok(Some(Span::from_millis(millis)))
        }
        _ => {
            let message = format!("{name} must be whole milliseconds, {min} to {max}");
            Err(ApiError::invalid(name, message))
        }
    }
}

/// When a request has to be answered. Budgets travel as what remains of them; inside a process an
/// instant of its own clock is simpler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    e2e: Option<Micros>,
    ttft: Option<Micros>,
}

impl Deadlines {
    /// The clock of a promise runs from the head of the HTTP request.
    pub(crate) fn of(wishes: &Wishes, head_at: Micros) -> Self {
        Self {
            e2e: wishes.e2e.map(|budget| head_at + budget),
            ttft: wishes.ttft.map(|budget| head_at + budget),
        }
    }

    /// The deadlines that a budget of another process means here.
    pub(crate) fn from_budget(budget: &Budget, now: Micros) -> Self {
        Self {
            e2e: budget.e2e_us.map(|left| now + Span(left)),
            ttft: budget.ttft_us.map(|left| now + Span(left)),
        }
    }

    /// What is left of it.
    pub(crate) fn remaining(&self, now: Micros) -> Budget {
        Budget {
            e2e_us: self.e2e.map(|deadline| deadline.until(now).0),
            ttft_us: self.ttft.map(|deadline| deadline.until(now).0),
        }
    }

    /// The same, due at the end of `budget` at the latest where there was no end.
    pub(crate) fn or_within(self, budget: Span, head_at: Micros) -> Self {
        Self { e2e: Some(self.e2e.unwrap_or(head_at + budget)), ..self }
    }

    /// The header of the budget that has run out, if one has.
    pub(crate) fn missed(&self, now: Micros) -> Option<&'static str> {
        let over = |deadline: Option<Micros>| deadline.is_some_and(|deadline| deadline <= now);
        if over(self.e2e) { Some(E2E) } else { over(self.ttft).then_some(TTFT) }
    }

    /// The header of the budget that runs out first.
    pub(crate) fn first(&self) -> &'static str {
        match (self.e2e, self.ttft) {
            (None, Some(_)) => TTFT,
            (Some(e2e), Some(ttft)) if ttft < e2e => TTFT,
            _ => E2E,
        }
    }

    /// Time until the last token is due, if that matters.
    pub(crate) fn e2e_left(&self, now: Micros) -> Option<Span> {
        self.e2e.map(|deadline| deadline.until(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn read(headers: &[(&'static str, &str)]) -> Result<Wishes, ApiError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            map.append(HeaderName::from_static(name), value);
        }
        Wishes::read(&map)
    }

    #[test]
    fn headers_are_read() {
        assert_eq!(read(&[]), Ok(Wishes::default()));
        let wishes =
            read(&[(E2E, "4000"), (TTFT_ALIAS, "250"), (PATIENCE, "0"), (MODE, "best-effort")])
                .expect("wishes");
        assert_eq!(wishes.e2e, Some(Span::from_secs(4)));
        assert_eq!(wishes.ttft, Some(Span::from_millis(250)));
        assert_eq!(wishes.patience, Some(Span::ZERO));
        assert!(wishes.best_effort);
        assert_eq!((wishes.called(TTFT), wishes.called(E2E)), (TTFT_ALIAS, E2E));
        assert_eq!(read(&[(TTFT, "1")]).expect("wishes").called(TTFT), TTFT);
    }

    #[test]
    fn two_names_of_one_budget_are_one_too_many() {
        for alias in ["2", "1", "x", ""] {
            let both = read(&[(TTFT, "1"), (TTFT_ALIAS, alias)]);
            let Err(ApiError::Invalid { param, .. }) = both else { panic!("{alias} was taken") };
            assert_eq!(param.as_deref(), Some(TTFT_ALIAS));
        }
    }

    #[test]
    fn bad_values_name_their_header() {
        let bad_number =
            ["", "0", "-1", "+5", "1.5", "1e3", "x", "86400001", "99999999999999999999", "\u{e9}"];
        for name in [E2E, TTFT, TTFT_ALIAS] {
            for value in bad_number {
                let Err(ApiError::Invalid { param, .. }) = read(&[(name, value)]) else {
                    panic!("{name}: {value} was taken");
                };
                assert_eq!(param.as_deref(), Some(name));
            }
        }
        assert!(read(&[(PATIENCE, "600001")]).is_err());
        assert!(read(&[(MODE, "promised")]).is_err());
    }

    #[test]
    fn a_misspelt_header_is_named() {
        for name in ["x-slo-e2e", "x-slo-ttft", "x-slo-", "x-slo-tier", "x-slo-e2e-msx"] {
            let Err(ApiError::Invalid { param, .. }) = read(&[(E2E, "4000"), (name, "1")]) else {
                panic!("{name} was taken");
            };
            assert_eq!(param.as_deref(), Some(name));
        }
        assert!(read(&[("x-slow", "1"), ("x-sloe2e-ms", "1")]).is_ok());
        assert!(read(&[(E2E, "4000"), (E2E, "5000")]).is_err());
    }

    #[test]
    fn the_budget_that_ran_out_is_known() {
        let wishes = Wishes { e2e: Some(Span(100)), ttft: Some(Span(50)), ..Wishes::default() };
        let deadlines = Deadlines::of(&wishes, Micros(0));
        let missed = [49, 50, 100].map(|now| deadlines.missed(Micros(now)));
        assert_eq!(missed, [None, Some(TTFT), Some(E2E)]);
        assert_eq!(deadlines.first(), TTFT);
        let endless = Deadlines::of(&Wishes::default(), Micros(0));
        assert_eq!((endless.missed(Micros(u64::MAX)), endless.first()), (None, E2E));
        assert_eq!(endless.or_within(Span(9), Micros(1)).missed(Micros(10)), Some(E2E));
        assert_eq!(deadlines.or_within(Span(9), Micros(1)), deadlines);
    }

    #[test]
    fn a_budget_shrinks_to_zero_and_no_further() {
        let wishes = Wishes { e2e: Some(Span(100)), ..Wishes::default() };
        let deadlines = Deadlines::of(&wishes, Micros(1_000));
        assert_eq!(deadlines.remaining(Micros(1_040)).e2e_us, Some(60));
        assert_eq!(deadlines.remaining(Micros(2_000)), Budget { e2e_us: Some(0), ttft_us: None });
    }
}
