//! Ends the broker with the process that holds it, however that ends.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

/// Nobody catches `kill -9`, but the kernel closes pipes: this waits for the end of its input, then
/// kills the process whose id it has read last, unless that is no broker of this folder any more.
/// A temporary folder is removed, repeatedly, because the broker may still be writing to it.
const SCRIPT: &str = r#"
dir=$1 is_temporary=$2 pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && { [ ! -e /proc/self/cmdline ] || grep -qF "$dir" "/proc/$pid/cmdline"; }; then
    kill -KILL "$pid"
fi
[ "$is_temporary" = true ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$dir" && break; sleep 1; done
"#;

/// The process that watches.
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
        // Its own group: Ctrl-C must not end the watchdog before its work is done.
        command.process_group(0);
        Ok(Self(command.spawn().context("cannot run /bin/sh")?))
    }

    /// From here on this process ends with us.
    pub(super) fn watch(&mut self, pid: u32) -> anyhow::Result<()> {
        let input = self.0.stdin.as_mut().expect("its input is a pipe");
        writeln!(input, "{pid}").context("the watchdog of Apache Kafka ended")
    }
}
