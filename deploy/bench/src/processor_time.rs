//! Processor time of a process, and of a process with its children.

use std::fs;

use anyhow::Context as _;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Returns the processor time of a process with all its threads since its start, in seconds of one
/// core.
///
/// # Errors
/// Returns an error if the process has ended.
pub fn processor_seconds(process: Pid) -> anyhow::Result<f64> {
    seconds(stat_of(process)?.own_ticks)
}

/// Returns the processor time of a process and of its children, ended ones too, in seconds of one core.
///
/// # Errors
/// Returns an error if the process has ended.
pub fn family_seconds(parent: Pid) -> anyhow::Result<f64> {
    let stat = stat_of(parent)?;
    let mut ticks = stat.own_ticks + stat.ended_children_ticks;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile: its time is then among that of ended children at the next look.
        if let Ok(stat) = stat_of(Pid::from_raw(process))
            && stat.parent == parent.as_raw()
        {
            ticks += stat.own_ticks;
        }
    }
    seconds(ticks)
}

fn seconds(ticks: u32) -> anyhow::Result<f64> {
    let ticks_per_second =
        sysconf(SysconfVar::CLK_TCK)?.context("the system has no length of a clock tick")?;
    Ok(f64::from(ticks) / f64::from(i32::try_from(ticks_per_second)?))
}

/// Fields of `/proc/<pid>/stat` (`proc_pid_stat(5)`), in clock ticks.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    own_ticks: u32,
    ended_children_ticks: u32,
}

fn stat_of(process: Pid) -> anyhow::Result<ProcessStat> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))
        .with_context(|| format!("process {process} has ended"))?;
    ProcessStat::parse(&stat).with_context(|| format!("/proc/{process}/stat has no processor time"))
}

impl ProcessStat {
    /// Reads the parent, field 4, and the times in user and in system mode, fields 14 to 17. The name of
    /// the process, before these fields, may contain any character.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(11)? + ticks(12)?,
            ended_children_ticks: ticks(13)? + ticks(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::{ProcessStat, family_seconds, processor_seconds, stat_of};

    #[test]
    fn process_name_may_look_like_stat_fields() {
        let stat = "7 (a) R 1 (b) S 1 7 7 0 -1 4194304 5 0 0 0 40 2 3 1 20 0 9 0 99 1 2 3";
        let expected = ProcessStat {
            parent: 1,
            own_ticks: 42,
            ended_children_ticks: 4,
        };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        assert_eq!(ProcessStat::parse("7 (a) S 1"), None);
    }

    #[test]
    fn busy_process_uses_processor_time() {
        let before = processor_seconds(Pid::this()).unwrap();
        while processor_seconds(Pid::this()).unwrap() <= before {}
        assert!(processor_seconds(Pid::from_raw(i32::MAX)).is_err());
    }

    #[test]
    fn ended_child_counts_for_its_parent() {
        let of_children = || stat_of(Pid::this()).unwrap().ended_children_ticks;
        let (before, family_before) = (of_children(), family_seconds(Pid::this()).unwrap());
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let done = std::process::Command::new("sh").args(["-c", busy]).status();
        assert!(done.unwrap().success());
        assert!(of_children() > before);
        // A child of another test that ends between two readings is missing in the sum.
        assert!((0..1_000).any(|_| family_seconds(Pid::this()).unwrap() > family_before));
    }
}
