//! Where a request's answer goes.

use std::collections::BTreeMap;

use sched::{Event, FinishReason, Refusal, StepOutcome, Tier, Timings, Usage};
use text::{Transcript, Vocabulary};
use tokio::sync::mpsc::UnboundedSender;
use units::RequestId;

/// What a client of `Generate` hears. A request's events are bounded by its cap on tokens, so the
/// channel needs no bound of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Accepted { tier: Tier, leased: bool },
    Refused(Refusal),
    Delta { text: String, tokens: u32 },
    Finished { reason: FinishReason, usage: Usage, timings: Timings },
}

/// The open answers, each with its text so far and its listener.
#[derive(Debug, Default)]
pub(crate) struct Outlets {
    open: BTreeMap<RequestId, Outlet>,
}

#[derive(Debug)]
pub(crate) struct Outlet {
    /// Tells this answer from an earlier one under the same request id.
    serial: u64,
    transcript: Transcript,
    /// Text of the token that was read and not yet committed.
    pending: String,
    listener: UnboundedSender<Answer>,
}

impl Outlet {
    pub(crate) fn new(serial: u64, stops: Vec<String>, listener: UnboundedSender<Answer>) -> Self {
        let transcript = Transcript::new(stops);
        Self { serial, transcript, pending: String::new(), listener }
    }

    /// A listener that left is noticed elsewhere: its stream cancels the request when it is dropped.
    pub(crate) fn say(&self, answer: Answer) {
        let _ = self.listener.send(answer);
    }
}

impl Outlets {
    /// Opens an answer, unless there is one under this id: then the newcomer is refused, and the one
    /// that runs goes on.
    pub(crate) fn open(&mut self, id: RequestId, outlet: Outlet) -> bool {
        if self.open.contains_key(&id) {
            outlet.say(Answer::Refused(Refusal::Duplicate));
            return false;
        }
        self.open.insert(id, outlet);
        true
    }

    /// Whether the open answer under this id is the one with this serial number.
    pub(crate) fn is_open(&self, id: RequestId, serial: u64) -> bool {
        self.open.get(&id).is_some_and(|outlet| outlet.serial == serial)
    }

    /// Reads what a step sampled, before it is committed: a token that completes a stop sequence ends
    /// the answer in this step.
    pub(crate) fn read(&mut self, vocabulary: &Vocabulary, outcome: &mut StepOutcome) {
        for sampled in &mut outcome.sampled {
            let Some(outlet) = self.open.get_mut(&sampled.id) else { continue };
            let pushed = outlet.transcript.push(vocabulary, sampled.token);
            outlet.pending.push_str(&pushed.text);
            sampled.stop |= pushed.stop;
        }
    }

    /// Passes on what the scheduler says.
    pub(crate) fn tell(&mut self, event: &Event) {
        match event {
            Event::Accepted { id, tier, epoch, .. } => {
                self.say(*id, Answer::Accepted { tier: *tier, leased: epoch.is_some() });
            }
            Event::Refused { id, refusal } => {
                if let Some(outlet) = self.open.remove(id) {
                    outlet.say(Answer::Refused(refusal.clone()));
                }
            }
            Event::Token { id, .. } => {
                if let Some(outlet) = self.open.get_mut(id) {
                    let text = std::mem::take(&mut outlet.pending);
                    outlet.say(Answer::Delta { text, tokens: 1 });
                }
            }
            Event::Finished { id, reason, usage, timings } => {
                let Some(mut outlet) = self.open.remove(id) else { return };
                let text = outlet.transcript.finish();
                if !text.is_empty() {
                    outlet.say(Answer::Delta { text, tokens: 0 });
                }
                let (reason, usage, timings) = (reason.clone(), *usage, *timings);
                outlet.say(Answer::Finished { reason, usage, timings });
            }
            Event::Started { .. } | Event::Step(_) => {}
        }
    }

    fn say(&self, id: RequestId, answer: Answer) {
        if let Some(outlet) = self.open.get(&id) {
            outlet.say(answer);
        }
    }
}
