"""GGUF files: metadata and the list of tensors front to back (ggml-org/ggml, docs/gguf.md)."""

import math
import os
import struct
import sys
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from adapters.reader.source import Unreadable, open_file, reason
from adapters.reader.tensor import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
# Bounds that no real file comes near; they keep a broken one from taking minutes.
MOST_KEYS = 1 << 14
MOST_TENSORS = 1 << 16
MOST_STRINGS = 1 << 21
LONGEST_STRING = 16 << 20
MOST_DIMENSIONS = 8
LARGEST_HEADER = 256 << 20
# Numbers are kept up to this many: settings by layer, and the kind of each token.
MOST_NUMBERS = MOST_STRINGS
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    _BOOL: "?",
    10: "Q",
    11: "q",
    12: "d",
}
# Arrays whose values nobody here needs: they are stepped over.
_SKIPPED = frozenset({"tokenizer.ggml.merges", "tokenizer.ggml.scores"})
# Elements and bytes of a block by tensor type (ggml.h, ggml-common.h at b11434).
_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

Value: TypeAlias = "int | float | bool | str | list[str] | array[Any] | None"


@dataclass
class Gguf:
    """One file's header. A skipped array is None in `facts`; `problem` is what stopped the reading.

    What was read before a problem is kept.
    """

    facts: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    problem: str = ""


def read_gguf(path: Path) -> Gguf:
    """The header of one file. Raises Unreadable only where there is nothing of it."""
    file, size = open_file(path)
    with file:
        try:
            head = file.read(24)
            reader = _Reader(file, size - len(head))
            return _read(reader, *_counts(head))
        except OSError as error:
            raise Unreadable(reason(error)) from error


def _counts(head: bytes) -> tuple[int, int]:
    """Numbers of tensors and keys."""
    if head[:4] != MAGIC or len(head) < 24:
        raise Unreadable("not a GGUF file")
    version, tensors, keys = struct.unpack_from("<IQQ", head, 4)
    if version not in VERSIONS:
        swapped = int.from_bytes(head[4:8], "big") in VERSIONS
        kind = "a big-endian GGUF" if swapped else f"GGUF version {version}"
        raise Unreadable(f"{kind} is not read, only versions 2 and 3")
    if tensors > MOST_TENSORS or keys > MOST_KEYS:
        raise Unreadable(f"its header claims {tensors} tensors and {keys} keys")
    return tensors, keys


def _read(reader: "_Reader", tensors: int, keys: int) -> Gguf:
    found = Gguf()
    try:
        for _ in range(keys):
            key = reader.string()
            found.facts.setdefault(key, reader.value(reader.number("I"), key in _SKIPPED))
        end = 0
        for _ in range(tensors):
            name, tensor, last = reader.tensor()
            found.tensors[name] = tensor
            end = max(end, last)
    except Unreadable as error:
        found.problem = str(error)
        return found
    missing = end - (reader.left - reader.padding(found.facts.get("general.alignment")))
    if tensors and missing > 0:
        found.problem = f"{missing} bytes are missing at its end: is the download complete?"
    return found


class _Reader:
    """The bytes behind the position in a file, checked against what is left of it."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self.file = file
        self.left = left
        self.end = max(left - LARGEST_HEADER, 0)
        self.strings_left = MOST_STRINGS

    def take(self, size: int) -> bytes:
        self._reserve(size)
        data = self.file.read(size)
        if len(data) < size:
            raise Unreadable("the file got shorter while it was read")
        return data

    def _reserve(self, size: int) -> None:
        if size > self.left:
            raise Unreadable("its header ends early: the file is cut off or broken")
        self.left -= size
        if self.left < self.end:
            raise Unreadable(f"its header is longer than {LARGEST_HEADER} bytes")

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def string(self) -> str:
        length = self.number("Q")
        if length > LONGEST_STRING:
            raise Unreadable(f"its header claims a string of {length} bytes")
        return self.take(length).decode("utf-8", "backslashreplace")

    def value(self, kind: int, is_skipped: bool = False) -> Value:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.number("I"), self.number("Q"), is_skipped)
        return self.number(_form(kind))  # type: ignore[no-any-return]

    def _array(self, kind: int, count: int, is_skipped: bool) -> Value:
        if kind == _STRING:
            return self._strings(count, is_skipped)
        form = _form(kind)
        size = count * struct.calcsize(f"<{form}")
        if is_skipped or count > MOST_NUMBERS:
            self._reserve(size)
            self.file.seek(size, os.SEEK_CUR)
            return None
        values = array("B" if kind == _BOOL else form)
        values.frombytes(self.take(size))
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def _strings(self, count: int, is_skipped: bool) -> list[str] | None:
        """Written out in one loop: half a million calls more would be half a second."""
        if count > self.strings_left:
            raise Unreadable(f"its header claims an array of {count} strings")
        self.strings_left -= count
        read, left = self.file.read, self.left
        kept: list[str] = []
        for _ in range(count):
            length = int.from_bytes(read(8), "little")
            left -= 8 + length
            if left < self.end or length > LONGEST_STRING:
                raise Unreadable("its header ends early: the file is cut off or broken")
            text = read(length)
            if not is_skipped:
                kept.append(text.decode("utf-8", "backslashreplace"))
        self.left = left
        return None if is_skipped else kept

    def tensor(self) -> tuple[str, Tensor, int]:
        """Name, tensor and where it ends in the file's data, in bytes."""
        name = self.string()
        dimensions = self.number("I")
        if dimensions > MOST_DIMENSIONS:
            raise Unreadable(f"the tensor {name[:80]!r} has {dimensions} dimensions")
        form = f"<{dimensions}QIQ"
        *shape, kind, offset = struct.unpack(form, self.take(struct.calcsize(form)))
        if kind not in _TYPES:
            raise Unreadable(f"the tensor {name[:80]!r} has a type not known here, {kind}")
        dtype, elements, size = _TYPES[kind]
        taken = -(-math.prod(shape) // elements) * size
        return name, Tensor(tuple(reversed(shape)), dtype, taken), offset + taken

    def padding(self, alignment: Value) -> int:
        """Bytes between the header and the data."""
        unit = alignment if isinstance(alignment, int) and 0 < alignment <= 1 << 20 else ALIGNMENT
        return -self.file.tell() % unit


def _form(kind: int) -> str:
    if kind not in _SCALARS:
        raise Unreadable(f"its header has a value of type {kind}, which GGUF does not know")
    return _SCALARS[kind]
