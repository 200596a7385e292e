//! How many sequences of which length fit.

use sched::Limits;
use units::{Span, TokenCount};

use crate::settings::EngineSettings;

/// Sequences and their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sequences that run at once.
    pub slots: u32,
    /// Tokens of each, a multiple of a KV block.
    pub context_tokens: u32,
}

const SLOTS_AUTO: u32 = 16;
const CONTEXT_AUTO: u32 = 4096;
/// Rather fewer sequences than sequences shorter than this.
const CONTEXT_LEAST: u32 = 2048;

impl Sizes {
    /// Sizes as set; where 0, as many sequences of the usual length as the KV budget holds.
    #[must_use]
    pub fn choose(settings: &EngineSettings, kv_bytes_per_token: u64, context_train: u32) -> Self {
        let budget = (settings.kv_mib << 20) / kv_bytes_per_token.max(1);
        let tokens = u32::try_from(budget).unwrap_or(u32::MAX);
        let longest = context_train.max(units::BLOCK_TOKENS);
        let context = |slots: u32| (tokens / slots).min(CONTEXT_AUTO).min(longest);
        let slots = match (settings.slots, settings.context_tokens) {
            (0, 0) => (tokens / CONTEXT_LEAST.min(longest)).clamp(1, SLOTS_AUTO),
            (0, context) => (tokens / context).clamp(1, SLOTS_AUTO),
            (slots, _) => slots,
        };
        let context_tokens = match settings.context_tokens {
            0 => context(slots).max(CONTEXT_LEAST.min(longest)),
            context => context.min(longest),
        };
        Self { slots, context_tokens: TokenCount(context_tokens).blocks().tokens().0 }
    }

    /// The scheduler's bounds.
    #[must_use]
    pub fn limits(&self, settings: &EngineSettings) -> Limits {
        let Self { slots, context_tokens } = *self;
        let blocks = TokenCount(context_tokens).blocks().0;
        let unleased = if settings.unleased_max == 0 { slots } else { settings.unleased_max };
        Limits {
            slots,
            context_tokens,
            batch_tokens: settings.batch_tokens.max(slots),
            prefill_tokens: settings.prefill_tokens,
            step: Span::from_millis(settings.step_ms),
            waiting: settings.waiting_max,
            unleased,
            kv_blocks: units::BlockCount(blocks.saturating_mul(slots)),
            rules: sched::Rules::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::mock_settings;

    fn chosen(slots: u32, context_tokens: u32, kv_bytes_per_token: u64, train: u32) -> (u32, u32) {
        let settings = EngineSettings { slots, context_tokens, ..mock_settings() };
        let sizes = Sizes::choose(&settings, kv_bytes_per_token, train);
        (sizes.slots, sizes.context_tokens)
    }

    #[test]
    fn memory_decides_what_is_not_set() {
        assert_eq!(chosen(0, 0, 23_040, 8_192), (16, 4_096), "135 M parameters");
        assert_eq!(chosen(0, 0, 131_072, 131_072), (8, 2_048), "8 B, grouped heads");
        assert_eq!(chosen(0, 0, 524_288, 4_096), (2, 2_048), "7 B");
        assert_eq!(chosen(0, 0, 8 << 20, 32_768), (1, 2_048), "something huge");
        assert_eq!(chosen(0, 0, 1_000, 512), (16, 512), "a short training context");
    }

    #[test]
    fn what_is_set_is_taken_up_to_the_training_context() {
        assert_eq!(chosen(3, 1_000, 23_040, 8_192), (3, 1_008));
        assert_eq!(chosen(0, 8_192, 23_040, 8_192), (11, 8_192));
        assert_eq!(chosen(2, 99_999, 23_040, 8_192), (2, 8_192));
    }
}
