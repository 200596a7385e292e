//! Names of nodes that outlive them.

/// Names a node of a tree, and none that comes to live in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Where it lives.
    pub(crate) index: u32,
    /// Its number among all nodes of its tree, in the order in which they were made.
    pub(crate) generation: u64,
}

impl Handle {
    /// The root of every tree, which is never given up.
    pub(crate) const ROOT: Self = Self { index: 0, generation: 0 };
}
