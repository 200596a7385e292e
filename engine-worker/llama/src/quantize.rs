//! Writes a model file again with other weights.
//!
//! The only `unsafe` of the workspace is here: the safe wrapper of llama.cpp has no call for this. llama.cpp
//! answers what it does not like in a file with an exception, which it catches itself, or with the end of
//! the process; so this is for a process that may end.

#![expect(unsafe_code, reason = "the safe wrapper of llama.cpp does not quantise")]

use std::{
    ffi::{CString, NulError},
    path::{Path, PathBuf},
    ptr,
};

use llama_cpp_sys_2 as sys;

use crate::{Model, OpenError, backend, model::check_file};

/// How the weights of a file are written. Names are llama.cpp's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// 4 bits, blocks of 32 with a scale.
    Q4_0,
    /// 4 bits in blocks of 256, 6 where it matters most.
    Q4KM,
    /// 5 bits in blocks of 256, 6 where it matters most.
    Q5KM,
    /// 6 bits in blocks of 256.
    Q6K,
    /// 8 bits, blocks of 32 with a scale.
    Q8_0,
    /// 16-bit floats.
    F16,
}

/// Why a file cannot be quantised.
#[derive(Debug, thiserror::Error)]
pub enum QuantizeError {
    /// The file is not there, or is no whole GGUF file.
    #[error(transparent)]
    Source(OpenError),
    /// A path that no C string holds.
    #[error("a path holds a zero byte")]
    Path(#[from] NulError),
    /// llama.cpp refuses.
    #[error("llama.cpp cannot quantise {path}; its log says why")]
    Refused {
        /// The file.
        path: PathBuf,
    },
    /// llama.cpp says nothing, and what it wrote is not whole: it does not see every failed write.
    #[error("what was written is not whole: {0}")]
    Target(OpenError),
}

impl Quantization {
    /// As llama.cpp's tools spell it, in small letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "q4_0",
            Self::Q4KM => "q4_k_m",
            Self::Q5KM => "q5_k_m",
            Self::Q6K => "q6_k",
            Self::Q8_0 => "q8_0",
            Self::F16 => "f16",
        }
    }

    fn file_type(self) -> sys::llama_ftype {
        match self {
            Self::Q4_0 => sys::LLAMA_FTYPE_MOSTLY_Q4_0,
            Self::Q4KM => sys::LLAMA_FTYPE_MOSTLY_Q4_K_M,
            Self::Q5KM => sys::LLAMA_FTYPE_MOSTLY_Q5_K_M,
            Self::Q6K => sys::LLAMA_FTYPE_MOSTLY_Q6_K,
            Self::Q8_0 => sys::LLAMA_FTYPE_MOSTLY_Q8_0,
            Self::F16 => sys::LLAMA_FTYPE_MOSTLY_F16,
        }
    }
}

/// Writes the model in `source` to `target`, whatever is there, with its weights quantised anew by `threads`
/// threads. Weights that are quantised already are taken as they are: what they lost stays lost. Not every
/// tensor is of the type that gives the whole its name: norms stay as they are.
///
/// Takes about a second for 100 million weights. **The process may end**: see above.
///
/// # Errors
/// The source is no whole GGUF file or llama.cpp does not like it, or the target cannot be written. What lies
/// there then is of no use.
pub fn quantize(
    source: &Path,
    target: &Path,
    to: Quantization,
    threads: u32,
) -> Result<(), QuantizeError> {
    check_file(source).map_err(QuantizeError::Source)?;
    let [from, into] = [c_path(source)?, c_path(target)?];
    let params = params(to, threads);
    // It must be initialised before any other call.
    backend::get();
    // SAFETY: both paths are C strings, and `params` is a whole structure of the version that is linked
    // (Cargo.toml pins it), whose pointers are null, which stands for "none" in each. All three live longer
    // than the call, which keeps none of them. The file has been read through: every length in it lies
    // within it.
    let failed =
        unsafe { sys::llama_model_quantize(from.as_ptr(), into.as_ptr(), ptr::from_ref(&params)) };
    if failed != 0 {
        return Err(QuantizeError::Refused { path: source.to_owned() });
    }
    check_file(target).map(drop).map_err(QuantizeError::Target)
}

impl Model {
    /// Whether the file says that its weights are written like this.
    #[must_use]
    pub fn is_quantized_as(&self, quantization: Quantization) -> bool {
        let said = self.llama().meta_val_str("general.file_type");
        said.is_ok_and(|said| said == quantization.file_type().to_string())
    }
}

fn c_path(path: &Path) -> Result<CString, NulError> {
    CString::new(path.as_os_str().as_encoded_bytes())
}

/// What llama.cpp's own defaults are, but for `allow_requantize`.
fn params(to: Quantization, threads: u32) -> sys::llama_model_quantize_params {
    sys::llama_model_quantize_params {
        nthread: threads.cast_signed(),
        ftype: to.file_type(),
        output_tensor_type: sys::GGML_TYPE_COUNT,
        token_embedding_type: sys::GGML_TYPE_COUNT,
        allow_requantize: true,
        quantize_output_tensor: true,
        only_copy: false,
        pure_: false,
        keep_split: false,
        dry_run: false,
        imatrix: ptr::null(),
        kv_overrides: ptr::null(),
        tt_overrides: ptr::null(),
        prune_layers: ptr::null(),
        max_buf_size: 0,
    }
}
