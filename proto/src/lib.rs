//! Wire types of `cadence.v1`, generated from the `.proto` files beside this crate.
//!
//! Wire types only: conversions to domain types, with their bounds checks, live in the service
//! that needs them.

/// Messages, clients and servers of `cadence.v1`.
#[allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated; the documentation is in the .proto files"
)]
pub mod v1 {
    tonic::include_proto!("cadence.v1");
}

/// The encoded file descriptor set, served by gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cadence.v1.bin"));

/// The largest gRPC message either side accepts, in bytes. The gateway's HTTP body limit (8 MiB by
/// default, refused above 32 MiB at start-up) stays below it, so that one documented limit, a 413,
/// decides what is too large.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
