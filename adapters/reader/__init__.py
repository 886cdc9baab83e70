"""What local files say of a model or a head. Like reading.py, this part of adapters reads files."""

import os
import stat
from pathlib import Path

from adapters.checkpoint import Checkpoint
from adapters.reader.gguf import MAGIC
from adapters.reader.gguf_model import read_file
from adapters.reader.huggingface import read_folder
from adapters.reader.source import Unreadable, open_file, reason


def read_checkpoint(path: str) -> Checkpoint | None:
    """The facts of a local folder or GGUF file; None where nothing is at the path (a hub id).

    Never raises: a file that is broken, or not to be read, is told in `silent`. Only headers,
    metadata and tokenizers are read, no weights.
    """
    if not path or "\0" in path or not os.path.lexists(path):
        return None
    place = Path(path)
    try:
        mode = place.stat().st_mode
        if stat.S_ISDIR(mode):
            return read_folder(place)
        if path.endswith(".gguf") or _magic(place) == MAGIC:
            return read_file(place)
    except OSError as error:
        return _silent(path, reason(error))
    except Unreadable as error:
        return _silent(path, str(error))
    return _silent(path, "neither a folder nor a GGUF file")


def _magic(path: Path) -> bytes:
    file, _ = open_file(path)
    with file:
        return file.read(4)


def _silent(path: str, why: str) -> Checkpoint:
    return Checkpoint(path, "gguf" if path.endswith(".gguf") else "huggingface", silent=(why,))
