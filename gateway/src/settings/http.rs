//! Settings of the HTTP edge: what clients may send, and how long they may take.

use std::time::Duration;

use super::between;
use crate::{
    connection::{HeadLimits, WriteLimits},
    cors::Cors,
};

/// The body limit may be raised up to this, in bytes. It stays well below the largest gRPC message.
const BODY_BYTES_CEILING: usize = 32 << 20;
/// The parser itself gives up at 128 KiB.
const HEAD_BYTES_CEILING: usize = 96 << 10;

/// Limits on clients.
#[derive(Clone, Debug, clap::Args, serde::Serialize)]
#[group(skip)]
pub struct HttpSettings {
    /// Connections at once; the next is answered with 503 and closed, or only closed while 128 others
    /// are being answered so. Never more than the limit of open
    /// files allows, which is raised as far as the system lets.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections_max: u32,
    /// The longest request head, in bytes; about, as a little more may be read before it shows. Besides,
    /// a head may have 96 headers.
    #[arg(long, default_value_t = 32 << 10)]
    pub head_bytes_max: usize,
    /// The longest request body, in bytes.
    #[arg(long, default_value_t = 8 << 20)]
    pub body_bytes_max: usize,
    /// What all request bodies together may hold, in bytes: all of a body while it is read, then what
    /// of it the request needs (its texts and token ids) until its answer has ended. Who finds
    /// no room is answered with 503. The first 16 KiB of each do not count. A body takes up to four
    /// times its size in memory.
    #[arg(long, default_value_t = 64 << 20)]
    pub bodies_bytes_max: usize,
    /// How long a request's head may take to arrive.
    #[arg(long, default_value_t = 5_000)]
    pub head_timeout_ms: u64,
    /// How long a request's body may take to arrive, from the head to the last byte.
    #[arg(long, default_value_t = 10_000)]
    pub body_timeout_ms: u64,
    /// How long an idle connection is kept. Longer than the proxy in front keeps its own, or requests
    /// get lost in between.
    #[arg(long, default_value_t = 75_000)]
    pub keep_alive_ms: u64,
    /// A client that takes nothing for this long, although there is something to take, is cut off.
    #[arg(long, default_value_t = 30_000)]
    pub write_timeout_ms: u64,
    /// A client that has kept an answer waiting for this long in sum is cut off, even if it takes a
    /// little now and then.
    #[arg(long, default_value_t = 600_000)]
    pub write_total_ms: u64,
    /// Origins of the pages that browsers let call, or * for every page. Empty: none.
    #[arg(long, value_delimiter = ',', default_value = "*")]
    pub cors_origins: Vec<String>,
}

impl HttpSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.body_bytes_max == 0 || self.body_bytes_max > BODY_BYTES_CEILING {
            return Err(format!("body_bytes_max: 1 to {BODY_BYTES_CEILING}"));
        }
        if self.bodies_bytes_max < self.body_bytes_max {
            let least = self.body_bytes_max;
            return Err(format!("bodies_bytes_max: at least body_bytes_max, {least}"));
        }
        if !(1_024..=HEAD_BYTES_CEILING).contains(&self.head_bytes_max) {
            return Err(format!("head_bytes_max: 1024 to {HEAD_BYTES_CEILING}"));
        }
        between("head_timeout_ms", self.head_timeout_ms, 1)?;
        between("body_timeout_ms", self.body_timeout_ms, 1)?;
        between("keep_alive_ms", self.keep_alive_ms, 1)?;
        between("write_timeout_ms", self.write_timeout_ms, 1)?;
        between("write_total_ms", self.write_total_ms, 1)?;
        self.cors().map(|_| ())
    }

    pub(crate) fn cors(&self) -> Result<Cors, String> {
        Cors::parse(&self.cors_origins)
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn head_limits(&self) -> HeadLimits {
        HeadLimits {
            bytes: self.head_bytes_max,
            time: Duration::from_millis(self.head_timeout_ms),
            idle: Duration::from_millis(self.keep_alive_ms),
        }
    }

    pub(crate) fn write_limits(&self) -> WriteLimits {
        WriteLimits {
            stall: Duration::from_millis(self.write_timeout_ms),
            total: Duration::from_millis(self.write_total_ms),
        }
    }
}
