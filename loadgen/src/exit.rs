//! How the process ends.

use std::process::ExitCode;

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As it should be.
    Done,
    /// Something failed, or an assertion did.
    Failed,
    /// A run that says nothing about the server, because the generator was late.
    Invalid,
    /// Stopped by the user.
    Interrupted,
    /// What another program ended with.
    Other(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Invalid => 2,
            // As shells say it of SIGINT.
            Exit::Interrupted => 130,
            Exit::Other(code) => code,
        })
    }
}
