//! Memory of a process, as Linux counts it.

use std::{fs, time::Duration};

use anyhow::Context as _;
use nix::unistd::Pid;
use tokio::time::sleep;

/// Interval between two readings.
const INTERVAL: Duration = Duration::from_millis(100);

/// Returns the resident memory of a process in MiB, including the program itself.
pub(super) fn resident_mib(process: Pid) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
    parse(&text).with_context(|| format!("{path} has no Rss"))
}

/// Returns the largest memory of each process while `work` runs, and the result of `work`.
pub(super) async fn most_while<T, const N: usize>(
    processes: [Pid; N],
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, [f64; N])> {
    let mut most = [0.0_f64; N];
    let mut work = std::pin::pin!(work);
    loop {
        let done = tokio::select! {
            done = &mut work => Some(done?),
            () = sleep(INTERVAL) => None,
        };
        for (most, process) in most.iter_mut().zip(processes) {
            *most = most.max(resident_mib(process)?);
        }
        if let Some(done) = done {
            return Ok((done, most));
        }
    }
}

fn parse(smaps_rollup: &str) -> Option<f64> {
    let line = smaps_rollup
        .lines()
        .find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u32 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(f64::from(kib) / 1_024.0)
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        process::{Command, Stdio},
    };

    use nix::unistd::Pid;

    use super::{parse, resident_mib};

    #[test]
    fn resident_memory_sums_all_mappings() {
        let text = "55d0c8a5e000-7ffd6a5c2000 ---p 00000000 00:00 0    [rollup]\n\
                    Rss:               20480 kB\n\
                    Pss:                9999 kB\n\
                    Pss_Anon:           8888 kB\n";
        assert_eq!(parse(text), Some(20.0));
        assert_eq!(parse("Pss:                9999 kB\n"), None);
        assert_eq!(parse("Rss:               many kB\n"), None);
    }

    // Compares no difference: other tests of this process allocate and free memory meanwhile.
    #[test]
    fn resident_memory_is_of_the_given_process() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(other.id()).unwrap());
        let of_other = resident_mib(pid).unwrap();
        let used = black_box(vec![1_u8; 64 << 20]);
        let of_this = resident_mib(Pid::this()).unwrap();
        drop(used);
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(of_this >= 64.0, "{of_this}");
        assert!(of_other < 64.0, "{of_other}");
    }
}
