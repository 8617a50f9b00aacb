//! Report of a benchmark: lines on the terminal, JSON for programs, and plots for people.

mod plot;

use std::{fs, path::Path, thread};

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use serde::Serialize;

use crate::figures::{Goal, ReportRow, Spread};

/// Latencies by share of the requests.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyCurve {
    /// Description of the requests.
    pub what: String,
    /// Shares of the requests (0 to 1), each with the latency in milliseconds that no request of
    /// the share exceeds.
    pub points: Vec<(f64, f64)>,
}

/// Results of a benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the benchmark, also of its command and its files.
    pub benchmark: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Figures.
    pub rows: Vec<ReportRow>,
    /// Latencies, drawn in a plot of their own.
    pub latencies: Vec<LatencyCurve>,
    /// Notes that a reader needs beside the figures.
    pub notes: Vec<String>,
}

/// Content of a JSON file of figures.
#[derive(Serialize)]
struct Contents<'a> {
    machine: Machine,
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    /// Makes a report without latencies and notes.
    pub fn new(
        benchmark: &'static str,
        title: &'static str,
        rows: impl IntoIterator<Item = ReportRow>,
    ) -> Self {
        Self {
            benchmark,
            title,
            rows: rows.into_iter().collect(),
            latencies: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Writes `<benchmark>.json`, `<benchmark>.svg` and, if there are latencies,
    /// `<benchmark>-latency.svg`.
    ///
    /// # Errors
    /// Returns an error if the folder can't be written to.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let write = |ending: &str, text: &str| {
            let path = folder.join(format!("{}{ending}", self.benchmark));
            fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
        };
        fs::create_dir_all(folder)?;
        let contents = Contents {
            machine: Machine::read(),
            report: self,
        };
        write(".json", &(serde_json::to_string_pretty(&contents)? + "\n"))?;
        write(".svg", &plot::rows(self)?)?;
        if !self.latencies.is_empty() {
            write("-latency.svg", &plot::latencies(self)?)?;
        }
        Ok(())
    }

    /// Formats the report for people: one line for each row, with the median, and minimum and
    /// maximum in brackets.
    pub fn lines(&self) -> String {
        let title = self.title.to_owned();
        let rows = self.rows.iter().map(line);
        let lines = [title].into_iter().chain(rows);
        let lines = lines.chain(self.notes.iter().cloned());
        lines.map(|line| line + "\n").collect()
    }
}

fn line(row: &ReportRow) -> String {
    let with_unit = |spread: &Spread| format!("{} {}", numbers(spread), row.unit);
    let ratio = row
        .ratio
        .iter()
        .zip(&row.baseline)
        .map(|(ratio, baseline)| {
            let figures = with_unit(&baseline.figures);
            format!("; {} × {}: {figures}", numbers(ratio), baseline.what)
        });
    let goal = row
        .reach
        .iter()
        .zip(row.is_reached())
        .map(|(goal, is_reached)| {
            let (sign, value) = match goal {
                Goal::AtLeast(least) => ('≥', *least),
                Goal::AtMost(most) => ('≤', *most),
            };
            let verdict = if is_reached { "reached" } else { "missed" };
            format!("; goal {sign} {} {verdict}", number(value))
        });
    let figures = format!("  {}: {}", row.what, with_unit(&row.measured));
    [figures].into_iter().chain(ratio).chain(goal).collect()
}

fn numbers(spread: &Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    format!("{median} ({min}–{max})")
}

/// Formats a number with its significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Description of the machine, and the time of the measurement.
#[derive(Debug, Serialize)]
struct Machine {
    cores: usize,
    processor: String,
    memory_gib: u64,
    measured_at: String,
    /// Load average of the last minute before the figures were written; includes the load itself.
    load_average: String,
}

impl Machine {
    fn read() -> Self {
        let load_average = read("/proc/loadavg");
        let load_average = load_average.split_whitespace().next();
        Self {
            cores: thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_gib: memory_mib() >> 10,
            measured_at: timestamp::format(SystemClock.now()),
            load_average: load_average.unwrap_or_default().to_owned(),
        }
    }
}

/// Returns the memory of the machine, in MiB; 0 if unknown.
pub(crate) fn memory_mib() -> u64 {
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib = memory.split_whitespace().next();
    kib.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) >> 10
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of a line `name: value`.
pub(crate) fn field(text: &str, name: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::figures::Figures;

    #[test]
    fn line_has_figures_ratio_and_verdict() {
        let mut figures = Figures::default();
        for figure in [12_345.0, 10_000.0, 15_000.0] {
            figures.add("64 connections", figure);
            figures.add("pgbench", 5_000.0);
            figures.add("p50", 4.5);
        }
        let ratio = figures.ratio("64 connections", "creates/s", "pgbench");
        let p50 = figures.row("p50", "ms").at_most(5.0);
        let report = Report::new("creates", "Creates", [ratio.at_least(2.5), p50]);
        assert_eq!(
            report.note("Beside each other.").lines(),
            "Creates\n  \
             64 connections: 12345 (10000–15000) creates/s; \
             2.47 (2.00–3.00) × pgbench: 5000 (5000–5000) creates/s; goal ≥ 2.50 missed\n  \
             p50: 4.50 (4.50–4.50) ms; goal ≤ 5.00 reached\n\
             Beside each other.\n"
        );
    }
}
