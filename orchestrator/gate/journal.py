"""Journal: every raw answer of an arm as a line of JSON, kept as it comes.

A gate that was killed goes on from here: an answer in the journal is not asked again.
"""

import contextlib
import fcntl
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from adapters.exchange import Generation
from orchestrator.errors import OrchestratorError
from orchestrator.gate.evidence import Question

_RUN = "run.json"
_CHECKSUM = "crc32"


class _Counted(msgspec.Struct):
    """What an engine counted while a group of questions was asked; seconds of wall time."""

    drafted: float | None
    accepted: float | None
    drafts: float | None
    positions: list[float] | None
    seconds: float


class Journal:
    """The lines of one arm. `answers` and `counted` hold what an earlier, killed run left, and
    `fingerprint` is the engine's that answered last. Lines that cannot be read are asked again, and
    so are answers behind the last count: what was drafted for them died with the run."""

    def __init__(self, path: Path):
        self._path = path
        self._empty()
        for line in read_lines(path):
            with contextlib.suppress(msgspec.ValidationError, KeyError, TypeError):
                self._take(line)
        for name in self._uncounted:
            self.answers.pop(name, None)

    def _empty(self) -> None:
        self.answers: dict[str, Generation] = {}
        self.counted: list[dict[str, Any]] = []
        self.boots = 0
        self.fingerprint: str | None = None
        self._uncounted: set[str] = set()

    def _take(self, line: Mapping[str, Any]) -> None:
        if "counted" in line:
            counted = msgspec.convert(line["counted"], _Counted)
            self.counted.append(msgspec.structs.asdict(counted))
            self._uncounted.clear()
        elif "boot" in line:
            self.fingerprint = msgspec.convert(line["fingerprint"], str)
            self.boots += 1
        elif "ids" in line:
            fields = {name: line.get(name) for name in Generation.__dataclass_fields__}
            name = msgspec.convert(line["question"], str)
            self.answers[name] = msgspec.convert(fields, Generation)
            self._uncounted.add(name)
        elif "error" in line:
            self.answers.pop(msgspec.convert(line["question"], str), None)

    def begin_anew(self) -> None:
        """Forget everything: what answers now may not be what answered then."""
        remove(self._path)
        self._empty()

    def booted(self, fingerprint: str) -> None:
        """An engine began to answer for this arm."""
        self.boots += 1
        self.fingerprint = fingerprint
        self._write({"boot": self.boots, "fingerprint": fingerprint})

    def answered(self, question: Question, answer: Generation) -> None:
        """Keep one answer."""
        self._write({"question": question.id, "type": question.type, **asdict(answer)})

    def failed(self, question: Question, message: str) -> None:
        """Note that the engine gave no answer, or none that counts; a later run asks again."""
        self.answers.pop(question.id, None)
        self._write({"question": question.id, "type": question.type, "error": message})

    def count(self, counted: Mapping[str, Any]) -> None:
        """Keep what the engine counted since the arm's last line of this kind."""
        self.counted.append(dict(counted))
        self._write({"counted": counted})

    def forget(self, questions: Iterable[str]) -> None:
        """Answers to be asked anew: of a run under load, a half would be another load."""
        for question in questions:
            self.answers.pop(question, None)

    def _write(self, line: Mapping[str, Any]) -> None:
        append_line(self._path, line)


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """With a checksum of it. Raises OrchestratorError."""
    whole = {**line, _CHECKSUM: _checksum(line)}
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error


def remove(path: Path) -> None:
    """Raises OrchestratorError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error


def _checksum(line: Mapping[str, Any]) -> int:
    """CRC-32: a line that a disk or an editor changed is not what an engine answered."""
    return zlib.crc32(json.dumps(line, ensure_ascii=False, sort_keys=True).encode(errors="replace"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines only, as they were written: the last one may be torn, and is cut off so that the
    next begins anew.

    Raises OrchestratorError.
    """
    try:
        if not path.exists():
            return []
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            with path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
    except OSError as error:
        raise OrchestratorError(f"{path} cannot be read: {error.strerror}") from error
    found = []
    for line in whole.decode(errors="replace").split("\n"):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and data.pop(_CHECKSUM, None) == _checksum(data):
            found.append(data)
    return found


def finish_run(folder: Path) -> None:
    """The verdict and all that is made of it stand on disk: the next run begins anew.

    A run that cannot be marked so is gone on with, which asks nothing again and loses nothing.
    """
    try:
        noted = json.loads((folder / _RUN).read_text())
        (folder / _RUN).write_text(json.dumps({**noted, "state": "finished"}))
    except (OSError, ValueError, TypeError):
        return


class RunFolder:
    """Where the journals of one run are. `key` stands for everything that was asked of whom.

    A run of the same key that did not come to its end is gone on with; any other is begun anew.
    One process uses it at a time. Raises OrchestratorError when another does, or nothing can be
    written there.
    """

    def __init__(self, path: Path, key: str):
        self.path = path
        self._key = key
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / "run.lock").open("a")
        except OSError as error:
            raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise OrchestratorError(f"another gate writes to {path}; wait for it") from error
        try:
            self.is_resumed = self._begin()
        except OrchestratorError:
            self._lock.close()
            raise

    def journal(self, arm: str) -> Journal:
        """The journal of an arm by its name."""
        return Journal(self.path / f"{arm}.jsonl")

    def close(self) -> None:
        """Let another process use the folder."""
        self._lock.close()

    def _begin(self) -> bool:
        try:
            left = self._read()
            is_same = left == {"key": self._key, "state": "running"}
            for file in [] if is_same else self.path.glob("*.jsonl"):
                file.unlink()
        except OSError as error:
            raise OrchestratorError(f"{self.path} cannot be written: {error.strerror}") from error
        self._note("running")
        return is_same and any(self.path.glob("*.jsonl"))

    def _read(self) -> Any:
        try:
            return json.loads((self.path / _RUN).read_text())
        except (OSError, ValueError, RecursionError):
            return None

    def _note(self, state: str) -> None:
        part = self.path / f".{_RUN}.part"
        try:
            part.write_text(json.dumps({"key": self._key, "state": state}))
            part.replace(self.path / _RUN)
        except OSError as error:
            raise OrchestratorError(f"{self.path} cannot be written: {error.strerror}") from error
