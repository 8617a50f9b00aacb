//! Processor time of a process.

use std::fs;

use anyhow::Context as _;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Returns the processor time of a process with all its threads since its start, in seconds of one
/// core.
///
/// # Errors
/// Returns an error if the process has ended.
pub fn processor_seconds(process: Pid) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))
        .with_context(|| format!("process {process} has ended"))?;
    let ticks =
        ticks(&stat).with_context(|| format!("/proc/{process}/stat has no processor time"))?;
    let ticks_per_second =
        sysconf(SysconfVar::CLK_TCK)?.context("the system has no length of a clock tick")?;
    Ok(f64::from(ticks) / f64::from(i32::try_from(ticks_per_second)?))
}

/// Sums user time and system time, fields 14 and 15. The name of the process, before these fields,
/// may contain any character.
fn ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse);
    let (user, system): (u32, u32) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::{processor_seconds, ticks};

    #[test]
    fn process_name_may_look_like_stat_fields() {
        let stat = "7 (a) R 1 (b) S 1 7 7 0 -1 4194304 5 0 0 0 40 2 0 0 20 0 9 0 99 1 2 3";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn busy_process_uses_processor_time() {
        let before = processor_seconds(Pid::this()).unwrap();
        while processor_seconds(Pid::this()).unwrap() <= before {}
        assert!(processor_seconds(Pid::from_raw(i32::MAX)).is_err());
    }
}
