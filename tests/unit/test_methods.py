"""docs/methods.md says what the adapters say, for every method of the literature."""

import re
from pathlib import Path

import pytest

from adapters import ADAPTERS
from adapters.explain import explain
from adapters.literature import ARXIV, LITERATURE, Entry
from adapters.profile import Profile
from adapters.support import Cell, cell, example, ideal_worker, known, rows, span
from scripts.methods import methods

VERSIONS = [(e, d.name) for e, adapter in ADAPTERS.items() for d in adapter.SUPPORTED]
PAGE = methods()
every_entry = pytest.mark.parametrize("entry", LITERATURE, ids=lambda entry: entry.name)
every_version = pytest.mark.parametrize(("engine", "version"), VERSIONS)

# What every engineer asks about first, by the paper's number.
PAPERS = [
    "2211.17192",
    "2302.01318",
    "2310.08461",
    "2510.19779",
    "2504.18583",
    "2401.10774",
    "2401.15077",
    "2406.16858",
    "2503.01840",
    "2602.01469",
    "2412.19437",
    "2402.02057",
    "2411.04975",
    "2311.08252",
    "2309.08168",
    "2404.16710",
    "2305.09781",
    "2404.19124",
    "2602.06036",
]


def entry_of(name: str) -> Entry:
    return next(entry for entry in LITERATURE if entry.name == name)


def test_every_paper_is_there() -> None:
    addresses = {address for entry in LITERATURE for _, address in entry.papers}
    assert {ARXIV + number for number in PAPERS} <= addresses


def test_every_method_of_a_profile_is_there() -> None:
    schema = Profile.model_json_schema()
    known = set(schema["properties"]["speculation"]["discriminator"]["mapping"]) - {"none"}
    shown = {e.speculation["method"] for e in LITERATURE if e.speculation}
    assert shown == known


@every_entry
def test_an_entry_is_an_example_or_names_what_to_use_instead(entry: Entry) -> None:
    assert (entry.speculation is None) == bool(entry.instead)
    assert entry.text.endswith(".")
    profile = example(entry)
    if profile is not None:
        assert set(entry.keys) <= set(profile.speculation.model_dump())


@every_version
def test_a_cell_has_the_engines_words_or_a_reason_and_a_way_out(engine: str, version: str) -> None:
    for entry in LITERATURE:
        found = cell(ADAPTERS[engine], version, entry)
        if found.verdict == "no":
            assert found.remarks, entry
            assert not found.native, entry
        else:
            assert found.native, entry
            assert (found.verdict == "if changed") == bool(found.changed), entry
            assert bool(found.changed) == bool(found.refusals), entry
            assert bool(found.remarks) or found.verdict != "partly", entry
            assert not found.remarks or found.verdict != "yes", entry


@every_version
def test_the_keys_that_make_the_method_are_not_passed_over(engine: str, version: str) -> None:
    """A `yes` would be a lie if the adapter had not looked at the key."""
    adapter = ADAPTERS[engine]
    for entry in LITERATURE:
        profile = example(entry)
        if profile is not None:
            found = explain(adapter, profile, ideal_worker(adapter, version))
            assert [a.key for a in found.accounts if a.fate == "unsaid"] == [], entry


@every_version
def test_partly_runs_as_printed_and_if_changed_runs_as_changed(engine: str, version: str) -> None:
    adapter = ADAPTERS[engine]
    for entry in LITERATURE:
        found = cell(adapter, version, entry)
        if entry.speculation is not None and found.verdict != "no":
            worker = ideal_worker(adapter, version)
            printed, runs = example(entry), example(entry, found.changed)
            assert printed is not None
            assert runs is not None
            is_refused = any(p.is_fatal for p in adapter.check(printed, worker))
            assert is_refused == (found.verdict == "if changed"), entry
            assert not any(p.is_fatal for p in adapter.check(runs, worker)), entry


