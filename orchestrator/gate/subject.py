"""Subject: what a certificate is about, as facts that can be compared one by one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters.draft import draft_of
from adapters.profile import Drafted
from orchestrator.build import build_of
from orchestrator.deployment import Member
from orchestrator.hardware import hardware
from orchestrator.weights import files_digest, is_missing, weights_digest

# What turns text into token ids and messages into a prompt.
_TOKENIZER_FILES = (
    "tokenizer*.json",
    "tokenizer.model*",
    "*.tiktoken",
    "tekken.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template*",
    "additional_chat_templates/*",
)
_ELSEWHERE = "somebody else runs it"


def subject(member: Member) -> dict[str, Any]:
    """What a certificate is about. Two workers with equal subjects need one certificate.

    Weights are digested (once: digests are remembered); hub ids stand for themselves. A fact that
    cannot be known here is null, and `unknown` says why.
    """
    model, spec = member.spec.model, member.profile.speculation
    build = build_of(member)
    draft = draft_of(member.profile, model)
    revision = model.revision or "main"
    unknown = {"build": build.reason} if build.digest is None else {}
    if not member.is_ours:
        unknown["hardware"] = _ELSEWHERE
    for key, source in (("target", model.target), ("draft", draft)):
        if source and is_missing(source):
            unknown[key] = f"there is nothing at {source}"
    tokenizer = None if is_missing(model.target) else _tokenizer(model.target, revision)
    if tokenizer is None:
        unknown["tokenizer"] = unknown.get("target", f"no tokenizer's files in {model.target}")
    return {
        "engine": {
            "name": member.entry.engine,
            "version": member.spec.engine_version,
            "build": build.digest,
        },
        "model": model.name,
        "weights": {
            "target": _weights(model.target, f"{model.target}@{revision}"),
            "draft": _weights(draft, draft) if draft else None,
        },
        "tokenizer": tokenizer,
        "profile": member.profile.profile,
        "method": spec.method,
        "gamma": spec.gamma if isinstance(spec, Drafted) else None,
        "schedule": _schedule(spec) if isinstance(spec, Drafted) else None,
        "launch": launch_digest(member),
        "hardware": hardware(member.spec.gpus) if member.is_ours else None,
        "unknown": unknown,
    }


def launch_digest(member: Member) -> str:
    """SHA-256 of the rendered launch; the path of the draft does not matter, its content does."""
    return member.launch.digest(_stand_ins(member))


def rendered(member: Member) -> dict[str, Any]:
    """What `launch_digest` is over: arguments, environment and files, with `draft` for its path."""
    return dict(member.launch.content(_stand_ins(member)))


def _stand_ins(member: Member) -> dict[str, str]:
    draft = draft_of(member.profile, member.spec.model)
    return {draft: "draft"} if draft else {}


def changed(proved: Any, now: Mapping[str, Any], is_ours: bool) -> list[str]:
    """Names of the facts that are not what was proved.

    Of a worker that somebody else runs, what cannot be known from here is not compared.
    """
    before, after = facts(proved), facts(now)
    skipped = not_compared(now, is_ours)
    return [k for k, v in after.items() if k not in skipped and before.get(k, ...) != v]


def not_compared(now: Mapping[str, Any], is_ours: bool) -> tuple[str, ...]:
    """Names of the facts that cannot be known from here of a worker that somebody else runs."""
    return () if is_ours else tuple(now["unknown"])


def facts(data: Any) -> dict[str, Any]:
    """The subject flat, one entry for each fact that can differ by itself."""
    if not isinstance(data, dict):
        return {}
    engine, weights = data.get("engine"), data.get("weights")
    named = engine if isinstance(engine, dict) else {}
    files = weights if isinstance(weights, dict) else {}
    rest = {k: v for k, v in data.items() if k not in ("engine", "weights", "unknown")}
    return {
        "engine": (named.get("name"), named.get("version")),
        "build": named.get("build"),
        "target": files.get("target"),
        "draft": files.get("draft"),
        **rest,
    }


def _weights(source: str, hub: str) -> str | None:
    """The digest of local weights, a hub id as it is; None where a path leads nowhere."""
    digest = weights_digest(source)
    if digest is not None:
        return f"sha256:{digest}"
    return None if is_missing(source) else hub


def _tokenizer(target: str, revision: str) -> str | None:
    """A folder's tokenizer by its files; a single file of weights carries its own."""
    folder = Path(target)
    if not folder.is_dir():
        return _weights(target, f"{target}@{revision}")
    files = {p for pattern in _TOKENIZER_FILES for p in folder.glob(pattern) if p.is_file()}
    return f"sha256:{files_digest(folder, files)}" if files else None


def _schedule(spec: Drafted) -> list[dict[str, Any]] | None:
    if spec.schedule is None:
        return None
    return [{"batch": str(tier.batch), "gamma": tier.gamma} for tier in spec.schedule]
