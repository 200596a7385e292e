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
    most: usize,
}

/// Places under the cap; dropping it gives them back.
pub(crate) type Permit = OwnedSemaphorePermit;

impl LocalCap {
    pub(crate) fn new(settings: &Settings) -> Self {
        let most = settings.fallback_requests_max.into();
        let permits = Arc::new(Semaphore::new(most));
        Self { rule: settings.admission_fallback, permits, most }
    }

    /// Takes so many places, all or none.
    ///
    /// # Errors
    /// [`ApiError::NoAdmission`] when the rule is to refuse, or too few places are free;
    /// [`ApiError::BeyondFallback`] when there are never so many.
    pub(crate) fn take(&self, count: usize) -> Result<Permit, ApiError> {
        let permit = match self.rule {
            Fallback::Refuse => Err(ApiError::NoAdmission),
            // Where nobody gets in, it is not the number that is wrong.
            Fallback::BestEffort if count > self.most.max(1) => {
                Err(ApiError::BeyondFallback { choices: count, most: self.most })
            }
            Fallback::BestEffort => {
                let many =
                    u32::try_from(count).expect("it is at most the cap, which is of 16 bits");
                let permit = Arc::clone(&self.permits).try_acquire_many_owned(many);
                permit.map_err(|_| ApiError::NoAdmission)
            }
        };
        metrics::fallback(permit.is_ok());
        permit
    }
}
