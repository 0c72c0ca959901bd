"""What the scans of a JPEG's frame cover (ISO/IEC 10918-1 §B.2, §G.1.1): of a scan that is missing no decoder warns."""

from __future__ import annotations

from struct import Struct

from contracts.errors import MediaRejected

_SEQUENTIAL, _PROGRESSIVE, _HUFFMAN = frozenset({0xC0, 0xC1, 0xC9}), frozenset({0xC2, 0xCA}), range(0xC0, 0xC3)
_HEAD = Struct(">4xxHHB")  # marker and length, precision, then height, width, number of components
_COMPONENT_BYTES, _SELECTOR_BYTES = 3, 2  # of each component in the header of a frame, of a scan
_COEFFICIENTS, _NEVER = 64, 0xFF


class Frame:
    """A frame by its header, a segment from its marker on: its sizes, its components' names, and what is missing yet.

    Raises MediaRejected `image-undecodable` where it is neither sequential nor progressive: lossless ones are nothing
    that an engine reads, and simplejpeg 1.9.0 writes them beyond its buffer when it reduces them.
    """

    def __init__(self, header: bytes) -> None:
        kind = header[1]
        if kind not in _SEQUENTIAL | _PROGRESSIVE:
            raise MediaRejected("image-undecodable", f"a JPEG frame {kind:#04x}, neither sequential nor progressive")
        self.is_huffman = kind in _HUFFMAN
        self._is_progressive = kind in _PROGRESSIVE
        self.height, self.width, count = _HEAD.unpack(header[: _HEAD.size].ljust(_HEAD.size, b"\0"))
        self.components = header[_HEAD.size : _HEAD.size + count * _COMPONENT_BYTES : _COMPONENT_BYTES]
        self._low_bits = [bytearray([_NEVER]) * _COEFFICIENTS for _ in self.components]

    def cover(self, scan: bytes) -> None:
        """Count what `scan`, from its marker on, brings. Whether its blocks are there is a decoder's to say."""
        end = 5 + int.from_bytes(scan[4:5], "big") * _SELECTOR_BYTES
        first, last, bits = scan[end : end + 3].ljust(3, b"\0")
        if not self._is_progressive:
            first, last, bits = 0, _COEFFICIENTS - 1, 0
        last = min(last, _COEFFICIENTS - 1)
        for name in scan[5:end:_SELECTOR_BYTES]:
            if (place := self.components.find(name)) >= 0:
                self._low_bits[place][first : last + 1] = bytes([bits & 0x0F]) * (last + 1 - first)

    def check(self, end: int) -> None:
        """Raises MediaRejected `image-truncated` where a coefficient lacks bits; `end` is where the picture ends."""
        for number, low_bits in enumerate(self._low_bits, 1):
            if lacking := sum(map(bool, low_bits)):
                reason = f"{lacking} of the {_COEFFICIENTS} coefficients of component {number}"
                raise MediaRejected("image-truncated", f"the picture that ends at byte {end} lacks scans: {reason}")
