"""Overlap: how much of a text repeats what stood in it before. Pure.

Where a prompt repeats itself (a file and its edited copy, passages and quotes of them) the answer
will copy too. The exact value looks at every position. This one looks at the positions of a few
bytes, the anchors, chosen so that there are some dozens to hundreds: a repeated passage has them at
the same places as its original, so that the sample sees copies as they are. In a long text each
gram weighs as much as the text up to the next anchor; otherwise passages rich in anchors would
count for more.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import sub

# A gram: enough characters that prose does not repeat so many by chance; of Chinese, Japanese and
# Korean, where a character says more, fewer do.
GRAM = 24
_DENSE_GRAM = 10
_WIDE = 1.1  # bytes a character; of less, hardly any is of another script
_NOT_DENSE = bytes(range(0x2E))  # upper bytes of UTF-16 before the CJK blocks

_SHORT, _LONG = 2048, 8192  # bytes
_FEWEST, _MOST = 24, 112  # grams that are wanted of a short text, of a long one
_FIRST_PLACES = 8
_OWN, _OWN_BYTES = 24, 4  # anchors that a text itself gives, and how long they are
_OWN_SCANS = 4
_MOST_OF_ONE = 128  # a byte with more of them is no anchor of a long text

# By how often they stand in English text, and about how often: where anchors are looked for.
_LETTERS = b"etaoinsrhldcumfpgywb.v,kTSAICxMjqz"
_SHARES = (
    *(0.1, 0.07, 0.065, 0.06, 0.055, 0.055, 0.05, 0.048, 0.045, 0.033, 0.03, 0.025, 0.022, 0.02),
    *(0.018, 0.017, 0.016, 0.015, 0.015, 0.012, 0.009, 0.008, 0.008, 0.006, 0.003, 0.003, 0.003),
    *(0.002, 0.002, 0.002, 0.002, 0.001, 0.001, 0.0007),
)
_RARITIES = [1 / share for share in _SHARES]
_RARE = b"QZXJKYVjUGqzxTSAkvbywgfp"  # the rarest first


def overlap(text: bytes, sample: str, width: float = 1.0) -> float:
    """Share of a text whose grams occurred earlier in it; estimated.

    `sample` is some of it decoded, and `width` how many bytes of `text` make a character.
    """
    size = _gram_bytes(sample, width)
    if len(text) > _LONG:
        positions = _rare_positions(text)
        if len(positions) < _FEWEST:
            positions = _own_positions(text)
        if len(positions) >= _FEWEST:
            return _repeated_at(text, positions, size)
        text = text[len(text) // 2 :][: _SHORT - 1]  # one thing over and over, most likely
    grams = _grams(text, size)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def exact_overlap(text: bytes, sample: str, width: float = 1.0) -> float:
    """The same of all positions: what the sample estimates."""
    size = _gram_bytes(sample, width)
    count = len(text) - size + 1
    return 1 - len({text[at : at + size] for at in range(count)}) / count if count > 0 else 0.0


def _gram_bytes(sample: str, width: float) -> int:
    """In steps of four, so that few expressions are compiled."""
    if width < _WIDE:
        return GRAM
    sample = sample[:256]
    blocks = sample.encode("utf-16-le", "replace")[1::2]
    dense = len(blocks.translate(None, _NOT_DENSE)) / max(1, len(blocks))
    return round(width * (GRAM + (_DENSE_GRAM - GRAM) * dense) / 4) * 4


def _grams(text: bytes, size: int) -> list[bytes]:
    """Of one byte, or of three, that occur about as often as grams are wanted."""
    wanted = _FEWEST + len(text) // 128
    several = 1 if len(text) < _SHORT else 3
    rank = bisect_left(_RARITIES, several * len(text) / wanted / 1.3)
    for step in (0, -3, 3, -6):
        first = max(0, rank + step)
        found: list[bytes] = []
        for letter in _LETTERS[first : first + several]:
            if several == 1 or text.count(letter) <= 4 * wanted:
                found += _finder(letter, size)(text)
        if wanted <= 2 * len(found) <= 6 * wanted:
            return found
    anchor = _own_anchor(text, wanted)
    return _finder(anchor, size)(text if text.count(anchor) <= 8 * wanted else text[:_SHORT])


def _own_anchor(text: bytes, wanted: int) -> int:
    """The byte of the text that comes closest; of an empty one any."""
    some = {*text[:: 1 + len(text) // 32]} or {0}
    counts = ((text.count(byte), byte) for byte in sorted(some))
    distances = {byte: max(n / wanted, wanted / max(n, 1)) for n, byte in counts}
    closest: int = min(distances, key=distances.__getitem__)
    return closest


@lru_cache(maxsize=512)
def _finder(anchor: int, size: int) -> Callable[[bytes], list[bytes]]:
    """Finds the gram behind each anchor, those that overlap too. It begins with one byte, which is
    looked for quickly; a set of bytes is not."""
    expression = b"%b(?=(.{%d}))" % (re.escape(bytes([anchor])), size - 1)
    return re.compile(expression, re.DOTALL).findall


def _rare_positions(text: bytes) -> list[int]:
    """Of bytes that are rare in this text, in order. Looking for a byte is quick."""
    found: list[int] = []
    for letter in _RARE:
        found += _positions(text, letter)
        if len(found) >= _MOST:
            break
    return sorted(found)


def _own_positions(text: bytes) -> list[int]:
    """Of what the text itself has at some places, in order. Looking for more bytes is slow, so that
    a few times must do."""
    found: set[int] = set()
    scans = 0
    for start in range(0, len(text), 1 + len(text) // _OWN):
        some = _positions(text, text[start : start + _OWN_BYTES])
        found.update(some)
        scans += bool(some)
        if len(found) >= _MOST // 2 or scans == _OWN_SCANS:
            break
    return sorted(found)


def _positions(text: bytes, anchor: bytes | int) -> list[int]:
    """None of one that is not rare, which its first places tell."""
    found: list[int] = []
    find, at = text.find, -1
    for most in (_FIRST_PLACES, _MOST_OF_ONE):
        for _ in repeat(None, most):
            at = find(anchor, at + 1)
            if at < 0:
                return found
            found.append(at)
        if at * _MOST_OF_ONE < _FIRST_PLACES * len(text):
            return []
    return []


def _repeated_at(text: bytes, positions: Sequence[int], size: int) -> float:
    grams = [text[at : at + size] for at in reversed(positions)]
    ends = [*positions[1:], len(text)]
    firsts = dict(zip(grams, map(sub, reversed(ends), reversed(positions)), strict=True))
    return 1 - float(sum(firsts.values())) / (len(text) - positions[0])
