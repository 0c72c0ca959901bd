"""What the store and the leases cost, each beside the least that could do the same, in one run.

    .venv-test/bin/python -m bench.storage [commit] [read] [leases] [s3] [--rounds 3]

commit   100 KB blobs by 4 writers, against a bare temporary file + fsync + rename of the same bytes (goal: 1.2 x), that
         a power cut can leave without its name, and against the same with the directory's fsync
read     a verified read, against sha256 of the same bytes in memory (goal: 0.8 of its speed)
leases   acquire + release of 200 artifacts by 8 processes on SQLite (goal: 500 pairs/s, p99 50 ms, max/min 2), beside
         the same statements, links and locks by the bare driver, without any check
s3       100 KB puts by 8 threads to SeaweedFS, against bare boto3 with the same checks (goal: 0.9 of its speed)

Ways that are compared alternate, so that a busy machine is busy for both; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import os
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path

from contracts.artifact import Artifact, Modality
from contracts.digest import Digest
from storage.disk_blobs import DiskBlobStore
from storage.file_lock import file_lock
from storage.home import open_storage
from storage.incoming import sync_directory
from storage.s3_blobs import S3BlobStore, S3Store
from storage.s3_client import S3Client
from tests.services.seaweed import access_of, running_seaweed

BLOB_BYTES, BLOBS, WRITERS = 100_000, 400, 4
READ_BYTES = 64 << 20
LEASE_S, LEASE_PROCESSES, LEASE_ARTIFACTS = 5.0, 8, 200
S3_BLOBS, S3_THREADS = 400, 8
Way = Callable[[], object]


def seconds(way: Way) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    way()
    return time.perf_counter() - begin


def alternate(rounds: int, *ways: Way) -> list[float]:
    """The median seconds of each way."""
    taken: list[list[float]] = [[seconds(way) for way in ways] for _ in range(rounds)]
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def fresh_blobs(count: int) -> Iterator[list[bytes]]:
    """Lists of as many blobs that nobody stored yet."""
    while True:
        yield [os.urandom(BLOB_BYTES) for _ in range(count)]


def in_threads(threads: int, work: Callable[[bytes], object], blobs: list[bytes]) -> None:
    """`work` on each blob."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, blobs))


def commit(rounds: int) -> None:
    """Ours against the bare way."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder, numbers, blobs = Path(name), itertools.count(), fresh_blobs(BLOBS)
        store = DiskBlobStore(folder / "store")
        bare = folder / "bare"
        for shard in range(256):
            (bare / f"{shard:02x}").mkdir(parents=True)

        def bare_put(data: bytes) -> Path:
            number = next(numbers)
            temporary = bare / f"{number % 256:02x}" / f".{number}"
            with temporary.open("xb", buffering=0) as file:
                file.write(data)
                os.fsync(file.fileno())
            return temporary.rename(temporary.with_name(str(number)))

        in_threads(WRITERS, store.put, [os.urandom(100) for _ in range(2_000)])  # makes the folders
        ours, theirs, named = alternate(
            rounds,
            lambda: in_threads(WRITERS, store.put, next(blobs)),
            lambda: in_threads(WRITERS, bare_put, next(blobs)),
            lambda: in_threads(WRITERS, lambda data: sync_directory(bare_put(data).parent), next(blobs)),
        )
    rates = f"{BLOBS / ours:.0f}/s, bare {BLOBS / theirs:.0f}/s, bare with the name made durable {BLOBS / named:.0f}/s"
    ratios = f"{ours / theirs:.2f} x the bare time, {ours / named:.2f} x the time with the name"
    print(f"commit of {BLOB_BYTES} bytes, {WRITERS} writers: {rates}: {ratios}")


def read(rounds: int) -> None:
    """A verified read against the hash alone."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        store = DiskBlobStore(Path(name))
        data = os.urandom(READ_BYTES)
        digest, _ = store.put(data)

        def verified() -> None:
            with store.open(digest) as reader:
                reader.read_to_end()

        ours, theirs = alternate(rounds, verified, lambda: Digest.of(data))
    speeds = f"{READ_BYTES / ours / 1e6:.0f} MB/s, sha256 alone {READ_BYTES / theirs / 1e6:.0f} MB/s"
    print(f"verified read of {READ_BYTES >> 20} MiB: {speeds}: {theirs / ours:.2f} of its speed")


def lease_pairs(home: Path, artifacts: list[Artifact], seed: int) -> list[float]:
    """Acquire and release for a while; the seconds of each pair."""
    storage = open_storage(home)
    chosen = itertools.cycle(artifacts[seed * 25 :] + artifacts[: seed * 25])
    pairs: list[float] = []
    end = time.monotonic() + LEASE_S
    while time.monotonic() < end:
        begin = time.perf_counter()
        now = time.time()
        hold = storage.staging.acquire_all([next(chosen)], tenant="bench", holder=f"bench/{seed}", now=now, ttl_s=60)
        hold.release(now)
        pairs.append(time.perf_counter() - begin)
    storage.close()
    return pairs


BARE_TABLES = """CREATE TABLE copy (name TEXT PRIMARY KEY, state TEXT);
CREATE TABLE lease (fence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, name TEXT, holder TEXT, state TEXT);
CREATE INDEX live ON lease (name) WHERE state = 'active';"""
_BARE_CONDEMN = """UPDATE copy SET state = 'condemned' WHERE name = ?
AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.name = copy.name AND state = 'active')"""


