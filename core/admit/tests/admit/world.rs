//! A controller with one engine, time that is moved by hand, and a log of what callers hear.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use admit::{
    Attempt, Budget, Candidate, Controller, Effect, Ended, EngineId, EngineLimits, Event, How,
    KvUsage, Limits, Offer, Outcome, Policy, Record, Sequence, Settings, Snapshot, Source, Step,
    StepCost, Submitted, Tier, Trace, TracedVerdict, Verdict,
};
use expect_test::Expect;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use units::{BlockCount, Micros, RequestId, Span, TokenCount};

pub(crate) const ENGINE: EngineId = EngineId(0);

pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) now: Micros,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) traces: Vec<Trace>,
    attempts: BTreeMap<char, u32>,
    record: u64,
    log: String,
}

pub(crate) fn settings(limits: Limits) -> Settings {
    Settings {
        policy: Policy::Limit(limits),
        lease: Span::from_secs(5),
        patience: Span::from_millis(500),
        budget: Span::from_secs(60),
        held_max: 4,
        standalone_max: 100,
    }
}

/// 4 slots, a context of 1,000 tokens and 256 KV blocks, empty.
pub(crate) fn snapshot(instance: &str, now: Micros, record: u64) -> Snapshot {
    let tokens = TokenCount;
    Snapshot {
        instance: instance.into(),
        taken_at: now,
        step: 0,
        record,
        planner: "p1".into(),
        limits: EngineLimits {
            slots: 4,
            context: tokens(1_000),
            batch: tokens(512),
            prefill: tokens(256),
            step: Span::from_millis(500),
            waiting: 16,
            kv: BlockCount(256),
        },
        rules: None,
        cost: StepCost::default(),
        kv: KvUsage { free: BlockCount(256), ..KvUsage::default() },
        sequences: Vec::new(),
        draining: false,
    }
}

/// A sequence in decode with half of its cap answered.
pub(crate) fn sequence(name: char, prompt: u32, cap: u32) -> Sequence {
    Sequence {
        id: id(name),
        phase: admit::Phase::Decode,
        tier: Tier::BestEffort,
        leased: true,
        prompt: TokenCount(prompt),
        computed: TokenCount(prompt + cap / 2),
        generated: TokenCount(cap / 2),
        max_tokens: TokenCount(cap),
        deadline: None,
        submitted_at: Micros(0),
        blocks: TokenCount(prompt + cap / 2).blocks(),
        rests_until: None,
    }
}

pub(crate) fn id(name: char) -> RequestId {
    RequestId(name.into())
}

/// Asks for an engine called `e1`.
pub(crate) fn offer(name: char, prompt: u32, cap: u32) -> Offer {
    Offer {
        attempt: Attempt { id: id(name), number: 0 },
        candidates: vec![Candidate {
            source: Source::Watched("e1".into()),
            cached: TokenCount(0),
            answers: Vec::new(),
        }],
        prompt: TokenCount(prompt),
        max_tokens: TokenCount(cap),
        budget: Budget::default(),
        patience: None,
        accept_best_effort: false,
        tenant: "".into(),
        priority: 0,
        unix: Micros(0),
    }
}

pub(crate) fn at_once(offer: Offer) -> Offer {
    Offer { patience: Some(Span::ZERO), ..offer }
}

impl World {
    /// With an engine attached that calls itself `e1`.
    pub(crate) fn new(limits: Limits) -> Self {
        let mut world = Self::without_engine(limits);
        let snapshot = snapshot("e1", world.now, 0);
        world.controller.attached(world.now, ENGINE, 1, &Arc::from("e1"), Some(snapshot));
        world
    }

    pub(crate) fn without_engine(limits: Limits) -> Self {
        Self {
            controller: Controller::new(settings(limits)),
            now: Micros(0),
            rng: ChaCha8Rng::seed_from_u64(1),
            traces: Vec::new(),
            attempts: BTreeMap::new(),
            record: 0,
            log: String::new(),
        }
    }

    /// At most this many requests; the rest as the engine allows.
    pub(crate) fn of_requests(requests: u64) -> Self {
        Self::new(Limits { requests, ..Limits::default() })
    }

    pub(crate) fn offer(&mut self, offer: Offer) -> Option<Verdict> {
        let attempt = offer.attempt;
        let verdict = self.controller.offer(self.now, offer, &mut self.rng);
        match &verdict {
            None => self.say(attempt, "held"),
            Some(verdict) => self.say(attempt, &told(verdict)),
        }
        self.settle();
        verdict
    }

    pub(crate) fn ask(&mut self, name: char, prompt: u32, cap: u32) -> Option<Verdict> {
        self.offer(offer(name, prompt, cap))
    }

