//! Which machine this is, as far as the speed of steps depends on it.

use std::{fs, thread};

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, or at least its architecture.
    pub cpu: String,
    /// Processors that this process may use.
    pub processors: u32,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let cpu = cpu().unwrap_or_else(|| std::env::consts::ARCH.into());
        Self { cpu, processors: processors() }
    }
}

/// The standard library counts what a control group allows, so a limited container does not oversubscribe
/// its processors.
pub(crate) fn processors() -> u32 {
    let count = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(count).unwrap_or(1)
}

#[cfg(target_os = "macos")]
fn cpu() -> Option<String> {
    let mut sysctl = std::process::Command::new("/usr/sbin/sysctl");
    let told = sysctl.args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
    Some(String::from_utf8(told.stdout).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(not(target_os = "macos"))]
fn cpu() -> Option<String> {
    named(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The processor's name in Linux's own words: on x86 a name, on Arm the numbers of maker and part.
fn named(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        let line =
            cpuinfo.lines().find(|line| line.split(':').next().map(str::trim) == Some(key))?;
        line.split_once(':').map(|(_, value)| value.trim())
    };
    let arm = || Some(format!("Arm {} {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").map(str::to_owned).or_else(arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names() {
        let x86 =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some(R) CPU @ 2.00GHz\nflags\t: a b\n";
        assert_eq!(named(x86).as_deref(), Some("Some(R) CPU @ 2.00GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(named(arm).as_deref(), Some("Arm 0x41 0xd0c"));
        assert_eq!(named("nothing"), None);
        let this = Machine::this();
        assert!(!this.cpu.is_empty() && this.processors >= 1);
    }
}
