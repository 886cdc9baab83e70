"""The HTML page: one file, no way out of it, and every picture told in words and figures too."""

import base64
import functools
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.markup import Markup, said, table, tag
from orchestrator.gate.report.page import MOST_DIVERGENCES, page
from tests.unit.report_samples import (
    HOSTILE,
    MAKERS,
    failing,
    hostile,
    inconclusive,
    nothing,
    other_prompts,
    passing,
    texts,
)

VOID = {"meta", "br", "link"}
PICTURES = ("forks", "positions", "margins", "guesses")


class Reader(HTMLParser):
    """Tags, attributes and text; unbalanced tags are kept in `wrong`."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


@functools.cache
def made(make: Callable[[], Trial]) -> str:
    return page(make(), texts())


@functools.cache
def parsed(make: Callable[[], Trial]) -> Reader:
    return read(made(make))


@pytest.mark.parametrize("make", MAKERS)
def test_pages_are_well_formed_and_ids_are_unique(make: Callable[[], Trial]) -> None:
    reader = parsed(make)
    assert reader.wrong == []
    assert reader.open == []
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("make", MAKERS)
def test_a_page_needs_nothing_else_and_runs_nothing(make: Callable[[], Trial]) -> None:
    reader = parsed(make)
    names = {name for name, _ in reader.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in reader.tags:
        assert not [key for key in attributes if key.startswith("on") or key in ("style", "src")]
        href = attributes.get("href")
        assert href is None or href.startswith("#")
    assert "url(" not in made(make)


def test_the_policy_allows_this_style_sheet_alone() -> None:
    text = page(passing(), {})
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = (
        attributes["content"]
        for name, attributes in read(text).tags
        if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("make", MAKERS)
def test_links_within_the_page_lead_somewhere(make: Callable[[], Trial]) -> None:
    tags = parsed(make).tags
    ids = {attributes.get("id") for _, attributes in tags}
    for _, attributes in tags:
        if href := attributes.get("href"):
            assert href[1:] in ids
        assert set((attributes.get("aria-labelledby") or "").split()) <= ids


@pytest.mark.parametrize("make", MAKERS)
def test_pictures_are_told_in_words(make: Callable[[], Trial]) -> None:
    text = made(make)
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert re.match(r'<svg viewBox="0 0 \d+ \d+" role="img" aria-labelledby=', picture)
        assert re.search(r"<title id=[^>]*>[^<]+</title><desc id=[^>]*>[^<]+</desc>", picture)
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        assert ("<svg" in figure) == ("<table" in figure)
        assert figure.count("<svg") in (0, 2)
        assert ('class="nothing"' in figure) == ("<svg" not in figure)


def figures(make: Callable[[], Trial]) -> dict[str, str]:
    found = re.findall(r'<figure aria-labelledby="(\w+)">(.*?)</figure>', made(make), re.DOTALL)
    return dict(found)


def test_a_pass_without_divergences_says_so_instead_of_an_empty_axis() -> None:
    found = figures(passing)
    assert set(found) == set(PICTURES)
    assert (
        "No divergence: all 5,248 tokens that were compared are plain&#x27;s." in found["positions"]
    )
    assert "Nothing to measure: no answer left plain&#x27;s." in found["margins"]
    assert "<svg" in found["forks"]
    assert "<svg" in found["guesses"]


def test_where_nothing_was_compared_nothing_is_claimed() -> None:
    found = figures(nothing)
    for key in ("forks", "positions", "margins"):
        assert "Nothing to show: no tokens were compared." in found[key]
    assert "No arm speculated." in found["guesses"]
    text = parsed(nothing).text
    assert "Nothing was checked." in text
    assert "No arm ran." in text
    assert "found nothing" not in text


def test_arms_that_drafted_nothing_are_named() -> None:
    assert (
        "S1 and S2 drafted nothing: no verification was tried." in figures(inconclusive)["guesses"]
    )


def test_a_failure_has_all_its_parts() -> None:
    text = parsed(failing).text
    for words in (
        "✕ FAIL",
        "34 of 41 answers differ from plain (in S1, S2)",
        "200 divergences: 1 with another prompt, 39 wrong",
        f"the first {MOST_DIVERGENCES} are listed, report.json holds all",
        "another prompt · greedy/chat:1 · chat, greedy · S1 and S2the arms read different",
        "different prompts (999 and 1,999 tokens): one engine may have another tokenizer",
        "Please answer in one line: 0'",
        "One unit is 0.125 nats: a step of bfloat16 between 16 and 32.",
        "opposite penalties, same answer",
        "HTTP 500: CUDA error: out of memory",
        "p-value of whole strings (MMD)0.0041",
        "next tokens: another distribution than plain's in 9,600 draws at 24 places: p = 2e-05",
        "A1, A2the engine tells none",
        "S1, S20.32.0 pid 4711 since 1764523011",
        "not run: the engine was launched without a tool parser",
        '+ --speculative-config={"method": "ngram", "num_speculative_tokens": 4}',
        "Nothing is claimed beyond 8 requests at once.",
    ):
        assert words in text
    assert made(failing).count('<li class="wrong">') > 20


def test_other_prompts_have_no_margins() -> None:
    found = figures(other_prompts)
    assert "Nothing to measure: the arms read different prompts." in found["margins"]
    assert "the arms read different prompts: 2" in found["positions"]
    assert "tokensfound" not in parsed(other_prompts).text


def test_nothing_breaks_out_of_a_page() -> None:
    trial, prompts = hostile()
    text = page(trial, prompts)
    reader = read(text)
    assert reader.wrong == []
    assert reader.open == []
    known = {name for make in MAKERS for name, _ in parsed(make).tags}
    assert {name for name, _ in reader.tags} <= known
    for _, attributes in reader.tags:
        assert not [key for key in attributes if key.startswith("on")]
    assert "<img" not in text
    assert "</script" not in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\ud800-\udfff\u202a-\u202e\u2028\ufffe]", text)
    text.encode("utf-8")
    assert HOSTILE[0] in reader.text  # shown as what it is


def test_attributes_and_children_are_escaped_unless_made_here() -> None:
    made = tag("p", "<b>", tag("i", "&"), class_='"x"', title=None, x=1.25)
    assert made == '<p class="&quot;x&quot;" x="1.2">&lt;b&gt;<i>&amp;</i></p>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert said("") == ""
    assert said("<") == "<code><bdi>&lt;</bdi></code>"
    assert isinstance(table(("a",), [("<",)]), Markup)
    assert "&lt;" in table(("a",), [("<",)])
