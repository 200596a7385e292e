//! Settings of the scheduler and the KV core to what they are made of, and to what the wire says of them.

use proto::v1;
use sched::{Discipline, Lateness, Limits, Order, Reservation, Rules};
use units::Span;

use crate::settings::{
    KvCoreKind, LatenessKind, LayoutKind, OrderKind, PrefixCacheKind, ReservationKind,
    SchedulerKind, SchedulingSettings,
};

/// Sequences that llama.cpp can tell apart: those of slots, and in one pool those that keep prefixes.
const SEQUENCES_MAX: u32 = 256;
/// Saved states at once. Their memory is bounded by bytes; this bounds what is kept of tiny prompts.
const STATES_MAX: u32 = 4_096;

/// The rules to plan by.
pub(crate) fn rules(settings: &SchedulingSettings) -> Rules {
    Rules {
        discipline: match settings.scheduler {
            SchedulerKind::Fifo => Discipline::Fifo,
            SchedulerKind::Static => Discipline::Static {
                batch: settings.static_batch,
                wait: Span::from_millis(settings.static_wait_ms),
            },
            SchedulerKind::Continuous => Discipline::Continuous,
        },
        order: match settings.order {
            OrderKind::DecodeFirst => Order::DecodeFirst,
            OrderKind::PrefillFirst => Order::PrefillFirst,
        },
        reservation: match settings.reservation {
            ReservationKind::Full => Reservation::Full,
            ReservationKind::Grow => Reservation::Grow,
        },
        output_cap: Some(settings.output_cap).filter(|cap| *cap > 0),
        lateness: match settings.lateness {
            LatenessKind::Finish => Lateness::Finish,
            LatenessKind::AbortBestEffort => Lateness::AbortBestEffort,
            LatenessKind::AbortAll => Lateness::AbortAll,
        },
        itl: Some(Span::from_millis(settings.itl_ms)).filter(|itl| *itl > Span::ZERO),
    }
}

/// Prefixes that can be kept at once, each under an owner: none where the KV core, the settings or the
/// model (`reusable`) do not allow it.
pub(crate) fn owners(settings: &SchedulingSettings, slots: u32, reusable: bool) -> u32 {
    let wanted = settings.prefix_cache == PrefixCacheKind::Auto
        && settings.kv_core != KvCoreKind::Contiguous
        && reusable;
    match settings.layout() {
        _ if !wanted => 0,
        LayoutKind::Streams => STATES_MAX,
        LayoutKind::Unified => SEQUENCES_MAX.saturating_sub(slots),
    }
}

/// The KV core, empty. A kept token takes `token_bytes` in host memory.
pub(crate) fn core(
    settings: &SchedulingSettings,
    limits: &Limits,
    owners: u32,
    token_bytes: u64,
) -> Box<dyn kv::KvCore> {
    let kind = match settings.kv_core {
        KvCoreKind::Paged => kv::Kind::Paged,
        KvCoreKind::Naive => kv::Kind::Naive,
        KvCoreKind::Contiguous => kv::Kind::Contiguous,
    };
    let layout = match settings.layout() {
        LayoutKind::Streams => {
            kv::Layout::Streams { token_bytes, bytes_max: settings.prefix_mib << 20 }
        }
        LayoutKind::Unified => kv::Layout::Unified,
    };
    kind.build(kv::Options { blocks: limits.kv_blocks, layout, owners, prefixes: owners > 0 })
}

/// What the wire says: the rules, and of the rest what a reader may have to know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) layout: &'static str,
    pub(crate) kv_core: &'static str,
    pub(crate) prefix_cache: bool,
    /// Whether sequences and kept prefixes share blocks.
    pub(crate) shares_blocks: bool,
}

impl Told {
    pub(crate) fn new(settings: &SchedulingSettings, owners: u32) -> Self {
        Self {
            layout: settings.layout().name(),
            kv_core: match settings.kv_core {
                KvCoreKind::Paged => "paged",
                KvCoreKind::Naive => "naive",
                KvCoreKind::Contiguous => "contiguous",
            },
            prefix_cache: owners > 0,
            shares_blocks: settings.layout() == LayoutKind::Unified,
        }
    }

    pub(crate) fn wire(&self, rules: &Rules) -> v1::Scheduling {
        let (static_batch, static_wait_us) = match rules.discipline {
            Discipline::Static { batch, wait } => (batch, wait.0),
            Discipline::Fifo | Discipline::Continuous => (0, 0),
        };
        v1::Scheduling {
            discipline: discipline(rules.discipline).into(),
            static_batch,
            static_wait_us,
            order: match rules.order {
                Order::DecodeFirst => "decode-first",
                Order::PrefillFirst => "prefill-first",
            }
            .into(),
            reservation: match rules.reservation {
                Reservation::Full => "full",
                Reservation::Grow => "grow",
            }
            .into(),
            output_cap: rules.output_cap,
            lateness: match rules.lateness {
                Lateness::Finish => "finish",
                Lateness::AbortBestEffort => "abort-best-effort",
                Lateness::AbortAll => "abort-all",
            }
            .into(),
            kv_core: self.kv_core.into(),
            prefix_cache: self.prefix_cache,
            layout: self.layout.into(),
            itl_us: rules.itl.map(|itl| itl.0),
        }
    }
}

/// The name of a discipline.
pub(crate) fn discipline(discipline: Discipline) -> &'static str {
    match discipline {
        Discipline::Fifo => "fifo",
        Discipline::Static { .. } => "static",
        Discipline::Continuous => "continuous",
    }
}
