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
        Self {
            cores: thread::available_parallelism().map_or(0, usize::from),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_gib: memory_mib() >> 10,
            measured_at: timestamp::format(SystemClock.now()),
            load_average: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Returns the memory of the machine, in MiB; 0 if unknown.
pub(crate) fn memory_mib() -> u64 {
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib = memory.split_whitespace().next();
    kib.and_then(|text| text.parse::<u64>().ok())
        .unwrap_or_default()
        >> 10
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(text: &str, name: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        .unwrap_or_default()
}
