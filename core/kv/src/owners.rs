//! Who keeps prefixes.

use units::{BlockCount, Owner, Token};

use crate::{Cut, Layout, Options};

/// What is known of one owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Nodes that name it. Without any, it keeps nothing.
    pub(crate) names: u32,
    /// Those of them that are pinned.
    pub(crate) pinned: u32,
    /// What its saved state takes.
    pub(crate) bytes: u64,
}

/// Owners, what they take, and which of them could be given up.
#[derive(Debug)]
pub(crate) struct Owners {
    pub(crate) records: Vec<Record>,
    /// Owners that keep nothing, the next one last.
    pub(crate) free: Vec<Owner>,
    pub(crate) cuts: Vec<Cut>,
    /// Of all kept owners, and of those that are idle: none of their nodes is pinned.
    pub(crate) all: Room,
    pub(crate) idle: Room,
    token_bytes: u64,
    pub(crate) bytes_max: u64,
}

/// What some owners take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) owners: u32,
    pub(crate) bytes: u64,
}

impl Room {
    pub(crate) fn add(&mut self, record: &Record) {
        self.owners += 1;
        self.bytes += record.bytes;
    }

    /// Of these and one more.
    pub(crate) fn and(mut self, record: &Record) -> Self {
        self.add(record);
        self
    }

    fn remove(&mut self, record: &Record) {
        self.owners -= 1;
        self.bytes -= record.bytes;
    }
}

impl Owners {
    pub(crate) fn new(options: &Options) -> Self {
        let (token_bytes, bytes_max) = match options.layout {
            Layout::Unified => (0, 0),
            Layout::Streams { token_bytes, bytes_max } => (token_bytes, bytes_max),
        };
        Self {
            records: vec![Record::default(); options.owners as usize],
            free: (0..options.owners).rev().map(Owner).collect(),
            cuts: Vec::new(),
            all: Room::default(),
            idle: Room::default(),
            token_bytes,
            bytes_max,
        }
    }

    /// What an owner of all these tokens takes.
    pub(crate) fn bytes_of(&self, tokens: &[Token]) -> u64 {
        self.token_bytes.saturating_mul(tokens.len() as u64)
    }

    pub(crate) fn is_kept(&self, owner: Owner) -> bool {
        self.records[owner.0 as usize].names > 0
    }

    /// Whether a further owner of so many bytes can be had right away.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        !self.free.is_empty() && self.all.bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// Whether there would be room if all idle owners were given up, and these others.
    pub(crate) fn can_have_room(&self, bytes: u64, others: Room) -> bool {
        let owners = count(self.free.len()) + self.idle.owners + others.owners;
        let used = self.all.bytes - self.idle.bytes - others.bytes;
        owners > 0 && used.saturating_add(bytes) <= self.bytes_max
    }

    /// Takes a free owner, to be named at once.
    ///
    /// # Panics
    /// There is none.
    pub(crate) fn take(&mut self, bytes: u64) -> Owner {
        let owner = self.free.pop().expect("the caller has made room");
        self.records[owner.0 as usize].bytes = bytes;
        self.all.add(&self.records[owner.0 as usize]);
        self.idle.add(&self.records[owner.0 as usize]);
        owner
    }

    /// A node names it.
    pub(crate) fn name(&mut self, owner: Owner, pinned: bool) {
        self.update(owner, |record| {
            record.names += 1;
            record.pinned += u32::from(pinned);
        });
    }

    /// A node does not name it any more.
    pub(crate) fn unname(&mut self, owner: Owner, pinned: bool) {
        self.update(owner, |record| {
            record.names -= 1;
            record.pinned -= u32::from(pinned);
        });
    }

    /// A node that names it is pinned now.
    pub(crate) fn pin(&mut self, owner: Owner) {
        self.update(owner, |record| record.pinned += 1);
    }

    /// A node that names it is not pinned any more.
    pub(crate) fn unpin(&mut self, owner: Owner) {
        self.update(owner, |record| record.pinned -= 1);
    }

    /// What it keeps behind the first `depth` blocks is not needed any more. A saved state stays whole.
    pub(crate) fn cut(&mut self, owner: Owner, depth: BlockCount) {
        self.cuts.push(Cut { owner, tokens: depth.tokens().0 });
    }

    /// Gives all of them up.
    pub(crate) fn clear(&mut self) {
        let kept = (0..count(self.records.len())).map(Owner).filter(|owner| self.is_kept(*owner));
        self.cuts.extend(kept.map(|owner| Cut { owner, tokens: 0 }).collect::<Vec<_>>());
        self.records.fill(Record::default());
        self.free = (0..count(self.records.len())).rev().map(Owner).collect();
        (self.all, self.idle) = (Room::default(), Room::default());
    }

    fn update(&mut self, owner: Owner, change: impl FnOnce(&mut Record)) {
        let record = &mut self.records[owner.0 as usize];
        let was_idle = record.pinned == 0;
        change(record);
        match (was_idle, record.pinned == 0) {
            (false, true) => self.idle.add(record),
            (true, false) => self.idle.remove(record),
            (false, false) | (true, true) => {}
        }
        if record.names == 0 {
            self.all.remove(record);
            self.idle.remove(record);
            self.free.push(owner);
            self.cuts.push(Cut { owner, tokens: 0 });
        }
    }
}

fn count(owners: usize) -> u32 {
    u32::try_from(owners).expect("owners are counted in 32 bits")
}
