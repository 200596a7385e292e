//! Scenarios: requests in, steps out, in virtual time.
//!
//! A line submits at most one request: `a 20+4` is request a, 20 prompt tokens, a cap of 4;
//! `!` makes it promised, `@500` gives it 500 ms, `evicts b` displaces b; `cancel a` cancels;
//! `run 3` runs three steps, `run` until idle.

use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::{Expect, expect};
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, Event, Limits, MockEngine, Scheduler, StepCost, Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Span, Token};

/// A step costs 10 ms, a decode 10 ms, a prompt token 1 ms.
const COST: StepCost = StepCost {
    base_us: 10_000.0,
    per_decode_us: 10_000.0,
    per_prefill_token_us: 1_000.0,
    per_cell_us: 0.0,
    gain: 1.0,
};

const LIMITS: Limits = Limits {
    slots: 2,
    context_tokens: 256,
    batch_tokens: 64,
    prefill_tokens: 64,
    step: Span::from_millis(50),
    waiting: 4,
    unleased: 4,
    kv_blocks: BlockCount(32),
};

struct World {
    scheduler: Scheduler,
    engine: MockEngine,
    now: Micros,
    log: String,
    names: BTreeMap<RequestId, String>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
        Self {
            scheduler: Scheduler::new(limits, COST),
            engine: MockEngine::new(limits.slots, COST, answers),
            now: Micros(0),
            log: String::new(),
            names: BTreeMap::new(),
        }
    }

    fn id(&mut self, name: &str) -> RequestId {
        let id = RequestId(name.bytes().fold(0, |id, byte| id << 8 | u128::from(byte)));
        self.names.insert(id, name.into());
        id
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["run"] => while self.step() {},
            ["run", steps] => {
                for _ in 0..steps.parse().expect("a number") {
                    self.step();
                }
            }
            ["cancel", name] => {
                let id = self.id(name);
                self.scheduler.on_command(self.now, Command::Cancel(id));
            }
            ["drain"] => self.scheduler.on_command(self.now, Command::Drain),
            ["stop"] => self.scheduler.on_command(self.now, Command::Stop),
            ["wait", millis] => self.now += Span::from_millis(millis.parse().expect("a number")),
            [name, size, ref rest @ ..] => self.submit(name, size, rest),
            _ => panic!("not a line: {line}"),
        }
        self.report("");
    }

    fn submit(&mut self, name: &str, size: &str, rest: &[&str]) {
        let (prompt, cap) = size.split_once('+').expect("prompt+cap");
        let mut submission = Submission {
            id: self.id(name),
            submitted_at: self.now,
            prompt: vec![Token(5); prompt.parse().expect("a number")].into(),
            sampling: Sampling::GREEDY,
            top_logprobs: None,
            max_tokens: cap.parse().expect("a number"),
            tier: Tier::BestEffort,
            epoch: Some(1),
            deadline: None,
            first_token: None,
            evict: Vec::new(),
        };
        for word in rest {
            match *word {
                "!" => submission.tier = Tier::Promised,
                "unleased" => submission.epoch = None,
                "evicts" => {}
                victim if !victim.starts_with('@') => submission.evict.push(self.id(victim)),
                budget => {
                    let millis = budget[1..].parse().expect("a number");
                    submission.deadline = Some(self.now + Span::from_millis(millis));
                }
            }
        }
        self.scheduler.on_command(self.now, Command::Submit(submission));
    }

    fn step(&mut self) -> bool {
        let plan = self.scheduler.plan_step(self.now);
        self.report("");
        if plan.is_empty() {
            return false;
        }
        let name = |id| &self.names[id];
        let mut work = String::new();
        for decode in &plan.decodes {
            write!(work, " {}+1", name(&decode.id)).expect("written");
        }
        for piece in &plan.prefills {
            write!(work, " {}:{:?}", name(&piece.id), piece.range).expect("written");
        }
        writeln!(self.log, "{}.{work} ({})", plan.number, plan.predicted).expect("written");
        let outcome = self.engine.execute(&plan);
        self.now += outcome.as_ref().expect("the mock runs").took;
        self.scheduler.commit_step(self.now, plan, outcome);
        self.scheduler.check();
        self.report("    ");
        true
    }

    fn report(&mut self, indent: &str) {
        for event in self.scheduler.drain_events() {
            let line = match event {
                Event::Refused { id, refusal } => format!("{} refused: {refusal}", self.names[&id]),
                Event::Finished { id, reason, usage, .. } => {
                    let tokens = usage.completion_tokens;
                    format!("{} ends: {reason:?} after {tokens}", self.names[&id])
                }
                Event::Accepted { .. }
                | Event::Started { .. }
                | Event::Token { .. }
                | Event::Step(_) => continue,
            };
            writeln!(self.log, "{indent}{line}").expect("written");
        }
    }
}

