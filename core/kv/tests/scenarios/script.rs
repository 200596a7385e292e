//! Runs a script, and tells what came of it.
//!
//! ```text
//! a = SSx 4     a looks SSx up and reserves 4 blocks in all
//! b ~ SSx       b only looks it up, and
//! b takes 4     reserves later
//! a keeps SSx   a publishes
//! a grows 2     by 2 blocks
//! a ends        a hands its lease back
//! ? SSx         somebody looks SSx up and forgoes it
//! forget; usage
//! ```

use std::{collections::BTreeMap, fmt::Write as _};

use kv::{KvCore, Lease, Match};
use units::{BlockCount, Token};

struct World {
    core: Box<dyn KvCore>,
    leases: BTreeMap<String, Lease>,
    matches: BTreeMap<String, Match>,
}

pub(crate) fn run(core: Box<dyn KvCore>, script: &str) -> String {
    let mut world = World { core, leases: BTreeMap::new(), matches: BTreeMap::new() };
    let mut told = String::new();
    for line in script.split(';').map(str::trim) {
        let came = world.step(line);
        writeln!(told, "{line}: {came}{}", world.given_up()).expect("strings take everything");
        let leases: Vec<_> = world.leases.values().collect();
        let matches: Vec<_> = world.matches.values().collect();
        world.core.check(&leases, &matches);
    }
    told
}

impl World {
    fn step(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["?", prompt] => {
                let found = self.core.lookup(&tokens(prompt));
                let told = tell_match(&found);
                self.core.forgo(found);
                told
            }
            [who, "=", prompt, blocks] => {
                let found = self.core.lookup(&tokens(prompt));
                format!("{}, {}", tell_match(&found), self.reserve(who, found, blocks))
            }
            [who, "~", prompt] => {
                let found = self.core.lookup(&tokens(prompt));
                let told = tell_match(&found);
                self.matches.insert(who.into(), found);
                told
            }
            [who, "takes", blocks] => {
                let found = self.matches.remove(who).expect("somebody who looked up");
                self.reserve(who, found, blocks)
            }
            [who, "keeps", prompt] => {
                let lease = self.leases.get_mut(who).expect("somebody with a lease");
                let owner = self.core.publish(lease, &tokens(prompt));
                owner.map_or("nothing kept".into(), |owner| format!("kept by {}", owner.0))
            }
            [who, "grows", blocks] => {
                let lease = self.leases.get_mut(who).expect("somebody with a lease");
                let grew = self.core.grow(lease, BlockCount(blocks.parse().expect("a number")));
                if grew { tell_blocks(lease) } else { "refused".into() }
            }
            [who, "ends"] => {
                if let Some(lease) = self.leases.remove(who) {
                    self.core.release(lease);
                }
                "done".into()
            }
            ["forget"] => {
                self.core.forget();
                "done".into()
            }
            ["usage"] => self.usage(),
            _ => panic!("{line}?"),
        }
    }

    fn reserve(&mut self, who: &str, found: Match, blocks: &str) -> String {
        match self.core.reserve(found, BlockCount(blocks.parse().expect("a number"))) {
            Ok(lease) => {
                let told = tell_blocks(&lease);
                self.leases.insert(who.into(), lease);
                told
            }
            Err(found) => {
                self.core.forgo(found);
                "refused".into()
            }
        }
    }

    fn given_up(&mut self) -> String {
        let told = self.core.drain_cuts().into_iter().map(|cut| match cut.tokens {
            0 => format!("; {} is given up", cut.owner.0),
            tokens => format!("; {} is cut to {tokens}", cut.owner.0),
        });
        told.collect()
    }

    fn usage(&self) -> String {
        let (usage, counters) = (self.core.usage(), self.core.counters());
        let [held, reclaimable, free] = [usage.held, usage.reclaimable, usage.free].map(|it| it.0);
        let (owners, bytes) = (counters.owners, counters.bytes);
        let (copies, evictions) = (counters.copies, counters.evictions);
        format!(
            "{held} held {reclaimable} reclaimable {free} free, {owners} owners {bytes} bytes, {copies} copies {evictions} evictions"
        )
    }
}

fn tokens(prompt: &str) -> Vec<Token> {
    let (blocks, more) = prompt.split_once('+').unwrap_or((prompt, "0"));
    let more = std::iter::repeat_n(Token(1), more.parse().expect("a number"));
    let block = |letter: char| (0..16).map(move |at| Token(u32::from(letter) * 100 + at));
    blocks.chars().flat_map(block).chain(more).collect()
}

fn tell_match(found: &Match) -> String {
    match found.owner() {
        Some(owner) => format!("found {} of {}", found.tokens(), owner.0),
        None => "found nothing".into(),
    }
}

fn tell_blocks(lease: &Lease) -> String {
    let blocks: Vec<_> = lease.blocks().iter().map(|block| block.0).collect();
    let (shared, own) = blocks.split_at(lease.shared().0 as usize);
    format!("has {shared:?} + {own:?}")
}
