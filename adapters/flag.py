"""The options an engine's own parser knows, as data, one table per engine version.

The tables are written by `scripts/dump_*_flags.py`; nothing here asks an engine.
"""

import difflib
import functools
import importlib.resources
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from adapters.value import ANYTHING, ValueRule, rule_of

NEAR_CUTOFF = 0.7

Kind = Literal["switch", "value", "values"]


@dataclass(frozen=True)
class Flag:
    """One option.

    `name` is its first long form, without leading dashes and with dashes inside; `aliases` are the
    other spellings as typed, further negative ones included. A `value` takes the one argument that
    follows it, `values` takes several. `negative`, written like `name`, turns a switch off.
    `rule` says what one value must be: no choices mean that the parser lists none.
    """

    name: str
    aliases: tuple[str, ...]
    kind: Kind
    negative: str | None
    rule: ValueRule = ANYTHING

    @property
    def choices(self) -> tuple[str, ...]:
        return self.rule.choices

    def turns_off(self, spelling: str) -> bool:
        """Whether this spelling of a switch is a negative one: `no-repack`, `nr`, `nocb`.

        No engine has a switch whose positive name begins with n and that has a negative form, nor
        an alias that begins with n and is positive.
        """
        word = normal(spelling)
        if self.negative is None or word == self.name:
            return False
        return word == self.negative or word.startswith("n")

    def spellings(self) -> Iterator[str]:
        """Every spelling, without leading dashes."""
        yield self.name
        if self.negative is not None:
            yield self.negative
        yield from (alias.lstrip("-") for alias in self.aliases)


@dataclass(frozen=True)
class FlagTable:
    """All options of one engine version; `source` names the package and version they come from.

    `config_keys` holds the keys of each option that takes an object (`speculative_config`; none
    means any key) with what their values must be. A file may hold more, for its engine's own rules.
    """

    engine: str
    version: str
    source: str
    flags: Mapping[str, Flag]
    config_keys: Mapping[str, Mapping[str, ValueRule]]

    @functools.cached_property
    def _by_spelling(self) -> Mapping[str, Flag]:
        return {spelling: flag for flag in self.flags.values() for spelling in flag.spellings()}

    def find(self, name: str) -> Flag | None:
        """The option that `name` means, by any spelling: `_` for `-`, leading dashes or none, an
        alias, the negative form, or `option.key` for a key of an option that takes an object.

        Abbreviations are unknown here, although vLLM's parser completes unambiguous ones.
        """
        wanted = normal(name)
        flag = self._by_spelling.get(wanted)
        if flag is not None or "." not in wanted:
            return flag
        option, key = dotted(wanted)
        flag = self._by_spelling.get(option)
        return flag if flag is not None and self._takes(flag, key) else None

    def near(self, name: str) -> str | None:
        """The known name, or dotted name, that looks most like `name`, if any does."""
        option, key = dotted(normal(name))
        owner = self._by_spelling.get(option) if key else None
        if owner is not None:
            match = closest(key, (normal(known) for known in self._keys(owner) or ()))
            return None if match is None else f"{owner.name}.{match}"
        match = closest(normal(name), self._by_spelling)
        if match is None or match == self._by_spelling[match].negative:
            return match
        return self._by_spelling[match].name

    def _keys(self, flag: Flag) -> Mapping[str, ValueRule] | None:
        return self.config_keys.get(flag.name.replace("-", "_"))

    def _takes(self, flag: Flag, key: str) -> bool:
        keys = self._keys(flag)
        return keys is not None and (not keys or key in map(normal, keys))


def normal(name: str) -> str:
    """A name without leading dashes, and with dashes inside."""
    return name.lstrip("-").replace("_", "-")


def dotted(name: str) -> tuple[str, str]:
    """The option and the first key of a dotted name; `+` after a key appends to a list in vLLM."""
    option, _, path = name.partition(".")
    return option, path.partition(".")[0].removesuffix("+")


def closest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=NEAR_CUTOFF)), None)


@functools.cache
def load_flags(engine: str, dialect: str) -> FlagTable:
    """The table of one engine's dialect, such as `0.32` or `b11434`.

    Raises LookupError where there is none.
    """
    file = importlib.resources.files("adapters") / "flags" / f"{engine}-{dialect}.json"
    try:
        data = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise LookupError(f"no option table for {engine} {dialect}") from None
    flags = {name: flag_of(name, entry) for name, entry in data["flags"].items()}
    keys = {name: _key_rules(known) for name, known in data["config_keys"].items()}
    return FlagTable(
        data["engine"],
        data["version"],
        data["source"],
        MappingProxyType(flags),
        MappingProxyType(keys),
    )


@functools.cache
def named_flags(engine: str, dialect: str, title: str, version: str) -> FlagTable:
    """A dialect's table under the names that messages have for engine and version."""
    return replace(load_flags(engine, dialect), engine=title, version=version)


def _key_rules(known: list[str] | dict[str, Any]) -> Mapping[str, ValueRule]:
    """Keys with their rules, or keys alone."""
    if isinstance(known, list):
        return MappingProxyType(dict.fromkeys(known, ANYTHING))
    return MappingProxyType({name: rule_of(entry) for name, entry in known.items()})


def flag_of(name: str, entry: Mapping[str, Any]) -> Flag:
    return Flag(
        name,
        tuple(entry.get("aliases", ())),
        entry["kind"],
        entry.get("negative"),
        rule_of(entry),
    )
