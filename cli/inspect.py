"""`mosaic inspect`: what a file is, decided by the same confined decoders as in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.arguments import regular_files
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table
from contracts.artifact import MEDIA_TYPES, Modality
from contracts.errors import EvidenceError, NeedMissing, StorageError

if TYPE_CHECKING:
    from intake.decoders import DecoderPool


def inspect(
    files: Annotated[list[Path], typer.Argument(help="Files to decode.", exists=True, dir_okay=False)],
    modality: Annotated[
        Modality | None, typer.Option("--as", help="What the file is a part for; guessed if absent.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sniff and fully decode files inside bounds, in a sandbox. Exit 1 if any is rejected."""
    rows = asyncio.run(_all(regular_files(files), modality, as_json))
    if not as_json:
        shown = ("file", "verdict", "rule", "reason", "ms")
        print_table("inspection", shown, ([row[name] or "" for name in shown] for row in rows))
    if any(row["verdict"] == "reject" for row in rows):
        raise typer.Exit(SOME_FAILED)


async def _all(files: list[Path], modality: Modality | None, as_json: bool) -> list[dict[str, Any]]:
    from intake.decoders import DecoderPool
    from settings.load import load

    settings, rows = load(), []
    async with DecoderPool(limits=settings.limits, workers=1) as pool:
        for file in files:
            row = await _one(pool, file, modality)
            rows.append(row)
            if as_json:
                print_json(row)
    return rows


async def _one(pool: DecoderPool, path: Path, modality: Modality | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": str(path), "verdict": "reject", "rule": None, "reason": None,
        "artifact": None, "findings": {}, "layers": [], "ms": None,
    }  # fmt: skip
    try:
        with path.open("rb") as file:
            chosen = modality or _guess(file.read(16))
            file.seek(0)
            found = await pool.inspect(file.fileno(), modality=chosen)
    except OSError as error:
        return row | {"rule": "unreadable", "reason": error.strerror}
    except (NeedMissing, StorageError):
        raise
    except EvidenceError as error:
        return row | {"rule": error.rule, "reason": error.reason}
    return row | {
        "verdict": "accept",
        "artifact": found.artifact.to_json(),
        "findings": found.findings,
        "layers": list(found.layers),
        "ms": round(found.ms, 1),
    }


def _guess(head: bytes) -> Modality:
    """By our own signature; what has none is tried as an image, and refused by the name of what it is."""
    from contracts.signatures import signature_of

    known = MEDIA_TYPES.get(signature_of(head) or "")
    return next(_in_order(known.modalities)) if known else Modality.IMAGE


def _in_order(modalities: frozenset[Modality]) -> Iterator[Modality]:
    return (modality for modality in Modality if modality in modalities)
