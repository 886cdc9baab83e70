"""What of a machine decides how an engine rounds."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator import hardware as module
from orchestrator.hardware import Gpu, hardware, noted, parse_gpus, parse_processor

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9354
flags\t\t: fpu vme sse sse2 sme sev avx2 avx512f avx512_vnni fma f16c amx_bf16 ibrs aes

processor\t: 1
model name\t: another
flags\t\t: sse
"""
ARM = """processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes crc32 fphp asimdhp sve i8mm bf16 sme cpuid
CPU implementer\t: 0x41
CPU part\t: 0xd4f
CPU variant\t: 0x0
"""
SMI = "0, NVIDIA H100 80GB HBM3, 560.35.03\n1, NVIDIA A100, 560.35.03\n"


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, None)


def devices(monkeypatch: pytest.MonkeyPatch, answer: str | Exception | None) -> None:
    def run(*args: Any, **_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(args, 0, answer, "")

    monkeypatch.setattr(shutil, "which", lambda name: answer and f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    module._gpus.cache_clear()


def test_instructions_for_arithmetic_are_kept_and_others_are_not() -> None:
    arithmetic = ("amx_bf16", "avx2", "avx512_vnni", "avx512f", "f16c", "fma", "sse", "sse2")
    assert parse_processor(X86) == ("AMD EPYC 9354", arithmetic)


def test_arm_has_other_words() -> None:
    name, instructions = parse_processor(ARM)
    assert name == "ARM 0x41 0xd4f 0x0"
    assert instructions == ("asimd", "asimdhp", "bf16", "fp", "fphp", "i8mm", "sme", "sve")


def test_a_text_that_says_nothing_gives_the_machines_type() -> None:
    assert parse_processor("")[1] == ()


def test_devices_are_read_by_their_numbers() -> None:
    assert parse_gpus(SMI + "\nFailed to initialize\n") == [
        Gpu(0, "NVIDIA H100 80GB HBM3", "560.35.03"),
        Gpu(1, "NVIDIA A100", "560.35.03"),
    ]


def test_a_worker_is_bound_to_the_devices_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, SMI)
    assert hardware((0,))["gpus"] == ["NVIDIA H100 80GB HBM3"]
    assert hardware(())["gpus"] == []
    assert hardware(None)["gpus"] == ["NVIDIA A100", "NVIDIA H100 80GB HBM3"]
    assert noted()["drivers"] == ["560.35.03"]
    assert "drivers" not in hardware(None)


def test_without_the_drivers_program_there_is_no_device() -> None:
    assert hardware(None)["gpus"] == []


@pytest.mark.parametrize(
    "error", [subprocess.TimeoutExpired("x", 20), OSError(), subprocess.CalledProcessError(9, "x")]
)
def test_a_driver_that_does_not_answer_is_not_known(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    devices(monkeypatch, error)
    assert hardware(None)["gpus"] is None


def test_without_the_systems_file_the_machines_own_word_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CPU_FILE", Path("/nowhere"))
    assert hardware(None)["cpu"]
    assert hardware(None)["instructions"] == []
