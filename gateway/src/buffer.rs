//! Bytes that grow as they arrive, and go back to the system when they are dropped.
//!
//! An allocator keeps the room of a large buffer that grew: whatever lies behind it pins the hole that
//! it leaves, and after a flood of large bodies a process stays at a multiple of what it needs. So what
//! is large lies in pages of its own.

use std::{io, ops::Deref};

use memmap2::MmapMut;

/// What is longer lies in pages of its own.
const HEAP_BYTES_MAX: usize = 64 << 10;

/// Bytes in one piece.
#[derive(Debug)]
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    /// So many bytes, at the start of their pages.
    Pages(MmapMut, usize),
}

impl Buffer {
    /// An empty one, with room for `bytes` as long as they are few.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self::Heap(Vec::with_capacity(bytes.min(HEAP_BYTES_MAX)))
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The system has no room; nothing was added.
    pub(crate) fn extend(&mut self, more: &[u8]) -> io::Result<()> {
        let held = self.len();
        let bytes = held + more.len();
        match self {
            Self::Heap(heap) if bytes <= HEAP_BYTES_MAX => heap.extend_from_slice(more),
            Self::Pages(pages, held) if bytes <= pages.len() => {
                pages[*held..bytes].copy_from_slice(more);
                *held = bytes;
            }
            Self::Heap(_) | Self::Pages(..) => {
                // Pages that nobody has written to take no room.
                let mut pages = MmapMut::map_anon(bytes.next_power_of_two())?;
                pages[..held].copy_from_slice(self);
                pages[held..bytes].copy_from_slice(more);
                *self = Self::Pages(pages, bytes);
            }
        }
        Ok(())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(heap) => heap,
            Self::Pages(pages, held) => &pages[..*held],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_as_they_came() {
        let mut buffer = Buffer::with_room(usize::MAX);
        let mut wanted = Vec::new();
        for length in [0, 1, HEAP_BYTES_MAX - 1, 1, 100, 3 * HEAP_BYTES_MAX, 0, HEAP_BYTES_MAX] {
            let more: Vec<u8> = (0..=250).cycle().take(length).collect();
            buffer.extend(&more).expect("room");
            wanted.extend(more);
            assert!(*buffer == wanted[..], "after {} bytes", wanted.len());
            assert_eq!(matches!(buffer, Buffer::Pages(..)), wanted.len() > HEAP_BYTES_MAX);
        }
    }
}
