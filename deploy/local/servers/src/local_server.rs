//! Common parts of the servers that linkledger starts on this machine: the lock on a data folder, a
//! free port, and the log of one run.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions};
use std::hash::BuildHasher as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// Maximum number of ports that a start tries: another process may take a free port before the
/// server listens.
pub(crate) const PORT_ATTEMPTS_MAX: u32 = 5;
/// Ports of the servers that linkledger starts: Linux takes ports of outgoing connections from 32768
/// on, macOS from 49152 on.
const SERVER_PORTS: Range<u16> = 20_000..30_000;
/// Ports of [`free_address`], apart from `SERVER_PORTS`: a server that starts meanwhile, in any process,
/// takes none of them.
const ADDRESS_PORTS: Range<u16> = 10_000..20_000;
const _: () = assert!(ADDRESS_PORTS.end <= SERVER_PORTS.start);
/// Maximum number of ports that are looked at for a free one.
const FREE_PORT_ATTEMPTS_MAX: u32 = 100;
/// Largest log that a start keeps; a larger log is truncated.
const LOG_SIZE_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Locks the data folder for this process until the returned value is dropped.
///
/// # Errors
/// Returns an error if another process holds the lock, or the lock file cannot be opened.
pub(crate) fn lock(data_dir: &Path) -> anyhow::Result<Flock<File>> {
    let path = data_dir.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        if errno == Errno::EWOULDBLOCK {
            anyhow::anyhow!(
                "{} is in use by another linkledger process; end that process, or choose another folder",
                data_dir.display()
            )
        } else {
            anyhow::anyhow!("cannot lock {}: {errno}", path.display())
        }
    })
}

/// Returns a port of 127.0.0.1 that no process uses at the moment, for a server that tries another port
/// if this one is taken. The port is below the range from which Linux takes the ports of outgoing
/// connections, so a server that restarts can have the port again.
///
/// # Errors
/// Returns an error if many ports, taken at random, are all in use.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    random_port(SERVER_PORTS, |_| true)
}

/// Returns an address of 127.0.0.1 that no process uses, and that no earlier call of this process
/// returned: a service may bind the address late, and only this address.
///
/// # Errors
/// Returns an error if many ports, taken at random, are all in use.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    static RETURNED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let port = random_port(ADDRESS_PORTS, |port| {
        let mut returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
        returned.insert(port)
    })?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Returns a port of the range that can be bound, and that `accept` returns true for.
fn random_port(ports: Range<u16>, accept: impl Fn(u16) -> bool) -> anyhow::Result<u16> {
    for _ in 0..FREE_PORT_ATTEMPTS_MAX {
        // Each `RandomState` has keys of its own: random enough for processes not to meet.
        let random = RandomState::new().hash_one(std::process::id());
        let offset = random % u64::from(ports.end - ports.start);
        let port = ports.start + u16::try_from(offset)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && accept(port) {
            return Ok(port);
        }
    }
    anyhow::bail!(
        "no free port on 127.0.0.1 between {} and {}",
        ports.start,
        ports.end
    )
}

/// Log of one run of a server, within a file that has the logs of many runs.
#[derive(Debug)]
pub(crate) struct RunLog {
    path: PathBuf,
    start: u64,
}

impl RunLog {
    /// Opens the log file for a new run. Returns the log of the run, and the file to append to.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, File)> {
        let context = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let file = options.open(path).with_context(context)?;
        let mut start = file.metadata().with_context(context)?.len();
        if start > LOG_SIZE_MAX_BYTES {
            file.set_len(0).with_context(context)?;
            start = 0;
        }
        Ok((
            Self {
                path: path.to_owned(),
                start,
            },
            file,
        ))
    }

    /// Reads the log of the run. Returns an empty text if the file cannot be read, because the log
    /// only explains a failure.
    pub(crate) fn text(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.start))?;
            file.read_to_end(&mut bytes)
        });
        if let Err(error) = read {
            tracing::debug!(%error, "cannot read {}", self.path.display());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
