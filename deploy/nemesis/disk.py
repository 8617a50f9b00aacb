"""Disks of Postgres and the brokers: small file systems in memory, which can be filled, and a library that makes writes and
syncs slow."""

import errno
import os
import pathlib
import re
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SMALLEST_BYTES = 4096


def can_mount(size_bytes):
    """Returns true if this process may mount disks of the size, which are in memory: not every root may, for instance not
    in a container."""
    memory = pathlib.Path("/proc/meminfo").read_text()
    if 1024 * int(re.search(r"MemAvailable: +(\d+) kB", memory)[1]) < size_bytes:
        return False
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], stderr=subprocess.DEVNULL).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True


class Disk:
    """A tmpfs at a folder."""

    def __init__(self, folder, size_bytes):
        self.folder, self.filler = folder, folder / "filler"
        folder.mkdir(exist_ok=True)
        options = f"size={size_bytes},mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)

    def fill(self):
        """Takes all free bytes, up to the last page."""
        step = os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_frsize
        with self.filler.open("wb") as filler:
            while step >= SMALLEST_BYTES:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), step)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2

    def free(self):
        self.filler.unlink()

    def end(self):
        # Lazily: a process that was killed a moment ago may still have files open. What is left mounted is named.
        if subprocess.run(["umount", "--lazy", self.folder]).returncode:
            print(f"   still mounted: {self.folder}", flush=True)


class Slowness:
    """Time that a sync of a disk takes. The processes that use the disk get the environment."""

    def __init__(self, folder, name):
        self.file = folder / f"{name}.slow"
        self.set(0)
        library = folder / "slow_disk.so"
        if not library.exists():
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "slow_disk.c", "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "SLOW_DISK": str(self.file)}

    def set(self, seconds):
        """Sets the time of a sync, in place: processes have mapped the file."""
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("=I", round(1000 * seconds)))