    pub(crate) fn withdraw(&mut self, name: char, number: u32) {
        self.controller.withdraw(self.now, Attempt { id: id(name), number });
        self.settle();
    }

    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) {
        self.controller.snapshot(self.now, ENGINE, snapshot);
        self.settle();
    }

    pub(crate) fn record(&mut self, event: Event) {
        self.record += 1;
        self.controller.record(self.now, ENGINE, Record { number: self.record, event });
        self.settle();
    }

    pub(crate) fn records(&self) -> u64 {
        self.record
    }

    pub(crate) fn submit(&mut self, name: char, prompt: u32, cap: u32) {
        let submitted = Submitted {
            prompt: TokenCount(prompt),
            max_tokens: TokenCount(cap),
            tier: Tier::BestEffort,
            blocks: BlockCount(0),
        };
        self.record(Event::Submitted(id(name), submitted));
    }

    pub(crate) fn finish(&mut self, name: char) {
        let ended = Ended {
            how: How::Completed,
            completion: TokenCount(7),
            ttft: Some(Span::from_millis(100)),
            e2e: Span::from_millis(900),
        };
        self.record(Event::Finished(id(name), ended));
    }

    /// Steps of 40 ms with 8 tokens each: 200 tokens a second.
    pub(crate) fn steps(&mut self, count: u32) {
        let (took, decodes) = (Span::from_millis(40), TokenCount(8));
        for _ in 0..count {
            self.record(Event::Step(Step {
                took,
                decodes,
                prefill: TokenCount(0),
                cells: 0,
                prefill_cells: 0,
            }));
        }
    }

    /// Time passes; the controller is woken when it asked to be, and only then.
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now + Span::from_millis(millis);
        while let Some(deadline) = self.controller.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(deadline);
            self.controller.tick(self.now, &mut self.rng);
            self.settle();
        }
        self.now = end;
    }

    pub(crate) fn settle(&mut self) {
        self.controller.check();
        for effect in self.controller.drain_effects() {
            match effect {
                Effect::Verdict(attempt, verdict) => self.say(attempt, &told(&verdict)),
                Effect::LeaseExpired(attempt) => self.say(attempt, "lease expired"),
                Effect::Closed(trace) => self.traces.push(*trace),
            }
        }
    }

    fn say(&mut self, attempt: Attempt, what: &str) {
        let name = char::from_u32(u32::try_from(attempt.id.0).expect("a name")).expect("a name");
        let retry = if attempt.number > 0 { format!("#{}", attempt.number) } else { String::new() };
        self.attempts.insert(name, attempt.number);
        let millis = self.now.0 / 1_000;
        writeln!(self.log, "{millis} ms  {name}{retry} {what}").expect("a string takes all");
    }

    /// What was heard since the last time.
    pub(crate) fn heard(&mut self, expected: &Expect) {
        expected.assert_eq(&std::mem::take(&mut self.log));
    }

    /// What became of the closed decisions since the last time.
    pub(crate) fn closed(&mut self, expected: &Expect) {
        let rows: String = std::mem::take(&mut self.traces).iter().map(row).collect();
        expected.assert_eq(&rows);
    }

    pub(crate) fn in_system(&self) -> u64 {
        self.controller.view(self.now).totals().requests
    }
}

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Admitted(admitted) => {
            let tier = match admitted.tier {
                Tier::Promised => "promised",
                Tier::BestEffort => "best effort",
            };
            format!("admitted, {tier}, candidate {}, epoch {}", admitted.candidate, admitted.epoch)
        }
        Verdict::Refused(refused) => {
            let fits = refused.max_tokens_that_fit.map(|cap| format!("; {cap} would fit"));
            let retry = if refused.permanent { "never" } else { "later" };
            format!("refused, {retry}: {}{}", refused.cause, fits.unwrap_or_default())
        }
        Verdict::Superseded { by } => format!("superseded by attempt {by}"),
    }
}

fn row(trace: &Trace) -> String {
    let name = char::from_u32(u32::try_from(trace.attempt.id.0).expect("a name")).expect("a name");
    let verdict = match trace.verdict {
        None => "unanswered".into(),
        Some(TracedVerdict::Admitted { propensity, .. }) => format!("admitted (p {propensity})"),
        Some(TracedVerdict::Refused(reason)) => format!("refused for {reason}"),
    };
    let outcome = match trace.outcome {
        Outcome::Refused => "refused".into(),
        Outcome::Censored(cut) => {
            format!("{:?} at {}, {} tokens", cut.why, cut.after, cut.generated.0)
        }
        Outcome::Ended(seen) => {
            let ttft = seen.ttft.map_or("-".into(), |ttft| ttft.to_string());
            format!("{:?}, ttft {ttft}, e2e {}, {} tokens", seen.how, seen.e2e, seen.completion.0)
        }
    };
    let Trace { attempt, held, saw, .. } = trace;
    let seen = saw.in_system.requests;
    format!("{name}#{} {verdict} after {held}, saw {seen}: {outcome}\n", attempt.number)
}
