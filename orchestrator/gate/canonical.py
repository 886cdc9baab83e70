"""Canonical JSON and its digest: the same data is the same bytes, whoever writes it (RFC 8785).

Keys are sorted by their UTF-16 units, nothing stands between the parts, strings are UTF-8 with only
what must be escaped. Numbers are written as ECMAScript does: whole ones by their digits, others
by the shortest decimal that reads back as the same double.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn

PREFIX = "sha256:"
LARGEST_WHOLE = 2**53 - 1  # beyond it other readers of JSON lose digits


def digest(data: Any) -> str:
    """`sha256:` and the hex digest of the canonical form. Raises ValueError as `canonical` does."""
    return PREFIX + hashlib.sha256(canonical(data)).hexdigest()


def canonical(data: Any) -> bytes:
    """The canonical form. Raises ValueError on what JSON cannot say: NaN, infinity, half a letter
    (a lone surrogate), a whole number beyond 2^53 - 1, a key that is no text."""
    try:
        return _text(data).encode()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse(text: str) -> Any:
    """JSON that has a canonical form. Raises ValueError on anything else: a key twice, NaN."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_int=_whole)
    except (RecursionError, OverflowError) as error:
        raise ValueError("nested too deeply, or a number beyond a double") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return found


def _whole(digits: str) -> float:
    """A number without a point; a large double is written so too."""
    value = int(digits)
    if abs(value) <= LARGEST_WHOLE:
        return value
    if _number(float(value)) != digits:
        raise ValueError(f"{digits[:40]} has more digits than a double")
    return float(value)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _text(data: Any) -> str:
    if data is None or isinstance(data, bool | str):
        return json.dumps(data, ensure_ascii=False)
    if isinstance(data, int | float):
        return _number(data)
    if isinstance(data, dict):
        return "{" + ",".join(_pair(key, data[key]) for key in _sorted(data)) + "}"
    if isinstance(data, list | tuple):
        return "[" + ",".join(map(_text, data)) + "]"
    raise ValueError(f"{type(data).__name__} is nothing that JSON knows")


def _pair(key: str, value: Any) -> str:
    return json.dumps(key, ensure_ascii=False) + ":" + _text(value)


def _sorted(data: dict[Any, Any]) -> list[str]:
    if any(not isinstance(key, str) for key in data):
        raise ValueError("a key is not text")
    return sorted(data, key=lambda key: key.encode("utf-16-be"))


def _number(value: float) -> str:
    """ECMAScript's Number::toString; RFC 8785, section 3.2.2.3."""
    if isinstance(value, int):
        if abs(value) > LARGEST_WHOLE:
            raise ValueError(f"{value} is beyond the whole numbers of JSON")
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    return ("-" if sign else "") + _placed("".join(map(str, digits)), int(exponent))


def _placed(digits: str, exponent: int) -> str:
    """`digits` times ten to the `exponent`, point or exponent where ECMAScript has it."""
    point = len(digits) + exponent
    if len(digits) <= point <= 21:
        return digits + "0" * exponent
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"


def finite(data: Any) -> Any:
    """The data with null for every number that JSON cannot say, and lists for tuples."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return [finite(value) for value in data]
    return data
