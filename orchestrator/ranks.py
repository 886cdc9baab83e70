"""Ranks: workers ordered by load, so that the least loaded of ten thousand is found at once."""

from collections import OrderedDict


class Ranks:
    """Names by load. Every change and question costs the same for one name and for 10,000.

    Among equals the one that has waited longest comes first, so that ties go round.
    """

    def __init__(self) -> None:
        # OrderedDict: a dict walks over the places of all that were removed before its first.
        self._levels: list[OrderedDict[str, None]] = [OrderedDict()]
        self._level_of: dict[str, int] = {}
        self._least = 0  # no name is on a lower level

    def __len__(self) -> int:
        return len(self._level_of)

    def __contains__(self, name: str) -> bool:
        return name in self._level_of

    def move(self, name: str, load: int) -> None:
        """Places a name anew, if it is there."""
        if name in self._level_of:
            self.place(name, load)

    def place(self, name: str, load: int) -> None:
        """Adds a name, or moves it to the end of those with the same load."""
        levels = self._levels
        before = self._level_of.get(name)
        if before is not None:
            del levels[before][name]
        while len(levels) <= load:
            levels.append(OrderedDict())
        levels[load][name] = None
        self._level_of[name] = load
        if load < self._least:
            self._least = load
        elif not levels[self._least]:
            self._settle()

    def remove(self, name: str) -> None:
        """Takes a name out, if it is there."""
        level = self._level_of.pop(name, None)
        if level is not None:
            del self._levels[level][name]

    def least(self, besides: str | None = None) -> str | None:
        """The least loaded name other than `besides`; None when there is no other."""
        for level in range(self._least, len(self._levels)):
            for name in self._levels[level]:
                if name != besides:
                    return name
        return None

    def load(self, name: str) -> int:
        """The load that a name was placed with. Raises KeyError when it is not there."""
        return self._level_of[name]

    def _settle(self) -> None:
        """Raises the lowest level: by one step for each that a load was raised before."""
        levels = self._levels
        while self._least + 1 < len(levels) and not levels[self._least]:
            self._least += 1
