//! Measures cells with real processes on this machine.
//!
//! Start -> ready -> probe -> measure -> stop, for every cell anew.

mod addresses;
mod origin;
mod process;
mod programs;
mod ready;
mod stack;
mod work;

use anyhow::Context as _;

use super::{
    Options,
    climb::{Measured, Runner, Task, workload},
    plan::Plan,
};
use crate::{
    record::Origin,
    run::{self, Process as Arrivals},
    server::Access,
    wire::{Api, Target},
};
use addresses::Addresses;
use process::Process;
use programs::Programs;
use stack::{Spec, Stack};

/// This machine, and what is run on it.
pub(super) struct Machine {
    stack: Stack,
    programs: Programs,
    origin: Origin,
}

impl Machine {
    /// Looks at everything that a cell will need before the first one.
    ///
    /// # Errors
    /// A program or the model is missing, or a program does not take a setting.
    pub(super) fn new(plan: &Plan, options: &Options) -> anyhow::Result<Self> {
        let stack = Stack::read(&plan.stack)?;
        stack.knows(plan)?;
        let programs = Programs::find(&stack, plan, options)?;
        let origin = origin::of(&stack, &programs, options.source.as_deref())?;
        let machine = Self { stack, programs, origin };
        for rung in &plan.rungs {
            for spec in &machine.stack.processes {
                let settings = plan.settings(rung, &spec.name);
                machine.programs.settings_of(spec, &settings).with_context(|| {
                    format!("{} does not take the settings of rung {:?}", spec.name, rung.name)
                })?;
            }
        }
        Ok(machine)
    }

    /// Starts every process, in order.
    fn start(&self, task: &Task<'_>, addresses: &Addresses) -> anyhow::Result<Vec<Process>> {
        let logs = task.store.logs(&task.cell.name())?;
        let start = |spec: &Spec| {
            let settings = task.plan.settings(task.cell.rung, &spec.name);
            let command = self.programs.command(spec, &settings, addresses);
            Process::start(&spec.name, &command, &logs)
        };
        self.stack.processes.iter().map(start).collect()
    }

    /// What fixed work takes, past whatever decides who gets in.
    fn probe(
        &self,
        task: &Task<'_>,
        addresses: &Addresses,
        processes: &mut [Process],
    ) -> anyhow::Result<Vec<crate::record::Probe>> {
        if task.plan.probe.times == 0 {
            return Ok(Vec::new());
        }
        let Some(spec) = &self.stack.probe else {
            let server = access(addresses.of(&self.stack.server().name))?;
            return work::probe(&server, &task.plan.probe, task.stop);
        };
        let logs = task.store.logs(&format!("{}/{}", task.cell.name(), spec.name))?;
        let command = self.programs.command(spec, &Default::default(), addresses);
        let mut door = Process::start(&spec.name, &command, &logs)?;
        ready::wait(spec, addresses, std::slice::from_mut(&mut door), task.stop)?;
        let server = access(addresses.of(&spec.name))?;
        let probes = work::probe(&server, &task.plan.probe, task.stop);
        door.stop()?;
        alive(processes)?;
        probes
    }

    fn measure(
        &self,
        task: &Task<'_>,
        addresses: &Addresses,
    ) -> anyhow::Result<crate::record::Run> {
        let options = run_options(task, access(addresses.of(&self.stack.server().name))?)?;
        let schedule = run::Plan::new(&options)?;
        let (runtime, server) = run::connect(&options)?;
        let journal = task.store.journal(&task.cell.name())?;
        run::perform(&options, schedule, server, runtime, &journal, &task.heading, task.stop)
    }
}

impl Runner for Machine {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn run(&mut self, task: &Task<'_>) -> anyhow::Result<Measured> {
        self.programs.check()?;
        let addresses = Addresses::free(&self.stack)?;
        let mut processes = self.start(task, &addresses)?;
        ready::wait(self.stack.server(), &addresses, &mut processes, task.stop)?;
        let probes = self.probe(task, &addresses, &mut processes).context("the probe")?;
        let run = self.measure(task, &addresses)?;
        alive(&mut processes)?;
        // The last started first, so that none loses what it depends on.
        for process in processes.into_iter().rev() {
            process.stop()?;
        }
        let settings = self.stack.processes.iter().map(|spec| {
            let settings = task.plan.settings(task.cell.rung, &spec.name);
            Ok((spec.name.clone(), self.programs.settings_of(spec, &settings)?))
        });
        Ok(Measured { run, probes, settings: settings.collect::<anyhow::Result<_>>()? })
    }
}

/// A process that died in the middle leaves numbers about nothing.
fn alive(processes: &mut [Process]) -> anyhow::Result<()> {
    processes.iter_mut().try_for_each(Process::check)
}

fn access(address: std::net::SocketAddr) -> anyhow::Result<Access> {
    let url: Target = format!("http://{address}").parse().map_err(anyhow::Error::msg)?;
    Ok(Access {
        url,
        api: Api::Chat,
        model: None,
        api_key: None,
        headers: Vec::new(),
        cacert: None,
    })
}

fn run_options(task: &Task<'_>, server: Access) -> anyhow::Result<run::Options> {
    let (plan, cell) = (task.plan, task.cell);
    let span = units::Span::from_secs_f64;
    let budget = &plan.budget;
    Ok(run::Options {
        server,
        arrivals: Arrivals::Poisson,
        rate: cell.rate,
        burstiness: None,
        duration: span(plan.duration_s),
        warmup: span(plan.warmup_s),
        seed: cell.seed,
        replay: None,
        speed: None,
        workload: workload(plan),
        ignore_eos: plan.ignore_eos,
        slo: plan.slo.parse()?,
        budget: if budget.is_empty() { Default::default() } else { budget.parse()? },
        retries: plan.retries,
        timeout: span(plan.timeout_s),
        drain: Some(span(plan.drain_s)),
        out: None,
        overwrite: false,
        json: None,
        vllm_json: None,
    })
}
