//! Plots of an answer (SVG).

use anyhow::anyhow;
use plotters::prelude::*;

use crate::answer::QuestionAnswer;

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
const MEASURED: RGBColor = RGBColor(31, 97, 168);
const NO_AIM: RGBColor = RGBColor(150, 150, 150);
const PALETTE: [RGBColor; 6] = [
    MEASURED,
    RGBColor(192, 80, 40),
    RGBColor(46, 125, 80),
    RGBColor(130, 70, 150),
    RGBColor(150, 120, 20),
    RGBColor(90, 90, 90),
];

/// A row of the plot: figures as multiples of the target.
struct DrawnRow {
    what: String,
    rounds: Vec<f64>,
    median: f64,
    colour: RGBColor,
}

/// Draws each row as multiples of its target, with a dot for each round; right of the line at 1 the
/// target is reached. Rows without a target are grey, and drawn as multiples of their median.
pub(super) fn rows(answer: &QuestionAnswer) -> anyhow::Result<String> {
    let rows: Vec<DrawnRow> = answer
        .rows
        .iter()
        .map(|row| {
            let judged = row.judged();
            let times = |figure: f64| match row.reach {
                Some(reach) => reach.times(figure),
                None => figure / judged.median,
            };
            let rounds = judged.rounds.iter().copied().map(times).collect();
            DrawnRow {
                what: row.what.clone(),
                rounds,
                median: times(judged.median),
                colour: row.reach.map_or(NO_AIM, |_| MEASURED),
            }
        })
        .collect();
    let right = rows
        .iter()
        .flat_map(|row| row.rounds.iter().copied())
        .fold(1.0, f64::max)
        * 1.1;
    let longest = rows.iter().map(|row| row.what.chars().count()).max();
    let labels_width = u32::try_from(longest.unwrap_or(0) * CHARACTER_WIDTH)? + 10;
    let labels_width = labels_width.max(LABELS_WIDTH_MIN);
    let width = WIDTH - LABELS_WIDTH_MIN + labels_width;
    let height = MARGIN + u32::try_from(rows.len())? * ROW_HEIGHT;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        draw_rows(&area, answer.title, (labels_width, &rows), right)
            .map_err(|error| anyhow!("{error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw_rows<'a>(
    area: &Area<'a>,
    title: &str,
    (labels_width, rows): (u32, &[DrawnRow]),
    right: f64,
) -> Result<(), DrawError<'a>> {
    area.fill(&WHITE)?;
    let bottom = f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(labels_width)
        .build_cartesian_2d(0.0..right, bottom..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_desc("multiples of the target")
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(LineSeries::new(
        [(1.0, 0.0), (1.0, bottom)],
        RGBColor(46, 125, 80).stroke_width(2),
    ))?;
    let mut y = 0.5;
    for row in rows {
        let dots = row.rounds.iter();
        let dots = dots.map(|x| Circle::new((*x, y), 4, row.colour.mix(0.45).filled()));
        chart.draw_series(dots)?;
        chart.draw_series([Circle::new((row.median, y), 6, row.colour.filled())])?;
        let (_, pixel) = chart.backend_coord(&(0.0, y));
        let style = TextStyle::from(FONT.into_font()).pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Left,
            plotters::style::text_anchor::VPos::Center,
        ));
        area.draw(&Text::new(row.what.clone(), (14, pixel), style))?;
        y += 1.0;
    }
    Ok(())
}

/// Draws latencies by share of the requests, with the slowest requests magnified.
pub(super) fn latencies(answer: &QuestionAnswer) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, CURVES_HEIGHT)).into_drawing_area();
        draw_latencies(&area, answer).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(svg)
}

/// Converts a share of the requests to N, if one in N requests took longer.
fn rarity(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

fn draw_latencies<'a>(area: &Area<'a>, answer: &QuestionAnswer) -> Result<(), DrawError<'a>> {
    area.fill(&WHITE)?;
    let points = || {
        answer
            .latencies
            .iter()
            .flat_map(|curve| curve.points.iter().copied())
    };
    let right = points()
        .map(|(share, _)| rarity(share))
        .fold(10.0, f64::max);
    let top = points().map(|(_, ms)| ms).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(answer.title, ("sans-serif", 20))
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
    for (index, curve) in answer.latencies.iter().enumerate() {
        let colour = PALETTE[index % PALETTE.len()];
        let points = curve.points.iter().map(|(share, ms)| (rarity(*share), *ms));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(&curve.what)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .draw()?;
    Ok(())
}
