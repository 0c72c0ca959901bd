"""A program for the tests: the parent of an attacker, in the fetcher's or a decoder's place. Prints what came of every
attack.

`confined|decoder|unconfined view|all HOME`: HOME stands for our state: files anybody may read and write, but for the
layers.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import msgspec

from contracts.limits import Limits
from intake.fetch_session import ENVIRONMENT, VIEW
from intake.frames import Configure, memory_file
from sandbox.spawn import Child, spawn

ROOT = Path(__file__).resolve().parents[2]
FATAL = {"execute a program", "execute the interpreter", "trace the parent", "trace itself"}
"""What the filter answers with the attacker's death, so each has an attacker of its own."""

# sentence: (attack, word); {home} is our state, {parent} our process id, {repository} the code.
ATTACKS: dict[str, tuple[str, str]] = {
    "read the list of users": ("read", "/etc/passwd"),
    "read the secrets of users": ("read", "/etc/shadow"),
    "read its environment": ("read", "/proc/self/environ"),
    "read its memory": ("read", "/proc/self/mem"),
    "write its memory": ("write", "/proc/self/mem"),
    "list its descriptors": ("list", "/proc/self/fd"),
    "read the parent's environment": ("read", "/proc/{parent}/environ"),
    "read the parent's command line": ("read", "/proc/{parent}/cmdline"),
    "read the environment of process 1": ("read", "/proc/1/environ"),
    "list all processes": ("list", "/proc"),
    "list our state": ("list", "{home}"),
    "list the store": ("list", "{home}/store"),
    "read a blob": ("read", "{home}/store/blob"),
    "read the ledger": ("read", "{home}/ledger.sqlite"),
    "read the code's settings": ("read", "{repository}/settings/values.py"),
    "read its own code": ("read", "{repository}/intake/fetcher.py"),
    "list the root folder": ("list", "/"),
    "list the home of root": ("list", "/root"),
    "write over a blob": ("write", "{home}/store/blob"),
    "write over the ledger": ("write", "{home}/ledger.sqlite"),
    "write beside a blob": ("write beneath", "{home}/store"),
    "write into the folder for all": ("write beneath", "/tmp"),
    "write into shared memory": ("write beneath", "/dev/shm"),
    "write into the root folder": ("write beneath", "/"),
    "write into the code": ("write beneath", "{repository}/sandbox"),
    "write over the resolver's file": ("write", "/etc/hosts"),
    "remove a blob": ("remove", "{home}/store/blob"),
    "rename a blob": ("rename", "{home}/store/blob"),
    "truncate the ledger": ("truncate", "{home}/ledger.sqlite"),
    "change a blob's mode": ("change the mode of", "{home}/store/blob"),
    "make a folder": ("make a folder beneath", "{home}"),
    "make a link": ("make a link to", "{home}/store/blob"),
    "make a pipe with a name": ("make a pipe with a name", "{home}/store/blob"),
    "execute a program": ("exec", "/bin/true"),
    "execute the interpreter": ("exec", sys.executable),
    "trace the parent": ("ptrace", "{parent}"),
    "trace itself": ("ptrace", "0"),
    "fork": ("fork", ""),
    "fork in another way": ("vfork", ""),
    "read the parent's memory": ("read memory of", "{parent}"),
    "read the parent's memory as a file": ("read", "/proc/{parent}/mem"),
    "write the parent's memory as a file": ("write", "/proc/{parent}/mem"),
    "kill the parent": ("kill", "{parent}"),
    "kill a thread of the parent": ("kill a thread of", "{parent}"),
    "kill every process": ("kill every process", ""),
    "hold a handle of the parent": ("open a handle of", "{parent}"),
    "have the parent signalled": ("take signals for", "{parent}"),
    "change the parent's limits": ("change the limits of", "{parent}"),
    "listen on TCP": ("listen on TCP", ""),
    "listen on TCP over IPv6": ("listen on TCP over IPv6", ""),
    "listen without a bind": ("listen without a bind", ""),
    "bind UDP": ("bind UDP", ""),
    "make a UNIX socket": ("make a UNIX socket", ""),
    "make a UNIX socket pair": ("make a UNIX socket pair", ""),
    "make a netlink socket": ("make a netlink socket", ""),
    "make a raw socket": ("make a raw socket", ""),
    "make a raw socket over IPv6": ("make a raw socket over IPv6", ""),
    "make a packet socket": ("make a packet socket", ""),
    "make a ping socket": ("make a ping socket", ""),
    "make a multipath socket": ("make a multipath socket", ""),
    "make a VM socket": ("make a VM socket", ""),
    "make a cipher socket": ("make a cipher socket", ""),
    "set up io_uring": ("set up io_uring", ""),
    "read a keyring": ("read a keyring", ""),
    "add a key": ("add a key", ""),
    "load a BPF program": ("load a BPF program", ""),
    "count events": ("count events", ""),
    "handle page faults": ("handle page faults", ""),
    "unshare users": ("unshare users", ""),
    "unshare mounts": ("unshare mounts", ""),
    "mount": ("mount", ""),
    "bind a new root": ("bind a new root", ""),
    "change its root": ("chroot", ""),
    "open by handle": ("open by handle", ""),
    "become root": ("become root", ""),
    "load a kernel module": ("load a kernel module", ""),
    "set the host name": ("set the host name", ""),
    "push input to a terminal": ("push input to a terminal", ""),
    "make memory to run from": ("make memory to run from", ""),
}
WORKS_UNCONFINED = [
    *("read the list of users", "read its environment", "read the parent's environment", "list all processes"),
    *("list the store", "read the ledger", "list the root folder", "write over a blob", "write beside a blob"),
    *(
        "make a folder",
        "make a link",
        "fork",
        "fork in another way",
        "hold a handle of the parent",
        "execute a program",
    ),
    *("have the parent signalled", "listen on TCP", "listen without a bind", "bind UDP", "make a UNIX socket"),
    *("make a netlink socket", "make memory to run from"),
]
"""What an attacker without any confinement may try, to show that the attacks are real: it harms nobody."""
RIGHTS: dict[str, tuple[str, str]] = {
    "read the resolver's file": ("read what it may", "/etc/hosts"),
    "resolve a name": ("resolve", "localhost"),
    "connect over TCP": ("connect to", "{port}"),
    "write into a descriptor that it is given": ("write into a descriptor", ""),
    "allocate 8 MiB": ("allocate", str(8 << 20)),
}

