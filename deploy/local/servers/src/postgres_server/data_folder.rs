//! The data folder: its lock, the password, and where the cluster lies.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::fcntl::Flock;

use super::account::Account;
use super::cluster::{Cluster, random_password};
use super::postmaster::{self, Postmaster};
use crate::local_server::lock;

/// Where clusters lie whose own folder is closed to the account that runs Postgres.
const RELOCATION_ROOT: &str = "/var/lib/linkledger";

/// A data folder that is ours alone while this value lives.
#[derive(Debug)]
pub(super) struct DataFolder {
    pub(super) cluster: Cluster,
    pub(super) relocated: bool,
    _lock: Flock<File>,
}

impl DataFolder {
    pub(super) async fn open(data_dir: &Path) -> anyhow::Result<Self> {
        let data_dir = fs::create_dir_all(data_dir)
            .and_then(|()| fs::canonicalize(data_dir))
            .with_context(|| format!("cannot create {}", data_dir.display()))?;
        let lock = lock(&data_dir)?;

        let elsewhere = Path::new(RELOCATION_ROOT).join(name_of(&data_dir));
        let [here, there] = [&data_dir, &elsewhere].map(|home| home.join(Cluster::DIR_NAME));
        let account = Account::for_clusters(&[&here, &there])?;
        // A cluster that exists stays where it is, whatever became of the permissions above it.
        let relocated = !here.exists()
            && (there.exists()
                || !account.can_reach(&data_dir).with_context(|| {
                    format!("cannot examine the folders above {}", data_dir.display())
                })?);
        if relocated {
            create_public_dir(Path::new(RELOCATION_ROOT))?;
            create_public_dir(&elsewhere)?;
        }
        let home = if relocated {
            elsewhere
        } else {
            data_dir.clone()
        };
        remove_leftovers(&home, Cluster::UNFINISHED)?;
        let password = password(&data_dir, &home, relocated).await?;
        Ok(Self {
            cluster: Cluster::new(home, account, password),
            relocated,
            _lock: lock,
        })
    }
}

/// The password that the cluster was or will be made with.
async fn password(data_dir: &Path, home: &Path, relocated: bool) -> anyhow::Result<String> {
    let path = data_dir.join("postgres_password");
    let context = || format!("cannot keep the password in {}", path.display());
    match fs::read_to_string(&path) {
        Ok(password) => return Ok(password.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(context),
    }
    let cluster = home.join(Cluster::DIR_NAME);
    if cluster.exists() {
        // Whoever removed the data folder removed the password with it and wants to begin anew,
        // but a cluster that lies elsewhere is still there.
        anyhow::ensure!(
            relocated,
            "{} is missing, without which the cluster beside it can't be opened",
            path.display()
        );
        set_aside(&cluster).await?;
    }
    let password = random_password();
    // Mode 0600 is what a `NamedTempFile` has.
    let mut file = tempfile::NamedTempFile::new_in(data_dir).with_context(context)?;
    file.write_all(password.as_bytes()).with_context(context)?;
    file.as_file().sync_all().with_context(context)?;
    file.persist(&path).with_context(context)?;
    Ok(password)
}

/// Data are never deleted on a guess; one generation is kept.
async fn set_aside(cluster: &Path) -> anyhow::Result<()> {
    if let Some(running) = postmaster::find_running(cluster) {
        Postmaster::adopted(running.pid, 0, cluster).stop().await?;
    }
    let aside = cluster.with_extension("old");
    if aside.exists() {
        fs::remove_dir_all(&aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    }
    fs::rename(cluster, &aside)
        .with_context(|| format!("cannot move {} aside", cluster.display()))?;
    tracing::warn!(
        "the data folder was removed: moved its old cluster to {}",
        aside.display()
    );
    Ok(())
}

/// Removes what a crashed process left under a temporary name.
///
/// Failing to is no failure: an orphaned `initdb` may still be writing there, and the next start
/// tries again.
pub(super) fn remove_leftovers(dir: &Path, prefix: &str) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries.flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(prefix.as_bytes())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::debug!(%error, "cannot remove {}", entry.path().display());
        }
    }
    Ok(())
}

/// A folder that every account may enter, whatever the umask says.
pub(super) fn create_public_dir(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot create {}", path.display()))
}

/// FNV-1a of the path: the standard library's hashes may change between its releases.
fn name_of(data_dir: &Path) -> PathBuf {
    let hash = data_dir
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{hash:016x}").into()
}
