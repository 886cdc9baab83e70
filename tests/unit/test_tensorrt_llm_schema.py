"""What is rendered for TensorRT-LLM fits its decoding classes, as facts apart from the adapter's.

tests/data/tensorrt_llm-speculative.json holds them. Nobody could start the engine here: this is
the nearest to its own parser, and it shows the refusals that claim to be shown by it.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from adapters import ADAPTERS
from adapters.flag import load_flags
from adapters.tensorrt_llm.decoder import DECODERS
from tests.unit.refusal import Case, cases
from tests.unit.test_golden import CASES, DASHES

FACTS = Path(__file__).parent.parent / "data" / "tensorrt_llm-speculative.json"
DIALECTS = ("1.2", "1.3")
GOLDENS = [c for c in CASES if c.parent.name.startswith("tensorrt_llm-")]
SHOWN = [c for c in cases("tensorrt_llm-*") if c.shown["stage"] == "config"]


@functools.cache
def facts(dialect: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(FACTS.read_text("utf-8"))["dialects"][dialect]
    return found


def schema(dialect: str, kind: str) -> dict[str, Any]:
    """The JSON Schema of one decoding class."""
    known = facts(dialect)
    own = known["classes"][kind]
    return {
        "type": "object",
        "properties": {**known["every_class"], **own["keys"]},
        "required": own["required"],
        "additionalProperties": False,
        "$defs": known.get("nested", {}),
    }


def complaints(dialect: str, config: Mapping[str, Any]) -> list[str]:
    """What the classes of this dialect do not take, key by key and between the keys."""
    kind = config.get("decoding_type")
    if kind not in facts(dialect)["classes"]:
        return [f"no class {kind!r}"]
    data = json.loads(json.dumps(config))  # numbers as keys become text
    validator = jsonschema.Draft202012Validator(schema(dialect, str(kind)))
    found = [error.message for error in _leaves(validator.iter_errors(data))]
    return found or [*_schedule_complaints(dialect, config), *_size_complaints(dialect, config)]


def _leaves(errors: Any) -> Iterator[Any]:
    for error in errors:
        if error.context:
            yield from _leaves(error.context)
        else:
            yield error


def _schedule_complaints(dialect: str, config: Mapping[str, Any]) -> Iterator[str]:
    lengths = config.get("draft_len_schedule")
    if not lengths:
        return
    longest = config.get("max_draft_len", config.get("num_nextn_predict_layers"))
    if dialect == "1.2" and 1 not in lengths:
        yield "draft_len_schedule has no key 1"
    first = lengths[min(lengths)]
    if first != longest:
        yield f"draft_len_schedule starts with {first}, not max_draft_len {longest}"
    if max(lengths.values()) > longest:
        yield f"draft_len_schedule goes above max_draft_len {longest}"
    if config.get("max_concurrency") is not None:
        yield "draft_len_schedule and max_concurrency"


def _size_complaints(dialect: str, config: Mapping[str, Any]) -> Iterator[str]:
    length, size = config.get("max_draft_len"), config.get("max_total_draft_tokens")
    block = config.get("block_size")
    if block is not None and block != length:
        yield f"block_size {block} is not max_draft_len {length}"
    if config.get("use_dynamic_tree") and not (config.get("dynamic_tree_max_topK") or 0) > 0:
        yield "use_dynamic_tree without dynamic_tree_max_topK"
    elif dialect != "1.2" and size is not None and length:
        most = config.get("dynamic_tree_max_topK", 1) * length
        if size > most:
            yield f"max_total_draft_tokens {size} is above {most}"
    if config.get("global_pool_size") is not None and not config.get("enable_global_pool"):
        yield "global_pool_size without enable_global_pool"
    if config.get("enable_global_pool") and config.get("max_matching_ngram_size", -1) > 64:
        yield "max_matching_ngram_size above 64 with enable_global_pool"


def launched(case: Path) -> dict[str, Any]:
    """The file of a golden, or nothing where it ends in errors."""
    lines = case.read_text().partition(DASHES)[2].splitlines()
    if "file serve.yaml" not in lines:
        return {}
    rest = lines[lines.index("file serve.yaml") + 1 :]
    text = "\n".join(line[2:] for line in rest if line.startswith("  "))
    content: dict[str, Any] = yaml.safe_load(text)
    return content


@pytest.mark.parametrize("case", GOLDENS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_golden_fits_the_classes(case: Path) -> None:
    config = launched(case).get("speculative_config")
    assert config is None or complaints(case.parent.name.rpartition("-")[2], config) == []


def test_goldens_launch_every_class() -> None:
    with_config = [c for c in GOLDENS if "speculative_config" in launched(c)]
    kinds = {launched(c)["speculative_config"]["decoding_type"] for c in with_config}
    known = {d.kind for methods in DECODERS.values() for d in methods.values()}
    assert kinds == known | {"PARD"}


@pytest.mark.parametrize("case", GOLDENS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_key_of_the_file_is_one_of_its_class(case: Path) -> None:
    table = load_flags("tensorrt_llm", case.parent.name.rpartition("-")[2])
    ours = {"revision", "max_seq_len", "return_perf_metrics", "enable_iter_perf_stats"}
    known = {*table.config_keys["config"], *ours}
    assert set(launched(case)) <= known


@pytest.mark.parametrize("case", SHOWN, ids=lambda c: c.name)
def test_what_is_refused_is_refused_by_the_classes(case: Case) -> None:
    """`argv` of the case is what a launch would have been without the refusal."""
    config = yaml.safe_load(case.shown["argv"][1])["speculative_config"]
    said = complaints(case.version, config)
    assert any(case.shown["says"] in complaint for complaint in said), said


def test_enough_refusals_are_shown_by_the_classes() -> None:
    assert {c.version for c in SHOWN} == set(DIALECTS)
    assert len(SHOWN) >= 18


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_adapters_own_table_agrees_with_the_facts(dialect: str) -> None:
    """Two tables were written from the same facts: a key that only one has is a mistake in one."""
    table = load_flags("tensorrt_llm", dialect)
    for kind in facts(dialect)["classes"]:
        name = f"speculative_config.{kind}"
        if name in table.config_keys:
            known = set(schema(dialect, kind)["properties"]) - {"decoding_type"}
            assert set(table.config_keys[name]) == known, kind


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_class_is_a_valid_schema_and_has_a_source(dialect: str) -> None:
    assert facts(dialect)["source"]
    for kind in facts(dialect)["classes"]:
        jsonschema.Draft202012Validator.check_schema(schema(dialect, kind))
    assert {d.name for d in ADAPTERS["tensorrt_llm"].SUPPORTED} == set(DIALECTS)
