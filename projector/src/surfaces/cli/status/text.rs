//! The status for people: the projections, the shards that are not live, and what else there is
//! to know. Pure.

mod facts;

use console::Style;

use crate::{
    operations::{
        figures::{duration, grouped},
        status::{
            Status,
            projection::{ProjectionStatus, ShardStatus, State},
        },
    },
    surfaces::cli::columns::{Layout, Screen, printable, table},
};

/// Most shards that are shown without being asked for.
const SHARDS_SHOWN_MAX: usize = 16;

const PROJECTION_COLUMNS: &[(&str, Layout)] = &[
    ("PROJECTION", Layout::Text),
    ("STATE", Layout::Text),
    ("GEN", Layout::OptionalNumber),
    ("POSITION", Layout::Number),
    ("HEAD", Layout::OptionalNumber),
    ("LAG", Layout::Number),
    ("AGE", Layout::Number),
    ("RATE", Layout::Number),
    ("PARKED", Layout::Number),
];
const SHARD_COLUMNS: &[(&str, Layout)] = &[
    ("PROJECTION", Layout::Text),
    ("SHARD", Layout::Number),
    ("STATE", Layout::Text),
    ("POSITION", Layout::Number),
    ("HEAD", Layout::OptionalNumber),
    ("LAG", Layout::Number),
    ("AGE", Layout::Number),
    ("RATE", Layout::OptionalNumber),
    ("PARKED", Layout::Number),
    ("OWNER", Layout::OptionalText),
    ("VERSION", Layout::OptionalText),
];

pub(super) fn lines(status: &Status, screen: Screen, all_shards: bool) -> Vec<String> {
    let mut lines = vec![
        screen.cut(&format!(
            "{}  log epoch {}, {} events",
            status.at,
            status.log_epoch,
            grouped(status.projections.first().map_or(0, |it| it.head))
        )),
        String::new(),
    ];
    let rows: Vec<Vec<String>> = status
        .projections
        .iter()
        .map(|it| projection_row(it, screen))
        .collect();
    lines.extend(table(screen, PROJECTION_COLUMNS, &rows));
    add_findings(&mut lines, status, screen);
    add_shards(&mut lines, status, screen, all_shards);
    lines.push(String::new());
    let facts = facts::lines(status);
    lines.extend(
        facts
            .iter()
            .flat_map(|line| screen.wrapped(&printable(line))),
    );
    lines
}

/// Above what may not fit on a low screen.
fn add_findings(lines: &mut Vec<String>, status: &Status, screen: Screen) {
    if !status.findings.is_empty() {
        lines.push(String::new());
    }
    let red = Style::new().red();
    for finding in &status.findings {
        let mark = screen.paint(&red, "!");
        lines.extend(screen.wrapped(&format!("{mark} {}", printable(finding))));
    }
}

fn projection_row(it: &ProjectionStatus, screen: Screen) -> Vec<String> {
    vec![
        it.projection.to_owned(),
        state(it.state, screen),
        it.active_generation.to_string(),
        grouped(it.position),
        grouped(it.head),
        grouped(it.lag_events),
        duration(it.lag_seconds),
        rate(it.events_per_second),
        grouped(it.parked_accounts.into()),
    ]
}

fn shard_row(projection: &str, it: &ShardStatus, screen: Screen) -> Vec<String> {
    vec![
        projection.to_owned(),
        it.shard.to_string(),
        state(it.state, screen),
        grouped(it.position),
        grouped(it.head),
        grouped(it.lag_events),
        duration(it.lag_seconds),
        it.events_per_second.map_or_else(|| "-".to_owned(), rate),
        grouped(it.parked_accounts.into()),
        it.owner.clone().unwrap_or_else(|| "-".to_owned()),
        it.version.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Events in a second.
#[expect(
    clippy::cast_possible_truncation,
    reason = "it is rounded to a whole number"
)]
fn rate(events_per_second: f64) -> String {
    grouped(events_per_second.round() as i64)
}

fn add_shards(lines: &mut Vec<String>, status: &Status, screen: Screen, all_shards: bool) {
    let mut rows: Vec<Vec<String>> = status
        .projections
        .iter()
        .flat_map(|projection| {
            let shards = projection.shards.iter();
            // Where all are alike, the line of the projection says it.
            let is_uniform = projection
                .shards
                .iter()
                .all(|it| it.state == projection.state);
            let is_shown =
                move |it: &&ShardStatus| all_shards || !is_uniform && it.state != State::Live;
            let shown = shards.filter(is_shown);
            shown.map(|it| shard_row(projection.projection, it, screen))
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let more = if all_shards {
        0
    } else {
        rows.len().saturating_sub(SHARDS_SHOWN_MAX)
    };
    rows.truncate(rows.len() - more);
    lines.push(String::new());
    lines.extend(table(screen, SHARD_COLUMNS, &rows));
    if more > 0 {
        lines.push(format!("… and {more} more shards: --shards shows all"));
    }
}

fn state(state: State, screen: Screen) -> String {
    let style = match state {
        State::Live => Style::new().green(),
        State::CatchingUp | State::Paused => Style::new().yellow(),
        State::Parked | State::Unattended | State::Refused => Style::new().red(),
    };
    screen.paint(&style, state.name())
}
