"""What a profile and a fleet give natively, under SGLang's own names for this version."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

from pydantic import JsonValue

from adapters.dialect import Dialect, Release, choose_dialect, release
from adapters.flag import FlagTable, load_flags
from adapters.launch import WorkerSpec
from adapters.option import Options, merge, whole
from adapters.problem import Path
from adapters.profile import Profile

ENGINE: Final = "sglang"
TITLE: Final = "SGLang"
# Tables are those of the newest version of each range.
SUPPORTED: Final[tuple[Dialect, ...]] = (
    Dialect("0.5.10", (0, 5, 10), (0, 5, 11)),
    Dialect("0.5.11", (0, 5, 11), (0, 5, 14)),
    Dialect("0.5.14", (0, 5, 14), (0, 5, 16)),
    Dialect("0.5.16", (0, 5, 16), (0, 5, 18)),
    Dialect("0.5.18", (0, 5, 18), (0, 5, 20)),
    Dialect("0.5.20", (0, 5, 20), (0, 5, 22)),
    Dialect("0.5.22", (0, 5, 22), (0, 5, 24)),
)
METHOD: Final[Path] = ("speculation", "method")
# Given in the place of speculation too, so that it is known however it was spelled.
_ATTENTION = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")


# One variable stands behind both names from 0.5.14 to 0.5.19, so that the later one wins without a
# word (server_args.py, DeprecatedAliasStoreAction); the parser lists them as two options.
_OLD_NAMES: Final[Mapping[str, str]] = {
    "cuda-graph-bs": "cuda-graph-bs-decode",
    "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
}


@cache
def table_of(version: str) -> FlagTable:
    table = load_flags(ENGINE, choose_dialect(SUPPORTED, version)[0].name)
    flags = dict(table.flags)
    for old, new in _OLD_NAMES.items():
        if old in flags and new in flags:
            flag = flags[new]
            flags[new] = replace(flag, aliases=(*flag.aliases, f"--{old}"))
            del flags[old]
    return replace(table, flags=flags)


@cache
def named_table(version: str) -> FlagTable:
    """The version's table under the names that messages have for engine and version."""
    return replace(table_of(version), engine=TITLE, version=version)


def is_since(version: str, first: Release) -> bool:
    """Whether a version is `first` or newer; one without a number is taken for the newest."""
    number = release(version)
    return number is None or number >= first


@dataclass(frozen=True)
class Given:
    """`native` are the profile's own options as written, `options` these and the worker's, merged
    under the names of the version's option table."""

    version: str
    table: FlagTable
    native: Mapping[str, JsonValue]
    options: Options
    environment: Mapping[str, str]

    def name(self, name: str) -> str:
        """The table's name for any spelling of an option."""
        flag = self.table.find(name)
        return name if flag is None else flag.name

    def has(self, name: str) -> bool:
        return self.name(name) in self.options

    def get(self, name: str) -> JsonValue:
        return self.options.get(self.name(name))

    def is_on(self, name: str) -> bool:
        return self.get(name) is True

    def whole(self, name: str, default: int) -> int:
        return whole(self.options, self.name(name), default)

    def number(self, name: str, default: float) -> float:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return default
        try:
            return float(value)
        except (ValueError, OverflowError):
            return default

    def path(self, name: str) -> Path:
        """Where an option was written: the profile, or the method that it does not go with."""
        wanted = self.name(name)
        for written in self.native:
            if self.name(written) == wanted:
                return ("engine", ENGINE, written)
        return METHOD

    def since(self, *first: int) -> bool:
        return is_since(self.version, first)

    @cached_property
    def attention(self) -> frozenset[str]:
        """Attention backends that were asked for by name."""
        return frozenset(str(self.get(name)) for name in _ATTENTION if self.has(name))

    @property
    def is_attention_parallel(self) -> bool:
        """DP attention, by its old switch or its new size."""
        return self.is_on("enable-dp-attention") or self.whole("attn-dp-size", 1) > 1

    @property
    def has_lora(self) -> bool:
        return self.is_on("enable-lora") or bool(self.get("lora-paths"))


def given_by(profile: Profile, worker: WorkerSpec) -> Given:
    table = table_of(worker.engine_version)
    native = profile.engine.get(ENGINE, {})
    merged = merge(table, native, worker.args)
    return Given(worker.engine_version, table, native, merged, worker.env)
