"""Headers of safetensors files: eight bytes of length, then JSON (huggingface/safetensors)."""

from pathlib import Path

import msgspec

from adapters.reader.source import Unreadable, decode, open_file, reason
from adapters.reader.tensor import Tensor

# Bytes; the format allows 100 MB. 60 layers of 384 experts, each with three matrices of a weight,
# a scale and a shape, are 207 360 tensors: 36 MB if one file held them all, which none does.
LARGEST_HEADER = 64 << 20
MOST_TENSORS = 500_000


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


_DECODER = msgspec.json.Decoder(_Entry)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file by name.

    Raises Unreadable, also for a file that ends before its last tensor (an unfinished download).
    """
    file, size = open_file(path)
    with file:
        try:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise Unreadable(f"its header claims {length} bytes of {size}")
            if length > LARGEST_HEADER:
                raise Unreadable(f"its header of {length} bytes is too large to be one")
            header = decode(file.read(length), dict[str, msgspec.Raw])
        except OSError as error:
            raise Unreadable(reason(error)) from error
    header.pop("__metadata__", None)
    if len(header) > MOST_TENSORS:
        raise Unreadable(f"{len(header)} tensors, more than the {MOST_TENSORS} that are read")
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    end = max((entry.data_offsets[1] for entry in entries.values()), default=0)
    if 8 + length + end > size:
        missing = 8 + length + end - size
        raise Unreadable(f"{missing} bytes are missing at its end: is the download complete?")
    return {name: _tensor(entry) for name, entry in entries.items()}


def _entry(name: str, data: msgspec.Raw) -> _Entry:
    try:
        entry = _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise Unreadable(f"the tensor {name[:80]!r}: {error}") from error
    first, last = entry.data_offsets
    if not 0 <= first <= last or any(length < 0 for length in entry.shape):
        raise Unreadable(f"the tensor {name[:80]!r} has negative sizes")
    return entry


def _tensor(entry: _Entry) -> Tensor:
    first, last = entry.data_offsets
    return Tensor(tuple(entry.shape), entry.dtype, last - first)
