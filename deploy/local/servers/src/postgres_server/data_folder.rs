//! The data folder: the lock, the password, and the place of the cluster.

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

/// Folder of the clusters whose data folder the account of Postgres cannot enter.
const RELOCATION_ROOT: &str = "/var/lib/linkledger";

/// Data folder, locked for this process until this value is dropped.
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
        // An existing cluster is not moved, even if the permissions of the folders above change.
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

/// Reads the password of the cluster, or stores a new password for a cluster that does not exist.
async fn password(data_dir: &Path, home: &Path, relocated: bool) -> anyhow::Result<String> {
    let path = data_dir.join("postgres_password");
    let context = || format!("cannot read or write the password in {}", path.display());
    match fs::read_to_string(&path) {
        Ok(password) => return Ok(password.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(context),
    }
    let cluster = home.join(Cluster::DIR_NAME);
    if cluster.exists() {
        // The removal of the data folder has removed the password, and the user expects an empty
        // cluster; but a relocated cluster still exists.
        anyhow::ensure!(
            relocated,
            "{} is missing, and the cluster in the same folder cannot be opened without the password; \
             restore the file, or choose another folder",
            path.display()
        );
        set_aside(&cluster).await?;
    }
    let password = random_password();
    // A `NamedTempFile` has mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(data_dir).with_context(context)?;
    file.write_all(password.as_bytes()).with_context(context)?;
    file.as_file().sync_all().with_context(context)?;
    file.persist(&path).with_context(context)?;
    Ok(password)
}

/// Renames a cluster whose password is lost, and removes the cluster renamed before. The data of the
/// last cluster are kept, in case the data folder was removed by mistake.
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

/// Removes the folders that a crashed process left under a temporary name.
///
/// A folder that cannot be removed is no error: an orphaned `initdb` may still be writing, and the
/// next start retries.
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

/// Creates a folder that every account may enter, regardless of the umask.
pub(super) fn create_public_dir(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot create {}", path.display()))
}

/// Returns the FNV-1a hash of the path. The hashes of the standard library may change between
/// releases.
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
