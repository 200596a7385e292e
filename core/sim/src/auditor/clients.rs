//! Every attempt of a client's ends once.

use std::collections::BTreeSet;

use units::{Micros, RequestId};

use super::Findings;
use crate::Rule;

#[derive(Debug, Default)]
pub(super) struct ClientBooks {
    open: BTreeSet<RequestId>,
}

impl ClientBooks {
    pub(super) fn begins(&mut self, id: RequestId) {
        self.open.insert(id);
    }

    pub(super) fn ends(&mut self, now: Micros, id: RequestId, findings: &mut Findings) {
        if !self.open.remove(&id) {
            findings.find(now, Some(id), Rule::OneAnswer, "it had ended before".into());
        }
    }

    pub(super) fn rest(&mut self, now: Micros, findings: &mut Findings) {
        for id in std::mem::take(&mut self.open) {
            findings.find(now, Some(id), Rule::OneAnswer, "it has not ended".into());
        }
    }
}
