"""The option tables: their shape, how names are looked up in them, and how they are read."""

import json
from collections import Counter
from pathlib import Path

import pytest

from adapters import ADAPTERS
from adapters.flag import FlagTable, load_flags
from scripts.dump_llama_flags import flag_entry, read_help, read_sources
from scripts.dump_vllm_flags import layout

FOLDER = Path(__file__).parents[2] / "adapters/flags"
TABLES = [
    (engine, dialect.name) for engine, adapter in ADAPTERS.items() for dialect in adapter.SUPPORTED
]
VLLM = [dialect for engine, dialect in TABLES if engine == "vllm"]


@pytest.fixture(params=TABLES, ids="-".join)
def table(request: pytest.FixtureRequest) -> FlagTable:
    return load_flags(*request.param)


@pytest.fixture
def vllm() -> FlagTable:
    return load_flags("vllm", "0.32")


@pytest.fixture
def llama() -> FlagTable:
    return load_flags("llama_cpp", "b11434")


def test_every_file_is_a_dialects() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {"-".join(pair) for pair in TABLES}


def test_no_two_options_share_a_spelling(table: FlagTable) -> None:
    spelled = Counter(word for flag in table.flags.values() for word in set(flag.spellings()))
    assert [word for word, count in spelled.items() if count > 1] == []


def test_every_spelling_finds_its_option(table: FlagTable) -> None:
    for name, flag in table.flags.items():
        assert flag.name == name == name.lstrip("-").replace("_", "-")
        assert all(table.find(word) is flag for word in flag.spellings())


def test_only_switches_have_a_negative_and_only_values_have_choices(table: FlagTable) -> None:
    for flag in table.flags.values():
        assert flag.kind in {"switch", "value", "values"}
        assert flag.negative is None or flag.kind == "switch"
        assert not flag.choices or flag.kind != "switch"


def test_a_table_says_where_it_comes_from(table: FlagTable) -> None:
    assert table.engine in ADAPTERS
    assert table.version.lstrip("b") in table.source


@pytest.mark.parametrize("pair", TABLES, ids="-".join)
def test_files_have_one_option_a_line(pair: tuple[str, str]) -> None:
    text = (FOLDER / f"{'-'.join(pair)}.json").read_text("utf-8")
    data = json.loads(text)
    assert layout(data) == text
    assert sum(line.startswith('  "') for line in text.splitlines()) >= len(data["flags"])


def test_a_table_is_read_once() -> None:
    assert load_flags("vllm", "0.32") is load_flags("vllm", "0.32")


def test_an_unknown_dialect_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match=r"no option table for vllm 9\.9"):
        load_flags("vllm", "9.9")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("max_num_seqs", "max-num-seqs"),
        ("--max-num-seqs", "max-num-seqs"),
        ("-tp", "tensor-parallel-size"),
        ("-O", "optimization-level"),
        ("no_enforce_eager", "enforce-eager"),
        ("speculative-config.method", "speculative-config"),
        ("--speculative_config.num_speculative_tokens", "speculative-config"),
        ("-sc.prompt-lookup-max", "speculative-config"),
        ("hf-overrides.anything.below", "hf-overrides"),
        ("compilation-config.cudagraph_capture_sizes+", "compilation-config"),
        ("speculative-config.metod", None),
        ("speculative-config.tensor_parallel_size", None),
        ("max-num-seqs.count", None),
        ("max-num-seq", None),
        ("ctx-size", None),
        ("", None),
    ],
)
def test_find(vllm: FlagTable, name: str, found: str | None) -> None:
    flag = vllm.find(name)
    assert (flag.name if flag else None) == found


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("max_num_seq", "max-num-seqs"),
        ("--no-enforce-eagr", "no-enforce-eager"),
        ("speculative_config.metod", "speculative-config.method"),
        (
            "speculative_config.tensor_parallel_size",
            "speculative-config.draft-tensor-parallel-size",
        ),
        ("speculative_config.xyzzy", None),
        ("max-num-seqs.count", None),
        ("xyzzy", None),
    ],
)
def test_near(vllm: FlagTable, name: str, suggested: str | None) -> None:
    assert vllm.near(name) == suggested


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("-md", "spec-draft-model"),
        ("model_draft", "spec-draft-model"),
        ("-nkvo", "kv-offload"),
        ("no-repack", "repack"),
        ("fim-qwen-1.5b-default", "fim-qwen-1.5b-default"),
        ("draft-max", None),
        ("ctx-size-draft", None),
        ("server-base", None),
    ],
)
def test_find_in_llama_cpp(llama: FlagTable, name: str, found: str | None) -> None:
    flag = llama.find(name)
    assert (flag.name if flag else None) == found


def test_a_near_alias_suggests_the_options_own_name(llama: FlagTable) -> None:
    assert llama.near("model-drafts") == "spec-draft-model"


def test_llama_cpp_takes_every_word_its_parser_calls_true(llama: FlagTable) -> None:
    flag = llama.find("fa")
    assert flag is not None
    assert {"on", "off", "auto", "true", "false", "0", "1"} < set(flag.choices)


