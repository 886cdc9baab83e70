"""What draftgate remembers of one fleet on this machine: records of workers, states, logs.

Files are hints, never truth: whoever reads them checks the processes themselves.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from orchestrator.errors import OrchestratorError
from orchestrator.mark import created

T = TypeVar("T")

# Whoever asks whether a supervisor lives holds the lock for an instant: one look is not enough.
_LOCK_WAITS_S = (0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Record:
    """Written before a worker's process is started, completed with its pid after."""

    name: str
    token: str  # in the environment of every process of the worker
    launch: str  # digest of the whole launch: argv, env, files
    port: int
    pid: int | None = None
    created: float | None = None  # mark of the process's start: orchestrator/process.py
    log: str = ""


@dataclass(frozen=True)
class WorkerState:
    """A snapshot of one worker: `state` is stopped, starting, ready, stopping or failed."""

    name: str
    state: str
    detail: str = ""
    since: float = 0.0
    pid: int | None = None
    port: int | None = None
    restarts: int = 0
    version: str | None = None
    fingerprint: str | None = None
    drafted: int | None = None
    launch: str = ""
    last_end: str = ""  # why it ended the last time, where it was started again


@dataclass(frozen=True)
class Holder:
    """The process that holds a fleet's lock; `created` is the mark of its start."""

    pid: int
    created: float | None
    purpose: str


@dataclass(frozen=True)
class Status:
    """What a supervisor last wrote."""

    phase: str = ""
    pid: int = 0
    written: float = 0.0  # seconds since the epoch
    workers: dict[str, WorkerState] = field(default_factory=dict)


class StateFolder:
    """The folder of one fleet.

    It follows from the file's path alone: a fleet whose file cannot be read any more must still be
    found, to be told of and ended.
    """

    def __init__(self, fleet_file: Path):
        file = Path(os.path.abspath(fleet_file))  # noqa: PTH100 — resolve() may raise
        digest = hashlib.sha256(str(file).encode()).hexdigest()
        self.key = f"{file.parent.name or 'root'}-{digest[:8]}"
        root = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        self.path = Path(root).expanduser() / "draftgate" / self.key
        # In the environment of all its processes: the same file under another state home (sudo,
        # cron) is another fleet, and must not take these for its own.
        self.mark = str(self.path)

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    def log(self, worker: str) -> Path:
        return self.path / "logs" / f"{worker}.log"

    def files(self, worker: str) -> Path:
        """Folder of the files that a worker's launch refers to."""
        return self.path / "files" / worker

    def place_files(self, worker: str, files: Mapping[str, str]) -> Path:
        """Write a launch's files; returns their folder. Raises OSError."""
        folder = self.files(worker)
        if files:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in files.items():
            part = folder / f".{name}.part"
            part.write_text(text)
            part.replace(folder / name)
        return folder

    def create(self) -> None:
        """Make the folder, private to the user: logs may hold prompts."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.path / "logs").mkdir(exist_ok=True, mode=0o700)
            (self.path / "workers").mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise OrchestratorError(f"{self.path} cannot be made: {error.strerror}") from error

    @contextmanager
    def lock(self, purpose: str) -> Iterator[None]:
        """Held by the one supervisor of the fleet; the kernel lets go when it dies.

        `purpose` is the command that holds it. Raises OrchestratorError when another one does.
        """
        self.create()
        with (self.path / "supervisor.lock").open("a+") as file:
            for wait_s in _LOCK_WAITS_S:
                if _try_lock(file, fcntl.LOCK_EX):
                    break
                time.sleep(wait_s)
            else:
                raise OrchestratorError(self._held())
            holder = Holder(os.getpid(), created(os.getpid()), purpose)
            file.truncate(0)
            file.write(json.dumps(asdict(holder)))
            file.flush()
            yield

    def _held(self) -> str:
        holder = self.holder()
        if holder is None or holder.purpose == "up":
            return "this fleet is up already; `draftgate down` ends it"
        return f"`draftgate {holder.purpose}` (process {holder.pid}) uses this fleet; wait for it"

    def holder(self) -> Holder | None:
        """Who holds the lock now; None when nobody does, or it is being taken at this moment."""
        holder = _convert(_read(self.path / "supervisor.lock"), Holder)
        is_alive = holder is not None and created(holder.pid) == holder.created
        return holder if is_alive and self.is_locked() else None

    def is_locked(self) -> bool:
        """Whether a supervisor lives."""
        try:
            with (self.path / "supervisor.lock").open("r+") as file:
                return not _try_lock(file, fcntl.LOCK_SH)
        except OSError:
            return False  # there never was one

    def write_record(self, record: Record) -> None:
        """Raises OSError: a worker that cannot be recorded must not be started."""
        _write(self.path / "workers" / f"{record.name}.json", asdict(record))

    def remove_record(self, name: str) -> None:
        (self.path / "workers" / f"{name}.json").unlink(missing_ok=True)

    def records(self) -> list[Record]:
        """Every readable record; others are left out: their processes are found by the key."""
        found = []
        for file in sorted((self.path / "workers").glob("*.json")):
            record = _convert(_read(file), Record)
            if record is not None and record.name == file.stem:
                found.append(record)
        return found

    def write_status(self, phase: str, workers: Mapping[str, WorkerState]) -> None:
        """The supervisor's snapshot. Raises OSError when the disk is full."""
        status = Status(phase, os.getpid(), time.time(), dict(workers))
        _write(self.path / "status.json", asdict(status))

    def read_status(self) -> Status:
        """The last snapshot; an empty one when there is none, or none that can be read."""
        status = _convert(_read(self.path / "status.json"), Status)
        return status or Status()


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Whole or not at all: a reader never sees half a file."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(data, indent=1))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _convert(data: dict[str, Any] | None, kind: type[T]) -> T | None:
    """What a file holds, where it is what this version writes; files are hints, never truth."""
    try:
        return None if data is None else msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None
