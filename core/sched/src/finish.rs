//! Requests end.

use units::{Micros, RequestId};

use crate::{
    Event, FinishReason, Move, Scheduler,
    seq::{Seat, Sequence},
};

impl Scheduler {
    /// Ends a request wherever it is and frees all that it holds.
    pub(crate) fn end(&mut self, now: Micros, id: RequestId, reason: FinishReason) {
        let Some(key) = self.keys.remove(&id) else { return };
        let sequence = self.running.remove(&key).or_else(|| self.queue.remove(&key));
        let mut sequence = sequence.expect("the index knows where it is");
        self.batch.ended(id);
        self.unleased -= u32::from(sequence.epoch.is_none());
        self.remember(&mut sequence, &reason);
        self.vacate(sequence.seat.take());
        let (usage, timings) = (sequence.usage(), sequence.timings(now));
        self.events.push(Event::Finished { id, reason, usage, timings });
    }

    /// Keeps what is useful later: the length of the answer, and a whole answer for the next turn of its
    /// conversation.
    fn remember(&mut self, sequence: &mut Sequence, reason: &FinishReason) {
        match reason {
            FinishReason::Stop | FinishReason::Length => self.publish(sequence),
            FinishReason::Cancelled
            | FinishReason::Deadline
            | FinishReason::Evicted
            | FinishReason::Shutdown
            | FinishReason::Failed(_) => {}
        }
        if let Some(seat) = &sequence.seat {
            let ended = *reason == FinishReason::Stop;
            self.cache.note_answer(&seat.lease, sequence.sampled, ended);
        }
    }

    pub(crate) fn vacate(&mut self, seat: Option<Seat>) {
        if let Some(Seat { slot, lease, .. }) = seat {
            self.free_slots.push(slot);
            self.moves.push(Move::Leave { slot });
            self.cache.release(lease);
            self.moves.cut(self.cache.drain_cuts());
        }
    }
}
