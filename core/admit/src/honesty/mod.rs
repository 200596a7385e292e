//! Whether promises are kept, and what follows when they are not.

mod books;
mod conformal;
mod floor;
mod wilson;

pub(crate) use books::Books;
pub use books::{Coverage, Honesty, Load};
pub(crate) use conformal::Conformal;
pub(crate) use floor::Floor;
pub use wilson::wilson;
