//! A flame graph: stacks, merged where they agree, as boxes as wide as their samples.

use std::{collections::BTreeMap, fmt::Write as _};

/// Of the picture, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const LINE: f64 = 17.0;
const HEAD: f64 = 30.0;
/// Of a letter, about.
const LETTER: f64 = 6.6;
/// Narrower boxes are left out.
const NARROW: f64 = 0.2;
/// Deeper frames are left out, so that a runaway recursion makes no endless picture.
const DEPTH_MAX: usize = 400;

/// Stacks, merged by the names of their frames.
#[derive(Debug, Default)]
pub(super) struct Flame {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    samples: u64,
    /// By name, so that the same samples make the same picture.
    children: BTreeMap<String, Node>,
}

/// Where a box is.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    left: f64,
    width: f64,
}

impl Flame {
    /// Adds a stack, the outermost frame first, that was seen `samples` times.
    pub(super) fn add(&mut self, stack: impl Iterator<Item = String>, samples: u64) {
        let mut node = &mut self.root;
        node.samples += samples;
        for name in stack.take(DEPTH_MAX) {
            node = node.children.entry(name).or_default();
            node.samples += samples;
        }
    }

    /// How many samples there are.
    pub(super) fn samples(&self) -> u64 {
        self.root.samples
    }

    /// The picture: outermost frames on top.
    pub(super) fn svg(&self) -> String {
        let height = HEAD + LINE * (self.root.depth() as f64) + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"monospace\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fffdf7\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\">{} samples of processor time, by thread; point at a box for \
             its name and share</text>\n",
            self.root.samples
        );
        let place = Place { depth: 0, left: MARGIN, width: WIDTH - 2.0 * MARGIN };
        self.root.draw_children(place, self.root.samples, &mut svg);
        svg.push_str("</svg>\n");
        svg
    }
}

impl Node {
    fn depth(&self) -> usize {
        self.children.values().map(|child| 1 + child.depth()).max().unwrap_or(0)
    }

    fn draw_children(&self, place: Place, all: u64, svg: &mut String) {
        let mut left = place.left;
        for (name, child) in &self.children {
            let width = place.width * (child.samples as f64 / self.samples.max(1) as f64);
            if width >= NARROW {
                let within = Place { left, width, ..place };
                child.draw(name, within, all, svg);
                child.draw_children(Place { depth: place.depth + 1, ..within }, all, svg);
            }
            left += width;
        }
    }

    fn draw(&self, name: &str, place: Place, all: u64, svg: &mut String) {
        let Place { depth, left, width } = place;
        let top = HEAD + LINE * depth as f64;
        let (full, shown) = (escaped(name), escaped(&shortened(name, width)));
        let share = 100.0 * self.samples as f64 / all.max(1) as f64;
        let (box_height, base) = (LINE - 1.0, top + 12.0);
        let drawn = writeln!(
            svg,
            "<g><title>{full}: {} samples, {share:.2} %</title><rect x=\"{left:.2}\" y=\"{top}\" \
             width=\"{width:.2}\" height=\"{box_height}\" rx=\"1\" fill=\"{}\"/><text x=\"{:.2}\" \
             y=\"{base}\">{shown}</text></g>",
            self.samples,
            colour(name),
            left + 2.0
        );
        drawn.expect("a string takes what is written");
    }
}

/// As much of a name as a box of this width holds.
fn shortened(name: &str, width: f64) -> String {
    // Names are short, and widths are at most that of the picture.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 180")]
    let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// Warm, and always the same for a name.
fn colour(name: &str) -> String {
    let digest = name.bytes().fold(7_u32, |it, byte| it.wrapping_mul(31).wrapping_add(byte.into()));
    format!("rgb({},{},{})", 215 + digest % 40, 110 + digest / 40 % 100, 50 + digest / 4000 % 40)
}

/// For XML, which has no control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            it if it.is_control() => escaped.push('\u{fffd}'),
            it => escaped.push(it),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&str, u64)]) -> Flame {
        let mut flame = Flame::default();
        for (stack, samples) in stacks {
            flame.add(stack.split(';').map(Into::into), *samples);
        }
        flame
    }

    /// Name, left edge, top, width of each box.
    fn boxes(svg: &str) -> Vec<(String, String, String, String)> {
        let lines = svg.lines().filter_map(|line| line.strip_prefix("<g><title>"));
        let value = |line: &str, key: &str| {
            let rest = line.split_once(&format!("<rect {key}")).or(line.split_once(key));
            let rest = rest.expect("the box says it").1;
            rest.split('"').next().expect("a value").to_owned()
        };
        let read = |line: &str| {
            let name = line.split(": ").next().expect("a name").to_owned();
            (name, value(line, "x=\""), value(line, " y=\""), value(line, "width=\""))
        };
        lines.map(read).collect()
    }

    #[test]
    fn stacks_are_merged_where_they_agree() {
        let flame = flame(&[("engine;run;plan", 1), ("engine;run;decode", 2), ("main;serve", 1)]);
        assert_eq!(flame.samples(), 4);
        let told = boxes(&flame.svg());
        let expected = [
            ("engine", "10.00", "30", "885.00"),
            ("run", "10.00", "47", "885.00"),
            ("decode", "10.00", "64", "590.00"),
            ("plan", "600.00", "64", "295.00"),
            ("main", "895.00", "30", "295.00"),
            ("serve", "895.00", "47", "295.00"),
        ];
        let own = |(a, b, c, d): (&str, &str, &str, &str)| (a.into(), b.into(), c.into(), d.into());
        assert_eq!(told, expected.map(own));
    }

    #[test]
    fn any_name_is_valid_xml() {
        let svg = flame(&[("<T as \"A&B\">::go\u{1}", 1)]).svg();
        assert!(svg.contains("&lt;T as &quot;A&amp;B&quot;&gt;::go\u{fffd}: 1 samples, 100.00 %"));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn what_is_too_narrow_to_see_is_left_out() {
        let svg = flame(&[("much", 1_000_000), ("little;deep", 1)]).svg();
        assert_eq!(boxes(&svg).len(), 1);
        assert_eq!(shortened("short", 40.0), "short");
        assert_eq!(shortened("a_longer_name", 40.0), "a_lo…");
        assert_eq!(shortened("a_longer_name", 20.0), "");
        assert_eq!(shortened("é".repeat(9).as_str(), 40.0), "éééé…");
    }

    #[test]
    fn no_samples_and_endless_stacks_are_drawn_too() {
        assert!(Flame::default().svg().contains("0 samples"));
        let mut endless = Flame::default();
        endless.add((0..100_000).map(|at| at.to_string()), 1);
        assert_eq!(boxes(&endless.svg()).len(), DEPTH_MAX);
    }
}
