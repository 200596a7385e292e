//! Who could join the next step, as the planner wants to know it.

use kv::Match;
use units::{BLOCK_TOKENS, BlockCount, Micros, Token};

use crate::{
    Discipline, Helper, PlanKey, Running, Scheduler, StepProblem, StepSolution, Tier, Waiting,
    queue::Queue,
    seq::{Sequence, count},
};

/// A request that waits, with the part of its prompt that the cache holds: pinned, so that nothing that
/// happens while the step is planned can evict it.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) key: PlanKey,
    pub(crate) found: Match,
}

impl Scheduler {
    /// Lets the planner choose, and preempts those who have to go: one at a time, because only then is it
    /// known what that has freed.
    pub(crate) fn choose(&mut self, now: Micros) -> (StepSolution, Vec<Candidate>) {
        loop {
            let (problem, candidates) = self.problem();
            let solution = problem.solve(&self.limits, &self.cost);
            let Some(&(at, cause)) = solution.preempts.first() else {
                return (solution, candidates);
            };
            self.forgo(candidates);
            self.preempt(now, problem.running[at].key, cause);
        }
    }

    pub(crate) fn forgo(&mut self, candidates: Vec<Candidate>) {
        for candidate in candidates {
            self.cache.forgo(candidate.found);
        }
    }

    fn problem(&mut self) -> (StepProblem, Vec<Candidate>) {
        let rules = self.limits.rules;
        let mut running: Vec<Running> = self.running.values().map(running).collect();
        let mut problem = StepProblem {
            step: self.step + 1,
            waiting: Vec::new(),
            free_slots: rules.discipline.seats(count(self.free_slots.len()), count(running.len())),
            free_blocks: self.cache.usage().largest,
            running: Vec::new(),
        };
        let candidates = self.candidates(&mut problem);
        if self.has_pressure(&problem, &running) {
            self.note_what_frees(&mut running);
        }
        problem.running = running;
        (problem, candidates)
    }

    /// Looks up the heads of the queue, as many as could join: there are no more seats, blocks or prompt
    /// tokens for those behind them.
    fn candidates(&mut self, problem: &mut StepProblem) -> Vec<Candidate> {
        let Self { limits, cache, queue, batch, running, keys, .. } = self;
        let continuous = limits.rules.discipline == Discipline::Continuous;
        let displaces = continuous && may_displace(queue, running.values());
        let seats = problem.free_slots.max(u32::from(displaces)) as usize;
        let ready: Vec<&Sequence> = match limits.rules.discipline {
            Discipline::Static { .. } => batch.ready(queue, keys).take(seats).collect(),
            Discipline::Fifo | Discipline::Continuous => queue.ready().take(seats).collect(),
        };
        let sharing = continuous && cache.keeps_prefixes();
        let (mut blocks, mut prompts) = (problem.free_blocks, limits.prefill_tokens);
        let mut candidates: Vec<(Candidate, &Sequence)> = Vec::new();
        for sequence in ready {
            let most = sequence.joining_blocks(limits);
            let (found, needed) = look_up(&mut **cache, &sequence.history, most, blocks);
            let helpers = match sharing {
                true => helpers(sequence, found.tokens(), running.values(), &candidates),
                false => Vec::new(),
            };
            let prefill = count(sequence.history.len()) - found.tokens();
            let helped = !helpers.is_empty();
            problem.waiting.push(Waiting {
                key: sequence.key,
                prefill,
                cached: found.tokens(),
                blocks: needed,
                helpers,
            });
            candidates.push((Candidate { key: sequence.key, found }, sequence));
            if needed > blocks || !helped && prefill >= prompts {
                break;
            }
            blocks -= needed;
            prompts -= if helped { 0 } else { prefill };
        }
        candidates.into_iter().map(|(candidate, _)| candidate).collect()
    }

