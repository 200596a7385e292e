//! When a client tries again: as OpenAI's libraries do by default.

use units::Span;

use crate::Draws;

/// Attempts in all.
pub const SDK_ATTEMPTS: u32 = 3;
/// The waits of their back-off, in seconds.
const FIRST: f64 = 0.5;
const LONGEST: f64 = 8.0;
/// A server's wish is heard up to here.
const WISH_MAX: Span = Span::from_secs(60);

/// How long a client waits after its attempt number `attempt` (from 1) has failed in a way that may pass:
/// as the server wishes, or else twice as long after each. Nothing after the last attempt.
#[must_use]
pub fn sdk_wait(attempt: u32, wish: Option<Span>, draws: &mut Draws) -> Option<Span> {
    if attempt >= SDK_ATTEMPTS {
        return None;
    }
    let heard = wish.filter(|wish| (Span(1)..=WISH_MAX).contains(wish));
    Some(heard.unwrap_or_else(|| {
        let doubled = FIRST * f64::from(1_u32 << attempt.saturating_sub(1));
        Span::from_secs_f64(doubled.min(LONGEST) * (1.0 - 0.25 * draws.unit()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(attempt: u32, wish: Option<Span>) -> Option<Span> {
        sdk_wait(attempt, wish, &mut Draws::new(0, 0))
    }

    #[test]
    fn waits_double_and_are_jittered_down() {
        for (attempt, longest_ms) in [(1, 500), (2, 1_000)] {
            let wait = wait(attempt, None).expect("a second attempt");
            let longest = Span::from_millis(longest_ms);
            assert!(wait <= longest && wait >= longest.mul_f64(0.75), "{wait}");
        }
        assert_eq!(wait(3, None), None);
    }

    #[test]
    fn the_servers_wish_counts_in_bounds() {
        assert_eq!(wait(1, Some(Span::from_secs(7))), Some(Span::from_secs(7)));
        for odd in [Span::ZERO, Span::from_secs(61)] {
            assert!(wait(1, Some(odd)).expect("a wait") <= Span::from_millis(500), "{odd}");
        }
    }
}
