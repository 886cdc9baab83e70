"""The restricted YAML loader: what it reads, what it refuses, and where it says so."""

from pathlib import Path
from typing import Any

import pytest

from adapters.document import DEEPEST, LARGEST_FILE, Document, parse_document, read_document
from adapters.problem import Place, Problem


def places(document: Document) -> list[tuple[int, int, str]]:
    return [(p.place.line, p.place.column, p.message) for p in document.problems if p.place]


def only_problem(text: str) -> tuple[int, int, str]:
    found = places(parse_document(text, "f.yaml"))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("yes", "yes"),
        ("True", "True"),
        ("true", True),
        ("false", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("1e-3", 0.001),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-5", -5),
        ("5.", 5.0),
        (".5", 0.5),
        (".inf", ".inf"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("|\n  5\n", "5\n"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says(text: str, value: Any) -> None:
    document = parse_document(f"key: {text}", "f.yaml")
    assert document.problems == []
    assert document.data == {"key": value}
    assert type(document.data["key"]) is type(value)


def test_every_key_and_value_has_its_place() -> None:
    text = "models:\n  small: {target: m.gguf}\nworkers:\n  - name: a\n    port: 1\n  - name: b\n"
    document = parse_document(text, "f.yaml")
    assert str(document.keys["models", "small"]) == "f.yaml:2:3"
    assert str(document.values["models", "small", "target"]) == "f.yaml:2:19"
    assert str(document.keys["workers", 0, "port"]) == "f.yaml:5:5"
    assert str(document.values["workers", 1]) == "f.yaml:6:5"
    assert str(document.values["workers", 1, "name"]) == "f.yaml:6:11"


@pytest.mark.parametrize(
    ("path", "at", "place"),
    [
        (("a", "b"), "value", "f.yaml:2:6"),
        (("a", "b"), "key", "f.yaml:2:3"),
        (("a", "nowhere", "c"), "value", "f.yaml:2:3"),
        (("a", "nowhere"), "key", "f.yaml:1:1"),
        (("nowhere",), "value", "f.yaml:1:1"),
    ],
)
def test_a_problem_gets_its_own_place_or_its_nearest_parents(
    path: tuple[str, ...], at: str, place: str
) -> None:
    document = parse_document("a:\n  b: 1\n", "f.yaml")
    assert str(document.locate(Problem(path, "wrong"), at).place) == place


def test_a_problem_that_has_a_place_keeps_it() -> None:
    problem = Problem(("a",), "wrong", place=Place("other.yaml", 9, 9))
    assert parse_document("a: 1\n", "f.yaml").locate(problem) is problem


def test_a_place_in_an_empty_document_is_its_start() -> None:
    assert str(parse_document("", "f.yaml").locate(Problem(("a",), "x")).place) == "f.yaml:1:1"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", 2, 11, "the key 'c' stands twice (first in line 2)"),
        ("a: 1\n\na: {b: {c: 1}}\n", 3, 1, "the key 'a' stands twice (first in line 1)"),
        ("a: &x 1\nb: *x\n", 2, 4, "aliases (*name) are not read here"),
        ("a: &x 1\n*x : 2\n", 2, 1, "aliases (*name) are not read here"),
        ("a: 1\nb: !!int 5\n", 2, 4, "tags (tag:yaml.org,2002:int) are not read here"),
        ("a: !mine {b: 1}\n", 1, 4, "tags (!mine) are not read here"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second YAML document in one file"),
        ("? [1, 2]\n: 3\n", 1, 3, "a key must be plain text"),
        ("? {a: 1}\n: {b: 2}\n", 1, 3, "a key must be plain text"),
        ("a: 1e999\n", 1, 4, "1e999 is too large a number"),
        (f"a: {'[' * 40}{']' * 40}\n", 1, 3 + DEEPEST, f"nested more than {DEEPEST} deep"),
    ],
)
def test_what_is_refused_is_refused_once_at_its_place(
    text: str, line: int, column: int, message: str
) -> None:
    assert only_problem(text) == (line, column, message)


def test_what_follows_a_mistake_is_still_read() -> None:
    text = f"a: 1\na: {{b: [2, 3]}}\n? [k]\n: {{x: 1}}\nd: {'[' * 40}{']' * 40}\ne: [*x, 5]\nf: 6\n"
    document = parse_document(text, "f.yaml")
    assert document.data["a"] == 1
    assert document.data["e"] == [None, 5]
    assert document.data["f"] == 6
    assert len(document.problems) == 4


def test_a_second_document_adds_nothing() -> None:
    document = parse_document("a: 1\n---\na: 2\nb: [1]\n", "f.yaml")
    assert document.data == {"a": 1}
    assert set(document.values) == {(), ("a",)}


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("a:\n\t- b\n", 2, 1, "indent with spaces, never tabs"),
        ("a: b: c\n", 1, 5, "put text that holds ': ' in quotes"),
        ("a: @b\n", 1, 4, "put text that starts with @"),
        ("a: 1\nb: ]\n", 2, 4, "check the indentation"),
        ("a: [1, 2\nb: 3\n", 2, 2, ""),
    ],
)
def test_a_syntax_error_has_place_and_hint(text: str, line: int, column: int, hint: str) -> None:
    document = parse_document(text, "f.yaml")
    assert places(document)[0][:2] == (line, column)
    assert document.problems[0].message.startswith("not YAML: ")
    assert hint in document.problems[0].hint


def test_a_character_that_yaml_forbids_is_named_readably() -> None:
    line, column, message = only_problem("a: 1\nb: x\x07\n")
    assert (line, column) == (2, 5)
    assert "'\\x07'" in message


def test_places_count_characters_not_bytes() -> None:
    assert only_problem("ä: é\nß: ü\x07\n")[:2] == (2, 5)
    assert only_problem("ä: {é: 1, é: 2}\n")[:2] == (1, 11)


def test_a_file_is_read_as_utf_8_with_or_without_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes("\ufeffname: café\n".encode())
    assert read_document(file).data == {"name": "café"}


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"a: 1\nb: \xff\n", 2, "not UTF-8 text: byte 8 cannot be read"),
        (b"\xff\xfea\x00", 1, "not UTF-8 text: byte 0 cannot be read"),
    ],
)
def test_a_file_that_is_not_text(tmp_path: Path, content: bytes, line: int, message: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(content)
    assert places(read_document(file, "shown.yaml")) == [(line, 1, message)]


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    assert places(read_document(tmp_path / "no.yaml"))[0][2] == (
        "cannot be read: No such file or directory"
    )
    assert places(read_document(tmp_path))[0][2] == "not a regular file"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    with file.open("wb") as stream:
        stream.truncate(LARGEST_FILE + 1)
    assert places(read_document(file)) == [(1, 1, "the file is larger than 16 MiB")]
