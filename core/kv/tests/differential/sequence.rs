//! A random sequence of operations.

use std::{collections::BTreeSet, ops::Range};

use kv::{Layout, Lease, Match, Options};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use units::{BLOCK_TOKENS, BlockCount, Token, TokenCount};

use crate::{
    ghost::Ghost,
    pair::{Both, Pair, Seen},
};

const OPERATIONS: u32 = 80;

/// A sequence of an engine: what it has computed or will compute.
struct Running {
    lease: Both<Lease>,
    history: Vec<Token>,
}

struct Waiting {
    found: Both<Match>,
    prompt: Vec<Token>,
    /// The cores have forgotten what it found.
    old: bool,
}

struct World {
    rng: ChaCha8Rng,
    pair: Pair,
    ghost: Ghost,
    unified: bool,
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    reached: BTreeSet<&'static str>,
}

/// Runs the sequence of a seed. Says what it reached.
pub(crate) fn run(seed: u64, layout: Layout) -> BTreeSet<&'static str> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let options = Options {
        blocks: BlockCount(rng.random_range(0..28)),
        layout,
        owners: rng.random_range(0..7),
        prefixes: rng.random_bool(0.97),
    };
    let named = Named(seed, options);
    let mut world = World {
        rng,
        pair: Pair::new(options),
        ghost: Ghost::default(),
        unified: layout == Layout::Unified,
        waiting: Vec::new(),
        running: Vec::new(),
        reached: BTreeSet::new(),
    };
    for _ in 0..OPERATIONS {
        world.operate();
    }
    world.hand_everything_back(options);
    drop(named);
    world.reached
}

/// Names the sequence if it fails.
struct Named(u64, Options);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: {:?}", self.0, self.1);
        }
    }
}

impl World {
    fn operate(&mut self) {
        match self.rng.random_range(0..100) {
            0..24 => self.lookup(),
            24..32 => self.forgo(),
            32..50 => self.reserve(),
            50..58 => self.grow(),
            58..80 => self.publish(),
            80..84 => self.note_answer(),
            84..99 => self.release(),
            _ => self.forget(),
        }
    }

    /// A few whole blocks out of three that differ little, and perhaps some tokens of a fourth.
    fn tokens(&mut self, blocks: Range<usize>) -> Vec<Token> {
        let mut tokens = Vec::new();
        for _ in 0..self.rng.random_range(blocks) {
            let odd = self.rng.random_range(0..3);
            tokens.extend((0..16).map(|at| Token(u32::from(at == odd * 7))));
        }
        let tail = if self.rng.random() { self.rng.random_range(0..16) } else { 0 };
        tokens.extend((0..tail).map(|_| Token(0)));
        tokens
    }

