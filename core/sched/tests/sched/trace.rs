//! Requests as a crowd of users sends them: the workload that the first project of this kind was
//! measured with.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use units::{Micros, Span, Token};

/// The beginning of a text that is unlike every other.
pub(crate) fn text(name: u32, tokens: u32) -> impl Iterator<Item = Token> {
    (0..tokens).map(move |at| Token(name * 10_000 + at))
}

/// A request of the trace.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Micros,
    pub(crate) prompt: Vec<Token>,
    pub(crate) answer: u32,
}

/// `count` requests at `rate` a second. Seven of ten begin with one of four long texts, of which they
/// have a bit more than nine tenths; the others share nothing.
pub(crate) fn arrivals(seed: u64, count: u32, rate: f64) -> Vec<Arrival> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let lengths = [480, 540, 590, 650];
    let mut at = Micros(0);
    (0..count)
        .map(|number| {
            at += Span::from_secs_f64(-(1.0 - rng.random::<f64>()).ln() / rate);
            let which = rng.random_range(0..4u32);
            let length: u32 = lengths[which as usize];
            let shared = if rng.random_bool(0.7) { length * 92 / 100 } else { 0 };
            let own = text(1_000 + number, length - shared);
            let prompt = text(which, shared).chain(own).collect();
            Arrival { at, prompt, answer: lognormal(&mut rng) }
        })
        .collect()
}

/// Lognormal (4.6, 0.8), within 16 and 512 tokens.
fn lognormal(rng: &mut ChaCha8Rng) -> u32 {
    let (one, two) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
    let tokens = (4.6 + 0.8 * normal).exp().clamp(16.0, 512.0);
    u32::try_from(Span::from_secs_f64(tokens / 1e6).0).expect("at most 512")
}