def test_llama_cpp_lists_its_speculation_types(llama: FlagTable) -> None:
    types = llama.flags["spec-type"].choices
    assert {"none", "draft-simple", "draft-eagle3", "ngram-simple", "ngram-cache"} < set(types)


@pytest.mark.parametrize("dialect", VLLM)
def test_the_old_negative_form_is_known_to_every_vllm(dialect: str) -> None:
    flag = load_flags("vllm", dialect).find("no-enable-prefix-caching")
    assert flag is not None
    assert flag.name == "enable-prefix-caching"


def test_what_changed_in_vllm_0_33() -> None:
    old, new = load_flags("vllm", "0.32"), load_flags("vllm", "0.33")
    before, after = (t.config_keys["speculative_config"] for t in (old, new))
    assert {"medusa", "mlp_speculator"} < set(before["method"].choices)
    assert not {"medusa", "mlp_speculator"} & set(after["method"].choices)
    assert new.flags["enable-prefix-caching"].negative == "disable-prefix-caching"
    assert "fly" in after["rejection_sample_method"].choices


HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-fa,   --flash-attn [on|off|auto]       set Flash Attention use (default: -1, -1 = 'auto')
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to offload the KV cache
                                        (env: LLAMA_ARG_KV_OFFLOAD)
--no-host                               bypass host buffer
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32,
                                        f16
--range START END                       layers


----- speculative params -----

--draft, --draft-max N                  the argument has been removed. use another
--spec-type none,draft-simple           types
"""

SOURCE = """\
const std::vector<ggml_type> kv_cache_types = {
    GGML_TYPE_F32,
    GGML_TYPE_F16,
};
    add_opt(common_arg(
        {"-h", "--help", "--usage"}, // don't
        "print usage and exit",
        [](common_params & params) { params.usage = true; }
    ));
    add_opt(common_arg({ "-fa", "--flash-attn" }, "[on|off|auto]",
        string_format("set Flash Attention use (default: %s)", "auto"),
        [](common_params & params, const std::string & value) { }));
    add_opt(common_arg(
        {"-kvo", "--kv-offload"},
        {"-nkvo", "--no-kv-offload"},
        "whether to offload the KV cache",
        [](common_params & params, bool value) { }
    ).set_env("LLAMA_ARG_KV_OFFLOAD"));
    add_opt(common_arg(
        {"--no-host"},
        "bypass host buffer",
        [](common_params & params) { }
    ));
    add_opt(common_arg(
        {"-ctk", "--cache-type-k"}, "TYPE",
        string_format("KV cache data type for K\\nallowed values: %s\\n(default: %s)",
            get_all_kv_cache_types().c_str(), "f16"),
        [](common_params & params, const std::string & value) { }
    ));
    add_opt(common_arg(
        {"--range"}, "START", "END",
        "layers",
        [](common_params & params, const std::string & start, const std::string & end) { }
    ));
    add_opt(common_arg(
        {"--spec-type"}, common_speculative_all_types_str(),
        "types",
        [](common_params & params, const std::string & value) { }
    ).set_spec().set_examples({LLAMA_EXAMPLE_SERVER, LLAMA_EXAMPLE_CLI}));
    add_opt(common_arg(
        {"--image"}, "FILE",
        "only elsewhere",
        [](common_params & params, const std::string & value) { }
    ).set_examples({LLAMA_EXAMPLE_MTMD}));
    add_opt(common_arg(
        {"-f", "--file"}, "FNAME",
        "everywhere but here",
        [](common_params & params, const std::string & value) { }
    ).set_excludes({LLAMA_EXAMPLE_SERVER}));
"""

TYPES = """\
    {"none",         COMMON_SPECULATIVE_TYPE_NONE},
    {"draft-simple", COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE}
"""

READ = {
    "help": {"kind": "switch", "aliases": ["-h", "--usage"]},
    "flash-attn": {
        "kind": "value",
        "aliases": ["-fa"],
        "choices": [
            *["on", "enabled", "true", "1"],
            *["off", "disabled", "false", "0"],
            *["auto", "-1"],
        ],
    },
    "kv-offload": {"kind": "switch", "aliases": ["-kvo", "-nkvo"], "negative": "no-kv-offload"},
    "no-host": {"kind": "switch"},
    "cache-type-k": {"kind": "value", "aliases": ["-ctk"], "choices": ["f32", "f16"]},
    "range": {"kind": "values"},
    "spec-type": {"kind": "value", "choices": ["none", "draft-simple"]},
}


def test_llama_cpp_help_is_read() -> None:
    options = dict(flag_entry(option) for option in read_help(HELP))
    assert options.pop("draft")["kind"] == "value"
    assert options == READ


def test_llama_cpp_sources_give_what_its_help_gives(tmp_path: Path) -> None:
    common = tmp_path / "common"
    common.mkdir()
    (common / "arg.cpp").write_text(SOURCE)
    (common / "speculative.cpp").write_text(TYPES)
    assert dict(flag_entry(option) for option in read_sources(tmp_path)) == READ
