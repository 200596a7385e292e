//! Random commands against a naive model that keeps its own books: what is in the system, who waits
//! for an answer, how many decisions are open. After every command the invariants are checked and the
//! books compared. A small world of ids and sizes makes commands meet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use admit::{
    Attempt, Controller, Effect, Ended, Event, How, Limits, Offer, Record, Snapshot, Submitted,
    Tier, Verdict,
};
use proptest::{collection::vec, prelude::*};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use units::{BlockCount, Micros, Span, TokenCount};

use crate::world::{ENGINE, id, offer, settings, snapshot};

const LIMITS: Limits = Limits { requests: 3, tokens: 900, blocks: 0 };

#[derive(Clone, Debug)]
enum Command {
    Offer { who: u8, attempt: u32, prompt: u32, cap: u32, patience_ms: u64, priority: i32 },
    Withdraw { who: u8, attempt: u32 },
    Submit { who: u8 },
    Finish { who: u8 },
    Pass { millis: u64 },
    Snapshot,
    Interrupt,
    Resume,
    Restart,
    Detach,
}

fn command() -> impl Strategy<Value = Command> {
    let who = 0..6_u8;
    let attempt = 0..3_u32;
    prop_oneof![
        8 => (who.clone(), attempt.clone(), 1..400_u32, 1..300_u32, 0..3_u64, -1..2_i32).prop_map(
            |(who, attempt, prompt, cap, patience, priority)| Command::Offer {
                who, attempt, prompt, cap, patience_ms: patience * 300, priority,
            }
        ),
        2 => (who.clone(), attempt).prop_map(|(who, attempt)| Command::Withdraw { who, attempt }),
        5 => who.clone().prop_map(|who| Command::Submit { who }),
        5 => who.prop_map(|who| Command::Finish { who }),
        4 => (0..2_000_u64).prop_map(|millis| Command::Pass { millis }),
        1 => Just(Command::Snapshot),
        1 => Just(Command::Interrupt),
        1 => Just(Command::Resume),
        1 => Just(Command::Restart),
        1 => Just(Command::Detach),
    ]
}

fn name(who: u8) -> char {
    char::from(b'a' + who)
}

