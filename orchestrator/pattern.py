"""Regular expressions of a fleet file, searched in linear time.

The router searches clients' text on its one event loop: an expression that backtracks could be made
to hold everybody up. RE2 never backtracks; it has no lookaround and no back references.
"""

import re
from collections.abc import Sequence

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

# Part of every set: a search that ran out of memory finds nothing, not even this.
_ALWAYS = r"\A"
# Stands behind every text that is sieved, for the same reason.
_MARK = "\x01\x02\x03"
_MARK_BYTES = _MARK.encode()
# What an expression may repeat and still be searched together with hundreds of others.
_HARMLESS = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|(?:\\[dsnt]|[ \w]|\[[0-9 ]+\])(?:[*+]\??|\?)|\\.", re.ASCII
)


def compile_pattern(pattern: str) -> re2._Regexp:
    """The compiled expression. Raises ValueError saying what RE2 does not take."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"not a regular expression that RE2 takes: {text}"
        raise ValueError(f"{message} (no lookaround, no back references)") from error


class PatternSet:
    """Many expressions, searched for in one or two passes over a text in UTF-8.

    One automaton for all is exact. But where expressions repeat much, as `a.*b` does, texts made
    for it make it grow exponentially: some hundred of those took 0.3 s for 8 KB. These are sieved
    by the words that a match must hold, and then searched one by one.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [compile_pattern(pattern) for pattern in patterns]
        plain = [index for index, pattern in enumerate(patterns) if not is_wide(pattern)]
        self._exact = _exact([patterns[index] for index in plain]) if plain else None
        self._plain = plain if self._exact is not None else []
        self._wide = sorted({*range(len(patterns))} - {*self._plain})
        self._sieve = _sieve([patterns[index] for index in self._wide]) if self._wide else None
        self._always = len(self._plain)
        self.uncertain = frozenset(self._wide)

    def candidates(self, text: bytes) -> list[int]:
        """Which of them occur; but those that are `uncertain` may."""
        if not self._wide:
            return self._certain(text)
        return self._certain(text) + self._possible(text)

    def occurs(self, index: int, text: bytes) -> bool:
        return self._patterns[index].search(text) is not None

    def search(self, text: bytes) -> list[int]:
        """Which of them occur."""
        found = self.candidates(text)
        return [i for i in found if i not in self.uncertain or self.occurs(i, text)]

    def _certain(self, text: bytes) -> list[int]:
        if self._exact is None:
            return []
        found = self._exact.Match(text)
        if found is None:  # as much memory as one expression needs there always is
            return [index for index in self._plain if self.occurs(index, text)]
        plain, always = self._plain, self._always
        return [plain[place] for place in found if place != always]

    def _possible(self, text: bytes) -> list[int]:
        last = len(self._wide)
        found = self._sieve.Match(b"%b%b" % (text, _MARK_BYTES), True) if self._sieve else None
        if not found or found[-1] != last:
            return self._wide
        return [self._wide[place] for place in found if place != last]


def is_wide(pattern: str) -> bool:
    """Whether an expression repeats more than a digit, a space, one letter or the like."""
    return re.search(r"[*+{]", _HARMLESS.sub("", pattern)) is not None


def _exact(patterns: Sequence[str]) -> re2.Set | None:
    """None where all of them together need more memory than RE2 takes."""
    together = re2.Set.SearchSet(_OPTIONS)
    for pattern in (*patterns, _ALWAYS):
        together.Add(pattern)
    return _compiled(together)


def _sieve(patterns: Sequence[str]) -> re2.Filter | None:
    """None where the words of all of them do."""
    sieve = re2.Filter()
    for pattern in (*patterns, _MARK):
        sieve.Add(pattern, _OPTIONS)
    return _compiled(sieve)


def _compiled(together: re2.Set | re2.Filter) -> re2.Set | re2.Filter | None:
    try:
        together.Compile()
    except re2.error:
        return None
    return together
