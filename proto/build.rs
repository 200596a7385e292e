//! Compiles `cadence.v1` with a pure-Rust compiler, so that no system `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const SOURCES: [&str; 3] =
    ["cadence/v1/common.proto", "cadence/v1/engine.proto", "cadence/v1/admission.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(SOURCES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("cadence.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    Ok(())
}
