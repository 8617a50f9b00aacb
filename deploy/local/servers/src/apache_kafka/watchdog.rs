//! Ends the broker when the process that started the broker ends, for whatever reason.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

/// Script of the watchdog. A process cannot catch `kill -9`, but the kernel closes the pipes of a
/// dead process: the script waits for the end of its input, then kills the process whose id came
/// last, if that process is still a broker of this folder. The removal of a temporary folder is
/// retried, because the broker may still be writing.
const SCRIPT: &str = r#"
dir=$1 is_temporary=$2 pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && { [ ! -e /proc/self/cmdline ] || grep -qF "$dir" "/proc/$pid/cmdline"; }; then
    kill -KILL "$pid"
fi
[ "$is_temporary" = true ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$dir" && break; sleep 1; done
"#;

/// Process of the script.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    pub(super) fn start(data_dir: &Path, is_temporary: bool) -> anyhow::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "watchdog"])
            .arg(data_dir)
            .arg(is_temporary.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A separate process group: Ctrl-C must not end the watchdog early.
        command.process_group(0);
        Ok(Self(command.spawn().context("cannot run /bin/sh")?))
    }

    /// Makes the watchdog kill the process `pid` when this process ends.
    pub(super) fn watch(&mut self, pid: u32) -> anyhow::Result<()> {
        let input = self
            .0
            .stdin
            .as_mut()
            .expect("the watchdog's input is a pipe");
        writeln!(input, "{pid}").context("the watchdog of Apache Kafka ended")
    }
}
