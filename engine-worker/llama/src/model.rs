//! A model file, opened.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use llama_cpp_2::{
    model::{LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
    token_type::LlamaTokenAttr,
};
use text::{Kind, Tokenizer, Vocabulary};
use units::Token;

use crate::{
    backend,
    gguf::{self, GgufError, Map},
    memory,
};

/// Bytes of one KV value: contexts keep them as 16-bit floats.
const KV_VALUE_BYTES: u64 = 2;

/// What a saved state says of a token beside its KV: position, sequence, and what some models add.
const STATE_TOKEN_BYTES: u64 = 24;

/// A model in memory, with its tokenizer. Shared by all threads; a [`Context`](crate::Context) borrows
/// it.
#[derive(Debug)]
pub struct Model {
    llama: LlamaModel,
    vocabulary: Vocabulary,
    chat_template: Option<String>,
    facts: Facts,
    /// llama.cpp may not make two contexts of a model at once.
    making_context: Mutex<()>,
}

/// What a model file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name of the architecture, such as `llama`.
    pub architecture: String,
    /// The model's own name, if the file has one.
    pub name: Option<String>,
    /// Tokens of context it was trained on.
    pub context_train: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: u32,
    /// Layers.
    pub layers: u32,
    /// Weights.
    pub params: u64,
    /// The length of the file.
    pub file_bytes: u64,
    /// What one token of context takes in KV memory. An upper bound for models with sliding windows.
    pub kv_bytes_per_token: u64,
    /// Whether a kept prefix can be cut and gone on with. If not, nothing is kept.
    pub reusable: bool,
}

/// Why a model file cannot be served. Each message names the path and the reason in one line, so that
/// no error has another as its source: who prints the chain would print the reason twice.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no file, or it may not be read.
    #[error("cannot open the model {path}: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The path is a directory or another thing that is no regular file.
    #[error("the model {path} is not a file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is no whole GGUF file.
    #[error("the model {path} is not usable: {reason}")]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: GgufError,
    },
    /// llama.cpp refuses the file.
    #[error("llama.cpp cannot load the model {path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// As far as it says.
        reason: &'static str,
    },
}

