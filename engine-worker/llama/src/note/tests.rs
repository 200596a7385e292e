use std::fs;

use super::*;

const KEY: &str = "cadence.test";

/// A file with an alignment, one tensor of 32 bytes and the given weights.
fn file(weights: &[u8; 32]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend([1_u64, 2].map(u64::to_le_bytes).concat());
    file.extend(text("general.alignment"));
    file.extend([4_u32, 64].map(u32::to_le_bytes).concat());
    file.extend(text("general.name"));
    file.extend(STRING.to_le_bytes());
    file.extend(text("tiny"));
    file.extend(text("weight"));
    file.extend(1_u32.to_le_bytes());
    file.extend(8_u64.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(64), 0);
    file.extend(weights);
    file
}

#[test]
fn a_note_is_found_and_the_rest_stays_as_it_was() {
    let folder = tempfile::tempdir().expect("a place for files");
    let [source, target] = ["a.gguf", "b.gguf"].map(|name| folder.path().join(name));
    let weights = [7; 32];
    fs::write(&source, file(&weights)).expect("room for a file");
    // The padding before the weights is of every length.
    for length in 0..130 {
        let text = "x".repeat(length);
        let mut copy = File::create(&target).expect("room for a file");
        copy_with_note(&source, &mut copy, KEY, &text).expect("copied");
        assert_eq!(read_note(&target, KEY).expect("whole"), Some(text));
        assert_eq!(read_note(&target, "general.name").expect("whole").as_deref(), Some("tiny"));
        let (bytes, map) = check_file(&target).expect("whole");
        assert_eq!((map.entries, map.weights() % 64, bytes), (3, 0, map.weights() + 32));
        assert!(fs::read(&target).expect("a file").ends_with(&weights));
    }
    assert_eq!(read_note(&source, KEY).expect("whole"), None);
}

#[test]
fn what_is_no_text_is_no_note() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = folder.path().join("a.gguf");
    fs::write(&path, file(&[0; 32])).expect("room for a file");
    assert_eq!(read_note(&path, "general.alignment").expect("whole"), None);
}

#[test]
fn what_is_not_whole_is_not_copied() {
    let folder = tempfile::tempdir().expect("a place for files");
    let [source, target] = ["a.gguf", "b.gguf"].map(|name| folder.path().join(name));
    let whole = file(&[0; 32]);
    let mut copy = File::create(&target).expect("room for a file");
    for length in 0..whole.len() {
        fs::write(&source, &whole[..length]).expect("room for a file");
        let copied = copy_with_note(&source, &mut copy, KEY, "");
        assert!(matches!(copied, Err(NoteError::Source(OpenError::Gguf { .. }))), "{copied:?}");
        assert!(read_note(&source, KEY).is_err());
    }
}