    /// Whether the planner may have to preempt.
    fn has_pressure(&self, problem: &StepProblem, running: &[Running]) -> bool {
        let growth: BlockCount = running.iter().map(|it| it.grows).sum();
        let short = |head: &Waiting| problem.free_slots == 0 || head.blocks > problem.free_blocks;
        let takes = |head: &Waiting| head.key.tier == Tier::Promised && short(head);
        growth > problem.free_blocks || problem.waiting.first().is_some_and(takes)
    }

    /// What each frees when it goes after all behind it: the blocks that nobody ahead of it shares.
    fn note_what_frees(&self, running: &mut [Running]) {
        let mut holders = vec![0u32; self.limits.kv_blocks.0 as usize];
        for (sequence, noted) in self.running.values().zip(running) {
            let seat = sequence.seat.as_ref().expect("a running sequence has a seat");
            for block in seat.lease.blocks() {
                let holders = &mut holders[block.0 as usize];
                noted.frees.0 += u32::from(*holders == 0);
                *holders += 1;
            }
        }
    }
}

fn running(sequence: &Sequence) -> Running {
    let prefill_left = sequence.prefill_left();
    Running {
        key: sequence.key,
        prefill_left,
        computed: sequence.computed,
        grows: if prefill_left == 0 { sequence.grows() } else { BlockCount(0) },
        frees: BlockCount(0),
    }
}

/// Whether a promised request could take a seat from somebody who runs.
fn may_displace<'a>(
    queue: &Queue,
    mut running: impl DoubleEndedIterator<Item = &'a Sequence>,
) -> bool {
    let waits = queue.ready().next().is_some_and(|head| head.tier == Tier::Promised);
    waits && running.next_back().is_some_and(|last| last.tier == Tier::BestEffort)
}

/// What the cache holds of a prompt, and the free blocks that a lease of `most` blocks takes beside it.
///
/// A block that would be copied is pinned and brings nothing. In a pool that is nearly full, that may be
/// one block too many, for ever: then the match is cut to whole blocks.
fn look_up(
    cache: &mut dyn kv::KvCore,
    prompt: &[Token],
    most: BlockCount,
    free: BlockCount,
) -> (Match, BlockCount) {
    let needed = |found: &Match| most + found.withheld() - found.shared();
    let found = cache.lookup(prompt);
    if needed(&found) <= free || found.tokens().is_multiple_of(BLOCK_TOKENS) {
        let needed = needed(&found);
        return (found, needed);
    }
    let whole = found.tokens() / BLOCK_TOKENS * BLOCK_TOKENS;
    cache.forgo(found);
    let found = cache.lookup(&prompt[..whole as usize + 1]);
    let needed = needed(&found);
    (found, needed)
}

/// Those ahead of `sequence` in the planning order who compute a prompt that begins with more whole
/// blocks of its own than were found.
fn helpers<'a>(
    sequence: &Sequence,
    found: u32,
    running: impl Iterator<Item = &'a Sequence>,
    ahead: &[(Candidate, &Sequence)],
) -> Vec<Helper> {
    let helps = |other: &Sequence| {
        common_blocks(&other.history, &sequence.history) > found.div_ceil(BLOCK_TOKENS)
    };
    let computes = |other: &Sequence| other.key < sequence.key && other.prefill_left() > 0;
    let running = running.enumerate().filter(|(_, other)| computes(other) && helps(other));
    let ahead = ahead.iter().enumerate().filter(|(_, (_, other))| helps(other));
    running
        .map(|(at, _)| Helper::Running(at))
        .chain(ahead.map(|(at, _)| Helper::Waiting(at)))
        .collect()
}

/// Whole blocks that two prompts begin with.
fn common_blocks(one: &[Token], other: &[Token]) -> u32 {
    let size = BLOCK_TOKENS as usize;
    let pairs = one.chunks_exact(size).zip(other.chunks_exact(size));
    count(pairs.take_while(|(one, other)| one == other).count())
}
