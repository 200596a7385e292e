//! Finds stop strings in text that arrives in pieces.

/// Finds the first of several stop strings in text that arrives in pieces, and holds back text that
/// could still turn out to be one.
///
/// The stop string that is complete first wins, and the longer of two that are complete together. So
/// the result depends on the text alone, not on how it was cut, and a stop never waits for another.
/// The work for each byte does not depend on the length of the stop strings.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<Stop>,
    held: String,
    stopped: bool,
}

/// A stop string with its matching automaton (Knuth, Morris, Pratt).
#[derive(Clone, Debug)]
struct Stop {
    text: Box<[u8]>,
    /// For each number of matched bytes but 0, how many still match when the next one does not.
    fallback: Box<[usize]>,
    matched: usize,
}

impl StopMatcher {
    /// Looks for any of `stops`. Empty ones are ignored: they would end every answer before it begins.
    #[must_use]
    pub fn new(stops: Vec<String>) -> Self {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).map(Stop::new).collect();
        Self { stops, held: String::new(), stopped: false }
    }

    /// Takes the next piece of text, appends to `out` what is certainly no part of a stop string, and
    /// says whether one is complete. The stop string and everything after it are dropped.
    pub fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.stopped {
            return true;
        }
        if self.stops.is_empty() {
            out.push_str(text);
            return false;
        }
        let fresh = self.held.len();
        self.held.push_str(text);
        for at in fresh..self.held.len() {
            let byte = self.held.as_bytes()[at];
            let lengths = self.stops.iter_mut().filter_map(|stop| stop.advance(byte));
            if let Some(length) = lengths.max() {
                out.push_str(&self.held[..at + 1 - length]);
                self.held.clear();
                self.stopped = true;
                return true;
            }
        }
        // What matches the beginning of a stop string begins where a character does.
        let open = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        out.extend(self.held.drain(..self.held.len() - open));
        false
    }

    /// The text that was held back, when no more will come.
    pub fn finish(&mut self) -> String {
        self.stopped = true;
        std::mem::take(&mut self.held)
    }
}

impl Stop {
    fn new(text: String) -> Self {
        let text = text.into_bytes().into_boxed_slice();
        let mut fallback = vec![0; text.len()];
        let mut matched = 0;
        for at in 1..text.len() {
            matched = step(&text, &fallback, matched, text[at]);
            fallback[at] = matched;
        }
        Self { text, fallback: fallback.into(), matched: 0 }
    }

    /// Takes a byte; the stop string's length if it is complete with it.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        self.matched = step(&self.text, &self.fallback, self.matched, byte);
        (self.matched == self.text.len()).then_some(self.matched)
    }
}

/// How many bytes of `text` match up to and with `byte`, when `matched` did before it.
fn step(text: &[u8], fallback: &[usize], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && text[matched] != byte {
        matched = fallback[matched - 1];
    }
    if text[matched] == byte { matched + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is released for each piece and at the end, the stop marked with `|`.
    fn check(stops: &[&str], pieces: &[&str], expected: &[&str]) {
        let mut matcher = StopMatcher::new(stops.iter().map(|&stop| stop.to_owned()).collect());
        let mut released: Vec<String> = Vec::new();
        for piece in pieces {
            let mut out = String::new();
            if matcher.push(piece, &mut out) {
                out.push('|');
            }
            released.push(out);
        }
        released.push(matcher.finish());
        assert_eq!(released, expected);
    }

    #[test]
    fn without_stops_all_passes_at_once() {
        check(&[], &["a", "b"], &["a", "b", ""]);
        check(&[""], &["a", "b"], &["a", "b", ""]);
    }

    #[test]
    fn a_stop_is_found_across_pieces() {
        check(&["STOP"], &["a ST", "O", "P b", "c"], &["a ", "", "|", "|", ""]);
    }

    #[test]
    fn what_could_begin_a_stop_is_held_until_it_cannot() {
        check(&["STOP"], &["aST", "AR", "S"], &["a", "STAR", "", "S"]);
        check(&["aab"], &["aa", "a", "b"], &["", "a", "|", ""]);
    }

    #[test]
    fn the_first_complete_stop_wins_and_of_equals_the_longer() {
        check(&["abcde", "bc"], &["xabcde"], &["xa|", ""]);
        check(&["c", "abc", "bc"], &["xabc"], &["x|", ""]);
    }

    #[test]
    fn characters_are_never_cut() {
        check(&["éö"], &["aé", "é", "ö"], &["a", "é", "|", ""]);
        // Shares its first bytes with the stop.
        check(&["👩"], &["👨"], &["👨", ""]);
    }

    /// The text before the stop that is complete first, found in the whole.
    fn naive(text: &str, stops: &[String]) -> (String, bool) {
        let complete = |stop: &String| {
            let start = text.find(stop.as_str())?;
            Some((start + stop.len(), start))
        };
        let first = stops.iter().filter(|stop| !stop.is_empty()).filter_map(complete).min();
        first.map_or((text.to_owned(), false), |(_, start)| (text[..start].to_owned(), true))
    }

    proptest! {
        #[test]
        fn the_split_does_not_matter(
            text in "[abé]{0,24}",
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            splits in prop::collection::vec(0..4_usize, 24),
        ) {
            let mut matcher = StopMatcher::new(stops.clone());
            let (mut out, mut stopped) = (String::new(), false);
            let mut rest = text.chars().peekable();
            for size in splits.iter().cycle().take(60) {
                let piece: String = rest.by_ref().take(*size).collect();
                stopped |= matcher.push(&piece, &mut out);
            }
            out.push_str(&rest.collect::<String>());
            out.push_str(&matcher.finish());
            prop_assume!(splits.iter().sum::<usize>() >= 12);
            prop_assert_eq!((out, stopped), naive(&text, &stops));
        }

        #[test]
        fn no_more_is_held_than_could_begin_a_stop(
            text in "[ab]{0,24}",
            stops in prop::collection::vec("[ab]{1,5}", 1..4),
        ) {
            let mut matcher = StopMatcher::new(stops.clone());
            let mut out = String::new();
            if !matcher.push(&text, &mut out) {
                let held = &text[out.len()..];
                let begins = |tail: &str| stops.iter().any(|stop| stop.starts_with(tail));
                let longest = (0..=text.len()).map(|at| &text[at..]).find(|tail| begins(tail));
                prop_assert_eq!(Some(held), longest);
            }
        }
    }
}
