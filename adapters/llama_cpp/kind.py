"""The kinds of speculation behind --spec-type: which of them a profile means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from adapters.flag import normal
from adapters.option import Options
from adapters.profile import Ngram, Profile

# By method; llama.cpp has no kind for the others.
DRAFTING: Final[Mapping[str, str]] = {
    "draft_model": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
}
# In the order in which they are tried at a step: the first one with a guess wins
# (common_speculative_init, b11549). A kind that drafts comes after all of these.
NGRAM: Final = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
SHARED: Final = "ngram-mod"
CACHE: Final = "ngram-cache"
CACHE_GUESSES = 8  # hard-wired, as are the lengths it looks up (common/ngram-cache.h)
CACHE_LENGTHS = (1, 4)
# Names of the option for the length that is looked up, and for the length of a guess.
LENGTHS: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (f"spec-{name}-size-n", f"spec-{name}-size-m") for name in NGRAM[:3]},
    SHARED: ("spec-ngram-mod-n-match", "spec-ngram-mod-n-max"),
}


@dataclass(frozen=True)
class Native:
    """A profile's native options; `chosen` is what it says of --spec-type, which is ours."""

    options: Options
    chosen: JsonValue = None

    @property
    def words(self) -> tuple[str, ...]:
        """The kinds that are named, as written."""
        return tuple(self.chosen.split(",")) if isinstance(self.chosen, str) else ()


def type_names(profile: Profile) -> list[str]:
    """--spec-type as the profile spells it: once, or else by mistake."""
    return [name for name in profile.engine.get("llama_cpp", {}) if normal(name) == "spec-type"]


def native_of(profile: Profile) -> Native:
    options = dict(profile.engine.get("llama_cpp", {}))
    chosen = [options.pop(name) for name in type_names(profile)]
    return Native(options, chosen[-1] if chosen else None)


def own_kind(profile: Profile) -> str | None:
    """The kind that a profile means if it names none; None: llama.cpp has not its method."""
    spec = profile.speculation
    if isinstance(spec, Ngram):
        return SHARED if spec.pool == "shared" else NGRAM[0]
    return DRAFTING.get(spec.method)


def kinds_of(profile: Profile) -> tuple[str, ...]:
    """What stands in --spec-type, in order of preference; empty for what llama.cpp has not."""
    own = own_kind(profile)
    if own is None:
        return ()
    named = set(native_of(profile).words)
    found = [kind for kind in NGRAM if kind in named]
    if isinstance(profile.speculation, Ngram):
        return tuple(found) or (own,)
    return (*found, own)


def match_lengths(profile: Profile) -> Mapping[str, JsonValue]:
    """The length that each n-gram kind looks up; None where a profile has yet to write it.

    It is lookup.min of method ngram. Beside a draft, it is the kind's own option.
    """
    spec, options = profile.speculation, native_of(profile).options
    if isinstance(spec, Ngram):
        return {kind: spec.lookup.min for kind in kinds_of(profile) if kind in LENGTHS}
    given = {normal(name): value for name, value in options.items()}
    return {kind: given.get(LENGTHS[kind][0]) for kind in kinds_of(profile) if kind in LENGTHS}
