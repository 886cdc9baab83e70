"""Reads a flag's word the way llama-server does: same leniency, same refusals, same messages.

A reader returns the value of one setting, or a mapping of several. How two values of one setting
meet is told by their type: lists add up, mappings and frozen sets unite, all else replaces.
Source of rules and messages: common/arg.cpp of llama.cpp b11549.
"""

import math
import re
from collections.abc import Callable, Mapping

Read = Callable[[str], object]

TRUE, FALSE, AUTO = (
    {"on", "enabled", "true", "1"},
    {"off", "disabled", "false", "0"},
    {"auto", "-1"},
)
INTEGER = re.compile(r"\s*([+-]?\d+)")
DECIMAL = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)"
REAL = re.compile(rf"\s*({DECIMAL})", re.IGNORECASE)


def whole(text: str) -> int:
    """C++ stoi: the leading digits count, what follows them does not."""
    found = INTEGER.match(text)
    if not found or not -(2**31) <= int(found[1]) < 2**31:
        raise ValueError("stoi")
    return int(found[1])


def unsigned(text: str) -> int:
    """C++ stoul cut to 32 bits: -1 is the largest value."""
    found = INTEGER.match(text)
    if not found or abs(int(found[1])) >= 2**64:
        raise ValueError("stoul")
    return int(found[1]) % 2**32


def real(text: str) -> float:
    found = REAL.match(text)
    if not found:
        raise ValueError("stof")
    return float(found[1])


def exact(text: str) -> float:
    """A number and nothing behind it."""
    if not re.fullmatch(DECIMAL, text.strip(), re.IGNORECASE):
        raise ValueError("invalid value")
    return float(text)


def truth(text: str) -> bool:
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise ValueError("invalid boolean value")


def untruth(text: str) -> bool:
    return not truth(text)


def plain(text: str) -> str:
    return text


def always(value: object) -> Read:
    """What a flag without a word sets; its environment variable may still say no."""
    return lambda text: value if truth(text) else {}


def within(low: int, high: int = 2**31 - 1, message: str = "invalid value") -> Callable[[str], int]:
    def read(text: str) -> int:
        value = whole(text)
        if not low <= value <= high:
            raise ValueError(message)
        return value

    return read


def choice(allowed: Mapping[str, object], message: str = "invalid value") -> Read:
    def read(text: str) -> object:
        if text not in allowed:
            raise ValueError(message.format(text))
        return allowed[text]

    return read


def three_way(flag: str, yes: object, no: object, auto: object) -> Read:
    words = dict.fromkeys(TRUE, yes) | dict.fromkeys(FALSE, no) | dict.fromkeys(AUTO, auto)
    return choice(words, f"error: unknown value for {flag}: '{{}}'\n")


def on_off(flag: str) -> Read:
    words = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
    return choice(words, f"error: unknown value for {flag}: '{{}}'\n")


def layers(text: str) -> int:
    return {"auto": -1, "all": -2}[text] if text in {"auto", "all"} else whole(text)


def members(prefix: str, words: str) -> dict[str, object]:
    """Words to the engine's enum members of the same name."""
    return {word: f"{prefix}_{word.upper()}" for word in words.split()}


def inverse_real(text: str) -> float:
    number = real(text)
    return 1.0 / number if number else math.inf


def mebibytes(text: str) -> int:
    return within(0)(text) * 2**20
