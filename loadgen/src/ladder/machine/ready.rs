//! Waiting until a server is ready.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Addresses, Process, Spec, access, alive};
use crate::{
    interrupt::Stop,
    wire::{Client, Trust},
};

const POLL: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(2);

/// Returns when the server of `spec` says that it is ready.
///
/// # Errors
/// It does not in time, a process has ended, or somebody wants to stop.
pub(super) fn wait(
    spec: &Spec,
    addresses: &Addresses,
    processes: &mut [Process],
    stop: &Stop,
) -> anyhow::Result<()> {
    let Some(path) = &spec.ready else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let target = access(addresses.of(&spec.name))?.url;
        let client = Client::new(target, &Trust::default()).await?;
        let until = Instant::now() + Duration::from_secs(spec.ready_s);
        loop {
            alive(processes)?;
            let Some(missing) = missing(&client, path, spec).await else { return Ok(()) };
            if stop.is_asked() {
                bail!("stopped");
            }
            if Instant::now() >= until {
                bail!("{} is not ready after {} s: {missing}", spec.name, spec.ready_s);
            }
            sleep(POLL).await;
        }
    })
}

/// What is missing.
async fn missing(client: &Client, path: &str, spec: &Spec) -> Option<String> {
    let path = client.target.beside(path);
    let asked = timeout(ANSWER, client.get(path.clone(), Default::default())).await;
    let (status, _, body) = match asked {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => return Some(failure.to_string()),
        Err(_) => return Some(format!("{path} does not answer")),
    };
    if status != 200 {
        return Some(format!("{path} says {status}"));
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    spec.ready_says.iter().find_map(|(pointer, wanted)| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let found = said.pointer(pointer).map(text);
        let other = found.as_ref() != Some(wanted);
        other.then(|| format!("{path} says {pointer} is {}", found.as_deref().unwrap_or("missing")))
    })
}
