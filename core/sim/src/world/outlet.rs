//! What gateways pass on of an engine's answers.

use sched::{FinishReason, Refusal};
use units::RequestId;

use super::{
    World,
    client::Heard,
    event::{Answer, Process},
    gateway::heard,
};
use crate::report::Ending;

impl World<'_> {
    pub(super) fn answered(&mut self, process: Process, id: RequestId, answer: Answer) {
        if self.gateway.flights.get(&id).is_none_or(|flight| flight.process != process) {
            return;
        }
        match answer {
            Answer::Accepted { tier } => self.accepted(id, tier),
            Answer::Refused(refusal) => self.refused(id, &refusal),
            Answer::Token => self.token(id),
            Answer::Finished { reason, usage } => {
                let row = &mut self.clients[Self::flight_of(id)].row;
                row.usage = Some(usage);
                self.finished(id, reason);
            }
        }
    }

    fn token(&mut self, id: RequestId) {
        let at = self.now + self.take_delay(self.scenario.wires.client);
        if let Some(flight) = self.gateway.flights.get_mut(&id) {
            flight.has_token = true;
        }
        let client = &mut self.clients[Self::flight_of(id)];
        if client.is_open && client.attempt == Some(id) {
            let at = client.row.last_token.map_or(at, |last| last.max(at));
            client.hear_token(at);
        }
    }

    fn refused(&mut self, id: RequestId, refusal: &Refusal) {
        match refusal {
            Refusal::QueueFull { .. } | Refusal::UnleasedFull { .. } | Refusal::Draining => {
                self.shed(id, 503, &refusal.to_string());
            }
            Refusal::TooLarge { .. } => {
                let refused = heard(Ending::HttpStatus, Some(400), &refusal.to_string());
                self.land(id, Heard { permanent: true, ..refused });
            }
            Refusal::Duplicate => {
                self.land(id, heard(Ending::HttpStatus, Some(500), &refusal.to_string()));
            }
        }
    }

    fn finished(&mut self, id: RequestId, reason: FinishReason) {
        let (ending, detail, word) = match reason {
            FinishReason::Stop => (Ending::Ok, None, Some("stop")),
            FinishReason::Length => (Ending::Ok, None, Some("length")),
            FinishReason::Cancelled => (Ending::InBandError, Some("cancelled".into()), None),
            FinishReason::Deadline => (Ending::InBandError, Some("deadline".into()), None),
            FinishReason::Evicted => (Ending::InBandError, Some("evicted".into()), None),
            FinishReason::Shutdown => (Ending::InBandError, Some("shutdown".into()), None),
            FinishReason::Failed(why) => (Ending::InBandError, Some(why), None),
        };
        self.clients[Self::flight_of(id)].row.finish_reason = word;
        let heard = Heard { ending, status: None, detail, retry_after: None, permanent: false };
        self.land(id, heard);
    }
}
