use std::io::Cursor;

use super::*;

/// A file in the making.
#[derive(Clone, Default)]
struct File(Vec<u8>);

impl File {
    fn header(version: u32, tensors: u64, entries: u64) -> Self {
        Self(MAGIC.to_vec()).u32(version).u64(tensors).u64(entries)
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn string(self, text: &str) -> Self {
        let mut file = self.u64(text.len() as u64);
        file.0.extend(text.bytes());
        file
    }

    /// A tensor of 32 values of the given type.
    fn tensor(self, kind: u32, offset: u64) -> Self {
        self.string("weight").u32(2).u64(16).u64(2).u32(kind).u64(offset)
    }

    /// Ends the description and adds so many bytes of weights.
    fn weights(mut self, alignment: usize, bytes: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(alignment) + bytes, 0);
        self
    }

    fn check(&self) -> Result<(), String> {
        check(Cursor::new(&self.0), self.0.len() as u64)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// A text, an array of texts, an alignment, and two tensors: 128 bytes of F32 and 34 of Q8_0.
fn good() -> File {
    let file = File::header(3, 2, 4).string("general.name").u32(STRING).string("tiny");
    let file = file.string("tokens").u32(ARRAY).u32(STRING).u64(2).string("a").string("");
    let file = file.string("scores").u32(ARRAY).u32(6).u64(2).u32(0).u32(0);
    let file = file.string("general.alignment").u32(U32).u32(64);
    file.tensor(0, 0).tensor(8, 128).weights(64, 128 + 34)
}

fn damaged(file: &File, reason: &str) {
    assert_eq!(file.check(), Err(format!("it is damaged: {reason}")));
}

#[test]
fn a_whole_file_is_fine_and_may_be_longer() {
    assert_eq!(good().check(), Ok(()));
    assert_eq!(good().weights(1, 30).check(), Ok(()));
}

#[test]
fn every_shorter_file_is_refused() {
    let whole = good().0;
    for length in 0..whole.len() {
        let error = File(whole[..length].to_vec()).check().expect_err("cut off");
        let expected = match length {
            0 => "it is empty",
            1..=3 => "it is no GGUF file",
            _ => "it is cut off: ",
        };
        assert!(error.starts_with(expected), "{length}: {error}");
    }
    let error = File(whole[..whole.len() - 1].to_vec()).check().unwrap_err();
    assert_eq!(
        error,
        format!("it is cut off: it has {} of {} bytes", whole.len() - 1, whole.len())
    );
}

#[test]
fn other_files_are_told_apart() {
    assert_eq!(File(b"# not a model\n".to_vec()).check(), Err("it is no GGUF file".to_owned()));
    let version = |number| File::header(number, 0, 0).check().unwrap_err();
    assert_eq!(version(1), "it has GGUF version 1, and only 2 and 3 are known");
    assert_eq!(
        version(3_u32.swap_bytes()),
        "it has GGUF version 50331648, and only 2 and 3 are known"
    );
}

#[test]
fn absurd_numbers_are_refused_before_they_are_used() {
    for file in [
        File::header(3, u64::MAX, 0),
        File::header(3, 0, u64::MAX),
        File::header(3, 0, 1).string("x").u32(STRING).u64(u64::MAX),
        File::header(3, 0, 1).string("x").u32(ARRAY).u32(U32).u64(u64::MAX),
        File::header(3, 0, 1).string("x").u32(ARRAY).u32(12).u64(30).weights(1, 40),
    ] {
        assert!(file.check().unwrap_err().starts_with("it is cut off"));
    }
    let entry = |kind| File::header(3, 0, 1).string("x").u32(kind);
    damaged(&File::header(3, 0, 1).u64(u64::MAX).weights(1, 9), "a name is longer than 64 KiB");
    damaged(&entry(13).weights(1, 9), "a metadata value has an unknown type");
    damaged(&File::header(3, 0, 1).string("").u32(U32).u32(7), "a metadata entry has no name");
    let nested = (0..9).fold(entry(ARRAY), |file, _| file.u32(ARRAY).u64(1));
    damaged(&nested, "a metadata value has an unknown type");
}

#[test]
fn impossible_tensors_are_refused() {
    let tensor = || File::header(3, 1, 0).string("weight");
    damaged(&tensor().u32(5).weights(1, 90), "a tensor has more than 4 dimensions");
    let huge = tensor().u32(2).u64(u64::MAX).u64(2).weights(1, 90);
    damaged(&huge, "a tensor has more values than any file");
    let far = File::header(3, 1, 0).tensor(0, u64::MAX);
    damaged(&far, "a tensor ends beyond any file");
    // Its end fits into 64 bits, but not after what comes before it.
    let farther = File::header(3, 1, 0).tensor(0, u64::MAX - 128);
    damaged(&farther, "a tensor ends beyond any file");
    assert!(File::header(3, 1, 0).tensor(999, 64).weights(32, 64).check().is_ok());
}

#[test]
fn an_odd_alignment_is_refused() {
    let aligned =
        |kind, value| File::header(3, 0, 1).string("general.alignment").u32(kind).u32(value);
    damaged(&aligned(U32, 0), "the alignment is no power of two");
    damaged(&aligned(U32, 48), "the alignment is no power of two");
    damaged(&aligned(5, 32), "the alignment is no 32-bit number");
}
