"""Hardware: what of this machine decides how an engine rounds, and what else is worth noting."""

import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GPU_TIMEOUT_S = 20
_CPU_FILE = Path("/proc/cpuinfo")
# Kernels are chosen by these. Others come and go with the system's version and change no result.
_X86 = re.compile(r"(sse|ssse|avx|fma|f16c|amx)[a-z0-9_]*")
_ARM = re.compile(r"(asimd|sve|sme|bf16|i8mm|fphp|fp)[a-z0-9]*")


@dataclass(frozen=True)
class Gpu:
    """One device by its number, as the driver names it."""

    number: int
    name: str
    driver: str


def hardware(gpus: Sequence[int] | None) -> dict[str, Any]:
    """What a certificate is bound to: processor, its instructions for arithmetic, and devices.

    `gpus` are the numbers that a worker uses; None: any of the machine's. In what is returned they
    are null where the driver's program is there and does not answer.
    """
    cpu, instructions = processor()
    seen = _gpus()
    used = [gpu.name for gpu in seen or () if gpus is None or gpu.number in gpus]
    return {
        "machine": platform.machine(),
        "cpu": cpu,
        "instructions": list(instructions),
        "gpus": None if seen is None else sorted(used),
    }


def noted() -> dict[str, Any]:
    """What is told beside it, and compared with nothing."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "logical_cpus": os.cpu_count(),
        "drivers": sorted({gpu.driver for gpu in _gpus() or ()}),
    }


def processor() -> tuple[str, tuple[str, ...]]:
    """The processor's name, and its instructions for arithmetic, where the system tells them."""
    try:
        return parse_processor(_CPU_FILE.read_text(errors="replace"))
    except OSError:
        return platform.machine(), ()


def parse_processor(text: str) -> tuple[str, tuple[str, ...]]:
    """Both from the text of /proc/cpuinfo: the words differ on x86 and ARM."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip().lower(), value.strip())
    name = found.get("model name") or _arm_name(found)
    pattern, key = (_X86, "flags") if "flags" in found else (_ARM, "features")
    words = {word for word in found.get(key, "").split() if pattern.fullmatch(word)}
    return name, tuple(sorted(words))


def _arm_name(found: Mapping[str, str]) -> str:
    parts = [found[key] for key in ("cpu implementer", "cpu part", "cpu variant") if key in found]
    return " ".join(["ARM", *parts]) if parts else platform.machine()


@functools.cache
def _gpus() -> list[Gpu] | None:
    """Asked once a process: devices do not change under it. None: no answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    asked = "--query-gpu=index,name,driver_version"
    try:
        done = subprocess.run(
            [program, asked, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=GPU_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> list[Gpu]:
    """The devices in nvidia-smi's lines `index, name, driver`."""
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    return [Gpu(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[0].isdigit()]
