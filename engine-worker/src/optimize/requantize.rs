//! Quantises in a child process: llama.cpp may end the process that asks it to quantise a file that it does not
//! like.
//!
//! The child is this program, with its standard input from here. When that ends, whoever asked is gone,
//! however it ended: the child deletes what it wrote and ends too.

use std::{
    env, fs,
    io::{self, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{self, Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use llama::Quantization;

use super::{Order, Progress, Stop, parts};

/// How often it is looked after the child.
const LOOK: Duration = Duration::from_millis(50);
/// How often that is told of.
const LOOKS_TOLD: u32 = 100;

/// What llama.cpp's log says before the reason.
const REASON: &str = "failed to quantize: ";
/// A child's last words are read from this much of what it says first, in bytes.
const SAID_MAX: u64 = 1 << 20;

/// Quantises the order's source into `target`, which is there.
///
/// # Errors
/// One line: what llama.cpp says, or how its process ended.
pub(super) fn run(
    source: &Path,
    target: &Path,
    order: &Order,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<()> {
    let mut child = start(source, target, order).context("cannot start a process of our own")?;
    let mut stderr = child.stderr.take().context("a child without a standard error")?;
    let listening = thread::spawn(move || {
        let mut said = Vec::new();
        let _ = (&mut stderr).take(SAID_MAX).read_to_end(&mut said);
        // Or the child would wait for a reader.
        let _ = io::copy(&mut stderr, &mut io::sink());
        String::from_utf8_lossy(&said).into_owned()
    });
    let status = wait(&mut child, target, stop, progress);
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let said = listening.join().unwrap_or_default();
    let status = status?;
    if status.success() {
        return Ok(());
    }
    if let Some(error) = parts::why_not_written(target) {
        return Err(error).with_context(|| format!("cannot write {}", target.display()));
    }
    bail!("llama.cpp cannot quantise {}: {}", source.display(), last_words(&said, status))
}

fn start(source: &Path, target: &Path, order: &Order) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg("requantize")
        .arg("--")
        .args([source, target])
        .args([order.to.name(), &order.threads.to_string()])
        // One line is enough of a trace.
        .env("GGML_NO_BACKTRACE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

fn wait(
    child: &mut Child,
    target: &Path,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<ExitStatus> {
    for look in 1_u32.. {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        stop.check()?;
        if look.is_multiple_of(LOOKS_TOLD) {
            let bytes = fs::metadata(target).map_or(0, |it| it.len());
            progress.say(&format!("{} MiB are written", bytes >> 20));
        }
        thread::sleep(LOOK);
    }
    bail!("it takes for ever")
}

/// The reason that llama.cpp's log gives; else the last line, and how the process ended.
fn last_words(said: &str, status: ExitStatus) -> String {
    if let Some((_, reason)) = said.split_once(REASON) {
        return reason.lines().next().unwrap_or_default().trim().to_owned();
    }
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no word");
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process died of signal {signal}: {last}"),
        (None, Some(_)) => last.trim_start_matches("engine-worker: ").to_owned(),
        (None, None) => format!("{status}: {last}"),
    }
}

/// The child's side: quantises, and ends when nobody waits for it any more.
///
/// # Errors
/// As [`llama::quantize`].
pub(crate) fn serve(
    source: &Path,
    target: &Path,
    to: Quantization,
    threads: u32,
) -> anyhow::Result<()> {
    let written = target.to_owned();
    thread::Builder::new().name("parent".into()).spawn(move || {
        // Nothing is ever said there, so that whatever comes is the end.
        let _ = io::stdin().read(&mut [0]);
        let _ = fs::remove_file(written);
        process::exit(1);
    })?;
    Ok(llama::quantize(source, target, to, threads)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_one_that_llama_cpp_gives() {
        let failed = ExitStatus::from_raw(1 << 8);
        let said = "x ERROR llama-cpp-2: llama_model_quantize: failed to quantize: no such thing\nengine-worker: its log\n";
        assert_eq!(last_words(said, failed), "no such thing");
        assert_eq!(last_words("a\nengine-worker: it is cut off\n\n", failed), "it is cut off");
        let killed = ExitStatus::from_raw(6);
        assert_eq!(
            last_words("ggml.c:1: GGML_ASSERT(n > 0) failed\n", killed),
            "its process died of signal 6: ggml.c:1: GGML_ASSERT(n > 0) failed"
        );
        assert_eq!(last_words("", killed), "its process died of signal 6: no word");
    }
}
