//! A model that was re-quantised: it says what it is, and answers as the original does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use proto::v1::{self, prepare_request::Input};

use crate::worker::{Worker, id, model_path, prepared};

fn optimize(model: &Path, out: &Path, more: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_engine-worker"))
        .args(["optimize", "--windows", "2", "--rounds", "1", "--threads", "1"])
        .arg("--model")
        .arg(model)
        .arg("--out")
        .arg(out)
        .args(more)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code(), said)
}

#[tokio::test]
async fn an_optimized_model_is_served_and_says_what_it_was_made_of() {
    let place = tempfile::tempdir().expect("a place for files");
    let (model, out) = (PathBuf::from(model_path()), place.path().join("fast.gguf"));
    let (code, said) = optimize(&model, &out, &[]);
    // Whether it is faster depends on the machine, and on what else that does.
    assert!(matches!(code, Some(0 | 4)), "{said}");
    assert!(said.contains("q8_0 of ") && said.contains("same top token"), "{said}");
    assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 1, "no part is left");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions();
    assert_eq!(mode(&out), mode(&model), "who may read the model may read it");

    a_second_call_finds_it(&model, &out);
    a_copy_is_no_original(&out, &place.path().join("again.gguf"));
    it_answers(&model, &out).await;
}

fn a_second_call_finds_it(model: &Path, out: &Path) {
    let before = fs::read(out).expect("a file");
    let (code, said) = optimize(model, out, &["--refresh"]);
    assert!(matches!(code, Some(0 | 4)) && !said.contains("writing"), "{said}");
    let (code, said) = optimize(model, out, &[]);
    assert!(code == Some(1) && said.contains("exists; --force overwrites it"), "{said}");
    assert!(fs::read(out).expect("a file") == before, "it was not touched");
}

fn a_copy_is_no_original(copy: &Path, out: &Path) {
    let (code, said) = optimize(copy, out, &[]);
    assert!(code == Some(1) && said.contains("start from what it was made of"), "{said}");
    assert!(!out.exists());
}

async fn it_answers(model: &Path, out: &Path) {
    let flags = ["--model", out.to_str().expect("UTF-8"), "--threads", "1", "--slots", "1"];
    let mut worker = Worker::launch(
        &[&flags[..], &["--context-tokens", "256", "--metrics-listen", ""]].concat(),
    )
    .await;
    let told = worker.info().await.model.expect("a model");
    let stem = model.file_stem().expect("a name").to_string_lossy();
    assert_eq!(told.id, stem, "clients know it by the original's name");
    let from = told.derived_from.expect("a derivation");
    assert_eq!((from.name, from.r#type), (format!("{stem}.gguf"), "q8_0".into()));
    assert!((from.perplexity_ratio - 1.0).abs() < 0.02, "{}", from.perplexity_ratio);
    assert_eq!(from.sha256.len(), 64);

    let request = v1::PrepareRequest {
        request_id: id(1),
        input: Some(Input::Text("The capital of France is".into())),
        return_token_ids: false,
    };
    let sampling = v1::Sampling { top_p: 1.0, ..Default::default() };
    let generate = v1::GenerateRequest { sampling: Some(sampling), ..prepared(1, 8) };
    let answer = worker.ask(request, generate).await;
    assert!(answer.text().contains("Paris"), "{:?}", answer.text());
    worker.stop().await;
}
