//! Files that are written anew.

use std::{fs, path::Path};

use llama::{Model, Quantization, QuantizeError, quantize};

use crate::{model, model_path};

#[test]
fn weights_change_and_the_rest_stays() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = folder.path().join("q8.gguf");
    quantize(&model_path(), &path, Quantization::Q8_0, 2).expect("quantised");
    let made = Model::open(&path, 0).expect("opens");
    let is = |model: &Model| {
        [Quantization::Q8_0, Quantization::Q4_0].map(|it| model.is_quantized_as(it))
    };
    assert_eq!([is(model()), is(&made)], [[false, false], [true, false]]);
    let (old, new) = (model().facts(), made.facts());
    assert!(new.file_bytes > old.file_bytes * 5 / 4, "8 bits are more than 4: {new:?}");
    assert_eq!(llama::Facts { file_bytes: old.file_bytes, ..new.clone() }, *old);
}

#[test]
fn what_llama_cpp_does_not_like_is_an_error() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("hollow.gguf"), [&b"GGUF"[..], &3_u32.to_le_bytes(), &[0; 80]].concat())
        .expect("room for a file");
    let refusal =
        |from: &Path, to: &Path| quantize(from, to, Quantization::Q8_0, 1).expect_err("an error");
    let [hollow, out] = ["hollow.gguf", "out.gguf"].map(path);
    assert!(matches!(refusal(&hollow, &out), QuantizeError::Refused { .. }));
    assert!(matches!(refusal(&path("missing.gguf"), &out), QuantizeError::Source(_)));
    let nowhere = path("no/folder.gguf");
    assert!(matches!(refusal(&model_path(), &nowhere), QuantizeError::Refused { .. }));
    assert!(matches!(refusal(&model_path(), Path::new("a\0b")), QuantizeError::Path(_)));
}
