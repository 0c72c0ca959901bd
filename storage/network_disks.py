"""SQLite's files belong on a disk of this host: its write-ahead log is shared memory, and locks of a network file
system may do nothing (SQLite's documentation, "Write-Ahead Logging": all processes must be on the same host)."""

from __future__ import annotations

import os
from pathlib import Path

from contracts.errors import StorageError
from storage.disk_errors import disk_errors

NETWORK_TYPES = frozenset(
    {
        # As the kernel names them: `name` of struct file_system_type in linux/fs/*, and of the vendors' own modules.
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "coda", "ncpfs", "orangefs", "pvfs2"),
        *("lustre", "gpfs", "beegfs", "panfs", "wekafs", "glusterfs", "gfs", "gfs2", "ocfs2", "acfs", "vboxsf"),
        # `fuse.<subtype>`, as mount(8) of each says (fuse(8), option subtype); one that names none is not recognised.
        *("fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.goofys", "fuse.gcsfuse"),
        *("fuse.gcsfs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.juicefs", "fuse.JuiceFS", "fuse.mount-s3"),
        *("fuse.mountpoint-s3", "fuse.davfs", "fuse.davfs2", "fuse.curlftpfs", "fuse.smbnetfs", "fuse.mfs"),
        *("fuse.moosefs", "fuse.lizardfs", "fuse.seaweedfs", "fuse.weed", "fuse.cvmfs2", "fuse.grpcfuse"),
        *("fuse.hdfs", "fuse.fuse_dfs", "fuse.quobyte", "fuse.xtreemfs", "fuse.afs", "fuse.onedriver"),
    }
)
"""File systems whose files other hosts can have open too."""


def refuse_network_disk(folder: Path) -> None:
    """Refuse a folder, there or to be made, on a network file system. Writes nothing.

    Raises StorageError (`ledger-network-disk`). What cannot be told is let pass: only names that are known are refused.
    """
    kind = file_system(folder)
    if kind in NETWORK_TYPES:
        reason = f"the ledger's folder is on {kind}, where SQLite loses writes: expected a disk of this host"
        raise StorageError("ledger-network-disk", f"{reason}; set home to one, or database_url to a PostgreSQL")


def file_system(folder: Path) -> str | None:
    """The type of the file system that `folder` is or would be on, by mountinfo's name; None if /proc does not say."""
    with disk_errors("look at the ledger's folder"):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        descriptor = os.open(there, os.O_PATH | os.O_CLOEXEC)
    try:
        return mount_type(
            Path(f"/proc/self/fdinfo/{descriptor}").read_text("utf-8"),
            Path("/proc/self/mountinfo").read_text("utf-8", "replace"),
        )
    except OSError:
        return None
    finally:
        os.close(descriptor)


def mount_type(fdinfo: str, mountinfo: str) -> str | None:
    """The type of the mount that a descriptor is on (proc_pid_fdinfo(5), proc_pid_mountinfo(5))."""
    mount = next((line.split()[1] for line in fdinfo.splitlines() if line.startswith("mnt_id:")), None)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if before.split(" ", 1)[0] == mount:
            return after.split(" ", 1)[0]
    return None
