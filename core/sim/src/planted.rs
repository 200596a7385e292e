//! Bugs that tests plant in the world, to see that the auditor finds them. Outside of tests there are none.

#[cfg(not(test))]
use kv::KvCore;

/// What is wrong with a world.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    #[cfg(test)]
    pub(crate) bug: Option<tests::Bug>,
    /// How often the bug has had its chance.
    #[cfg(test)]
    pub(crate) chances: u32,
}

#[cfg(not(test))]
#[expect(clippy::unused_self, reason = "in tests it depends on what is planted")]
impl Planted {
    pub(crate) fn ignores_deadline(&self) -> bool {
        false
    }

    pub(crate) fn loses_wake_up(&self) -> bool {
        false
    }

    pub(crate) fn core(&self, core: Box<dyn KvCore>) -> Box<dyn KvCore> {
        core
    }
}

#[cfg(test)]
pub(crate) mod tests;
