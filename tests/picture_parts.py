"""Pictures taken to their parts, and put together again with every length and checksum right."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.media_samples import png_chunk


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and data of each chunk."""
    place = 8
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        yield kind, data[place + 8 : place + 8 + length]
        place += 12 + length


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of chunks, with their right checksums."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks)


def gif_blocks(data: bytes) -> Iterator[bytes]:
    """The head, each block, and the trailer."""
    flags = data[10]
    place = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    yield data[:place]
    while data[place] != 0x3B:
        begin, flags = place, data[place + 9]
        place += 2 if data[place] == 0x21 else 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        while data[place]:
            place += data[place] + 1
        place += 1
        yield data[begin:place]
    yield data[place:]


def gif_image_data(block: bytes) -> tuple[bytes, bytes]:
    """An image block's head, up to the size of its codes, and its coded data."""
    place = head = 11 + (3 << (block[9] & 7) + 1 if block[9] & 0x80 else 0)
    coded = b""
    while block[place]:
        coded += block[place + 1 : place + 1 + block[place]]
        place += block[place] + 1
    return block[:head], coded


def gif_image(head: bytes, coded: bytes) -> bytes:
    """An image block of what `gif_image_data` gives."""
    pieces = (coded[start : start + 255] for start in range(0, len(coded), 255))
    return head + b"".join(bytes([len(piece)]) + piece for piece in pieces) + b"\0"


def riff_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and data of each chunk of a WebP."""
    place = 12
    while place < len(data):
        kind, length = struct.unpack("<4sI", data[place : place + 8])
        yield kind, data[place + 8 : place + 8 + length]
        place += 8 + length + length % 2


def webp(*chunks: tuple[bytes, bytes]) -> bytes:
    """A WebP of chunks, with their right lengths."""
    body = b"WEBP" + b"".join(
        kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for kind, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body