    fn pick(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.rng.random_range(0..len))
    }

    fn lookup(&mut self) {
        let prompt = self.tokens(0..6);
        let before = self.pair.usage();
        let found = self.pair.lookup(&prompt);
        let after = self.pair.usage();
        assert_eq!(before.largest - found.ours.withheld(), after.largest, "withheld");
        assert!(found.ours.tokens() == 0 || (found.ours.tokens() as usize) < prompt.len());
        let promised = (found.ours.owner(), prompt[..found.ours.tokens() as usize].to_vec());
        self.waiting.push(Waiting { found, prompt, old: false });
        self.observe();
        self.ghost.check_promise(promised.0, &promised.1);
    }

    fn forgo(&mut self) {
        let Some(at) = self.pick(self.waiting.len()) else { return };
        let waiting = self.waiting.swap_remove(at);
        self.pair.forgo(waiting.found);
        self.observe();
    }

    fn reserve(&mut self) {
        let Some(at) = self.pick(self.waiting.len()) else { return };
        let Waiting { found, prompt, old } = self.waiting.swap_remove(at);
        let exact = TokenCount(u32::try_from(prompt.len()).expect("small")).blocks();
        let more = BlockCount(self.rng.random_range(0..4));
        let blocks = if self.rng.random_bool(0.1) { more } else { exact + more };
        let shared = if old { BlockCount(0) } else { found.ours.shared() };
        let fits = self.pair.usage().largest.0 >= blocks.0.saturating_sub(shared.0);
        let promised = if old { 0 } else { found.ours.tokens() };
        match self.pair.reserve(found, blocks) {
            Ok(lease) => {
                assert!(fits, "reserved more than there was");
                assert_eq!(lease.ours.len(), blocks.max(shared));
                assert_eq!(lease.ours.cached_tokens(), promised);
                self.reached.extend((promised > 0).then_some("hit"));
                let (owner, found) = (lease.ours.owner(), prompt[..promised as usize].to_vec());
                self.running.push(Running { lease, history: prompt });
                let seen = self.observe();
                self.ghost.check_promise(owner, &found);
                self.reached.extend((seen.counters.copies > 0).then_some("copy"));
                self.check_fresh(self.running.len() - 1, shared.0 as usize);
            }
            Err(found) => {
                assert!(!fits, "refused what there was");
                self.reached.insert("exhaustion");
                self.waiting.push(Waiting { found, prompt, old });
                self.observe();
            }
        }
    }

    fn grow(&mut self) {
        let Some(at) = self.pick(self.running.len()) else { return };
        let more = BlockCount(self.rng.random_range(0..4));
        let had = self.running[at].lease.ours.len();
        let fits = self.pair.usage().largest >= more;
        assert_eq!(self.pair.grow(&mut self.running[at].lease, more), fits);
        self.observe();
        self.check_fresh(at, had.0 as usize);
    }

    /// Publishes what a sequence has computed so far: some of its prompt, or more.
    fn publish(&mut self) {
        let Some(at) = self.pick(self.running.len()) else { return };
        let answer = if self.rng.random_bool(0.4) { self.tokens(0..3) } else { Vec::new() };
        self.running[at].history.extend(answer);
        let len = self.running[at].history.len();
        let cut = if self.rng.random_bool(0.2) { self.rng.random_range(0..=len) } else { len };
        let running = &mut self.running[at];
        let tokens = &running.history[..cut];
        let owner = self.pair.publish(&mut running.lease, tokens);
        let whole = (cut / 16).min(running.lease.ours.len().0 as usize);
        let kept =
            if self.unified { whole * 16 } else { cut.min(running.lease.ours.blocks().len() * 16) };
        let tokens = tokens[..kept].to_vec();
        let blocks = running.lease.ours.blocks()[..if self.unified { whole } else { 0 }].to_vec();
        if let Some(owner) = owner {
            let seen = self.look();
            self.ghost.cut(&seen.cuts);
            self.ghost.change(&seen.index);
            self.ghost.keep(owner, &tokens, &blocks);
            self.reached.insert("publication");
        } else if self.is_new(&tokens[..whole * 16]) {
            self.reached.insert("no room");
        }
        self.observe();
    }

    /// Whether not all whole blocks of these tokens are kept.
    fn is_new(&mut self, tokens: &[Token]) -> bool {
        let mut longer = tokens.to_vec();
        longer.push(Token(9));
        let found = self.pair.lookup(&longer);
        let new = (found.ours.tokens() as usize) < tokens.len() / 16 * 16;
        self.pair.forgo(found);
        new
    }

    fn note_answer(&mut self) {
        let Some(at) = self.pick(self.running.len()) else { return };
        let (tokens, ended) = (self.rng.random_range(0..300), self.rng.random());
        self.pair.note_answer(&self.running[at].lease, tokens, ended);
        self.observe();
    }

    fn release(&mut self) {
        let Some(at) = self.pick(self.running.len()) else { return };
        let running = self.running.swap_remove(at);
        self.pair.release(running.lease);
        self.observe();
    }

    /// Only those that found something are out of date then.
    fn forget(&mut self) {
        self.pair.forget();
        for waiting in &mut self.waiting {
            waiting.old |= waiting.found.ours.tokens() > 0;
        }
        self.reached.insert("forgetting");
        self.observe();
    }

    /// Compares the cores, and lets the ghost follow.
    fn observe(&mut self) -> Seen {
        let seen = self.look();
        self.ghost.cut(&seen.cuts);
        self.ghost.change(&seen.index);
        let tokens = u64::from(BLOCK_TOKENS);
        self.ghost.check_counts(seen.counters.owners, seen.counters.tokens_kept / tokens);
        self.reached.extend((seen.counters.evictions > 0).then_some("eviction"));
        self.reached.extend((seen.counters.splits > 0).then_some("split"));
        self.reached.extend(seen.cuts.iter().any(|cut| cut.tokens > 0).then_some("partial cut"));
        seen
    }

    fn look(&mut self) -> Seen {
        let prompts = [self.tokens(0..4), self.tokens(1..6)];
        let leases = self.running.iter().map(|it| &it.lease);
        let matches = self.waiting.iter().map(|it| &it.found);
        self.pair.observe(leases, matches, &prompts)
    }

    /// The blocks of a lease from `had` on are nobody else's.
    fn check_fresh(&self, at: usize, had: usize) {
        let others = self.running.iter().enumerate().filter(|(other, _)| *other != at);
        let fresh = &self.running[at].lease.ours.blocks()[had..];
        self.ghost.check_fresh(fresh, others.map(|(_, it)| &it.lease.ours));
    }

    fn hand_everything_back(&mut self, options: Options) {
        while !self.waiting.is_empty() {
            self.forgo();
        }
        while !self.running.is_empty() {
            self.release();
        }
        assert_eq!(self.pair.usage().largest, options.blocks, "nothing leaks");
        self.pair.forget();
        assert_eq!(self.observe().usage.free, options.blocks, "nothing leaks");
    }
}
