//! Which stream each slot has.
//!
//! llama.cpp computes the rows of several streams together only if the streams are neighbours: its batch is
//! cut wherever a number is missing, and each part is computed alone. Four sequences in streams 0, 2, 4 and
//! 6 take as long as four times one. So the streams in use are kept side by side, whatever slots they have.

use units::Slot;

/// The streams in use. As many as there are slots.
#[derive(Debug)]
pub(super) struct Places {
    /// By slot.
    streams: Vec<Option<u32>>,
    /// By stream.
    slots: Vec<Option<Slot>>,
}

/// A sequence that has to go to another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    pub(super) slot: Slot,
    pub(super) from: u32,
    /// Free.
    pub(super) into: u32,
}

impl Places {
    /// Nobody has a stream.
    pub(super) fn new(slots: u32) -> Self {
        Self { streams: vec![None; slots as usize], slots: vec![None; slots as usize] }
    }

    /// The slot's stream, if it has one.
    pub(super) fn of(&self, slot: Slot) -> Option<u32> {
        self.streams[slot.0 as usize]
    }

    /// The slot's stream. It gets one beside those in use if it has none.
    pub(super) fn take(&mut self, slot: Slot) -> u32 {
        self.of(slot).unwrap_or_else(|| {
            let stream = self.nearest_free();
            self.put(slot, stream);
            stream
        })
    }

    /// The slot needs its stream no more.
    pub(super) fn leave(&mut self, slot: Slot) {
        if let Some(stream) = self.streams[slot.0 as usize].take() {
            self.slots[stream as usize] = None;
        }
    }

    /// A sequence that goes to another stream, so that after a few of them all in use are neighbours; `None`
    /// if they are. As few go as possible.
    pub(super) fn next_relocation(&self) -> Option<Relocation> {
        let window = self.fullest_window()?;
        let into = window.clone().find(|stream| self.slots[*stream as usize].is_none())?;
        let outside = |stream: &u32| !window.contains(stream);
        let mut others = (0..).zip(&self.slots).filter(|(stream, _)| outside(stream));
        let (from, slot) = others.find_map(|(stream, slot)| slot.map(|slot| (stream, slot)))?;
        Some(Relocation { slot, from, into })
    }

    /// The relocation was made.
    pub(super) fn relocate(&mut self, made: Relocation) {
        self.leave(made.slot);
        self.put(made.slot, made.into);
    }

    fn put(&mut self, slot: Slot, stream: u32) {
        self.streams[slot.0 as usize] = Some(stream);
        self.slots[stream as usize] = Some(slot);
    }

    /// The first free one above the lowest in use, or else the one below.
    fn nearest_free(&self) -> u32 {
        let lowest = self.slots.iter().position(Option::is_some).unwrap_or(0);
        let above = (lowest..self.slots.len()).find(|&stream| self.slots[stream].is_none());
        let stream = above.unwrap_or_else(|| {
            lowest
                .checked_sub(1)
                .expect("there are as many streams as slots, and this one has none")
        });
        u32::try_from(stream).expect("slots are counted in 32 bits")
    }

    /// As many neighbours as streams are in use, of which most are; the lowest of several such.
    fn fullest_window(&self) -> Option<std::ops::Range<u32>> {
        let used = |window: &[Option<Slot>]| window.iter().flatten().count();
        let count = used(&self.slots);
        if count == 0 {
            return None;
        }
        let windows = self.slots.windows(count).enumerate();
        let (start, _) = windows.rev().max_by_key(|(_, window)| used(window))?;
        let start = u32::try_from(start).expect("slots are counted in 32 bits");
        Some(start..start + u32::try_from(count).expect("slots are counted in 32 bits"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 8;

    fn in_use(places: &Places) -> Vec<u32> {
        (0..).zip(&places.slots).filter_map(|(stream, slot)| slot.map(|_| stream)).collect()
    }

    fn is_one_piece(streams: &[u32]) -> bool {
        streams.windows(2).all(|pair| pair[1] == pair[0] + 1)
    }

    /// Makes all relocations and counts them.
    fn settle(places: &mut Places) -> usize {
        let mut count = 0;
        while let Some(relocation) = places.next_relocation() {
            assert!(places.slots[relocation.into as usize].is_none(), "{relocation:?}");
            assert_eq!(places.of(relocation.slot), Some(relocation.from));
            places.relocate(relocation);
            count += 1;
            assert!(count <= SLOTS, "it has no end");
        }
        count as usize
    }

    #[test]
    fn whoever_leaves_the_middle_costs_one_relocation_and_an_end_costs_none() {
        let mut places = Places::new(SLOTS);
        for slot in [7, 0, 3, 5] {
            places.take(Slot(slot));
        }
        assert_eq!(in_use(&places), [0, 1, 2, 3]);
        places.leave(Slot(7));
        assert_eq!((in_use(&places), settle(&mut places)), (vec![1, 2, 3], 0));
        places.leave(Slot(3));
        assert_eq!((settle(&mut places), in_use(&places)), (1, vec![0, 1]));
        assert_eq!(places.take(Slot(1)), 2);
    }

    #[test]
    fn a_newcomer_fills_a_hole_before_anybody_is_moved() {
        let mut places = Places::new(SLOTS);
        (0..4).for_each(|slot| _ = places.take(Slot(slot)));
        places.leave(Slot(1));
        assert_eq!((places.take(Slot(6)), settle(&mut places)), (1, 0));
    }

    proptest! {
        #[test]
        fn streams_in_use_are_neighbours_and_nobody_shares_one(
            steps in proptest::collection::vec(proptest::collection::vec((0..SLOTS, any::<bool>()), 0..6), 1..40),
        ) {
            let mut places = Places::new(SLOTS);
            for step in steps {
                let left = step.iter().filter(|(_, joins)| !joins).count();
                for (slot, joins) in step {
                    if joins { _ = places.take(Slot(slot)) } else { places.leave(Slot(slot)) }
                }
                let moved = settle(&mut places);
                prop_assert!(moved <= left, "{moved} for {left}");
                let streams = in_use(&places);
                prop_assert!(is_one_piece(&streams), "{streams:?}");
                let mut mapped: Vec<u32> = (0..SLOTS).filter_map(|slot| places.of(Slot(slot))).collect();
                mapped.sort_unstable();
                prop_assert_eq!(mapped, streams);
            }
        }
    }
}
