//! Names of nodes that outlive them.

/// Names a node of a tree, and no other that comes to live in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Where it lives.
    pub(crate) index: u32,
    /// Which of those who lived there it is.
    pub(crate) generation: u32,
}

impl Handle {
    /// The root of every tree.
    pub(crate) const ROOT: Self = Self { index: 0, generation: 0 };
}