@contextmanager
def bare_write(connection: sqlite3.Connection, lock: Path) -> Iterator[None]:
    """A write transaction in the kernel's queue."""
    with file_lock(lock):
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")


def bare_pairs(home: Path, artifacts: list[Artifact], seed: int) -> list[float]:
    """The same pairs with the driver alone."""
    connection = sqlite3.connect(home / "bare.sqlite", isolation_level=None, timeout=30)
    connection.execute("PRAGMA synchronous=NORMAL")
    chosen = itertools.cycle(artifacts[seed * 25 :] + artifacts[: seed * 25])
    pairs: list[float] = []
    end, queue = time.monotonic() + LEASE_S, home / "bare.lock"
    while time.monotonic() < end:
        begin = time.perf_counter()
        digest = next(chosen).digest.hex
        name, lock, path = f"{digest}.png", home / f"bare-{digest[:2]}", home / "bare" / f"{digest}.png"
        with file_lock(lock):
            with bare_write(connection, queue):
                connection.execute(
                    "INSERT INTO copy VALUES (?, 'staged') ON CONFLICT DO UPDATE SET state='staged'", (name,)
                )
                row = (uuid.uuid4().hex, name, f"bench/{seed}")
                connection.execute("INSERT INTO lease (id, name, holder, state) VALUES (?, ?, ?, 'active')", row)
            with suppress(FileExistsError):
                os.link(home / "blobs" / "sha256" / digest[:2] / digest, path)
        with file_lock(lock):
            with bare_write(connection, queue):
                connection.execute("UPDATE lease SET state = 'released' WHERE id = ? AND state = 'active'", row[:1])
                condemned = connection.execute(_BARE_CONDEMN, (name,)).rowcount
            if condemned:
                path.unlink()
                with bare_write(connection, queue):
                    connection.execute("DELETE FROM copy WHERE name = ? AND state = 'condemned'", (name,))
        pairs.append(time.perf_counter() - begin)
    connection.close()
    return pairs


def leases(_rounds: int) -> None:
    """How many pairs, how long they take, and whether anybody starves."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        home = Path(name)
        storage = open_storage(home)
        artifacts = []
        for _ in range(LEASE_ARTIFACTS):
            digest, size = storage.blobs.put(os.urandom(1_000))
            artifacts.append(Artifact(digest, size, "image/png", Modality.IMAGE))
        storage.close()
        (home / "bare").mkdir()
        bare = sqlite3.connect(home / "bare.sqlite")
        bare.executescript("PRAGMA journal_mode=WAL;" + BARE_TABLES)
        bare.close()
        given = [(home, artifacts, seed) for seed in range(LEASE_PROCESSES)]
        with get_context("spawn").Pool(LEASE_PROCESSES) as pool:
            for what, pairs in (("ours", lease_pairs), ("bare", bare_pairs)):
                tell_pairs(what, pool.starmap(pairs, given, chunksize=1))


def tell_pairs(what: str, each: list[list[float]]) -> None:
    """Their rate, tail and fairness."""
    taken = sorted(itertools.chain.from_iterable(each))
    counts = sorted(len(pairs) for pairs in each)
    p50, p99 = taken[len(taken) // 2] * 1e3, taken[len(taken) * 99 // 100] * 1e3
    told = f"p50 {p50:.1f}, p99 {p99:.1f}, max {taken[-1] * 1e3:.0f} ms; max/min {counts[-1] / counts[0]:.2f}"
    print(f"lease pairs, {LEASE_PROCESSES} processes, {what}: {len(taken) / LEASE_S:.0f}/s; {told}")


def s3(rounds: int) -> None:
    """Ours against boto3, which sends the same digest and asks for the same condition; both may use eight threads."""
    with tempfile.TemporaryDirectory() as name, running_seaweed(Path(name)) as server:
        server.bucket("bench")
        access = access_of(server.url)
        store = S3BlobStore(access, S3Store("bench"), spool=Path(name) / "spool")
        client, blobs = S3Client(access), fresh_blobs(S3_BLOBS)

        def bare_put(data: bytes) -> None:
            digest = Digest.of(data).hex
            checksum = base64.b64encode(bytes.fromhex(digest)).decode()
            client.get().put_object(
                Bucket="bench", Key=f"bare/{digest}", Body=data, IfNoneMatch="*", ChecksumSHA256=checksum
            )

        in_threads(S3_THREADS, store.put, next(blobs))  # the probe, and connections
        in_threads(S3_THREADS, bare_put, next(blobs))
        ours, theirs = alternate(
            rounds,
            lambda: in_threads(S3_THREADS, store.put, next(blobs)),
            lambda: in_threads(S3_THREADS, bare_put, next(blobs)),
        )
        store.close()
        client.close()
    rates = f"{S3_BLOBS / ours:.0f}/s, bare boto3 {S3_BLOBS / theirs:.0f}/s"
    print(f"S3 puts of {BLOB_BYTES} bytes, {S3_THREADS} threads: {rates}: {theirs / ours:.2f} of its speed")


PARTS: dict[str, Callable[[int], None]] = {each.__name__: each for each in (commit, read, leases, s3)}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.rounds)


if __name__ == "__main__":
    main()
