"""Names of the tensors in PyTorch's zip files, taken from the pickle without running it."""

import lzma
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from adapters.reader.source import Unreadable, open_file, reason
from adapters.reader.tensor import Tensor

LARGEST_PICKLE = 4 << 20  # bytes; a head's has a few thousand
_ENDINGS = (".weight", ".bias", "d2t", "t2d")
# RuntimeError is an encrypted member or an unknown compression (NotImplementedError), bz2 raises
# OSError; genops of Python 3.11 lets out ValueError and what struct and lookups raise.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    ValueError,
    RuntimeError,
    EOFError,
    LookupError,
    OverflowError,
)


def read_pickled(path: Path) -> tuple[dict[str, Tensor], int]:
    """Tensors by name, without shape or size, and the file's size in bytes. Raises Unreadable."""
    file, size = open_file(path)
    with file:
        try:
            with zipfile.ZipFile(file) as archive:
                names = set(_strings(_pickle(archive)))
        except OSError as error:
            raise Unreadable(reason(error)) from error
        except _BROKEN as error:
            raise Unreadable(f"not a PyTorch zip file: {error}") from error
    found = sorted(name for name in names if name.endswith(_ENDINGS))
    return {name: Tensor((), "", 0) for name in found}, size


def _pickle(archive: zipfile.ZipFile) -> bytes:
    name = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
    if name is None:
        raise Unreadable("no data.pkl in it")
    with archive.open(name) as member:
        data = member.read(LARGEST_PICKLE + 1)
    if len(data) > LARGEST_PICKLE:
        raise Unreadable(f"its list of tensors is longer than {LARGEST_PICKLE} bytes")
    return data


def _strings(data: bytes) -> Iterator[str]:
    for _, value, _ in pickletools.genops(data):
        if isinstance(value, str):
            yield value
