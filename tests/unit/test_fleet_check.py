"""A fleet file by itself: the schema, and the mistakes between its parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.problem import Problem
from orchestrator.address import split_address
from orchestrator.fleet import Fleet, Hop, Until
from orchestrator.fleet_check import read_fleet
from orchestrator.type_rule import compare

HEAD = "fleet: f\nmodels: {small: {target: m.gguf}}\n"
PLAIN = "  - {name: plain-0, engine: llama_cpp, model: small, profile: plain, port: 8501}\n"
EDIT = "  - {name: edit-0, engine: llama_cpp, model: small, profile: edit, port: 8502}\n"
GOOD = f"{HEAD}workers:\n{PLAIN}{EDIT}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def problems(folder: Path, text: str) -> list[Problem]:
    file = folder / "fleet.yaml"
    file.write_text(text)
    return read_fleet(file, "fleet.yaml").problems


def fatal(found: Sequence[Problem]) -> list[tuple[Any, ...]]:
    return [p.path for p in found if p.is_fatal]


def warned(found: Sequence[Problem]) -> list[str]:
    return [p.code for p in found if not p.is_fatal]


def test_a_good_fleet_has_no_problems(folder: Path) -> None:
    assert problems(folder, GOOD) == []


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (GOOD + PLAIN.replace("8501", "8503"), ("workers", 2, "name"), "workers[0] is named"),
        (GOOD + PLAIN.replace("plain-0", "p"), ("workers", 2, "port"), "8501 is plain-0's"),
        (GOOD.replace("model: small, profile: edit", "model: smal, profile: edit"),
         ("workers", 1, "model"), "no model 'smal'"),
        (GOOD.replace(", port: 8502", ""), ("workers", 1, "port"), "neither port nor url"),
        (GOOD.replace("8502", "8502, url: 'http://h:1'"), ("workers", 1, "url"), "both port and"),
        (GOOD.replace("8502", "8400"), ("workers", 1, "port"), "8400 is router.listen's"),
        (GOOD.replace("8502", "8401"), ("workers", 1, "port"), "8401 is router.admin's"),
        (GOOD + "router: {listen: '127.0.0.1:1', admin: '127.0.0.1:1'}\n", ("router", "admin"),
         "port 1 is router.listen's"),
        (GOOD + "types: [{type: a}, {type: b}]\nroutes: {a: [plain], b: [plain]}\n",
         ("types", 0), "matches everything"),
        (GOOD + "types: [{type: a, when: {}}, {type: b}]\nroutes: {a: [plain], b: [plain]}\n",
         ("types", 0), "matches everything"),
        (GOOD + "types: [{type: a, when: {temperature: null}}, {type: b}]\n"
         "routes: {a: [plain], b: [plain]}\n", ("types", 0), "matches everything"),
        (GOOD + "routes: {chat: [plain]}\n", ("routes", "chat"), "no type 'chat'"),
        (GOOD + "routes: {default: [plain, edti]}\n", ("routes", "default", 1), "'edti'"),
        (GOOD + "routes: {default: [{profile: edti}]}\n", ("routes", "default", 0), "'edti'"),
    ],
)  # fmt: skip
def test_one_mistake_between_parts(folder: Path, text: str, path: Any, words: str) -> None:
    found = problems(folder, text)
    assert fatal(found) == [path]
    assert words in next(p.message for p in found if p.is_fatal)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{HEAD}workers:\n{EDIT}", "no-plain"),
        (GOOD.replace("m.gguf}", "m.gguf}, big: {target: b}"), "model-unserved"),
        (GOOD + "types: [{type: a, when: {stream: true}}]\nroutes: {a: [plain]}\n",
         "type-open-end"),
        (GOOD + "types: [{type: a}]\n", "type-unrouted"),
    ],
)  # fmt: skip
def test_warnings_do_not_stop_a_fleet(folder: Path, text: str, code: str) -> None:
    found = problems(folder, text)
    assert fatal(found) == []
    assert warned(found) == [code]


def test_a_type_named_twice_may_share_its_route(folder: Path) -> None:
    types = "types: [{type: a, when: {stream: true}}, {type: a, when: {tools: true}}, {type: b}]\n"
    assert problems(folder, f"{GOOD}{types}routes: {{a: [edit, plain], b: [plain]}}\n") == []


@pytest.mark.parametrize(
    ("url", "is_good"),
    [
        ("http://10.0.0.7:8000", True),
        ("http://10.0.0.7:8000/", True),
        ("http://a..b:80", False),
        ("http://engine", False),
        ("http://[::1]:8000", True),
        ("https://10.0.0.7:8000", True),
        ("https://engine.example", True),
        ("https://[::1]", True),
        ("https://h/v1", False),
        ("https://user:secret@h", False),
        ("ftp://h:21", False),
        ("10.0.0.7:8000", False),
        ("http://", False),
        ("http://h:8000/v1", False),
        ("http://h:8000?x=1", False),
        ("http://h:8000#x", False),
        ("http://user:secret@h:8000", False),
        ("http://h:99999", False),
        ("http://h:port", False),
        ("http://[::1", False),
        ("http://h h:1", False),
    ],
)
def test_an_engines_url(folder: Path, url: str, is_good: bool) -> None:
    text = GOOD.replace("port: 8502", f"url: '{url}'")
    assert fatal(problems(folder, text)) == ([] if is_good else [("workers", 1, "url")])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8400", ("127.0.0.1", 8400)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8400", ("::1", 8400)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "8400", ":8400", "host:", "host:-1", "host:65536", "host:x", "host:²", "host:٣",
     "::1", "[::1:8400", "::1]:8400", " :8400", "a b:1", "http://h:1"],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="an address is written host:port"):
        split_address(text)


@pytest.mark.parametrize(
    ("comparison", "value", "holds"),
    [
        (">=0.3", 0.3, True),
        (">=0.3", 0.29, False),
        ("<=2", 2, True),
        ("> 2", 2, False),
        ("<2", 1.9, True),
        ("==0", 0.0, True),
        ("==-1", -1, True),
        ("<-1.5", -2, True),
    ],
)
def test_comparisons(comparison: str, value: float, holds: bool) -> None:
    assert compare(comparison, value) is holds


@pytest.mark.parametrize("text", ["", "3", "=3", "=>3", "!=3", ">= x", ">=1e3", ">=1 and <2"])
def test_what_is_no_comparison(folder: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a comparison"):
        compare(text, 1)
    rule = f"types: [{{type: a, when: {{turns: '{text}'}}}}, {{type: b}}]\n"
    found = problems(folder, f"{GOOD}{rule}routes: {{a: [plain], b: [plain]}}\n")
    (problem,) = [p for p in found if p.is_fatal]
    assert problem.path == ("types", 0, "when", "turns")
    assert "not a valid name" not in problem.message


def test_a_regular_expression_is_compiled(folder: Path) -> None:
    rule = "types: [{type: a, when: {last_user: '('}}, {type: b}]\n"
    found = problems(folder, f"{GOOD}{rule}routes: {{a: [plain], b: [plain]}}\n")
    assert fatal(found) == [("types", 0, "when", "last_user")]
    assert "not a regular expression that RE2 takes: missing )" in found[0].message


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("API_KEY", True),
        ("HF_TOKEN", True),
        ("db_password", True),
        ("OMP_NUM_THREADS", False),
        ("HF_HUB_OFFLINE", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("VLLM_NO_USAGE_STATS", False),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("OPENAI_API_KEYS", True),
        ("TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS", False),
        ("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", False),
    ],
)
def test_secrets_do_not_stand_in_a_fleet(folder: Path, name: str, is_secret: bool) -> None:
    found = problems(folder, f"{GOOD}engines: {{llama_cpp: {{env: {{{name}: 'x'}}}}}}\n")
    assert bool(fatal(found)) is is_secret


def test_every_variable_is_told_where_it_stands(folder: Path) -> None:
    env = "{A_TOKEN: 'x', '1 2': 'x', B: 5, C: 'x', D_PASSWORD: 'x'}"
    found = problems(folder, f"{GOOD}engines: {{llama_cpp: {{env: {env}}}}}\n")
    told = [(p.path[-1], p.code) for p in found if p.is_fatal]
    assert sorted(told) == [
        ("1 2", "bad-variable"),
        ("A_TOKEN", "secret"),
        ("B", "bad-value"),
        ("D_PASSWORD", "secret"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "engines: {llama_cpp: {start_timeout_s: 0}}",
        "engines: {llama_cpp: {start_timeout_s: 7201}}",
        "engines: {llama_cpp: {version: 0.32}}",
        "gate: {policy: lax}",
        "gate: {required: 'yes'}",
        "degrade: maybe",
        "router: {body_limit_mb: 0}",
        "types: []\nroutes: {default: [{profile: plain, until: {in_flight: 0}}]}",
    ],
)
def test_fields_out_of_their_range(folder: Path, line: str) -> None:
    assert len(fatal(problems(folder, f"{GOOD}{line}\n"))) == 1


# A mistake in one worker says nothing about the next, and what follows from it is not reported.


def test_the_next_workers_mistake_is_listed_too(folder: Path) -> None:
    text = GOOD.replace("8501", "x").replace("small, profile: edit", "smal, profile: edit")
    assert sorted(fatal(problems(folder, text))) == [
        ("workers", 0, "port"),
        ("workers", 1, "model"),
    ]


@pytest.mark.parametrize(
    ("change", "to", "path"),
    [
        ("profile: plain", "profile: Plain", ("workers", 0, "profile")),
        ("engine: llama_cpp", "engine: lama_cpp", ("workers", 0, "engine")),
        ("name: plain-0", "name: Plain", ("workers", 0, "name")),
        ("port: 8501", "port: none", ("workers", 0, "port")),
        ("target: m.gguf", "target: 5", ("models", "small", "target")),
    ],
)
def test_what_follows_from_an_unreadable_part_is_not_reported(
    folder: Path, change: str, to: str, path: Any
) -> None:
    text = GOOD.replace("models: {", "models: {big: {target: b}, ") + "routes: {default: [plain]}\n"
    big = "  - {name: big-0, engine: llama_cpp, model: big, profile: plain, port: 8503}\n"
    text = text.replace("routes:", f"{big}routes:").replace(change, to, 1)
    found = problems(folder, text)
    assert fatal(found) == [path]
    assert warned(found) == []


def test_hops_of_a_route() -> None:
    fleet = Fleet.model_validate(
        {
            "fleet": "f",
            "models": {"small": {"target": "m"}},
            "workers": (
                {"name": "w", "engine": "vllm", "model": "small", "profile": "plain", "port": 1},
            ),
            "routes": {"default": ("edit", {"profile": "plain", "until": {"in_flight": 2}})},
        }
    )
    assert fleet.hops("default") == (
        Hop(profile="edit"),
        Hop(profile="plain", until=Until(in_flight=2)),
    )
    assert fleet.hops("other") == ()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("[org/small, sql-lora]", None),
        ("[plain-model, plain-model]", "'plain-model' is models.small.names[0] already"),
        ("[small]", "'small' is models.small already"),
    ],
)
def test_a_name_means_one_model(folder: Path, names: str, said: str | None) -> None:
    text = GOOD.replace("models: {small: {", f"models: {{small: {{names: {names}, ")
    assert text != GOOD
    found = [str(p.message) for p in problems(folder, text) if p.code == "name-twice"]
    assert found == ([] if said is None else [said])
