//! Leases in one piece.

use kv::{Kind, KvCore, Layout, Lease, Options};
use proptest::prelude::*;
use units::{BlockCount, Token};

fn core(blocks: u32) -> Box<dyn KvCore> {
    Kind::Contiguous.build(Options {
        blocks: BlockCount(blocks),
        layout: Layout::Unified,
        owners: 4,
        prefixes: true,
    })
}

fn reserve(core: &mut dyn KvCore, blocks: u32) -> Option<Lease> {
    let found = core.lookup(&[Token(1); 40]);
    match core.reserve(found, BlockCount(blocks)) {
        Ok(lease) => Some(lease),
        Err(found) => {
            core.forgo(found);
            None
        }
    }
}

#[test]
fn what_is_free_in_pieces_is_not_given_to_one() {
    let mut core = core(6);
    let [one, two, three] = [2, 2, 2].map(|blocks| reserve(&mut *core, blocks).expect("room"));
    core.release(one);
    core.release(three);
    assert!(reserve(&mut *core, 3).is_none());
    let usage = core.usage();
    assert_eq!((usage.free, usage.largest), (BlockCount(4), BlockCount(2)));
    assert_eq!(usage.fragmentation(), 0.5);
    core.release(two);
    assert_eq!(core.usage().fragmentation(), 0.0);
}

#[test]
fn a_lease_grows_only_into_the_blocks_behind_it() {
    let mut core = core(5);
    let mut one = reserve(&mut *core, 1).expect("room");
    let mut two = reserve(&mut *core, 2).expect("room");
    assert!(!core.grow(&mut one, BlockCount(1)));
    assert!(core.grow(&mut two, BlockCount(2)));
    core.check(&[&one, &two], &[]);
    core.release(two);
    assert!(core.grow(&mut one, BlockCount(4)));
    core.check(&[&one], &[]);
    core.release(one);
}

#[test]
fn nothing_is_kept() {
    let mut core = core(8);
    let mut lease = reserve(&mut *core, 4).expect("room");
    assert_eq!(core.publish(&mut lease, &[Token(1); 40]), None);
    let found = core.lookup(&[Token(1); 40]);
    assert_eq!((found.tokens(), found.owner()), (0, None));
    core.forgo(found);
    core.release(lease);
}

proptest! {
    #[test]
    fn blocks_are_conserved(
        total in 0u32..16, steps in prop::collection::vec((0u8..3, 0u32..6), 0..60),
    ) {
        let mut core = core(total);
        let mut leases: Vec<Lease> = Vec::new();
        for (kind, count) in steps {
            match kind {
                0 => {
                    let largest = core.usage().largest;
                    let lease = reserve(&mut *core, count);
                    prop_assert_eq!(lease.is_some(), largest.0 >= count);
                    leases.extend(lease);
                }
                1 => if let Some(lease) = leases.last_mut() {
                    let before = lease.len();
                    let grew = core.grow(lease, BlockCount(count));
                    prop_assert_eq!(lease.len().0, before.0 + if grew { count } else { 0 });
                },
                _ => if !leases.is_empty() {
                    let lease = leases.swap_remove(count as usize % leases.len());
                    core.release(lease);
                },
            }
            core.check(&leases.iter().collect::<Vec<_>>(), &[]);
        }
        leases.into_iter().for_each(|lease| core.release(lease));
        prop_assert_eq!(core.usage().largest, BlockCount(total));
    }
}
