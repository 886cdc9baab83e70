"""Runs llama.cpp's own HTTP server inside this process. The one module that touches the engine."""

import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any

from adapters.embedded.compound import MAX_THREADS, Schema

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class EngineError(Exception):
    """The engine is missing, refuses a setting, or could not load and listen."""


def engine() -> Any:
    """The engine library, loaded only when a server is wanted: it is an optional package."""
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise EngineError(f"cannot load the package xllamacpp: {error}") from error


def configure(library: Any, settings: Mapping[str, object]) -> Any:
    """CommonParams with every setting applied; raises EngineError where one is refused."""
    params = library.CommonParams()
    for path, value in settings.items():
        *owners, name = path.split(".")
        owner = reduce(getattr, owners, params)
        try:
            setattr(owner, name, native(library, path, value, getattr(owner, name)))
        except (ValueError, KeyError, OverflowError) as error:
            raise EngineError(f"{path}: {error}") from error
    return params


def native(library: Any, path: str, value: Any, current: Any) -> object:
    """A setting in the engine's own types."""
    name = path.rpartition(".")[2]
    if name in CONVERTERS:
        return CONVERTERS[name](library, value, current)
    if isinstance(value, Schema):
        return library.json_schema_to_grammar(str(value))
    if isinstance(current, Enum):
        return type(current)[value] if isinstance(value, str) else type(current)(value)
    return list(value) if isinstance(value, tuple) else value


def threads(library: Any, value: Any, current: Any) -> object:
    return value if value > 0 else os.cpu_count()


def processor_mask(library: Any, value: Any, current: Any) -> object:
    return [processor in value for processor in range(MAX_THREADS)]


def speculative_types(library: Any, value: Any, current: Any) -> object:
    """The default `none` stays in front, as in llama-server."""
    return [*current, *(library.common_speculative_type[name] for name in value)]


def sampling_marks(library: Any, value: Any, current: Any) -> object:
    marks = library.common_params_sampling_config
    return reduce(int.__or__, (int(marks[f"COMMON_PARAMS_SAMPLING_CONFIG_{it}"]) for it in value))


def split(library: Any, value: Any, current: Any) -> object:
    return [*value, *[0.0] * (len(current) - len(value))]


def joined(library: Any, value: Any, current: Any) -> object:
    return ",".join(value)


def lora(library: Any, value: Any, current: Any) -> object:
    return [library.CommonAdapterLoraInfo(path, scale) for path, scale in value]


CONVERTERS: dict[str, Callable[[Any, Any, Any], object]] = {
    "n_threads": threads,
    "cpumask": processor_mask,
    "types": speculative_types,
    "user_sampling_config": sampling_marks,
    "tensor_split": split,
    "tensor_buft_overrides": joined,
    "lora_adapters": lora,
}


def run(settings: Mapping[str, object]) -> None:
    """Serves until SIGTERM or SIGINT, then ends the process; raises EngineError if it cannot begin.

    While the model loads, a signal ends the process in the signal's own way, as with llama-server.
    """
    # An engine that aborts would first start a debugger on itself, and linger for seconds.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    library = engine()
    params = configure(library, settings)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        server = library.Server(params)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"the server did not start: {cause(settings)}") from error
    wakened = wake_on_signals()
    sys.stdout.write(f"serving on {server.listening_address}\n")
    sys.stdout.flush()
    os.read(wakened, 1)
    # Closing the server waits for answers in the making, without an end: the engine stops making
    # them first. Nothing is left to save, and it has no child processes.
    sys.stderr.flush()
    os._exit(0)


def cause(settings: Mapping[str, Any]) -> str:
    """Why a start failed, as far as it can be seen from outside; the engine itself only logs it."""
    for path in ("model.path", "speculative.draft.mparams.path", "mmproj.path"):
        if settings.get(path) and not Path(settings[path]).is_file():
            return f"no such file: {settings[path]}"
    for host in settings.get("hostnames", ("127.0.0.1",)):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, settings["port"]), family=family).close()
        except OSError as error:
            return f"cannot listen on {host}:{settings['port']}: {error.strerror}"
    return "the engine's log above says why"


def wake_on_signals() -> int:
    """A file descriptor to wait at: the signalled thread may be any, the engine's too."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    return reader
