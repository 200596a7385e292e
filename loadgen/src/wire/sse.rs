//! Server-sent events, piece by piece.

/// Bytes of a line, and of an event: a server that never ends one does not fill our memory.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// An incremental reader. Lines end with LF, CR or CRLF; an event ends with an empty line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    is_error: bool,
    after_cr: bool,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The data lines, joined with LF.
    pub(crate) data: Vec<u8>,
    /// Whether its name is `error`.
    pub(crate) is_error: bool,
}

/// A line or an event of more than a mebibyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {EVENT_BYTES_MAX} bytes")]
pub(crate) struct TooLong;

impl Reader {
    /// Reads `bytes` and appends the events that they end.
    ///
    /// # Errors
    /// A line or an event is too long.
    pub(crate) fn read(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, ended) = (&rest[..end.unwrap_or(rest.len())], end.is_some());
            if self.line.len() + piece.len() > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            if ended {
                self.after_cr = rest[piece.len()] == b'\r';
                self.end_line(events)?;
            }
            rest = &rest[(piece.len() + usize::from(ended))..];
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            let is_error = std::mem::take(&mut self.is_error);
            if std::mem::take(&mut self.has_data) {
                events.push(Event { data, is_error });
            }
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.data.len() + value.len() > EVENT_BYTES_MAX {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.is_error = value == b"error",
            // Comments, ids, retry times: nothing that is measured.
            _ => {}
        }
        self.line = line;
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        for piece in pieces {
            reader.read(piece, &mut events).expect("short");
        }
        let show = |event: &Event| {
            let data = String::from_utf8_lossy(&event.data).into_owned();
            if event.is_error { format!("error {data}") } else { data }
        };
        events.iter().map(show).collect()
    }

    #[test]
    fn every_end_of_line_ends_a_line() {
        for text in
            ["data: a\n\ndata: b\n\n", "data:a\r\n\r\ndata:b\r\n\r\n", "data: a\r\rdata:b\r\r"]
        {
            assert_eq!(read(&[text.as_bytes()]), ["a", "b"], "{text:?}");
        }
    }

    #[test]
    fn comments_and_empty_events_say_nothing() {
        assert_eq!(read(&[b": ping\n\n\nid: 4\nretry: 5\n\ndata\n\n"]), [""]);
        assert_eq!(read(&[b"event: error\ndata: {}\n\ndata: x\n\n"]), ["error {}", "x"]);
        assert_eq!(read(&[b"data: one\ndata: two\n\n"]), ["one\ntwo"]);
        assert_eq!(read(&[b"data: never ended\n"]), [""; 0]);
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        let piece = vec![b'x'; 1 << 16];
        let read = (0..100).try_for_each(|_| reader.read(&piece, &mut events));
        assert_eq!(read, Err(TooLong));
        let mut reader = Reader::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let read = (0..100).try_for_each(|_| reader.read(&line, &mut events));
        assert_eq!(read, Err(TooLong));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in "(data: [ab]*|:|event: error|x|\r|\n|\r\n){0,30}", cut in 0_usize..200) {
            let cut = cut.min(bytes.len());
            let whole = read(&[bytes.as_bytes()]);
            prop_assert_eq!(read(&[&bytes.as_bytes()[..cut], &bytes.as_bytes()[cut..]]), whole);
        }
    }
}
