//! How a process ends: 0 as it was asked to, [`REFUSED`] when it cannot run as it is configured, 1 when
//! something broke.
//!
//! Whoever supervises the process can tell by the code whether starting it again may help.

use std::{
    fmt,
    io::{self, Write as _},
    process::ExitCode,
};

/// `EX_CONFIG` of `sysexits.h`: settings, files or addresses do not do. Starting again would end the same
/// way.
pub const REFUSED: u8 = 78;

/// An error that would come again at the next start. Reads as the error inside.
#[derive(Debug)]
struct Refused(anyhow::Error);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#}", self.0)
    }
}

impl std::error::Error for Refused {}

/// Marks an error of the start as one that starting again does not mend.
#[must_use]
pub fn refused(error: anyhow::Error) -> anyhow::Error {
    Refused(error).into()
}

/// The exit code of a process that ran like this. An error is told in one line on standard error: not
/// through the log, which may be what could not be started.
#[must_use]
pub fn code(binary: &str, outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    // With nobody to read it, the code still tells.
    let _ = writeln!(io::stderr(), "{binary}: {error:#}");
    if error.is::<Refused>() { ExitCode::from(REFUSED) } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn the_code_tells_whether_another_start_may_help() {
        let error = || Err(anyhow!("cannot read it")).context("model");
        assert_eq!(code("test", Ok(())), ExitCode::SUCCESS);
        assert_eq!(code("test", error()), ExitCode::FAILURE);
        assert_eq!(code("test", error().map_err(refused)), ExitCode::from(REFUSED));
    }

    #[test]
    fn a_refusal_reads_as_its_error() {
        let error: anyhow::Result<()> = Err(anyhow!("cannot read it")).context("model");
        let refused = error.map_err(refused).expect_err("an error");
        assert_eq!(format!("{refused:#}"), "model: cannot read it");
    }
}