fn check_with(limits: Limits, script: &str, expected: &Expect) {
    let mut world = World::new(limits);
    script.lines().flat_map(|line| line.split(';')).for_each(|line| world.line(line));
    world.scheduler.check();
    expected.assert_eq(&world.log);
}

fn check(script: &str, expected: &Expect) {
    check_with(LIMITS, script, expected);
}

#[test]
fn a_long_prompt_is_chunked_beside_a_running_decode() {
    check(
        "a 10+5; run 1; b 70+2; run",
        &expect![[r#"
            1. a:0..10 (20 ms)
            2. a+1 b:0..30 (50 ms)
            3. a+1 b:30..60 (50 ms)
            4. a+1 b:60..70 (30 ms)
            5. a+1 b+1 (30 ms)
                a ends: Length after 5
                b ends: Length after 2
        "#]],
    );
}

#[test]
fn the_third_request_waits_for_a_slot() {
    check(
        "a 8+2; b 8+3; c 8+2; run",
        &expect![[r#"
            1. a:0..8 b:0..8 (26 ms)
            2. a+1 b+1 (30 ms)
                a ends: Length after 2
            3. b+1 c:0..8 (28 ms)
                b ends: Length after 3
            4. c+1 (20 ms)
                c ends: Length after 2
        "#]],
    );
}

#[test]
fn first_tokens_are_told_first() {
    check(
        "a 8+2; run 1; b 8+1; run",
        &expect![[r#"
            1. a:0..8 (18 ms)
            2. a+1 b:0..8 (28 ms)
                b ends: Length after 1
                a ends: Length after 2
        "#]],
    );
}

#[test]
fn promises_go_first_then_the_earliest_deadline() {
    check(
        "a 8+2; run 1; b 8+2; c 8+2 @900; d 8+2 ! @999; run",
        &expect![[r#"
            1. a:0..8 (18 ms)
            2. a+1 d:0..8 (28 ms)
                a ends: Length after 2
            3. d+1 c:0..8 (28 ms)
                d ends: Length after 2
            4. c+1 b:0..8 (28 ms)
                c ends: Length after 2
            5. b+1 (20 ms)
                b ends: Length after 2
        "#]],
    );
}

#[test]
fn a_promise_displaces_best_effort_which_is_computed_again() {
    check(
        "a 20+5; b 8+9; run 3; c 8+2 ! evicts a; run",
        &expect![[r#"
            1. a:0..20 b:0..8 (38 ms)
            2. a+1 b+1 (30 ms)
            3. a+1 b+1 (30 ms)
            4. b+1 c:0..8 (28 ms)
            5. c+1 b+1 (30 ms)
                c ends: Length after 2
            6. b+1 a:0..23 (43 ms)
            7. a+1 b+1 (30 ms)
                a ends: Length after 5
            8. b+1 (20 ms)
            9. b+1 (20 ms)
                b ends: Length after 9
        "#]],
    );
}

#[test]
fn cancellation_works_in_every_phase() {
    check(
        "a 60+5; b 8+9; c 8+9; run 1; cancel a; run 1; cancel b; cancel c; cancel c; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            a ends: Cancelled after 0
            2. b:0..8 c:0..8 (26 ms)
            b ends: Cancelled after 1
            c ends: Cancelled after 1
        "#]],
    );
}

#[test]
fn who_waits_past_the_deadline_ends() {
    check(
        "a 8+4; b 8+4; run 1; c 8+9 @60; run",
        &expect![[r#"
            1. a:0..8 b:0..8 (26 ms)
            2. a+1 b+1 (30 ms)
            3. a+1 b+1 (30 ms)
            c ends: Deadline after 0
            4. a+1 b+1 (30 ms)
                a ends: Length after 4
                b ends: Length after 4
        "#]],
    );
}

#[test]
fn queues_are_bounded() {
    let limits = Limits { waiting: 2, unleased: 1, ..LIMITS };
    check_with(
        limits,
        "a 8+9 unleased; b 8+9 unleased; c 8+9; d 8+9; run 1; a 1+1; e 300+300; drain; f 8+9; stop",
        &expect![[r#"
            b refused: 1 requests run without a lease already, the limit is 1
            d refused: 2 requests wait already, the limit is 2
            1. a:0..8 c:0..8 (26 ms)
            a refused: the request is already running
            e refused: the request needs 38 KV blocks, the engine has 32
            f refused: the engine is draining
            a ends: Shutdown after 1
            c ends: Shutdown after 1
        "#]],
    );
}