impl Model {
    /// Opens a GGUF file and puts `gpu_layers` of its layers on a GPU, if there is one.
    ///
    /// Takes seconds for a large file. The file must not be changed while the model lives.
    ///
    /// # Errors
    /// The file is missing, unreadable, cut off, of another kind, or of an architecture that is not
    /// served.
    pub fn open(path: &Path, gpu_layers: u32) -> Result<Self, OpenError> {
        let (file_bytes, _) = check_file(path)?;
        let refused = |reason| OpenError::Refused { path: path.to_owned(), reason };
        let params = LlamaModelParams::default().with_n_gpu_layers(gpu_layers);
        let llama = LlamaModel::load_from_file(backend::get(), path, &params)
            .map_err(|_| refused("its log says why"))?;
        let mut facts = Facts::read(&llama, file_bytes);
        if let Some(reason) = not_served(&llama, &facts) {
            return Err(refused(reason));
        }
        facts.reusable = memory::reusable(&llama);
        let vocabulary = read_vocabulary(&llama);
        let chat_template = llama.chat_template(None).ok().and_then(|it| it.to_string().ok());
        Ok(Self { llama, vocabulary, chat_template, facts, making_context: Mutex::new(()) })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn llama(&self) -> &LlamaModel {
        &self.llama
    }

    /// Held while a context is made.
    pub(crate) fn making_context(&self) -> MutexGuard<'_, ()> {
        self.making_context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokenizer for Model {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn encode_plain(&self, text: &str, out: &mut Vec<Token>) {
        let tokens = self.llama.vocab().tokenize(text.as_bytes(), false, false);
        out.extend(tokens.into_iter().map(from_llama));
    }

    fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}

impl Facts {
    fn read(llama: &LlamaModel, file_bytes: u64) -> Self {
        let text = |key: &str| llama.meta_val_str(key).ok().filter(|value| !value.is_empty());
        let architecture = text("general.architecture").unwrap_or_default();
        let number = |key: &str| text(&format!("{architecture}.{key}"))?.parse::<u64>().ok();
        let embedding = u64::from(llama.n_embd().unsigned_abs());
        let head = embedding / u64::from(llama.n_head().max(1));
        let key = number("attention.key_length").unwrap_or(head);
        let value = number("attention.value_length").unwrap_or(head);
        let heads = u64::from(llama.n_layer()) * u64::from(llama.n_head_kv());
        Self {
            name: text("general.name"),
            context_train: llama.n_ctx_train(),
            vocabulary: llama.n_vocab().unsigned_abs(),
            layers: llama.n_layer(),
            params: llama.n_params(),
            file_bytes,
            kv_bytes_per_token: heads
                .saturating_mul(key.saturating_add(value))
                .saturating_mul(KV_VALUE_BYTES),
            // Not known before it is known to be served.
            reusable: false,
            architecture,
        }
    }

    /// What one token of a kept prefix takes in host memory with [`LayoutKind::Streams`]. A prefix takes
    /// some kilobytes more.
    ///
    /// [`LayoutKind::Streams`]: crate::LayoutKind::Streams
    #[must_use]
    pub fn state_bytes_per_token(&self) -> u64 {
        self.kv_bytes_per_token.saturating_add(STATE_TOKEN_BYTES)
    }
}

/// Reads the file through once without llama.cpp; its length, and where its parts lie.
pub(crate) fn check_file(path: &Path) -> Result<(u64, Map), OpenError> {
    let (file, bytes) = open_file(path)?;
    let map = gguf::check(file, bytes)
        .map_err(|reason| OpenError::Gguf { path: path.to_owned(), reason })?;
    Ok((bytes, map))
}

/// Opens what is a file; its length too.
pub(crate) fn open_file(path: &Path) -> Result<(io::BufReader<fs::File>, u64), OpenError> {
    let io = |reason| OpenError::Io { path: path.to_owned(), reason };
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(OpenError::NotAFile { path: path.to_owned() });
    }
    let file = fs::File::open(path).map_err(io)?;
    Ok((io::BufReader::new(file), metadata.len()))
}

/// Why a model that llama.cpp loads is not served all the same: a step of it would abort the process,
/// or its state is not what the scheduler takes it for.
fn not_served(llama: &LlamaModel, facts: &Facts) -> Option<&'static str> {
    const ABSENT: i32 = -1;
    let causal = llama.meta_val_str(&format!("{}.attention.causal", facts.architecture));
    if facts.vocabulary == 0 {
        Some("it has no vocabulary")
    } else if llama.is_recurrent() || llama.is_hybrid() {
        Some("models with recurrent layers are not served")
    } else if causal.is_ok_and(|value| value == "false") {
        Some("it makes embeddings, not text")
    } else if llama.decode_start_token().0 != ABSENT {
        Some("models with an encoder are not served")
    } else {
        None
    }
}

fn read_vocabulary(llama: &LlamaModel) -> Vocabulary {
    let vocab = llama.vocab();
    let mut builder = Vocabulary::builder();
    for token in vocab.tokens() {
        // Of a control token this is the string that stands for it.
        builder.push(vocab.token_to_piece(token, true, None), kind(llama, token));
    }
    let id = |token: LlamaToken| (token.0 >= 0).then(|| from_llama(token));
    builder.bos(id(vocab.bos()), vocab.should_add_bos()).eos(id(vocab.eos())).build()
}

fn kind(llama: &LlamaModel, token: LlamaToken) -> Kind {
    let vocab = llama.vocab();
    let attributes = vocab.attr(token);
    if vocab.is_eog(token) {
        Kind::End
    } else if attributes.intersects(LlamaTokenAttr::Control | LlamaTokenAttr::Unknown) {
        Kind::Control
    } else if attributes.contains(LlamaTokenAttr::Unused) {
        Kind::Unused
    } else {
        Kind::Text
    }
}

fn from_llama(token: LlamaToken) -> Token {
    Token(token.0.unsigned_abs())
}
