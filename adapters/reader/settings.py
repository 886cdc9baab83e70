"""Values of a config.json or of GGUF metadata, by the first of several names that holds one."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LARGEST = 1 << 40  # no count of layers, elements or tokens comes near


@dataclass
class Settings:
    """`complaints` gathers what stood there and could not be used, in words."""

    data: Mapping[str, Any]
    file: str
    complaints: list[str] = field(default_factory=list)

    def count(self, *keys: str) -> int | None:
        """A whole number from 0 on; null is like an absent key."""
        for key, value in self._present(keys):
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST:
                return value
            self._complain(key, value, "a count")
        return None

    def size(self, *keys: str) -> int | None:
        """A count that cannot be 0."""
        return self.count(*keys) or None

    def text(self, *keys: str) -> str | None:
        for key, value in self._present(keys):
            if isinstance(value, str):
                return value
            self._complain(key, value, "text")
        return None

    def counts(self, *keys: str) -> tuple[int, ...] | None:
        """A list of counts; GGUF keeps them in arrays."""
        for key, value in self._present(keys):
            items = list(value) if isinstance(value, list | array) else None
            if items is not None and all(type(i) is int and 0 <= i < LARGEST for i in items):
                return tuple(items)
            self._complain(key, value, "a list of counts")
        return None

    def flag(self, key: str) -> bool | None:
        value = self.data.get(key)
        return value if isinstance(value, bool) else None

    def has(self, *keys: str) -> bool:
        """Whether one of the keys has a value that is not null, 0, false or empty."""
        return any(self.data.get(key) for key in keys)

    def below(self, *keys: str) -> "Settings":
        """The settings in the first of these mappings; complaints go to the same list."""
        empty: Mapping[str, Any] = {}
        found = next((self.data[k] for k in keys if isinstance(self.data.get(k), dict)), empty)
        return Settings(found, self.file, self.complaints)

    def _present(self, keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for key in keys:
            if self.data.get(key) is not None:
                yield key, self.data[key]

    def _complain(self, key: str, value: Any, expected: str) -> None:
        complaint = f"{self.file}: {key} is {_seen(value)}, not {expected}"
        if complaint not in self.complaints:
            self.complaints.append(complaint)


def _seen(value: Any) -> str:
    """Short and safe for anything a file may hold: numbers too long to print, lists in lists."""
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < LARGEST):
        return str(value)
    kinds = {"int": "a number out of range", "dict": "a mapping"}
    return kinds.get(type(value).__name__, "a list")
