//! Where nodes live.

use std::ops;

use super::{Node, ROOT};
use crate::handle::Handle;

/// Where a node lives.
pub(crate) type Index = u32;

/// Nodes, each stamped with its number, so that the handle of one that is gone finds nothing.
#[derive(Debug)]
pub(crate) struct Store {
    places: Vec<Place>,
    /// Places where nobody lives, the next one last.
    vacant: Vec<Index>,
    /// The number of the next node.
    pub(crate) generation: u64,
    /// The number of the first node since all were taken out.
    pub(crate) cleared: u64,
}

#[derive(Debug)]
struct Place {
    generation: u64,
    node: Option<Node>,
}

impl Store {
    /// Only the root.
    pub(super) fn new() -> Self {
        let root = Place { generation: Handle::ROOT.generation, node: Some(Node::root()) };
        Self { places: vec![root], vacant: Vec::new(), generation: 1, cleared: 1 }
    }

    /// How many nodes there are, the root left out.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len() - 1
    }

    /// All indices are below this.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// All nodes but the root.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Index, &Node)> {
        (0..).zip(&self.places).skip(1).filter_map(|(at, place)| Some((at, place.node.as_ref()?)))
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Index> {
        let place = self.places.get(handle.index as usize)?;
        (place.node.is_some() && place.generation == handle.generation).then_some(handle.index)
    }

    /// Names the node that lives there.
    pub(crate) fn handle(&self, index: Index) -> Handle {
        Handle { index, generation: self.places[index as usize].generation }
    }

    pub(super) fn insert(&mut self, node: Node) -> Index {
        let generation = self.generation;
        self.generation += 1;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place { generation, node: None });
            Index::try_from(self.places.len() - 1)
                .expect("nodes hold blocks or owners, both 32 bits")
        });
        self.places[index as usize] = Place { generation, node: Some(node) };
        self[index].previous = index;
        self[index].next = index;
        index
    }

    pub(super) fn remove(&mut self, index: Index) -> Node {
        self.vacant.push(index);
        self.places[index as usize].node.take().expect("the index of a node that lives")
    }

    /// Takes all nodes out but the root, which keeps its answers.
    pub(super) fn clear(&mut self) -> Vec<Node> {
        let root = Node { answers: self[ROOT].answers.clone(), ..Node::root() };
        let gone = self.places.drain(1..).filter_map(|place| place.node).collect();
        self[ROOT] = root;
        self.vacant.clear();
        self.cleared = self.generation;
        gone
    }
}

impl ops::Index<Index> for Store {
    type Output = Node;
    fn index(&self, index: Index) -> &Node {
        self.places[index as usize].node.as_ref().expect("the index of a node that lives")
    }
}

impl ops::IndexMut<Index> for Store {
    fn index_mut(&mut self, index: Index) -> &mut Node {
        self.places[index as usize].node.as_mut().expect("the index of a node that lives")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut store = Store::new();
        let index = store.insert(Node::root());
        let handle = store.handle(index);
        assert_eq!(store.find(handle), Some(index));
        store.remove(index);
        assert_eq!(store.find(handle), None);
        assert_eq!(store.insert(Node::root()), index, "the place is taken again");
        assert_eq!(store.find(handle), None);
    }

    #[test]
    fn only_the_root_outlives_a_clearing() {
        let mut store = Store::new();
        let index = store.insert(Node::root());
        let handle = store.handle(index);
        assert_eq!(store.clear().len(), 1);
        store.insert(Node::root());
        assert_eq!((store.find(handle), store.find(Handle::ROOT)), (None, Some(ROOT)));
    }
}