ONLY_FETCHERS: dict[str, tuple[str, str]] = {
    **{sentence: RIGHTS[sentence] for sentence in ("read the resolver's file", "connect over TCP")},
    "make a TCP socket": ("make a TCP socket", ""),
    "make a UDP socket": ("make a UDP socket", ""),
    "have more memory": ("raise its limit of", "RLIMIT_AS"),
    "write more": ("raise its limit of", "RLIMIT_FSIZE"),
    "open more": ("raise its limit of", "RLIMIT_NOFILE"),
    "allocate what it has no memory for": ("allocate", str(1 << 30)),
}
"""What a decoder may not do, beside all that a fetcher may not."""


class Attacker:
    """A child, and our end of its channel."""

    def __init__(self, kind: str, seen: str) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(20)
        self.child: Child = spawn(
            "tests.intake.attacks",
            channel=theirs,
            arguments=[kind],
            environment=ENVIRONMENT,
            stderr=2,
            view=VIEW if seen == "view" else None,
        )
        with memory_file(b"") as anchors:
            configuration = msgspec.json.encode(Configure(asdict(Limits())))
            socket.send_fds(self.channel, [configuration], [anchors])
        self.layers = json.loads(self.channel.recv(4096))["layers"]
        self.facts = json.loads(self.channel.recv(4096))

    def attack(self, name: str, word: str) -> str:
        """How it went: `done`, an errno's name, or `killed`."""
        self.channel.sendall(json.dumps([name, word]).encode())
        if name == "write into a descriptor":
            return self._give_a_descriptor()
        said = self.channel.recv(64).decode()
        return said or ("killed" if self.child.kill() == -31 else "died")

    def _give_a_descriptor(self) -> str:
        with tempfile.TemporaryFile() as file:
            socket.send_fds(self.channel, [b"x"], [file.fileno()])
            said = self.channel.recv(64).decode()
            return said if file.read() == b"body" else f"{said}, but nothing was written"

    def end(self) -> None:
        """Kill it."""
        self.child.kill()
        self.channel.close()


def main() -> None:
    kind, seen, home = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0))
    words = {"home": home, "parent": os.getpid(), "repository": ROOT, "port": listener.getsockname()[1]}
    attacker = Attacker(kind, seen)
    environ = Path(f"/proc/{attacker.child.worker_pid}/environ")
    said = {"layers": attacker.layers, **attacker.facts, "user": os.getuid()}
    if os.getuid() == 0:  # others may not look at what is not dumpable
        said["environ"] = environ.read_text()
    outcomes = dict[str, str]()
    for sentence, (name, word) in {**ATTACKS, **RIGHTS, **ONLY_FETCHERS}.items():
        if kind == "unconfined" and sentence not in WORKS_UNCONFINED:
            continue
        if sentence in FATAL:
            victim = Attacker(kind, seen)
            outcomes[sentence] = victim.attack(name, word.format(**words))
            victim.end()
        else:
            outcomes[sentence] = attacker.attack(name, word.format(**words))
    attacker.end()
    print(json.dumps({**said, "outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    main()
