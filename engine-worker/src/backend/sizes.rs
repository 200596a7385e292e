//! How many sequences of which length fit.

use sched::Limits;
use units::{BlockCount, Span, TokenCount};

use crate::{
    scheduling,
    settings::{EngineSettings, LayoutKind},
};

/// Sequences, their length, and the KV blocks that they have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sequences that run at once.
    pub slots: u32,
    /// Tokens of each, a multiple of a KV block.
    pub context_tokens: u32,
    /// Blocks of all of them.
    pub kv_blocks: BlockCount,
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
        let each = TokenCount(context_tokens).blocks();
        let kv_blocks = pool(settings, BlockCount(each.0.saturating_mul(slots)), tokens);
        Self { slots, context_tokens: each.min(kv_blocks).tokens().0, kv_blocks }
    }

    /// The scheduler's bounds.
    #[must_use]
    pub fn limits(&self, settings: &EngineSettings) -> Limits {
        let Self { slots, context_tokens, kv_blocks } = *self;
        let unleased = if settings.unleased_max == 0 { slots } else { settings.unleased_max };
        Limits {
            slots,
            context_tokens,
            batch_tokens: settings.batch_tokens().max(slots),
            prefill_tokens: settings.prefill_tokens(),
            step: Span::from_millis(settings.step_ms),
            waiting: settings.waiting_max,
            unleased,
            kv_blocks,
            rules: scheduling::rules(&settings.scheduling),
        }
    }
}

/// Blocks as set, up to what all slots can use; where 0, all of that, or what the KV memory holds if the
/// slots share it.
fn pool(settings: &EngineSettings, all: BlockCount, tokens: u32) -> BlockCount {
    let held = BlockCount((tokens / units::BLOCK_TOKENS).max(1));
    match (settings.scheduling.kv_blocks, settings.scheduling.layout()) {
        (0, LayoutKind::Streams) => all,
        (0, LayoutKind::Unified) => all.min(held),
        (set, _) => all.min(BlockCount(set)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LayoutChoice, tests::mock_settings};

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
    fn one_pool_is_shared_by_more_than_it_could_hold_apart() {
        let mut settings = mock_settings();
        settings.scheduling.layout = LayoutChoice::Unified;
        settings.scheduling.kv_blocks = 1_024;
        let sizes = Sizes::choose(&EngineSettings { slots: 24, ..settings.clone() }, 23_040, 8_192);
        assert_eq!((sizes.kv_blocks.0, sizes.context_tokens), (1_024, 3_888));
        settings.scheduling.kv_blocks = 8;
        let tiny = Sizes::choose(&settings, 23_040, 8_192);
        assert_eq!((tiny.kv_blocks.0, tiny.context_tokens), (8, 128));
    }

    #[test]
    fn what_is_set_is_taken_up_to_the_training_context() {
        assert_eq!(chosen(3, 1_000, 23_040, 8_192), (3, 1_008));
        assert_eq!(chosen(0, 8_192, 23_040, 8_192), (11, 8_192));
        assert_eq!(chosen(2, 99_999, 23_040, 8_192), (2, 8_192));
    }
}
