//! Scenarios: requests in, steps out, in virtual time.
//!
//! A line submits at most one request: `a 20+4` is request a, 20 prompt tokens of its own, a cap of 4.
//! `a x32y8+4` has 32 tokens of the text x and then 8 of the text y, which others may have too. `!` makes
//! it promised, `@500` gives it 500 ms, `evicts b` displaces b; `cancel a` cancels; `touch x32` is a prompt
//! that was seen; `run 3` runs three steps, `run` until all have ended; `refuse` plans a step that is refused,
//! `lose` one that loses a prefix, `fail` one that fails.
//!
//! A step shows what happens to kept prefixes in brackets: `keep 0=a:32` keeps the first 32 tokens of a's
//! slot under owner 0, `cut 0:16` shortens what it keeps, `drop 0` gives it up. Then `a+1` is one more
//! token of a, `a:0..10` is a piece of its prompt, `a<0:16..20` begins behind what owner 0 keeps. Equal
//! steps are shown once, with the first and the last number.

use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::Expect;
use kv::{Kind, Layout};
use sched::{
    Command, Discipline, Event, Lateness, Limits, Move, Order, Reservation, Rules, Snapshot,
    StepCost, StepPlan, Tier,
};
use units::{BlockCount, Micros, RequestId, Slot, Span, Token};

use crate::{
    rig::{Luck, Rig, Setup, request},
    trace::text,
};

/// A step costs 10 ms, a decode 10 ms, a prompt token 1 ms.
const COST: StepCost = StepCost {
    base_us: 10_000.0,
    per_decode_us: 10_000.0,
    per_prefill_token_us: 1_000.0,
    ..StepCost::GUESS
};

const RULES: Rules = Rules {
    discipline: Discipline::Continuous,
    order: Order::DecodeFirst,
    reservation: Reservation::Full,
    output_cap: None,
    lateness: Lateness::Finish,
    itl: None,
};

pub(crate) const LIMITS: Limits = Limits {
    slots: 2,
    context_tokens: 256,
    batch_tokens: 64,
    prefill_tokens: 64,
    step: Span::from_millis(50),
    waiting: 4,
    unleased: 4,
    kv_blocks: BlockCount(32),
    rules: RULES,
};

/// Nothing is kept.
pub(crate) const PLAIN: Setup = Setup {
    limits: LIMITS,
    cost: COST,
    kind: Kind::Paged,
    layout: Layout::Unified,
    owners: 0,
    prefixes: false,
    answer: 0,
};

/// Prefixes are kept, by at most four owners.
pub(crate) const KEEPING: Setup = Setup { owners: 4, prefixes: true, ..PLAIN };

/// `setup` under other rules.
pub(crate) fn under(setup: &Setup, rules: impl Fn(&mut Rules)) -> Setup {
    let mut setup = setup.clone();
    rules(&mut setup.limits.rules);
    setup
}

struct World {
    rig: Rig,
    log: String,
    names: BTreeMap<RequestId, String>,
    /// Who holds, or held, each slot.
    slots: BTreeMap<Slot, RequestId>,
    /// The last line, if it is a step: where it begins, the number of the first such step, and what it does.
    last: Option<(usize, u64, String)>,
}

impl World {
    fn new(setup: &Setup) -> Self {
        Self {
            rig: Rig::new(setup),
            log: String::new(),
            names: BTreeMap::new(),
            slots: BTreeMap::new(),
            last: None,
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
            ["run"] => while self.step(Luck::Good) || self.sleep() {},
            ["run", steps] => {
                for _ in 0..number(steps) {
                    self.step(Luck::Good);
                }
            }
            ["refuse"] => drop(self.step(Luck::Refused)),
            ["lose"] => drop(self.step(Luck::Loses)),
            ["fail"] => drop(self.step(Luck::Fails)),
            ["cancel", name] => {
                let id = self.id(name);
                self.command(Command::Cancel(id));
            }
            ["touch", size] => self.command(Command::Touch(prompt("", size).into())),
            ["drain"] => self.command(Command::Drain),
            ["stop"] => self.command(Command::Stop),
            ["wait", millis] => self.rig.now += Span::from_millis(number(millis).into()),
            ["counters"] => self.counters(),
            [name, size, ref rest @ ..] => self.submit(name, size, rest),
            _ => panic!("not a line: {line}"),
        }
    }

    fn command(&mut self, command: Command) {
        let before = self.rig.scheduler.snapshot(self.rig.now);
        let events = self.rig.command(command);
        self.note_displaced(&before, self.rig.now);
        self.report("", &events);
    }

    fn submit(&mut self, name: &str, size: &str, rest: &[&str]) {
        let (prompt_of, cap) = size.split_once('+').expect("prompt+cap");
        let id = self.id(name).0;
        let mut submission = request(id, self.rig.now, prompt(name, prompt_of), number(cap));
        for word in rest {
            match *word {
                "!" => submission.tier = Tier::Promised,
                "unleased" => submission.epoch = None,
                "evicts" => {}
                victim if !victim.starts_with('@') => submission.evict.push(self.id(victim)),
                budget => {
                    let millis = number(&budget[1..]).into();
                    submission.deadline = Some(self.rig.now + Span::from_millis(millis));
                }
            }
        }
        self.command(Command::Submit(submission));
    }

    /// Goes to where something happens although nothing is to be done now.
    fn sleep(&mut self) -> bool {
        let before = self.rig.now;
        let sleeps = self.rig.sleep();
        if sleeps {
            writeln!(self.log, "sleeps {}", self.rig.now.since(before)).expect("written");
        }
        sleeps
    }

    fn counters(&mut self) {
        let snapshot = self.rig.scheduler.snapshot(self.rig.now);
        writeln!(self.log, "{:?}", snapshot.counters).expect("written");
    }

