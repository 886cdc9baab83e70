"""What a profile and a fleet give natively, sorted into the places that each key has.

A key stands in one place only, because the places overrule one another differently: in 1.2 the
file wins over the command line, later a typed flag wins over the file (llm_args.py,
update_llm_args_with_extra_dict). Whatever the file can hold is in the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from adapters.flag import FlagTable, load_flags, named_flags
from adapters.launch import WorkerSpec
from adapters.option import Options, merge, whole
from adapters.profile import Profile
from adapters.tensorrt_llm.decoder import TITLE, Backend, Decoder, decoder_of, dialect_of
from adapters.value import ValueRule

ENGINE: Final = "tensorrt_llm"
SPECULATIVE: Final = "speculative_config"
BATCH_DEFAULT: Final = 2048  # of --max_batch_size
TOKENS_DEFAULT: Final = 8192  # of --max_num_tokens


@dataclass(frozen=True)
class Given:
    """Native options by place, under their own names: `file` for the YAML file, `flags` for the
    command line, `extra` for the decoding class."""

    file: Options
    flags: Options
    extra: Options

    def whole(self, name: str, default: int) -> int:
        return whole(self.file, name, default)

    @property
    def batch_size(self) -> int:
        """The most requests that the engine decodes at once."""
        return self.whole("max_batch_size", BATCH_DEFAULT)


def table_of(version: str) -> FlagTable:
    return load_flags(ENGINE, dialect_of(version))


def named_table(version: str) -> FlagTable:
    """The version's table under the names that messages have for engine and version."""
    return named_flags(ENGINE, dialect_of(version), TITLE, version)


def native_of(profile: Profile) -> dict[str, JsonValue]:
    """The profile's native options but for the decoding class's."""
    native = profile.engine.get(ENGINE, {})
    return {name: value for name, value in native.items() if under(name) != SPECULATIVE}


def extra_of(profile: Profile) -> JsonValue:
    """The profile's native keys for the decoding class, as they were written."""
    native = profile.engine.get(ENGINE, {})
    return next((value for name, value in native.items() if under(name) == SPECULATIVE), {})


def given(profile: Profile, worker: WorkerSpec) -> Given:
    """Both layers merged, the fleet's winning; unknown names are in none of the places."""
    table = table_of(worker.engine_version)
    file: dict[str, JsonValue] = {}
    flags: dict[str, JsonValue] = {}
    keys = file_keys(table, backend_of(profile, worker))
    for name, value in merge(table, native_of(profile), worker.args).items():
        key = under(name)
        if key in keys:
            file[key] = value
        elif table.find(name) and key != "backend":
            flags[key] = value
    file.pop(SPECULATIVE, None)
    extra = extra_of(profile)
    named = {under(key): value for key, value in extra.items()} if isinstance(extra, dict) else {}
    return Given(file, flags, named)


def backend_of(profile: Profile, worker: WorkerSpec) -> Backend:
    """The backend that the method needs; a plain worker has the one it is given."""
    decoder = decoder_of(profile, worker.engine_version)
    return decoder.backend if decoder else chosen_backend(profile, worker) or "pytorch"


def chosen_backend(profile: Profile, worker: WorkerSpec) -> Backend | None:
    """The backend given natively, if any."""
    table = table_of(worker.engine_version)
    chosen = merge(table, native_of(profile), worker.args).get("backend")
    if chosen == "pytorch":
        return "pytorch"
    return "tensorrt" if chosen in ("tensorrt", "trt") else None


def file_keys(table: FlagTable, backend: Backend | None) -> Mapping[str, ValueRule]:
    """The keys that a --config file may have at its top; those of any backend for None."""
    ours, theirs = table.config_keys["config"], table.config_keys.get("config.tensorrt", {})
    if backend is None:
        return {**theirs, **ours}
    return ours if backend == "pytorch" else theirs


def decoder_keys(table: FlagTable, decoder: Decoder) -> Mapping[str, ValueRule]:
    """The keys of a decoding class."""
    return table.config_keys[f"{SPECULATIVE}.{decoder.kind}"]


def under(name: str) -> str:
    """A name as files and flags of this engine spell it."""
    return name.lstrip("-").replace("-", "_")
