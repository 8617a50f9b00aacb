//! Status report as text: projections, findings, shards that are not live, and further lines. Pure.

mod facts;

use console::Style;
use linkledger_core::printable::printable;

use crate::{
    cli::columns::{Layout, Screen, table},
    operations::{
        number_format::{counted, duration, grouped, rate},
        status::{
            StatusReport,
            projection::{ProjectionShard, ProjectionState, ProjectionStatus},
        },
    },
};

/// Maximum number of shards that are shown without `--shards`.
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

pub(super) fn lines(status: &StatusReport, screen: Screen, all_shards: bool) -> Vec<String> {
    let events = status.projections.first().map_or(0, |it| it.head);
    let mut lines = vec![
        screen.cut(&format!(
            "{}  log epoch {}, {}",
            status.at,
            status.log_epoch,
            counted(events.unsigned_abs(), "event")
        )),
        String::new(),
    ];
    let rows = status
        .projections
        .iter()
        .map(|it| projection_row(it, screen));
    lines.extend(table(screen, PROJECTION_COLUMNS, rows));
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

/// Adds the findings, above the lines that a low screen may cut.
fn add_findings(lines: &mut Vec<String>, status: &StatusReport, screen: Screen) {
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

fn shard_row(projection: &str, it: &ProjectionShard, screen: Screen) -> Vec<String> {
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

fn add_shards(lines: &mut Vec<String>, status: &StatusReport, screen: Screen, all_shards: bool) {
    let mut rows = Vec::new();
    for projection in &status.projections {
        let shards = projection.shards.iter();
        // If all shards are in the same state, the line of the projection shows the state.
        let is_uniform = shards.clone().all(|it| it.state == projection.state);
        let shown =
            shards.filter(|it| all_shards || !is_uniform && it.state != ProjectionState::Live);
        rows.extend(shown.map(|it| shard_row(projection.projection, it, screen)));
    }
    if rows.is_empty() {
        return;
    }
    let shown_max = if all_shards {
        rows.len()
    } else {
        SHARDS_SHOWN_MAX
    };
    let more = rows.len().saturating_sub(shown_max);
    rows.truncate(shown_max);
    lines.push(String::new());
    lines.extend(table(screen, SHARD_COLUMNS, rows));
    if more > 0 {
        lines.push(format!("… and {more} more shards: --shards shows all"));
    }
}

fn state(state: ProjectionState, screen: Screen) -> String {
    let style = match state {
        ProjectionState::Live => Style::new().green(),
        ProjectionState::CatchingUp | ProjectionState::Paused => Style::new().yellow(),
        ProjectionState::Parked | ProjectionState::Unattended | ProjectionState::Refused => {
            Style::new().red()
        }
    };
    screen.paint(&style, state.name())
}
