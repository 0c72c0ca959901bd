"""SQLite is refused where other hosts can have its files open, before anything is written there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from storage.network_disks import NETWORK_TYPES, file_system, mount_type
from tests.simulators.fuse import LOOKUP, MKDIR, in_namespace

ROOT = Path(__file__).parents[2]
OPEN_THERE = """
import json, sys
from pathlib import Path
from contracts.errors import StorageError
from storage.home import open_storage
from tests.simulators.fuse import mounted
folder = Path(sys.argv[1])
with mounted(folder, sys.argv[2]) as asked:
    try:
        open_storage(folder / "home")
    except StorageError as error:
        told = str(error)
    print(json.dumps([told, asked]))
"""
MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
41 22 0:38 / /srv/a\\040b rw,nosuid shared:9 master:3 - nfs4 10.0.0.1:/x rw,vers=4.2
42 22 0:39 / /srv/b rw - fuse.sshfs me@host:/ rw
4 22 0:40 / /tmp rw - tmpfs - rw
"""


def opened_on(folder: Path, kind: str) -> tuple[str, list[int]]:
    """How a storage is refused in a home on a file system of this type, and what was asked of that."""
    command = [*in_namespace(), sys.executable, "-c", OPEN_THERE, str(folder), kind]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "mount a fuse" in ended.stderr or "/dev/fuse" in ended.stderr or "unshare" in ended.stderr:
        pytest.skip(f"nothing can be mounted here: {ended.stderr.splitlines()[-1]}")
    told, asked = json.loads(ended.stdout)
    return told, asked


@pytest.mark.parametrize("kind", ["fuse.sshfs", "fuse.rclone", "fuse.glusterfs"])
def test_a_home_on_a_network_file_system_is_refused_before_it_is_written(tmp_path: Path, kind: str) -> None:
    """A real mount of that type is only looked at; the refusal names the type and both ways out."""
    told, asked = opened_on(tmp_path, kind)
    assert told.startswith(f"ledger-network-disk: the ledger's folder is on {kind}")
    assert "database_url" in told
    assert LOOKUP in asked
    assert MKDIR not in asked


def test_a_home_on_any_other_file_system_is_used(tmp_path: Path) -> None:
    """The same mount under a name that no network has is written to, and refuses that itself."""
    told, asked = opened_on(tmp_path, "fuse.ntfs-3g")
    assert told.startswith("disk: ")
    assert MKDIR in asked


@pytest.mark.parametrize(
    ("mount", "kind"), [(22, "ext4"), (41, "nfs4"), (42, "fuse.sshfs"), (4, "tmpfs"), (2, None)], ids=str
)
def test_the_mount_of_a_descriptor_is_found_by_its_id(mount: int, kind: str | None) -> None:
    """Whatever its path looks like, and however many fields are optional."""
    assert mount_type(f"pos:\t0\nflags:\t02\nmnt_id:\t{mount}\nino:\t2\n", MOUNTS) == kind


def test_a_kernel_that_names_no_mount_names_no_type() -> None:
    """Some sandboxes' kernels do not."""
    assert mount_type("pos:\t0\nflags:\t02\n", MOUNTS) is None


def test_a_folder_that_is_to_be_made_is_judged_by_what_is_there(tmp_path: Path) -> None:
    """The nearest folder above it decides; the one of this test is on no network."""
    kind = file_system(tmp_path / "not" / "yet")
    assert kind == file_system(tmp_path)
    assert kind not in NETWORK_TYPES
    assert file_system(Path("/proc/self")) == "proc"
