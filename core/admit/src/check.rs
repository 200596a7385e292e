//! Invariants of the controller, by name.
//!
//! - **AD-1** What is counted in a system is the sum over its entries.
//! - **AD-2** Every offer is answered once: by a verdict, unless its caller left first. So each held
//!   request and each undecided entry has exactly one attempt that speaks for it.
//! - **AD-3** A timer is armed for each held request, each lease and each unobserved entry, and for
//!   nothing else: nothing that was let in can stay for ever without its engine knowing it.
//! - **AD-4** The queue and the entries of callers without an engine stay within their limits.
//!
//! That limits hold in sum over all callers (**AD-5**), and that every closed decision makes one
//! trace (**AD-6**), is checked from outside, by the model test.

use units::RequestId;

use crate::{
    Controller,
    controller::Where,
    entry::Entry,
    ledger::{Ledger, Place, Totals},
};

impl Controller {
    /// Checks the invariants. For tests: the time it takes grows with what is in the system.
    ///
    /// # Panics
    /// One does not hold; the message names it.
    pub fn check(&self) {
        let engines = self.engines.iter().map(|(id, it)| (Place::Engine(*id), &it.ledger));
        let standalone = self
            .standalone
            .iter()
            .map(|(instance, ledger)| (Place::Standalone(instance.clone()), ledger));
        let places: Vec<_> = engines.chain(standalone).collect();
        for (place, ledger) in &places {
            let sum: Totals = ledger.iter().map(|(_, entry)| entry.totals()).sum();
            assert_eq!(ledger.totals(), sum, "AD-1 at {place:?}");
        }
        self.check_index(&places);
        self.check_timers(&places);
        self.check_limits();
    }

    fn check_index(&self, places: &[(Place, &Ledger)]) {
        for (rank, held) in self.held.iter() {
            let current =
                self.current.get(&held.offer.attempt.id).expect("AD-2: held, not indexed");
            assert_eq!(current.at, Where::Held(rank), "AD-2");
            assert_eq!(current.attempt, held.offer.attempt.number, "AD-2");
        }
        for (id, current) in &self.current {
            match &current.at {
                Where::Held(rank) => assert!(self.held.get(*rank).is_some(), "AD-2"),
                Where::In(place) => {
                    let decided = entry(places, place, *id).decided.as_ref();
                    let decided = decided.expect("AD-2: indexed, not decided");
                    assert_eq!(decided.attempt, current.attempt, "AD-2");
                }
            }
        }
    }

    fn check_timers(&self, places: &[(Place, &Ledger)]) {
        let entries = places.iter().flat_map(|(_, ledger)| ledger.iter());
        let awaited = entries.filter(|(_, entry)| entry.until().is_some()).count();
        assert_eq!(self.timers.len(), self.held.len() + awaited, "AD-3");
    }

    fn check_limits(&self) {
        assert!(self.held.len() <= self.settings.held_max, "AD-4: {} held", self.held.len());
        let standalone: u64 = self.standalone.values().map(|it| it.totals().requests).sum();
        assert_eq!(standalone, self.standalone_len as u64, "AD-1");
        assert!(self.standalone_len <= self.settings.standalone_max, "AD-4");
        assert!(self.standalone.values().all(|it| it.totals().requests > 0), "AD-4: an empty one");
    }
}

fn entry<'a>(places: &[(Place, &'a Ledger)], place: &Place, id: RequestId) -> &'a Entry {
    let ledger = places.iter().find(|(it, _)| it == place).map(|(_, ledger)| *ledger);
    ledger.and_then(|ledger| ledger.get(id)).expect("AD-2: indexed, not in its ledger")
}