/// The books.
struct Model {
    controller: Controller,
    rng: ChaCha8Rng,
    now: Micros,
    record: u64,
    instance: u32,
    /// Prompt and cap of everything at the engine, and whether the engine has it.
    at_engine: BTreeMap<char, (u64, bool)>,
    /// Held calls: their sizes.
    unanswered: BTreeMap<Attempt, u64>,
    /// Decisions made and not yet closed.
    open: u64,
    answered: BTreeSet<Attempt>,
    /// Whether the command under way let somebody in.
    let_in: bool,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            controller: Controller::new(settings(LIMITS)),
            rng: ChaCha8Rng::seed_from_u64(3),
            now: Micros(0),
            record: 0,
            instance: 0,
            at_engine: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            open: 0,
            answered: BTreeSet::new(),
            let_in: false,
        };
        model.restart();
        model
    }

    fn instance(&self) -> Arc<str> {
        format!("e{}", self.instance).into()
    }

    fn restart(&mut self) {
        self.instance += 1;
        self.record = 0;
        self.at_engine.clear();
        let state = snapshot(&self.instance(), self.now, 0);
        let instance = self.instance();
        self.controller.attached(self.now, ENGINE, 1, &instance, Some(state));
    }

    fn event(&mut self, event: Event) {
        self.record += 1;
        let record = Record { number: self.record, event };
        self.controller.record(self.now, ENGINE, record);
    }

    fn attached(&self) -> bool {
        !self.controller.view(self.now).engines.is_empty()
    }

    fn run(&mut self, command: Command) {
        match command {
            Command::Offer { who, attempt, prompt, cap, patience_ms, priority } => {
                self.offer(who, attempt, (prompt, cap), patience_ms, priority);
            }
            Command::Withdraw { who, attempt } => self.withdraw(who, attempt),
            Command::Submit { who } => self.submit(who),
            Command::Finish { who } => self.finish(who),
            Command::Pass { millis } => self.pass(millis),
            Command::Snapshot if self.attached() => {
                let state = self.state();
                self.controller.snapshot(self.now, ENGINE, state);
            }
            Command::Snapshot => {}
            Command::Interrupt => self.controller.interrupted(ENGINE),
            Command::Resume if self.attached() => {
                let instance = self.instance();
                self.controller.attached(self.now, ENGINE, 2, &instance, None);
            }
            Command::Resume | Command::Restart => self.restart(),
            Command::Detach => {
                self.at_engine.clear();
                self.controller.detached(self.now, ENGINE);
            }
        }
        self.settle();
    }

    fn offer(&mut self, who: u8, number: u32, (prompt, cap): (u32, u32), patience: u64, prio: i32) {
        let mut asked = offer(name(who), prompt, cap);
        asked.attempt.number = number;
        asked.candidates[0].source = admit::Source::Watched(self.instance());
        asked.patience = Some(Span::from_millis(patience));
        asked.priority = prio;
        let Offer { attempt, .. } = asked;
        let size = u64::from(prompt + cap);
        // A later attempt takes the place of a lease; the verdict below may make it one again.
        let leased = self.at_engine.get(&name(who)).is_some_and(|(_, runs)| !runs);
        let verdict = self.controller.offer(self.now, asked, &mut self.rng);
        let superseded = matches!(verdict, Some(Verdict::Superseded { .. }));
        if leased && !superseded {
            self.at_engine.remove(&name(who));
        }
        match verdict {
            None => assert!(self.unanswered.insert(attempt, size).is_none(), "AD-2"),
            Some(verdict) => self.hear(attempt, size, &verdict),
        }
    }

    fn hear(&mut self, attempt: Attempt, size: u64, verdict: &Verdict) {
        let id = u8::try_from(attempt.id.0).expect("small ids");
        match verdict {
            Verdict::Admitted(admitted) => {
                assert_eq!(admitted.tier, Tier::BestEffort, "nothing was promised");
                self.at_engine.insert(char::from(id), (size, false));
                self.let_in = true;
                self.open += 1;
                self.answered.insert(attempt);
            }
            Verdict::Refused(refused) => {
                let told = refused.retry_after;
                assert!((Span::from_secs(1)..=Span::from_secs(59)).contains(&told), "{told}");
                self.open += 1; // Its trace follows.
                self.answered.insert(attempt);
            }
            Verdict::Superseded { .. } => {}
        }
    }

    fn withdraw(&mut self, who: u8, number: u32) {
        let attempt = Attempt { id: id(name(who)), number };
        let before = self.controller.view(self.now);
        self.controller.withdraw(self.now, attempt);
        let after = self.controller.view(self.now);
        if after.counters.withdrawn == before.counters.withdrawn {
            return;
        }
        if self.unanswered.remove(&attempt).is_some() {
            self.open += 1; // Its trace follows, without a verdict.
        } else {
            assert_eq!(self.at_engine.remove(&name(who)).map(|(_, runs)| runs), Some(false));
        }
    }

    fn submit(&mut self, who: u8) {
        if !self.attached() {
            return;
        }
        let entry = self.at_engine.entry(name(who)).or_insert((20, true));
        entry.1 = true;
        let tokens = u32::try_from(entry.0).expect("small sizes");
        let submitted = Submitted {
            prompt: TokenCount(tokens - 1),
            max_tokens: TokenCount(1),
            tier: Tier::BestEffort,
            blocks: BlockCount(0),
        };
        self.event(Event::Submitted(id(name(who)), submitted));
    }

    fn finish(&mut self, who: u8) {
        if self.at_engine.get(&name(who)).is_some_and(|(_, runs)| *runs) {
            self.at_engine.remove(&name(who));
        }
        let ended = Ended {
            how: How::Completed,
            completion: TokenCount(1),
            ttft: None,
            e2e: Span::from_millis(1),
        };
        self.event(Event::Finished(id(name(who)), ended));
    }

    fn pass(&mut self, millis: u64) {
        let end = self.now + Span::from_millis(millis);
        while let Some(at) = self.controller.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.controller.tick(self.now, &mut self.rng);
            assert!(self.controller.next_deadline() > Some(self.now) || self.is_quiet(), "AD-3");
            self.settle();
        }
        self.now = end;
    }

    fn is_quiet(&self) -> bool {
        self.controller.next_deadline().is_none()
    }

    /// As the engine sees itself.
    fn state(&self) -> Snapshot {
        let running = self.at_engine.iter().filter(|(_, (_, runs))| *runs);
        let sequences = running.map(|(name, (size, _))| {
            let size = u32::try_from(*size).expect("small sizes");
            admit::Sequence {
                computed: TokenCount(0),
                generated: TokenCount(0),
                blocks: BlockCount(0),
                ..crate::world::sequence(*name, size - 1, 1)
            }
        });
        let sequences = sequences.collect();
        Snapshot { sequences, ..snapshot(&self.instance(), self.now, self.record) }
    }

    fn settle(&mut self) {
        self.controller.check();
        let mut closed = 0;
        for effect in self.controller.drain_effects() {
            match effect {
                Effect::Verdict(attempt, verdict) => {
                    let size = self.unanswered.remove(&attempt).expect("AD-2: answered twice");
                    self.hear(attempt, size, &verdict);
                }
                Effect::LeaseExpired(attempt) => {
                    let name = char::from(u8::try_from(attempt.id.0).expect("small ids"));
                    assert_eq!(self.at_engine.remove(&name).map(|(_, runs)| runs), Some(false));
                }
                Effect::Closed(trace) => {
                    closed += 1;
                    assert!(trace.held <= Span::from_millis(600), "held for {}", trace.held);
                }
            }
        }
        self.open = self.open.checked_sub(closed).expect("AD-6: closed twice");
        let view = self.controller.view(self.now);
        let tokens: u64 = self.at_engine.values().map(|(size, _)| size).sum();
        // Only now: one command may let in several, and they are not heard in the order in which it did.
        if std::mem::take(&mut self.let_in) {
            let within = self.at_engine.len() as u64 <= LIMITS.requests && tokens <= LIMITS.tokens;
            assert!(within || self.at_engine.len() == 1, "AD-5: {:?}", self.at_engine);
        }
        let leases = self.at_engine.values().filter(|(_, runs)| !runs).count() as u64;
        let totals = view.totals();
        let books = (self.at_engine.len() as u64, tokens, leases, self.unanswered.len());
        assert_eq!((totals.requests, totals.tokens, totals.leases, view.held), books, "AD-1");
    }

    /// Everybody finishes or runs out of time: nothing stays.
    fn wind_up(&mut self) {
        for who in 0..6 {
            self.run(Command::Finish { who });
        }
        self.run(Command::Detach);
        self.run(Command::Pass { millis: 10_000 });
        let view = self.controller.view(self.now);
        assert_eq!((view.held, view.leases, view.engines.len()), (0, 0, 0));
        assert_eq!((self.unanswered.len(), self.open), (0, 0), "AD-2, AD-6");
        assert_eq!(self.controller.next_deadline(), None, "AD-3");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_books_agree_after_every_command(commands in vec(command(), 1..120)) {
        let mut model = Model::new();
        for command in commands {
            model.run(command);
        }
        model.wind_up();
    }
}

/// A lease that its own retry gives up makes room: first for somebody else who waits, and for the retry only
/// if the limit still allows it.
#[test]
fn room_that_a_retry_makes_goes_to_who_waits_first() {
    let offer = |who, attempt, prompt, cap, patience_ms, priority| Command::Offer {
        who,
        attempt,
        prompt,
        cap,
        patience_ms,
        priority,
    };
    let mut model = Model::new();
    for command in [
        offer(1, 0, 288, 276, 0, 0),
        Command::Submit { who: 1 },
        offer(2, 0, 176, 104, 0, 0),
        offer(1, 1, 31, 26, 300, 1),
        offer(2, 1, 78, 259, 0, 0),
    ] {
        model.run(command);
    }
    model.wind_up();
}
