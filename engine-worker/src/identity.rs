//! What tells this model from others: the hash of its file.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use text::Vocabulary;
use units::Token;

use crate::digest;

/// A hash, hexadecimal, that is there or is being made: of a large file that takes minutes, so it is made
/// beside everything else.
#[derive(Debug)]
pub(crate) struct Identity {
    hash: Arc<OnceLock<String>>,
    /// Ends when nobody works on it any more.
    making: mpsc::Receiver<()>,
}

impl Identity {
    /// Of a file, which is read from now on.
    pub(crate) fn of_file(path: PathBuf) -> Self {
        let hash = Arc::new(OnceLock::new());
        let (made, making) = mpsc::channel::<()>();
        let there = hash.clone();
        // Whoever loads the model says that it cannot be opened.
        if let Ok(file) = File::open(&path) {
            thread::spawn(move || {
                hash_file(file, &path, &there);
                drop(made);
            });
        }
        Self { hash, making }
    }

    /// Of a vocabulary, which stands for a backend that has no file.
    pub(crate) fn of_vocabulary(backend: &str, vocabulary: &Vocabulary) -> Self {
        let mut hasher = Sha256::new_with_prefix(backend);
        let ids = (0..).map(Token).take(vocabulary.len());
        ids.for_each(|token| hasher.update(vocabulary.piece(token)));
        let hash = Arc::new(OnceLock::from(digest::hex(&hasher.finalize())));
        Self { hash, making: mpsc::channel().1 }
    }

    /// The hash, once it is there.
    pub(crate) fn hash(&self) -> Arc<OnceLock<String>> {
        self.hash.clone()
    }

    /// Waits for the hash. `None` if it takes longer, or the file cannot be read.
    pub(crate) fn wait(&self, patience: Duration) -> Option<&str> {
        // Nothing is ever sent: it ends, or it takes longer.
        let _ = self.making.recv_timeout(patience);
        self.hash.get().map(String::as_str)
    }
}

fn hash_file(file: File, path: &Path, hash: &OnceLock<String>) {
    match digest::of_reader(file) {
        Ok(sha256) => drop(hash.set(sha256)),
        Err(error) => tracing::warn!("cannot hash {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_waited_for_and_a_missing_one_is_not() {
        let place = tempfile::tempdir().expect("a place");
        let path = place.path().join("abc");
        std::fs::write(&path, "abc").expect("written");
        let there = Identity::of_file(path);
        let hash = there.wait(Duration::from_secs(60)).expect("readable");
        assert!(hash.starts_with("ba7816bf") && hash.len() == 64, "{hash}");
        let missing = Identity::of_file(place.path().join("nothing"));
        assert_eq!(missing.wait(Duration::from_secs(60)), None);
    }
}
