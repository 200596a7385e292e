//! Two cores that are asked the same.

use kv::{BlockId, Counters, Cut, IndexChange, Kind, KvCore, Lease, Match, Options, Sketch, Usage};
use units::{BlockCount, Owner, Token};

/// What the production core gave, and what the reference gave.
pub(crate) struct Both<T> {
    pub(crate) ours: T,
    theirs: T,
}

/// What can be seen of a core itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) cuts: Vec<Cut>,
    pub(crate) index: Vec<IndexChange>,
    pub(crate) usage: Usage,
    pub(crate) counters: Counters,
    pub(crate) answers: Vec<Sketch>,
}

/// Both cores. Each call compares what they say.
pub(crate) struct Pair(Both<Box<dyn KvCore>>);

impl Pair {
    pub(crate) fn new(options: Options) -> Self {
        let build = |kind: Kind| kind.build(options);
        Self(Both { ours: build(Kind::Paged), theirs: build(Kind::Naive) })
    }

    pub(crate) fn lookup(&mut self, prompt: &[Token]) -> Both<Match> {
        let (ours, theirs) = (self.0.ours.lookup(prompt), self.0.theirs.lookup(prompt));
        same_matches(Both { ours, theirs })
    }

    pub(crate) fn forgo(&mut self, found: Both<Match>) {
        self.0.ours.forgo(found.ours);
        self.0.theirs.forgo(found.theirs);
    }

    pub(crate) fn reserve(
        &mut self,
        found: Both<Match>,
        blocks: BlockCount,
    ) -> Result<Both<Lease>, Both<Match>> {
        let ours = self.0.ours.reserve(found.ours, blocks);
        let theirs = self.0.theirs.reserve(found.theirs, blocks);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => Ok(Both { ours, theirs }),
            (Err(ours), Err(theirs)) => Err(same_matches(Both { ours, theirs })),
            (ours, theirs) => panic!("reserve: {ours:?} {theirs:?}"),
        }
    }

    pub(crate) fn grow(&mut self, lease: &mut Both<Lease>, blocks: BlockCount) -> bool {
        let grew = self.0.ours.grow(&mut lease.ours, blocks);
        assert_eq!(grew, self.0.theirs.grow(&mut lease.theirs, blocks), "grow");
        grew
    }

    pub(crate) fn publish(&mut self, lease: &mut Both<Lease>, tokens: &[Token]) -> Option<Owner> {
        let owner = self.0.ours.publish(&mut lease.ours, tokens);
        assert_eq!(owner, self.0.theirs.publish(&mut lease.theirs, tokens), "publish");
        owner
    }

    pub(crate) fn note_answer(&mut self, lease: &Both<Lease>, tokens: u32, ended: bool) {
        self.0.ours.note_answer(&lease.ours, tokens, ended);
        self.0.theirs.note_answer(&lease.theirs, tokens, ended);
    }

    pub(crate) fn release(&mut self, lease: Both<Lease>) {
        self.0.ours.release(lease.ours);
        self.0.theirs.release(lease.theirs);
    }

    pub(crate) fn forget(&mut self) {
        self.0.ours.forget();
        self.0.theirs.forget();
    }

    pub(crate) fn usage(&self) -> Usage {
        self.0.ours.usage()
    }

    /// Compares all that can be seen, answers under some prompts too, and checks the invariants.
    pub(crate) fn observe<'a>(
        &mut self,
        leases: impl Iterator<Item = &'a Both<Lease>> + Clone,
        matches: impl Iterator<Item = &'a Both<Match>> + Clone,
        prompts: &[Vec<Token>],
    ) -> Seen {
        for lease in leases.clone() {
            assert_eq!(seen_of(&lease.ours), seen_of(&lease.theirs), "leases");
        }
        let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
        ours.extend(leases.clone().map(|lease| &lease.ours));
        theirs.extend(leases.map(|lease| &lease.theirs));
        let [mut our_matches, mut their_matches] = [Vec::new(), Vec::new()];
        our_matches.extend(matches.clone().map(|found| &found.ours));
        their_matches.extend(matches.map(|found| &found.theirs));
        self.0.ours.check(&ours, &our_matches);
        self.0.theirs.check(&theirs, &their_matches);
        let seen = look(&mut *self.0.ours, prompts);
        assert_eq!(seen, look(&mut *self.0.theirs, prompts), "ours, and the reference");
        seen
    }
}

fn look(core: &mut dyn KvCore, prompts: &[Vec<Token>]) -> Seen {
    Seen {
        cuts: core.drain_cuts(),
        index: core.drain_index(),
        usage: core.usage(),
        counters: core.counters(),
        answers: (0..4)
            .flat_map(|least| prompts.iter().map(move |prompt| (prompt, least)))
            .map(|(prompt, least)| core.answers(prompt, least).clone())
            .collect(),
    }
}

fn same_matches(found: Both<Match>) -> Both<Match> {
    let seen = |it: &Match| (it.tokens(), it.owner(), it.shared(), it.withheld());
    assert_eq!(seen(&found.ours), seen(&found.theirs), "matches");
    found
}

fn seen_of(lease: &Lease) -> (Vec<BlockId>, u32, Option<Owner>, BlockCount) {
    (lease.blocks().to_vec(), lease.cached_tokens(), lease.owner(), lease.shared())
}
