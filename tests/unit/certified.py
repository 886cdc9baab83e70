"""What the tests of certificates share: a worker with weights of its own, and a trial of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from adapters import ADAPTERS
from adapters.exchange import Candidate, Generation
from adapters.launch import Launch, Model, WorkerSpec
from adapters.profile import Profile
from orchestrator.deployment import Member
from orchestrator.fleet import EngineEntry, GatePolicy, WorkerEntry
from orchestrator.gate.certificate import certificate_path, make_certificate, write_certificate
from orchestrator.gate.evidence import (
    SUITES,
    Arm,
    Divergence,
    Finding,
    Precision,
    Question,
    Rate,
    Sampled,
    Trial,
)
from orchestrator.gate.prompt import source_digest
from orchestrator.gate.signature import SigningKey
from orchestrator.shipped import shipped

Spec = dict[str, Any]
DRAFTED: Spec = {"method": "draft_model", "gamma": 4}
POLICY = GatePolicy()


def member(
    base: Path,
    speculation: Spec = DRAFTED,
    engine: str = "llama_cpp",
    profile: str = "edit",
    **fields: Any,
) -> Member:
    """A worker with real files of weights and a program under `base`; `url` makes it another's."""
    made = Profile.model_validate({"profile": profile, "speculation": speculation})
    model = Model("small", str(base / "m.gguf"), 2048, {"draft_model": str(base / "d.gguf")})
    command = (str(base / "bin" / "engine"),)
    settings: Spec = {"engine_version": "11434", "command": command, "model": model, "port": 8501}
    url = fields.pop("url", None)
    spec = WorkerSpec(name="edit-0", **settings | fields)
    where = {"url": url} if url else {"port": 8501}
    entry = WorkerEntry.model_validate(
        {"name": "edit-0", "engine": engine, "model": model.name, "profile": profile, **where}
    )
    empty = Member(entry, made, EngineEntry(), spec, Launch((), (), (), 1), base)
    return replace(empty, launch=ADAPTERS[engine].render(made, spec))


def lay_out(base: Path) -> None:
    """The files that `member` names."""
    (base / "m.gguf").write_text("target")
    (base / "d.gguf").write_text("draft")
    (base / "bin").mkdir()
    (base / "bin" / "engine").write_bytes(b"\x7fELF engine")
    (base / "bin" / "libengine.so").write_bytes(b"kernels")


def trial(**changes: Any) -> Trial:
    """A passed trial with something in every field."""
    answer = Generation((0,), (1, 2), "ab", "length")
    arms = tuple(
        Arm(name, {"p": answer}, "edit-0", {}, 5.0, 4.0, 2.0, (2.0, 1.5), 1.25, "f", 1)
        for name in ("A1", "A2", "S1", "S2")
    )
    told = (Candidate(7, -0.5), Candidate(8, float("-inf")))
    tie = Divergence("p", "p", "chat", "greedy", 1, ("S1",), 1, 7, 8, candidates=told)
    tie = replace(tie, margin=float("inf"), units=0.5)
    whole = Trial(
        candidate="edit-0",
        baseline="plain-0",
        engine="llama_cpp",
        profile="edit",
        policy="strict",
        verdict="pass",
        reasons=("all the same",),
        arms=arms,
        questions={"p": Question("p", "p", "chat", "greedy", {"max_tokens": 2})},
        divergences=(tie,),
        noise=(tie,),
        findings=(Finding("stop", "p", "chat", "S1", "it went on"),),
        rates={"all": Rate(0, 2000, 0.0, 0.0, 1.5)},
        noise_rate=Rate(0, 2, 0.0, 0.0, 1500.0),
        wide_rate=Rate(0, 2, 0.0, 0.0, 1500.0),
        precision=Precision(0.125, "bfloat16"),
        sampled=Sampled("pass", "alike", 1.0, 4, 100, 1, 0.01, 0.5, 0.4, 0.1),
        suites=dict.fromkeys(SUITES, "ran"),
        launch_diff=("+ --draft d",),
        prompts_digest="x",
        prompts_source=source_digest(shipped("prompts")),
        created="2026-01-02T03:04:05Z",
    )
    return replace(whole, **changes)


def certify(folder: Path, candidate: Member, key: SigningKey | None = None, **changes: Any) -> Path:
    """Writes the certificate of a trial; `changes` are fields of the certificate."""
    data = make_certificate(trial(), candidate, candidate) | changes
    return write_certificate(certificate_path(folder, candidate), data, key)
