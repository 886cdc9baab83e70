"""Leave mistakes out of data so that the rest can still be checked, without losing positions."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from adapters.problem import Path

# What a value that cannot be read is taken for; None: nothing can stand for it.
StandIn: TypeAlias = Callable[[Path], Any]

_GONE = object()


class Pruned:
    """Data from a file with some values left out.

    Paths given and returned are those of the file: list items that went do not shift the others.
    """

    def __init__(self, data: Any):
        self._data = _copy(data)
        self._kept: dict[Path, list[int]] = {}
        self._broken: set[Path] = set()

    def is_whole(self, path: Path) -> bool:
        """Whether the list or mapping at this path of the file lost none of its own values."""
        return path not in self._broken

    def compact(self) -> Any:
        """The data as it is to be validated now."""
        self._kept = {}
        return self._compacted(self._data, ())

    def original(self, path: Path) -> Path:
        """A path in `compact()`'s data as a path in the file."""
        result: list[str | int] = []
        for index, part in enumerate(path):
            kept = self._kept.get(path[:index])
            known = kept is not None and isinstance(part, int) and part < len(kept)
            result.append(kept[part] if kept and known and isinstance(part, int) else part)
        return tuple(result)

    def leave_out(self, paths: Iterable[Path], stand_in: StandIn = lambda _: None) -> None:
        """Remove each path, or put a stand-in where there is one for it.

        A key that is not there at all (it was missing) takes the mapping that lacks it along.
        """
        for path in set(paths):
            self._leave_out(path, stand_in)

    def _leave_out(self, path: Path, stand_in: StandIn) -> None:
        parent = self._data
        for part in path[:-1]:
            if not _holds(parent, part):
                return  # it went with its parent
            parent = parent[part]
        if not path:
            return
        last = path[-1]
        value = stand_in(path)
        if value is not None and isinstance(parent, dict):
            parent[last] = value
        elif _holds(parent, last):
            parent[last] = _GONE
            self._broken.add(path[:-1])
        else:
            self._leave_out(path[:-1], stand_in)

    def _compacted(self, node: Any, path: Path) -> Any:
        if isinstance(node, dict):
            kept = ((k, v) for k, v in node.items() if v is not _GONE)
            return {k: self._compacted(v, (*path, k)) for k, v in kept}
        if isinstance(node, list):
            indexes = [i for i, v in enumerate(node) if v is not _GONE]
            self._kept[path] = indexes
            return [self._compacted(node[i], (*path, new)) for new, i in enumerate(indexes)]
        return node


def _holds(node: Any, part: str | int) -> bool:
    if isinstance(node, dict):
        return node.get(part, _GONE) is not _GONE
    is_index = isinstance(node, list) and isinstance(part, int) and part < len(node)
    return is_index and node[part] is not _GONE


def _copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _copy(v) for k, v in node.items()}
    return [_copy(v) for v in node] if isinstance(node, list) else node
