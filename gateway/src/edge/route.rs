//! What a path is about, as far as the edge is concerned.

/// The routes: a fixed set, for everything that is not one of them is `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Completions,
    Models,
    Model,
    Health,
    Ready,
    Metrics,
    Version,
    Other,
}

impl Route {
    /// The route of a path, normalised and decoded as it is for the router.
    pub(super) fn of(path: &str) -> Self {
        match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/models" => Self::Models,
            "/health" => Self::Health,
            "/ready" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/version" => Self::Version,
            other if other.starts_with("/v1/models/") => Self::Model,
            _ => Self::Other,
        }
    }

    /// The name in metrics and logs.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Models => "models",
            Self::Model => "model",
            Self::Health => "health",
            Self::Ready => "ready",
            Self::Metrics => "metrics",
            Self::Version => "version",
            Self::Other => "other",
        }
    }

    /// Whether it puts the engine to work: such requests have a body, are limited, and a draining
    /// process waits for them.
    pub(crate) fn generates(self) -> bool {
        match self {
            Self::Chat | Self::Completions => true,
            Self::Models
            | Self::Model
            | Self::Health
            | Self::Ready
            | Self::Metrics
            | Self::Version
            | Self::Other => false,
        }
    }

    /// Whether it answers without a key.
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Health | Self::Ready | Self::Metrics | Self::Version => true,
            Self::Chat | Self::Completions | Self::Models | Self::Model | Self::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_a_fixed_set() {
        assert_eq!(Route::of("/v1/chat/completions"), Route::Chat);
        assert_eq!(Route::of("/v1/models/a/b"), Route::Model);
        assert_eq!(Route::of("/v1/models"), Route::Models);
        assert_eq!(Route::of("/../etc/passwd"), Route::Other);
    }
}
