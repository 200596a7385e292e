//! The rule for the time without an admission service.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::ApiError,
    metrics,
    settings::{Fallback, Settings},
};

/// Lets a few requests run at once, in this gateway, without the admission service.
#[derive(Debug)]
pub(crate) struct LocalCap {
    rule: Fallback,
    permits: Arc<Semaphore>,
}

/// One of the places under the cap; dropping it gives the place back.
pub(crate) type Permit = OwnedSemaphorePermit;

impl LocalCap {
    pub(crate) fn new(settings: &Settings) -> Self {
        let permits = Arc::new(Semaphore::new(settings.fallback_requests_max.into()));
        Self { rule: settings.admission_fallback, permits }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`ApiError::NoAdmission`] when the rule is to refuse, or no place is free.
    pub(crate) fn take(&self) -> Result<Permit, ApiError> {
        let permit = match self.rule {
            Fallback::Refuse => None,
            Fallback::BestEffort => Arc::clone(&self.permits).try_acquire_owned().ok(),
        };
        metrics::fallback(permit.is_some());
        permit.ok_or(ApiError::NoAdmission)
    }
}
