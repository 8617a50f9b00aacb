//! Progress of a long command on standard error: a bar on a terminal, lines elsewhere, JSON for
//! programs.

use std::{
    fmt,
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linkledger_service::number_format::{grouped, per_second};
use serde::Serialize;

/// Template of the bar; the bar takes the width that the words leave.
const BAR: &str = "{prefix} {wide_bar} {msg}";
/// Template without a bar, while the total is not known.
const NO_BAR: &str = "{prefix}";
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of the lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Progress of a command; several tasks report to it.
#[derive(Debug)]
pub struct ProgressReport {
    show: Show,
    state: Mutex<State>,
}

#[derive(Debug)]
enum Show {
    Bar(ProgressBar),
    Lines,
    Json,
    Nothing,
}

#[derive(Debug)]
struct State {
    phase: String,
    /// Name of the counted things.
    unit: &'static str,
    done: u64,
    total: u64,
    begun_at: Instant,
    told_at: Instant,
    /// Number of units at the time of the last line.
    told: u64,
}

/// Progress of a phase, for programs.
#[derive(Debug, Serialize)]
struct Line<'a> {
    phase: &'a str,
    done: u64,
    total: u64,
    unit: &'a str,
    /// Seconds since the start of the phase.
    seconds: f64,
    per_second: u64,
    seconds_left: Option<u64>,
}

impl ProgressReport {
    /// Creates a report on standard error.
    pub fn shown(json: bool) -> Self {
        if json {
            return Self::new(Show::Json);
        }
        if !std::io::stderr().is_terminal() {
            return Self::new(Show::Lines);
        }
        let progress = Self::drawn_on(ProgressDrawTarget::stderr());
        if let Show::Bar(bar) = &progress.show {
            bar.enable_steady_tick(BAR_INTERVAL);
        }
        progress
    }

    fn drawn_on(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        bar.set_style(style(NO_BAR));
        Self::new(Show::Bar(bar))
    }

    /// Creates a report without output.
    pub fn silent() -> Self {
        Self::new(Show::Nothing)
    }

    fn new(show: Show) -> Self {
        Self {
            show,
            state: Mutex::new(State::begun("", 0, "")),
        }
    }

    /// Begins a phase of `total` units; 0 if the total is not known.
    pub fn enter(&self, phase: &str, total: u64, unit: &'static str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_end(&mut state);
        *state = State::begun(phase, total, unit);
        self.tell(&mut state);
    }

    /// Sets the number of units that are still to be done.
    pub fn set_remaining(&self, remaining: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total = state.done + remaining;
    }

    /// Adds to the number of units that are done.
    pub fn advance(&self, done: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += done;
        state.total = state.total.max(state.done);
        if matches!(self.show, Show::Bar(_)) || state.told_at.elapsed() >= LINE_INTERVAL {
            self.tell(&mut state);
        }
    }

    /// Writes a last line if the previous line is out of date.
    fn tell_end(&self, state: &mut State) {
        if state.done > state.told {
            self.tell(state);
        }
    }

    fn tell(&self, state: &mut State) {
        (state.told_at, state.told) = (Instant::now(), state.done);
        let line = state.line();
        let text = match &self.show {
            Show::Lines => line.to_string(),
            Show::Json => serde_json::to_string(&line).unwrap_or_default(),
            Show::Bar(bar) => return draw(bar, &line),
            Show::Nothing => return,
        };
        // A failure of standard error does not end the command.
        writeln!(std::io::stderr(), "{text}").ok();
    }
}

impl Drop for ProgressReport {
    fn drop(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_end(&mut state);
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.expect("our own templates can be read")
}

fn draw(bar: &ProgressBar, line: &Line<'_>) {
    let has_bar = bar.length().is_some_and(|total| total > 0);
    let is_total_known = line.total > 0;
    if has_bar != is_total_known {
        bar.set_style(style(if is_total_known { BAR } else { NO_BAR }));
    }
    bar.set_prefix(line.phase.to_owned());
    bar.set_length(line.total);
    bar.set_position(line.done);
    bar.set_message(line.counts());
}

impl State {
    fn begun(phase: &str, total: u64, unit: &'static str) -> Self {
        let now = Instant::now();
        Self {
            phase: phase.to_owned(),
            unit,
            done: 0,
            total,
            begun_at: now,
            told_at: now,
            told: 0,
        }
    }

    fn line(&self) -> Line<'_> {
        let took = self.begun_at.elapsed();
        let per_second = per_second(self.done, took);
        let left = self.total - self.done;
        Line {
            phase: &self.phase,
            done: self.done,
            total: self.total,
            unit: self.unit,
            seconds: took.as_secs_f64(),
            per_second,
            seconds_left: (per_second > 0).then(|| left.div_ceil(per_second)),
        }
    }
}

impl Line<'_> {
    /// Returns the counts and the rate.
    fn counts(&self) -> String {
        let figure = |count: u64| grouped(count.cast_signed());
        let (done, total) = (figure(self.done), figure(self.total));
        let counts = format!("{done} of {total} {}", self.unit);
        match self.seconds_left {
            Some(left) if self.done < self.total => format!(
                "{counts}, {}/s, {} s left",
                figure(self.per_second),
                figure(left)
            ),
            Some(_) | None if self.done > 0 => format!("{counts} in {:.1} s", self.seconds),
            Some(_) | None => counts,
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            0 => f.write_str(self.phase),
            _ => write!(f, "{}: {}", self.phase, self.counts()),
        }
    }
}

#[cfg(test)]
mod tests;
