"""Small file systems in memory, which can be filled: a full disk for Postgres or a broker."""

import errno
import os
import subprocess
import tempfile

SMALLEST_BYTES = 4096


def can_mount():
    """Returns true if this process may mount: not every root may, for instance not in a container."""
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
        # Lazily: a process that was killed a moment ago may still have files open.
        subprocess.run(["umount", "--lazy", self.folder], check=True)
