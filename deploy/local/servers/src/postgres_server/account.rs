//! Operating-system account under which Postgres runs: the account of this process, or another
//! account if this process runs as root, because Postgres refuses root.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use nix::unistd::{User, geteuid};

/// Account of `initdb` and `postgres`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Account {
    /// Account of this process; files need no change of owner.
    Ours,
    /// Account for a process of root.
    Other { uid: u32, gid: u32 },
}

impl Account {
    /// Returns the account for these clusters, of which at most one exists.
    ///
    /// Root uses the owner of an existing cluster: the account `postgres` may be newer than a
    /// cluster that `nobody` owns.
    ///
    /// # Errors
    /// Returns an error if root finds neither a user `postgres` nor a user `nobody`.
    pub(super) fn for_clusters(clusters: &[&Path]) -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self::Ours);
        }
        let existing = clusters.iter().find_map(|cluster| cluster.metadata().ok());
        if let Some(owner) = existing.filter(|metadata| metadata.uid() != 0) {
            return Ok(Self::Other {
                uid: owner.uid(),
                gid: owner.gid(),
            });
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name).context("cannot read the user accounts")? {
                return Ok(Self::Other {
                    uid: user.uid.as_raw(),
                    gid: user.gid.as_raw(),
                });
            }
        }
        anyhow::bail!(
            "PostgreSQL refuses to run as root, and there is no user postgres or nobody; create one"
        )
    }

    /// Returns a command that runs `program` under this account, without input.
    pub(super) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Messages are matched by the English text. The account may be unable to enter the current
        // folder.
        command
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null());
        if let Self::Other { uid, gid } = self {
            // The standard library also drops the supplementary groups of root here.
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Makes this account the owner of a file or folder.
    pub(super) fn take(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Ours => Ok(()),
            Self::Other { uid, gid } => chown(path, Some(uid), Some(gid)),
        }
    }

    /// Makes this account the owner of a folder and of the whole contents.
    pub(super) fn take_all(self, dir: &Path) -> anyhow::Result<()> {
        let Self::Other { uid, gid } = self else {
            return Ok(());
        };
        let mut command = Command::new("chown");
        let status = command
            .arg("-hR")
            .arg(format!("{uid}:{gid}"))
            .arg(dir)
            .status();
        let done = status.context("cannot run chown")?.success();
        anyhow::ensure!(done, "cannot change the owner of {}", dir.display());
        Ok(())
    }

    /// Returns true if this account may enter the folder and all folders above.
    pub(super) fn can_reach(self, dir: &Path) -> io::Result<bool> {
        let Self::Other { uid, gid } = self else {
            return Ok(true);
        };
        for ancestor in dir.ancestors() {
            if !may_enter(&ancestor.metadata()?, uid, gid) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns true if a user may enter the folder. Like the kernel, checks the execute bit of the one
/// class (owner, group or other) that applies.
fn may_enter(dir: &Metadata, uid: u32, gid: u32) -> bool {
    let bit = if dir.uid() == uid {
        0o100
    } else if dir.gid() == gid {
        0o010
    } else {
        0o001
    };
    dir.mode() & bit != 0
}
