"""Ports of the stack: free ones that stay, or those that were asked for."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from contracts.errors import NeedMissing
from stack.ports import INTERNAL, PUBLIC, choose_ports, listening


def test_chosen_ports_stay(tmp_path: Path) -> None:
    """Each name has a port of its own, the same one the next time."""
    kept = tmp_path / "ports.json"
    first = choose_ports(kept, {})
    assert first.keys() == {*PUBLIC, *INTERNAL}
    assert len(set(first.values())) == len(first)
    assert choose_ports(kept, {}) == first


def test_a_kept_port_that_is_taken_is_chosen_anew(tmp_path: Path) -> None:
    """The others stay as they were."""
    kept = tmp_path / "ports.json"
    first = choose_ports(kept, {})
    with socket.create_server(("127.0.0.1", first["s3"])):
        second = choose_ports(kept, {})
    assert {name for name in first if first[name] != second[name]} == {"s3"}


def test_a_configured_port(tmp_path: Path) -> None:
    """It is taken as it is, before the kept one; where it is not free, its setting is named."""
    kept = tmp_path / "ports.json"
    choose_ports(kept, {})
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(NeedMissing, match=r"ports\.prefect"):
            choose_ports(kept, {"prefect": port})
    assert choose_ports(kept, {"prefect": port})["prefect"] == port


@pytest.mark.parametrize("text", ["", "[]", "{", json.dumps({"s3": "x"})])
def test_a_damaged_file_is_no_reason_to_stop(tmp_path: Path, text: str) -> None:
    """Ports are chosen anew."""
    kept = tmp_path / "ports.json"
    kept.write_text(text)
    assert choose_ports(kept, {}).keys() == {*PUBLIC, *INTERNAL}


def test_who_still_listens() -> None:
    """Only ports that answer are named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listening({"open": port}) == {"open": port}
    assert listening({"closed": port}) == {}
