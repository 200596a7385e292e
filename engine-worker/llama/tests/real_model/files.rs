//! Files that are no models.

use std::{fs, path::Path};

use llama::Model;

use crate::model_path;

/// Opens the file; the one line that says why it cannot be.
fn refusal(path: &Path) -> String {
    let error = Model::open(path, 0).expect_err("is no model").to_string();
    assert!(error.contains(&path.display().to_string()), "names the path: {error}");
    assert!(!error.contains('\n'), "is one line: {error}");
    error
}

fn write(name: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("room for a file");
    refusal(&path)
}

#[test]
fn a_cut_off_model_is_refused_before_it_is_mapped() {
    let whole = fs::read(model_path()).expect("run `make model` first");
    assert!(write("1kB.gguf", &whole[..1_000]).contains("its description does not end"));
    for length in [whole.len() / 2, whole.len() - 1] {
        let error = write("cut.gguf", &whole[..length]);
        let counted = format!("it is cut off: it has {length} of {} bytes", whole.len());
        assert!(error.contains(&counted), "{error}");
    }
}

#[test]
fn other_files_are_refused() {
    assert!(write("empty.gguf", b"").ends_with("it is empty"));
    assert!(write("notes.txt", b"buy milk\n").ends_with("it is no GGUF file"));
}

#[test]
fn what_cannot_be_opened_is_refused_with_the_systems_reason() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(folder.path()).ends_with("is not a file"));
    assert!(refusal(&folder.path().join("missing.gguf")).contains("No such file"));
    assert!(refusal(Path::new("")).contains("No such file"));
}

#[test]
fn a_whole_file_that_is_no_model_is_refused_by_llama_cpp() {
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    // No tensors, no metadata, and padding up to where weights would begin.
    file.extend([0; 24]);
    assert!(write("hollow.gguf", &file).contains("llama.cpp cannot load"));
}
