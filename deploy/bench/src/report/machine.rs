//! The machine on which the figures were measured.

use std::{fs, thread};

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use serde::Serialize;

/// Description of the machine, and the time of the measurement.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    cores: usize,
    processor: String,
    memory_gib: u64,
    measured_at: String,
    /// Load average of the last minute before the figures were written; includes the load itself.
    load_average: String,
}

impl Machine {
    pub(super) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
                .unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory
            .split_whitespace()
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_gib: kib >> 20,
            measured_at: timestamp::format(SystemClock.now()),
            load_average: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}
