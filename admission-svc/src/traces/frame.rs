//! A row as bytes: `"CTR"`, a version, the length of what follows, its checksum, and the row as its
//! protobuf message. Numbers are little-endian, the checksum is a CRC-32 over version and message.
//!
//! New fields do not need a new version, for protobuf keeps readers and writers apart; another meaning
//! of an old field does.

use prost::Message as _;
use proto::v1::TraceRow;

const MAGIC: [u8; 3] = *b"CTR";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 12;

/// Why bytes are not a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// They do not begin like one.
    #[error("this is no trace row")]
    Stranger,
    /// It was written by other software.
    #[error("the row has version {0}, known is {VERSION}")]
    Version(u8),
    /// Cut off, or followed by something.
    #[error("the row says it has {said} bytes and has {got}")]
    Length {
        /// What its head says.
        said: u32,
        /// What there is.
        got: usize,
    },
    /// Some bit has changed.
    #[error("the row's checksum is wrong")]
    Checksum,
    /// The checksum is right and the message is none.
    #[error("the row cannot be read")]
    Message,
}

/// A row as bytes.
#[must_use]
pub fn encode(row: &TraceRow) -> Vec<u8> {
    let message = row.encode_to_vec();
    let length = u32::try_from(message.len()).expect("every text in a row is bounded");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend(MAGIC);
    bytes.push(VERSION);
    bytes.extend(length.to_le_bytes());
    bytes.extend(checksum(VERSION, &message).to_le_bytes());
    bytes.extend(message);
    bytes
}

/// Bytes as a row. Takes any bytes.
///
/// # Errors
/// They are not a row, or not one that this software knows.
pub fn decode(bytes: &[u8]) -> Result<TraceRow, FrameError> {
    let (head, message) = bytes.split_at_checked(HEAD_BYTES).ok_or(FrameError::Stranger)?;
    let [m0, m1, m2, version, l0, l1, l2, l3, c0, c1, c2, c3] = *head else {
        return Err(FrameError::Stranger);
    };
    if [m0, m1, m2] != MAGIC {
        return Err(FrameError::Stranger);
    }
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let (said, got) = (u32::from_le_bytes([l0, l1, l2, l3]), message.len());
    if u32::try_from(got) != Ok(said) {
        return Err(FrameError::Length { said, got });
    }
    if checksum(version, message) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(FrameError::Checksum);
    }
    TraceRow::decode(message).map_err(|_| FrameError::Message)
}

fn checksum(version: u8, message: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    hasher.update(message);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TraceRow {
        TraceRow { number: 7, request_id: "a".repeat(32), propensity: 0.5, ..Default::default() }
    }

    #[test]
    fn a_row_comes_back() {
        assert_eq!(decode(&encode(&row())), Ok(row()));
    }

    #[test]
    fn the_layout_stays() {
        let bytes = encode(&TraceRow { number: 1, ..Default::default() });
        assert_eq!(bytes, *b"CTR\x01\x02\0\0\0\xbb\x09\x5d\x41\x08\x01");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = encode(&row());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = encode(&row());
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            decode(&bad)
        };
        assert_eq!(with(0, b'X'), Err(FrameError::Stranger));
        assert_eq!(with(3, 9), Err(FrameError::Version(9)));
        assert!(matches!(with(4, 0), Err(FrameError::Length { said: 0, .. })));
        assert_eq!(with(8, !good[8]), Err(FrameError::Checksum));
        assert_eq!(decode(&[]), Err(FrameError::Stranger));
    }
}
