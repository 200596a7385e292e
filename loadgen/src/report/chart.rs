//! Figures as SVG and PNG, which differ in nothing but the format.

use std::{fs, path::Path, sync::Once};

use plotters::{
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
    },
    prelude::*,
    style::{
        FontStyle, register_font,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::figures::Figure;

const SIZE: (u32, u32) = (900, 480);
/// Colours that people with any eyesight can tell apart, on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(150, 150, 150),
];
const FONT: &str = "sans-serif";
/// Pixels of a legend beside the chart, and characters of a name that fit.
const LEGEND: u32 = 220;
const NAME_MAX: usize = 28;

/// A figure in both formats.
pub(super) struct Picture {
    pub(super) svg: String,
    pub(super) png: Vec<u8>,
}

/// Draws a figure into `folder`, twice.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn draw(figure: &Figure, folder: &Path) -> anyhow::Result<()> {
    let picture = render(figure)?;
    let path = |end: &str| folder.join(format!("{}.{end}", figure.file));
    fs::write(path("svg"), picture.svg)?;
    Ok(fs::write(path("png"), picture.png)?)
}

/// Draws a figure. The same figure is the same bytes.
///
/// # Errors
/// It cannot be drawn.
pub(super) fn render(figure: &Figure) -> anyhow::Result<Picture> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let known = register_font(FONT, FontStyle::Normal, notosans::REGULAR_TTF);
        debug_assert!(known.is_ok(), "the font is a font");
    });
    let mut svg = String::new();
    draw_on(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(), figure)?;
    let mut pixels = vec![0; SIZE.0 as usize * SIZE.1 as usize * 3];
    draw_on(&BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area(), figure)?;
    Ok(Picture { svg, png: compress(&pixels)? })
}

fn compress(pixels: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(png)
}

fn draw_on<B: DrawingBackend>(area: &DrawingArea<B, Shift>, figure: &Figure) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let chart = if figure.legend_beside {
        let (left, right) = area.split_horizontally(SIZE.0 - LEGEND);
        legend(&right, figure)?;
        left
    } else {
        area.clone()
    };
    let mut builder = ChartBuilder::on(&chart);
    builder
        .margin(14)
        .caption(&figure.title, (FONT, 20))
        .x_label_area_size(46)
        .y_label_area_size(64);
    let (x, y) = (
        extent(figure, |point| point.0, figure.log_x),
        extent(figure, |point| point.1, figure.log_y),
    );
    match (figure.log_x, figure.log_y) {
        (false, false) => fill(builder.build_cartesian_2d(x.0..x.1, y.0..y.1)?, figure)?,
        (true, false) => {
            fill(builder.build_cartesian_2d((x.0..x.1).log_scale(), y.0..y.1)?, figure)?
        }
        (false, true) => {
            fill(builder.build_cartesian_2d(x.0..x.1, (y.0..y.1).log_scale())?, figure)?
        }
        (true, true) => {
            let (x, y) = ((x.0..x.1).log_scale(), (y.0..y.1).log_scale());
            fill(builder.build_cartesian_2d(x, y)?, figure)?;
        }
    }
    area.present()?;
    Ok(())
}

/// Names of series, beside the chart: many curves leave no corner free.
fn legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, figure: &Figure) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    let lines = figure.series.iter().filter(|series| !series.line.is_empty());
    for (nth, series) in (0..).zip(lines) {
        let y = 60 + 24 * nth;
        let colour = COLOURS[series.colour % COLOURS.len()];
        area.draw(&PathElement::new([(0, y), (20, y)], colour.stroke_width(3)))?;
        let name: String = series.name.chars().take(NAME_MAX).collect();
        let style = TextStyle::from((FONT, 14)).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name, (26, y), style))?;
    }
    Ok(())
}

/// From where to where an axis goes.
fn extent(figure: &Figure, get: impl Fn(&(f64, f64)) -> f64, is_log: bool) -> (f64, f64) {
    let bands = figure.series.iter().flat_map(|one| &one.band);
    let bands = bands.flat_map(|(x, low, high)| [(*x, *low), (*x, *high)]);
    let all = figure.series.iter().flat_map(|one| one.line.iter().chain(&one.points)).copied();
    let all = all.chain(bands).map(|point| get(&point));
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if is_log {
        let low = low.max(1e-6);
        (low / 1.3, (high * 1.3).max(low * 2.0))
    } else {
        (0.0, (high * 1.05).max(1e-3))
    }
}

fn fill<'a, B, X, Y>(
    mut chart: ChartContext<'a, B, Cartesian2d<X, Y>>,
    figure: &Figure,
) -> anyhow::Result<()>
where
    B: DrawingBackend + 'a,
    B::ErrorType: 'static,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(figure.x)
        .y_desc(figure.y)
        .axis_desc_style((FONT, 16))
        .label_style((FONT, 14))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for series in &figure.series {
        let colour = COLOURS[series.colour % COLOURS.len()];
        if !series.band.is_empty() {
            let low = series.band.iter().map(|(x, low, _)| (*x, *low));
            let high = series.band.iter().rev().map(|(x, _, high)| (*x, *high));
            let edge: Vec<_> = low.chain(high).collect();
            chart.draw_series([Polygon::new(edge, colour.mix(0.14).filled())])?;
        }
        let dot = |at: &(f64, f64)| Circle::new(*at, 2, colour.mix(0.35).filled());
        let dots = series.points.iter().map(dot);
        chart.draw_series(dots)?;
        let marks = series.line.iter().filter(|_| series.is_marked);
        chart.draw_series(marks.map(|at| Circle::new(*at, 3, colour.filled())))?;
        let width = if series.is_faint { 1 } else { 2 };
        let line = LineSeries::new(series.line.iter().copied(), colour.stroke_width(width));
        chart
            .draw_series(line)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    if !figure.legend_beside && figure.series.iter().any(|series| !series.line.is_empty()) {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font((FONT, 15))
            .draw()?;
    }
    Ok(())
}

/// A number in three digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else {
        let text = if size >= 1.0 { format!("{value:.1}") } else { format!("{value:.3}") };
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        let cases = [(0.0, "0"), (0.25, "0.25"), (1.0, "1"), (12.5, "12.5"), (1234.0, "1234")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