    fn step(&mut self, luck: Luck) -> bool {
        let now = self.rig.now;
        let before = self.rig.scheduler.snapshot(now);
        let stepped = self.rig.step(luck);
        self.note_displaced(&before, now);
        let Some((plan, events)) = stepped else { return false };
        let (before_step, in_step): (Vec<_>, Vec<_>) = match plan.is_empty() {
            true => (events, Vec::new()),
            // Whoever was late ended before the step, without a row in it.
            false => events.into_iter().partition(|event| match event {
                Event::Finished { id, .. } => !has_row(&plan, *id),
                Event::Accepted { .. }
                | Event::Refused { .. }
                | Event::Started { .. }
                | Event::Token { .. }
                | Event::Step(_) => false,
            }),
        };
        self.report("", &before_step);
        if !plan.is_empty() {
            self.show(&plan);
        }
        self.report("    ", &in_step);
        true
    }

    /// Those who ran before, and wait since `now`; and whether a promise is gone.
    fn note_displaced(&mut self, before: &Snapshot, now: Micros) {
        let after = self.rig.scheduler.snapshot(now);
        let ran = &before.sequences[..before.running as usize];
        let waits = &after.sequences[after.running as usize..];
        for sequence in waits.iter().filter(|it| ran.iter().any(|ran| ran.id == it.id)) {
            let (name, rest) = (&self.names[&sequence.id], sequence.eligible_in);
            writeln!(self.log, "{name} is displaced, and rests {rest}").expect("written");
        }
        if after.counters.demoted > before.counters.demoted {
            writeln!(self.log, "a promise is broken").expect("written");
        }
    }

    fn show(&mut self, plan: &StepPlan) {
        let mut work = String::new();
        // Every sequence that ends leaves its slot: not worth a word.
        let told = plan.moves.iter().filter(|made| !matches!(made, Move::Leave { .. }));
        let moves: Vec<String> = told.map(|made| self.shown(*made)).collect();
        if !moves.is_empty() {
            write!(work, " [{}]", moves.join(", ")).expect("written");
        }
        for join in &plan.joins {
            self.slots.insert(join.slot, join.id);
        }
        let name = |id| &self.names[&id];
        for decode in &plan.decodes {
            write!(work, " {}+1", name(decode.id)).expect("written");
        }
        for piece in &plan.prefills {
            let join = plan.joins.iter().find(|join| join.id == piece.id);
            let reuse = join.and_then(|join| join.reuse);
            let from = reuse.map_or(String::new(), |reuse| format!("<{}", reuse.owner.0));
            write!(work, " {}{from}:{:?}", name(piece.id), piece.range).expect("written");
        }
        writeln!(work, " ({})", plan.predicted).expect("written");
        self.show_once(plan.number, work);
    }

    fn show_once(&mut self, number: u64, work: String) {
        match self.last.take() {
            Some((at, first, last)) if last == work && self.log[at..].lines().count() == 1 => {
                self.log.truncate(at);
                write!(self.log, "{first}-{number}.{work}").expect("written");
                self.last = Some((at, first, work));
            }
            _ => {
                let at = self.log.len();
                write!(self.log, "{number}.{work}").expect("written");
                self.last = Some((at, number, work));
            }
        }
    }

    fn shown(&self, made: Move) -> String {
        match made {
            Move::Keep { slot, owner, tokens } => {
                format!("keep {}={}:{tokens}", owner.0, self.names[&self.slots[&slot]])
            }
            Move::Cut { owner, tokens } => format!("cut {}:{tokens}", owner.0),
            Move::Drop { owner } => format!("drop {}", owner.0),
            Move::Leave { slot } => format!("leave {}", slot.0),
        }
    }

    fn report(&mut self, indent: &str, events: &[Event]) {
        for event in events {
            let line = match event {
                Event::Refused { id, refusal } => format!("{} refused: {refusal}", self.names[id]),
                Event::Finished { id, reason, usage, .. } => {
                    let (tokens, cached) = (usage.completion_tokens, usage.cached_tokens);
                    let cached = match cached {
                        0 => String::new(),
                        _ => format!(", {cached} cached"),
                    };
                    format!("{} ends: {reason:?} after {tokens}{cached}", self.names[id])
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

fn has_row(plan: &StepPlan, id: RequestId) -> bool {
    let mut decodes = plan.decodes.iter().map(|decode| decode.id);
    let mut prefills = plan.prefills.iter().map(|piece| piece.id);
    decodes.any(|it| it == id) || prefills.any(|it| it == id)
}

fn number(word: &str) -> u32 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// `20`: that many tokens of the request's own. `x32y8`: parts of texts.
fn prompt(name: &str, size: &str) -> Vec<Token> {
    let own = 1_000 + name.bytes().map(u32::from).sum::<u32>();
    if let Ok(tokens) = size.parse() {
        return text(own, tokens).collect();
    }
    let mut tokens = Vec::new();
    let mut rest = size;
    while let Some(text_name) = rest.chars().next() {
        let end = rest[1..].find(char::is_alphabetic).map_or(rest.len(), |at| at + 1);
        tokens.extend(text(text_name.into(), number(&rest[1..end])));
        rest = &rest[end..];
    }
    tokens
}

/// What a script says.
pub(crate) fn log(setup: &Setup, script: &str) -> String {
    let mut world = World::new(setup);
    script.lines().flat_map(|line| line.split(';')).for_each(|line| world.line(line));
    world.log
}

pub(crate) fn check_with(setup: &Setup, script: &str, expected: &Expect) {
    expected.assert_eq(&log(setup, script));
}

pub(crate) fn check(script: &str, expected: &Expect) {
    check_with(&PLAIN, script, expected);
}
