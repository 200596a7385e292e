//! What settings leave open, and who decides it.

use super::{EngineSettings, LayoutChoice};
use crate::calibration::{Configuration, processors};

/// Rows of a batch, and prompt tokens of a step, where nothing else was set or found.
const ROWS: u32 = 512;

impl EngineSettings {
    /// Threads of llama.cpp.
    #[must_use]
    pub fn threads(&self) -> u32 {
        if self.threads == 0 { processors() } else { self.threads }
    }

    /// Rows of one backend batch.
    #[must_use]
    pub fn batch_tokens(&self) -> u32 {
        if self.batch_tokens == 0 { ROWS } else { self.batch_tokens }
    }

    /// Prompt tokens in one step.
    #[must_use]
    pub fn prefill_tokens(&self) -> u32 {
        if self.prefill_tokens == 0 { ROWS.min(self.batch_tokens()) } else { self.prefill_tokens }
    }

    /// Whether a configuration contradicts nothing that is set.
    #[must_use]
    pub fn allows(&self, configuration: &Configuration) -> bool {
        let Configuration { layout, threads, gpu_layers, .. } = *configuration;
        let layouts = [LayoutChoice::Auto, layout.into()];
        layouts.contains(&self.scheduling.layout)
            && [0, threads].contains(&self.threads)
            && gpu_layers == self.gpu_layers
    }

    /// Takes from a configuration what is left open.
    pub fn take(&mut self, configuration: &Configuration) {
        let Configuration { layout, threads, batch_tokens, prefill_tokens, .. } = *configuration;
        if self.scheduling.layout == LayoutChoice::Auto {
            self.scheduling.layout = layout.into();
        }
        if self.threads == 0 {
            self.threads = threads;
        }
        if self.batch_tokens == 0 {
            self.batch_tokens = batch_tokens.max(self.prefill_tokens).max(self.slots);
        }
        if self.prefill_tokens == 0 {
            self.prefill_tokens = prefill_tokens.min(self.batch_tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LayoutKind, tests::mock_settings};

    const FOUND: Configuration = Configuration {
        layout: LayoutKind::Unified,
        threads: 3,
        gpu_layers: 999,
        batch_tokens: 96,
        prefill_tokens: 64,
    };

    fn decided(set: impl FnOnce(&mut EngineSettings)) -> (LayoutKind, u32, u32, u32) {
        let mut settings = mock_settings();
        set(&mut settings);
        settings.take(&FOUND);
        let layout = settings.scheduling.layout();
        (layout, settings.threads(), settings.batch_tokens(), settings.prefill_tokens())
    }

    #[test]
    fn what_is_open_is_taken_and_what_is_set_stays() {
        assert_eq!(decided(|_| ()), (LayoutKind::Unified, 3, 96, 64));
        let streams = |it: &mut EngineSettings| it.scheduling.layout = LayoutChoice::Streams;
        assert_eq!(decided(streams), (LayoutKind::Streams, 3, 96, 64));
        assert_eq!(decided(|it| it.threads = 1), (LayoutKind::Unified, 1, 96, 64));
        assert_eq!(decided(|it| it.batch_tokens = 32), (LayoutKind::Unified, 3, 32, 32));
        assert_eq!(decided(|it| it.prefill_tokens = 200), (LayoutKind::Unified, 3, 200, 200));
        assert_eq!(decided(|it| it.slots = 128), (LayoutKind::Unified, 3, 128, 64));
    }

    #[test]
    fn without_a_calibration_it_is_the_usual() {
        let mut settings = mock_settings();
        assert_eq!((settings.batch_tokens(), settings.prefill_tokens()), (512, 512));
        assert_eq!(settings.scheduling.layout(), LayoutKind::Streams);
        assert!(settings.threads() >= 1);
        settings.batch_tokens = 64;
        assert_eq!(settings.prefill_tokens(), 64);
    }
}
