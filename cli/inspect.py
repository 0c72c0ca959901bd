"""`mosaic inspect`: what a file is, and what can be made of it, by the same confined decoders as in a run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.arguments import regular_files
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table, say
from contracts.artifact import MEDIA_TYPES, Modality
from contracts.errors import EvidenceError, InputError, NeedMissing, StorageError
from contracts.signatures import HEAD_BYTES, signature_of

if TYPE_CHECKING:
    from contracts.derivation import Derivation
    from contracts.records import Derivative
    from intake.decoders import DecoderPool

_Row = dict[str, Any]
_AHEAD = 2  # files sealed and waiting, so that no decoder does
_TOLD_LEAST = 50  # files between two signs of life


def inspect(
    files: Annotated[list[Path], typer.Argument(help="Files to decode.", exists=True, dir_okay=False)],
    modality: Annotated[
        Modality | None, typer.Option("--as", help="What the file is a part for; guessed if absent.")
    ] = None,
    derive: Annotated[
        str | None,
        typer.Option(help="What to make of each: image:max_side=768, audio:rate=16000, video:times=0.5;1.5, …"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for derivatives, each named by its sha256; made if missing.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sniff and fully decode files inside bounds, in a sandbox. Exit 1 if any is rejected."""
    making = _making(derive, out, modality)
    chosen = modality if making is None else making.recipe.modality
    if asyncio.run(_all(regular_files(files), chosen, making, as_json)):
        raise typer.Exit(SOME_FAILED)


@dataclass(frozen=True, slots=True)
class _Making:
    """What is made of each file, and where it goes."""

    recipe: Derivation
    folder: Path


def _making(spec: str | None, folder: Path | None, modality: Modality | None) -> _Making | None:
    from contracts.derivation_spec import parse_derivation

    if spec is None and folder is None:
        return None
    if spec is None or folder is None:
        missing = "--derive" if spec is None else "--out"
        raise InputError("derive-options", f"expected --derive SPEC and --out DIR together, {missing} is missing")
    recipe = parse_derivation(spec)
    if modality not in (None, recipe.modality):
        raise InputError("derive-options", f"expected --as {recipe.modality.value} or none beside --derive {spec}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("out-folder", f"expected a folder that can be written, got {str(folder)!r}") from error
    return _Making(recipe, folder)


async def _all(files: list[Path], modality: Modality | None, making: _Making | None, as_json: bool) -> int:
    """Print what became of each file, in the order given; returns how many were rejected."""
    from intake.decoders import DecoderPool
    from settings.load import load

    settings, rejected, shown = load(), 0, list[list[str]]()
    columns = ("file", "verdict", "rule", "reason", *(() if making is None else ("derivative",)), "ms")
    step = max(_TOLD_LEAST, len(files) // 10)
    workers = min(settings.decode_workers, len(files))
    async with (
        DecoderPool(
            limits=settings.limits,
            workers=workers,
            strict=settings.strict_decoders,
            unsafe=settings.unsafe_isolation,
        ) as pool,
        aclosing(
            _rows(lambda file: _one(pool, file, modality, making), files, settings.decode_workers + _AHEAD)
        ) as rows,
    ):
        async for row in rows:
            rejected += row["verdict"] == "reject"
            if as_json:
                print_json(row)
                continue
            cells = row | {"derivative": (row.get("derivative") or {}).get("file")}
            shown.append([cells[name] or "" for name in columns])
            if len(shown) % step == 0:
                say(f"{len(shown)}/{len(files)}: {rejected} rejected")
    if not as_json:
        print_table("inspection", columns, shown)
    return rejected


async def _rows(
    one: Callable[[Path], Coroutine[Any, Any, _Row]], files: list[Path], ahead: int
) -> AsyncGenerator[_Row, None]:
    """Rows in the files' order, of which up to `ahead` more are in work."""
    waiting = deque[asyncio.Task[_Row]]()
    try:
        for file in files:
            waiting.append(asyncio.create_task(one(file)))
            if len(waiting) > ahead:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _one(pool: DecoderPool, path: Path, modality: Modality | None, making: _Making | None) -> _Row:
    row: _Row = {
        "file": str(path), "verdict": "reject", "rule": None, "reason": None,
        "artifact": None, "findings": {}, "layers": [], "ms": None,
    }  # fmt: skip
    if making is not None:
        row["derivative"] = None
    try:
        with path.open("rb") as file:
            chosen = modality or _guess(file.read(HEAD_BYTES))
            file.seek(0)
            found = await pool.inspect(file.fileno(), modality=chosen, derive=None if making is None else making.recipe)
    except OSError as error:
        return row | {"rule": "unreadable", "reason": error.strerror}
    except (NeedMissing, StorageError):
        raise
    except EvidenceError as error:
        return row | {"rule": error.rule, "reason": error.reason}
    if making is not None and found.derivative is not None:
        made = await asyncio.to_thread(_keep, found.derivative, making)
        row |= {"derivative": made}
    return row | {
        "verdict": "accept",
        "artifact": found.artifact.to_json(),
        "findings": found.findings,
        "layers": list(found.layers),
        "ms": round(found.ms, 1),
    }


def _keep(made: Derivative, making: _Making) -> dict[str, Any]:
    """Write a derivative under the name that its digest gives it, whole or not at all."""
    from contracts.artifact import Artifact
    from contracts.digest import Digest
    from storage.disk_errors import disk_errors
    from storage.incoming import incoming

    artifact = Artifact(Digest.of(made.data), len(made.data), made.media_type, making.recipe.modality)
    path = making.folder / artifact.staged_name
    with incoming(making.folder) as file, disk_errors("write a derivative"):
        file.write(made.data)
        file.replace(path)
    return {
        "file": str(path),
        "digest": str(artifact.digest),
        "size_bytes": artifact.size_bytes,
        "media_type": artifact.media_type,
        "transformation": made.transformation,
    }


def _guess(head: bytes) -> Modality:
    """By our own signature; what has none is tried as an image, and refused by the name of what it is."""
    known = MEDIA_TYPES.get(signature_of(head) or "")
    return next(_in_order(known.modalities)) if known else Modality.IMAGE


def _in_order(modalities: frozenset[Modality]) -> Iterator[Modality]:
    return (modality for modality in Modality if modality in modalities)
