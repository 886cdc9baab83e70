"""Opening what a checkpoint's path leads to: regular files only, and no more of them than asked."""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

LARGEST_JSON = 256 << 20  # bytes; tokenizers of 262k tokens take 33 MB
# In one JSON file: a value takes up to 200 bytes of memory and as few as 3 of the file. Gemma's
# tokenizers, the largest in use, have 1.6 million.
MOST_VALUES = 4_000_000
MOST_OBJECTS = 1_000_000  # where all of them are kept, and not only those of a known kind


class Unreadable(Exception):
    """A file that cannot be used, with the reason in words and without its name."""


def open_file(path: Path) -> tuple[BinaryIO, int]:
    """The file, opened for reading, and its size in bytes.

    Raises Unreadable. A pipe is not waited for: opening does not block.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(reason(error)) from error
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise Unreadable("not a regular file")
    return os.fdopen(handle, "rb", buffering=1 << 20), found.st_size


def read_json(path: Path, kind: Any = Any, largest: int = LARGEST_JSON) -> Any:
    """The file's JSON as `kind`, which msgspec decodes. Raises Unreadable."""
    file, size = open_file(path)
    with file:
        if size > largest:
            raise Unreadable(f"{size} bytes of JSON, more than the {largest} that are read")
        try:
            data = file.read(largest)
        except OSError as error:
            raise Unreadable(reason(error)) from error
    return decode(data, kind)


def decode(data: bytes, kind: Any = Any) -> Any:
    """JSON as `kind`. Raises Unreadable."""
    most = MOST_OBJECTS if kind is Any else MOST_VALUES
    if data.count(b",") >= most:  # all but the first of a list or mapping follow a comma
        raise Unreadable(f"more than {most} values of JSON: too large to be read")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise Unreadable(f"unexpected content: {error}") from error
    except msgspec.DecodeError as error:
        return _decode_python(data, kind, error)
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error


def _decode_python(data: bytes, kind: Any, refused: msgspec.DecodeError) -> Any:
    """Python writes NaN and Infinity, which JSON does not know: configs of Mamba models do."""
    if kind is not Any or not any(word in data for word in (b"NaN", b"Infinity")):
        raise Unreadable(f"not JSON: {refused}") from refused
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from error


def reason(error: OSError | ValueError) -> str:
    """The operating system's words without number and path."""
    words = getattr(error, "strerror", None) or str(error)
    return f"{words[:1].lower()}{words[1:]}"
