//! Where a request's answer goes.

use std::collections::BTreeMap;

use sample::Logprobs;
use sched::{Event, FinishReason, Refusal, Sampled, StepOutcome, Tier, Timings, Usage};
use text::{Annotated, Piece, Pushed, Transcript, Vocabulary};
use tokio::sync::mpsc::UnboundedSender;
use units::{RequestId, Token};

/// What a client of `Generate` hears. A request's events are bounded by its cap on tokens, so the
/// channel needs no bound of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Accepted { tier: Tier, leased: bool },
    Refused(Refusal),
    Delta { text: String, tokens: u32, notes: Vec<Note> },
    Finished { reason: FinishReason, usage: Usage, timings: Timings },
}

/// How likely a token of the text was. Its text is looked up by whoever sends it, off the engine thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    pub(crate) token: Token,
    /// What the engine says, as it does if it is asked.
    pub(crate) logprobs: Option<Logprobs>,
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
    text: Text,
    /// The part of the answer that was read and not yet committed.
    pending: Piece<Note>,
    listener: UnboundedSender<Answer>,
}

/// The text of an answer so far; with notes on its tokens if they are asked for.
#[derive(Debug)]
enum Text {
    Plain(Transcript),
    Annotated(Annotated<Note>),
}

impl Text {
    fn read(&mut self, vocabulary: &Vocabulary, sampled: &mut Sampled) -> Piece<Note> {
        let token = sampled.token;
        match self {
            Self::Plain(transcript) => {
                let Pushed { text, stop } = transcript.push(vocabulary, token);
                Piece { text, notes: Vec::new(), stop }
            }
            Self::Annotated(annotated) => {
                let note = Note { token, logprobs: sampled.logprobs.take() };
                annotated.push(vocabulary, token, note)
            }
        }
    }

    fn finish(&mut self) -> Piece<Note> {
        match self {
            Self::Plain(transcript) => Piece { text: transcript.finish(), ..Piece::default() },
            Self::Annotated(annotated) => annotated.finish(),
        }
    }
}

impl Outlet {
    /// An empty answer that ends before the first of `stops`; with notes if it is `annotated`.
    pub(crate) fn new(
        serial: u64,
        stops: Vec<String>,
        annotated: bool,
        listener: UnboundedSender<Answer>,
    ) -> Self {
        let transcript = Transcript::new(stops);
        let text = if annotated {
            Text::Annotated(Annotated::new(transcript))
        } else {
            Text::Plain(transcript)
        };
        Self { serial, text, pending: Piece::default(), listener }
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
            let Piece { text, notes, stop } = outlet.text.read(vocabulary, sampled);
            match outlet.pending.text.is_empty() {
                true => outlet.pending.text = text,
                false => outlet.pending.text.push_str(&text),
            }
            outlet.pending.notes.extend(notes);
            sampled.stop |= stop;
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
                    let Piece { text, notes, .. } = std::mem::take(&mut outlet.pending);
                    outlet.say(Answer::Delta { text, tokens: 1, notes });
                }
            }
            Event::Finished { id, reason, usage, timings } => {
                let Some(mut outlet) = self.open.remove(id) else { return };
                let Piece { text, notes, .. } = outlet.text.finish();
                if !text.is_empty() {
                    outlet.say(Answer::Delta { text, tokens: 0, notes });
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
