"""The text that the test models learn: Python's own standard library, with whole files held out."""

import hashlib
import sysconfig
from pathlib import Path

# Folders of programs and prose; tables of data (encodings, pydoc_data) and tests teach little.
_FOLDERS = (
    "asyncio collections concurrent ctypes curses dbm distutils email html http importlib json "
    "logging multiprocessing re sqlite3 tomllib unittest urllib venv wsgiref xml xmlrpc zoneinfo"
)
_HELD_OUT = (
    "bisect.py calendar.py configparser.py copy.py dataclasses.py fileinput.py graphlib.py "
    "heapq.py queue.py shelve.py statistics.py textwrap.py"
)
FOLDERS, HELD_OUT = _FOLDERS.split(), _HELD_OUT.split()
TESTS = {"test", "tests"}


def library() -> Path:
    """Folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def learnt_files() -> list[Path]:
    """The files that are learnt, in one order on every machine."""
    root = library()
    top = [path for path in root.glob("*.py") if path.name not in HELD_OUT]
    deep = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    return sorted(path for path in [*top, *deep] if is_learnt(path.relative_to(root)))


def is_learnt(path: Path) -> bool:
    """Neither a test nor a file that every machine writes anew."""
    return TESTS.isdisjoint(path.parts) and not path.name.startswith("_sysconfigdata")


def learnt() -> list[str]:
    """The text of every file that is learnt."""
    return [path.read_text(encoding="utf-8") for path in learnt_files() if path.stat().st_size]


def held_out() -> list[str]:
    """The text of every file that no model sees while it is trained."""
    return [(library() / name).read_text(encoding="utf-8") for name in HELD_OUT]


def digest(texts: list[str]) -> str:
    """SHA-256 of the texts in order: equal when another machine's Python has the same ones."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
