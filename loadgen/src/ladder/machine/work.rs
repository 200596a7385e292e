//! The probe: the same few answers before every cell, one at a time. What they take is what the machine was worth
//! at that moment, whatever is measured afterwards.

use anyhow::bail;
use tokio::runtime;

use crate::{
    calibrate::{Prober, Sample, fresh},
    interrupt::Stop,
    ladder::plan::ProbePlan,
    record::Probe,
    server::Access,
};

/// No probe takes longer, in seconds.
const TIMEOUT_S: u64 = 120;

/// Asks.
///
/// # Errors
/// The server does not answer, or somebody wants to stop.
pub(super) fn probe(server: &Access, plan: &ProbePlan, stop: &Stop) -> anyhow::Result<Vec<Probe>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let prober = Prober::new(server.connect().await?, TIMEOUT_S);
        let mut stopped = stop.clone();
        let work = async {
            // The first request of a server may pay for much.
            prober.ask(&fresh(0, plan.prompt_tokens, 2), true).await?;
            let mut probes = Vec::new();
            for nth in 1..=plan.times {
                // A prompt of its own each time, the same before every cell.
                let ask = fresh(u64::from(nth), plan.prompt_tokens, plan.answer_tokens);
                probes.push(seen(&prober.ask(&ask, true).await?));
            }
            Ok(probes)
        };
        tokio::select! {
            probes = work => probes,
            () = stopped.asked() => bail!("stopped"),
        }
    })
}

fn seen(sample: &Sample) -> Probe {
    Probe {
        prompt_tokens: sample.prompt_tokens,
        ttft_us: sample.ttft.0,
        tokens: sample.tokens,
        decode_us: sample.e2e.saturating_sub(sample.ttft).0,
    }
}
