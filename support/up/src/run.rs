//! The order of events: check, start, wait until ready, watch, stop.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    console::Console,
    optimized::{self, Choice},
    options::Options,
    overruled, preflight, ready,
    service::{Order, Service},
    signals::Signals,
    stack::{self, Spec},
};

/// Runs until told to stop, or until a process cannot run.
///
/// # Errors
/// Something is missing or in the way; or a process cannot run, and the others have been stopped.
pub(crate) async fn run(mut options: Options, console: Console) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let bin_dir = bin_dir(&options)?;
    let specs = stack::specs(&options, &bin_dir);
    let run_dir = options.run_dir();
    let _claim = preflight::Claim::take(&run_dir)?;
    preflight::check(&options, &specs)?;
    match optimized::choose(&options, &bin_dir, &console, &mut signals).await {
        Choice::Original => {}
        Choice::Copy(copy) => options.model = Some(copy),
        Choice::Stop => {
            console.line("stopped");
            return Ok(());
        }
    }
    let specs = stack::specs(&options, &bin_dir);
    let overruled = overruled::find(&options, &specs, |var| std::env::var(var).ok())?;
    overruled.iter().for_each(|line| console.line(line));

    console.line(&format!("logs are in {}", run_dir.display()));
    let mut stack = Stack::start(&specs, &options, &console);
    let outcome = stack.serve(&specs, &console, &mut signals).await;
    stack.stop(&mut signals).await;
    console.line("stopped");
    outcome
}

fn bin_dir(options: &Options) -> anyhow::Result<PathBuf> {
    if let Some(dir) = &options.bin_dir {
        return Ok(dir.clone());
    }
    let here = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(here.parent().context("this program is in no folder")?.to_owned())
}

/// The running three.
struct Stack {
    /// In the order they started.
    services: Vec<(watch::Sender<Order>, JoinHandle<()>)>,
    failures: mpsc::Receiver<anyhow::Error>,
    was_ready: Arc<AtomicBool>,
}

impl Stack {
    fn start(specs: &[Spec; 3], options: &Options, console: &Console) -> Self {
        let was_ready = Arc::new(AtomicBool::new(false));
        let (failed, failures) = mpsc::channel(specs.len());
        let start = |spec: &Spec| {
            let (order, orders) = watch::channel(Order::Run);
            let service = Service {
                spec: spec.clone(),
                run_dir: options.run_dir(),
                console: console.clone(),
                was_ready: was_ready.clone(),
                orders,
            };
            let failed = failed.clone();
            let task = tokio::spawn(async move {
                if let Err(error) = service.keep_running().await {
                    // The queue has room for everyone; after a stop no one reads it any more.
                    let _ = failed.try_send(error);
                }
            });
            (order, task)
        };
        let services = specs.iter().map(start).collect();
        Self { services, failures, was_ready }
    }

    /// Returns when it is time to stop.
    async fn serve(
        &mut self,
        specs: &[Spec; 3],
        console: &Console,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let [.., Spec { address: gateway, .. }] = specs;
        let began = Instant::now();
        let until_ready = async {
            ready::wait(specs, console).await;
            let model = ready::model(*gateway).await;
            self.was_ready.store(true, Ordering::Relaxed);
            let seconds = began.elapsed().as_secs_f64();
            console.line(&format!("ready after {seconds:.1} s at http://{gateway}"));
            console.block(&invitation(*gateway, &model));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = until_ready => Ok(()),
            () = signals.next() => Ok(()),
            Some(error) = self.failures.recv() => Err(error),
        }
    }

    /// Stops one after the other, the last started first. A further signal kills what is left.
    async fn stop(&mut self, signals: &mut Signals) {
        let (orders, tasks): (Vec<_>, Vec<_>) = self.services.drain(..).rev().unzip();
        let in_order = async {
            for (order, task) in orders.iter().zip(tasks) {
                order.send_if_modified(|order| raise(order, Order::Stop));
                // A task that panicked has dropped its process, which kills it.
                let _ = task.await;
            }
        };
        tokio::pin!(in_order);
        tokio::select! {
            () = &mut in_order => return,
            () = signals.next() => {}
        }
        for order in &orders {
            order.send_if_modified(|order| raise(order, Order::Kill));
        }
        in_order.await;
    }
}

/// Orders only grow.
fn raise(order: &mut Order, to: Order) -> bool {
    let higher = to > *order;
    if higher {
        *order = to;
    }
    higher
}

fn invitation(gateway: SocketAddr, model: &str) -> String {
    let message = serde_json::json!({
        "model": model,
        "stream": true,
        "messages": [{ "role": "user", "content": "Tell me a short story about a lighthouse." }],
    });
    // Inside single quotes a shell takes everything but a single quote as it is.
    let body = message.to_string().replace('\'', r"'\''");
    format!(
        "\n  curl -N http://{gateway}/v1/chat/completions \\\n    -H 'content-type: application/json' \\\n    \
         -d '{body}'\n\nCtrl-C stops it.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_survives_a_shell() {
        let text = invitation(SocketAddr::from(([127, 0, 0, 1], 8000)), "it's \"x\"");
        assert!(text.contains("curl -N http://127.0.0.1:8000/v1/chat/completions \\\n"), "{text}");
        assert!(text.contains(r#""model":"it'\''s \"x\"""#), "{text}");
    }

    #[test]
    fn orders_only_grow() {
        let mut order = Order::Run;
        assert!(raise(&mut order, Order::Kill));
        assert!(!raise(&mut order, Order::Stop));
        assert_eq!(order, Order::Kill);
    }
}