@every_entry
def test_every_variant_is_for_a_version_that_refuses_the_example(entry: Entry) -> None:
    found = [cell(ADAPTERS[engine], version, entry).changed for engine, version in VERSIONS]
    assert [variant for variant in entry.variants if variant not in found] == []


def test_methods_that_no_engine_has_are_no_everywhere() -> None:
    for name in ("Retrieval (REST)", "Self-speculation (layer skip)"):
        for engine, version in VERSIONS:
            found = cell(ADAPTERS[engine], version, entry_of(name))
            assert found.verdict == "no"
            assert "`method: " in found.remarks[0]


def test_neighbouring_versions_that_do_the_same_are_one_row() -> None:
    found = list(rows(ADAPTERS, entry_of("Draft model")))
    assert [title for adapter, title, _ in found if adapter is ADAPTERS["vllm"]] == ["all"]


def test_known_cells() -> None:
    """Facts that were seen on the engines themselves (docs/verified.md)."""
    vllm = cell(ADAPTERS["vllm"], "0.32", entry_of("EAGLE-3, chain"))
    assert (vllm.verdict, vllm.native) == ("yes", ("method: eagle3",))
    llama = cell(ADAPTERS["llama_cpp"], "b11434", entry_of("EAGLE-3, chain"))
    assert (llama.verdict, llama.native) == ("yes", ("--spec-type draft-eagle3",))
    ngram = cell(ADAPTERS["sglang"], "0.5.22", entry_of("Prompt lookup (n-gram)"))
    assert ngram.verdict == "partly"
    suffix = cell(ADAPTERS["llama_cpp"], "b11434", entry_of("Suffix decoding"))
    assert suffix.verdict == "no"
    assert isinstance(suffix, Cell)
    assert "ngram" in suffix.remarks[0]


# The page.


def test_links_lead_to_sections_and_files() -> None:
    sections = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert sections == [entry.name for entry in LITERATURE]
    for anchor in re.findall(r"\]\(#([^)]+)\)", PAGE):
        assert anchor in {re.sub(r"[^\w\- ]", "", s.lower()).replace(" ", "-") for s in sections}
    docs = Path(__file__).parents[2] / "docs"
    for name in re.findall(r"\]\(([a-z]+\.md)\)", PAGE):
        assert (docs / name).exists()


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for table in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_every_engine_has_its_column_what_it_rests_on_and_its_versions() -> None:
    head = next(line for line in PAGE.splitlines() if line.startswith("| Method |"))
    for adapter in ADAPTERS.values():
        assert re.search(rf"\| {re.escape(adapter.TITLE)}<br>\(.*?(ran|parsed|read)\) \|", head)
        assert f"- {adapter.TITLE}: {known(adapter)}\n" in PAGE


def test_each_verdict_is_explained_and_has_a_sign_of_its_own() -> None:
    legend, table = PAGE.partition("\n## ")[0].split("| Method |")
    for shown in ("✓ yes", "~ partly", "± if changed", "– no"):
        assert f"- **{shown}**: " in legend
        assert shown in table


def test_the_variant_that_runs_is_printed() -> None:
    section = PAGE.partition("\n## EAGLE-3, tree\n")[2].partition("\n## ")[0]
    assert "**Runs with `tree: {branches: 4, tokens: 4}`.**" in section


@pytest.mark.parametrize(
    ("engine", "first", "last", "text"),
    [
        ("vllm", 0, 3, "all"),
        ("vllm", 1, 3, "0.32 to 0.33"),
        ("vllm", 1, 2, "0.32"),
        ("llama_cpp", 0, 1, "b10306 to b10661"),
        ("llama_cpp", 1, 2, "b10662 to b11549"),
        ("tensorrt_llm", 1, 2, "1.3 to 1.4"),
        ("sglang", 0, 1, "0.5.10"),
    ],
)
def test_versions_are_told_as_users_write_them(
    engine: str, first: int, last: int, text: str
) -> None:
    adapter = ADAPTERS[engine]
    assert span(adapter, adapter.SUPPORTED[first:last]) == text
