"""Headers of safetensors files: eight bytes of length, then JSON (huggingface/safetensors)."""

from pathlib import Path
from typing import Any

import msgspec

from adapters.reader.source import Unreadable, decode, open_file, reason
from adapters.reader.tensor import Tensor

LARGEST_HEADER = 100_000_000  # bytes; the format's own limit


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file by name.

    Raises Unreadable, also for a file that ends before its last tensor (an unfinished download).
    """
    file, size = open_file(path)
    with file:
        try:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, LARGEST_HEADER):
                raise Unreadable(f"its header claims {length} bytes of {size}")
            header = decode(file.read(length), dict[str, Any])
        except OSError as error:
            raise Unreadable(reason(error)) from error
    header.pop("__metadata__", None)
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    end = max((entry.data_offsets[1] for entry in entries.values()), default=0)
    if 8 + length + end > size:
        missing = 8 + length + end - size
        raise Unreadable(f"{missing} bytes are missing at its end: is the download complete?")
    return {name: _tensor(entry) for name, entry in entries.items()}


def _entry(name: str, data: Any) -> _Entry:
    try:
        entry = msgspec.convert(data, _Entry)
    except msgspec.ValidationError as error:
        raise Unreadable(f"the tensor {name[:80]!r}: {error}") from error
    first, last = entry.data_offsets
    if not 0 <= first <= last or any(length < 0 for length in entry.shape):
        raise Unreadable(f"the tensor {name[:80]!r} has negative sizes")
    return entry


def _tensor(entry: _Entry) -> Tensor:
    first, last = entry.data_offsets
    return Tensor(tuple(entry.shape), entry.dtype, last - first)
