//! Plots of a report (SVG).

use anyhow::anyhow;
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::Report;

/// Width of a plot, without the names of rows that are longer than usual.
const WIDTH: u32 = 960;
const ROW_HEIGHT: u32 = 44;
const MARGIN: u32 = 110;
/// Smallest width of the names of the rows.
const LABELS_WIDTH_MIN: u32 = 330;
/// Width of a character of a name, in pixels.
const CHARACTER_WIDTH: usize = 6;
const CURVES_HEIGHT: u32 = 480;
const FONT: (&str, u32) = ("sans-serif", 15);
const TITLE_FONT: (&str, u32) = ("sans-serif", 20);
const GOAL: RGBColor = RGBColor(46, 125, 80);
const MEASURED: RGBColor = RGBColor(31, 97, 168);
const WITHOUT_GOAL: RGBColor = RGBColor(150, 150, 150);
const CURVES: [RGBColor; 2] = [MEASURED, RGBColor(192, 80, 40)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn<'static>) -> anyhow::Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw(&area).map_err(|error| anyhow!("{error}"))?;
    drop(area);
    Ok(svg)
}

/// Draws each row as multiples of its goal, with a dot for each round; right of the line at 1 the
/// goal is reached. Rows without a goal are grey, and drawn as multiples of their median.
pub(super) fn rows(report: &Report) -> anyhow::Result<String> {
    let rows = report.rows.iter().map(|row| {
        let median = row.judged().median;
        let times = |figure: &f64| match row.reach {
            Some(goal) => goal.times(*figure),
            None => figure / median,
        };
        let rounds: Vec<f64> = row.judged().rounds.iter().map(times).collect();
        let colour = row.reach.map_or(WITHOUT_GOAL, |_| MEASURED);
        (row.what.as_str(), rounds, times(&median), colour)
    });
    let rows: Vec<_> = rows.collect();
    let all = rows.iter().flat_map(|(_, rounds, ..)| rounds);
    let right = all.copied().fold(1.0, f64::max) * 1.1;
    let longest = rows.iter().map(|(what, ..)| what.chars().count()).max();
    let labels_width = u32::try_from(longest.unwrap_or(0) * CHARACTER_WIDTH)? + 10;
    let labels_width = labels_width.max(LABELS_WIDTH_MIN);
    let count = u32::try_from(rows.len())?;
    let size = (
        WIDTH - LABELS_WIDTH_MIN + labels_width,
        MARGIN + count * ROW_HEIGHT,
    );
    svg(size, |area| {
        area.fill(&WHITE)?;
        let bottom = f64::from(count);
        let mut chart = ChartBuilder::on(area)
            .caption(report.title, TITLE_FONT)
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(labels_width)
            .build_cartesian_2d(0.0..right, bottom..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_desc("multiples of the goal")
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let goal = [(1.0, 0.0), (1.0, bottom)];
        chart.draw_series(LineSeries::new(goal, GOAL.stroke_width(2)))?;
        let mut y = 0.5;
        for (what, rounds, median, colour) in &rows {
            let dot = |x, size, colour: RGBAColor| Circle::new((x, y), size, colour.filled());
            chart.draw_series(rounds.iter().map(|x| dot(*x, 4, colour.mix(0.45))))?;
            chart.draw_series([dot(*median, 6, colour.mix(1.0))])?;
            let (_, pixel) = chart.backend_coord(&(0.0, y));
            let style = TextStyle::from(FONT.into_font()).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(*what, (14, pixel), style))?;
            y += 1.0;
        }
        Ok(())
    })
}

/// Draws latencies by share of the requests, with the slowest requests magnified.
pub(super) fn latencies(report: &Report) -> anyhow::Result<String> {
    // One in so many requests took longer.
    let rarity = |share: f64| 1.0 / (1.0 - share);
    let points = || report.latencies.iter().flat_map(|curve| &curve.points);
    let right = points()
        .map(|(share, _)| rarity(*share))
        .fold(10.0, f64::max);
    let top = points().map(|(_, ms)| *ms).fold(1.0, f64::max) * 1.1;
    svg((WIDTH, CURVES_HEIGHT), |area| {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(report.title, TITLE_FONT)
            .margin(14)
            // Half of the last label is beyond the axis.
            .margin_right(36)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d((1.0..right).log_scale(), 0.0..top)?;
        chart
            .configure_mesh()
            .x_label_formatter(&|one_in| format!("{one_in:.0}"))
            .x_desc("one in … requests took longer")
            .y_desc("ms")
            .label_style(FONT)
            .draw()?;
        for (curve, colour) in report.latencies.iter().zip(CURVES.into_iter().cycle()) {
            let points = curve.points.iter().map(|(share, ms)| (rarity(*share), *ms));
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                .label(&curve.what)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font(FONT)
            .draw()
    })
}
