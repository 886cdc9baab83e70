"""The argv of llama-server, read for the embedded server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters.embedded.flag import FLAGS, ArgumentError, Arguments, help_text, parse


@dataclass
class FakeDisk:
    texts: Mapping[str, str] = field(default_factory=dict)
    directories: frozenset[str] = frozenset()

    def read(self, path: str) -> str:
        if path not in self.texts:
            raise ValueError(f"error: failed to open file '{path}'\n")
        return self.texts[path]

    def is_file(self, path: str) -> bool:
        return path in self.texts

    def is_directory(self, path: str) -> bool:
        return path in self.directories


def parsed(
    *argv: str, environ: Mapping[str, str] | None = None, disk: FakeDisk | None = None
) -> Arguments:
    return parse(["-m", "m.gguf", *argv], environ or {}, disk or FakeDisk())


def setting(path: str, *argv: str) -> object:
    return parsed(*argv).settings[path]


def complaint(*argv: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ArgumentError) as caught:
        parsed(*argv, environ=environ)
    return str(caught.value)


def test_defaults_are_those_of_the_server_program() -> None:
    assert parsed().settings == {
        "model.path": "m.gguf",
        "n_parallel": -1,
        "port": 9931,
        "default_template_kwargs": {"preserve_reasoning": "true"},
    }


@pytest.mark.parametrize(
    ("argv", "path", "value"),
    [
        (["--port", "8501"], "port", 8501),
        (["-t", "2"], "cpuparams.n_threads", 2),
        (["--threads-batch", "1"], "cpuparams_batch.n_threads", 1),
        (["-c", "2048"], "n_ctx", 2048),
        (["--ctx_size", "2048"], "n_ctx", 2048),
        (["-c", "12.5"], "n_ctx", 12),
        (["-np", "1"], "n_parallel", 1),
        (["-b", "64"], "n_batch", 64),
        (["-ub", "32"], "n_ubatch", 32),
        (["-ngl", "all"], "n_gpu_layers", -2),
        (["-ngl", "0"], "n_gpu_layers", 0),
        (["-fa", "on"], "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
        (["-fa", "0"], "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
        (["--flash-attn", "auto"], "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_AUTO"),
        (["--no-repack"], "no_extra_bufts", True),
        (["--repack"], "no_extra_bufts", False),
        (["--metrics"], "endpoint_metrics", True),
        (["--no-slots"], "endpoint_slots", False),
        (["--no-warmup"], "warmup", False),
        (["--offline"], "offline", True),
        (["-a", "one, two"], "model_alias", ["one", "two"]),
        (["--seed", "7"], "sampling.seed", 7),
        (["--seed", "-1"], "sampling.seed", 2**32 - 1),
        (["-ctk", "q8_0"], "cache_type_k", "GGML_TYPE_Q8_0"),
        (["-kvu"], "kv_unified", True),
        (["--no-cache-prompt"], "cache_prompt", False),
        (["--timeout", "30"], "timeout_write", 30),
        (["--host", "::1, 127.0.0.1"], "hostnames", ("::1", "127.0.0.1")),
        (["--rope-scale", "4"], "rope_freq_scale", 0.25),
        (["-lm", "dio"], "load_mode", "LLAMA_LOAD_MODE_DIRECT_IO"),
        (["-fitt", "512"], "fit_params_target", (512 * 2**20,) * 16),
        (["-ncmoe", "1"], "tensor_buft_overrides", [
            r"blk\.0\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"
        ]),
        (["-C", "0x5", "-Cr", "4-5"], "cpuparams.cpumask", frozenset({0, 2, 4, 5})),
        (["--api-key", '"a,b",c', "--api-key", "d"], "api_keys", ["a,b", "c", "d"]),
        (["--lora-scaled", "x:0.5"], "lora_adapters", [("x", 0.5)]),
        (["-r", r"\n\x41"], "antiprompt", ["\nA"]),
        (["-r", r"\n", "--no-escape"], "antiprompt", [r"\n"]),
        (["--rerank"], "pooling_type", "LLAMA_POOLING_TYPE_RANK"),
        (["--temp", "-1"], "sampling.temp", 0.0),
        (["--sampler-seq", "kt"], "sampling.samplers", "top_k;temperature"),
        (["--verbose"], "verbosity", 2**31 - 1),
    ],
)  # fmt: skip
def test_a_flag_becomes_a_setting(argv: list[str], path: str, value: object) -> None:
    assert setting(path, *argv) == value


@pytest.mark.parametrize(
    ("argv", "path", "value"),
    [
        (["--spec-draft-n-max", "4"], "speculative.draft.n_max", 4),
        (["-md", "d.gguf"], "speculative.draft.mparams.path", "d.gguf"),
        (["--draft-p-min", "0.5"], "speculative.draft.p_min", 0.5),
        (["--spec-draft-sampling", "probabilistic"], "speculative.draft.probabilistic", True),
        (["-ngld", "auto"], "speculative.draft.n_gpu_layers", -1),
        (["-ctvd", "f32"], "speculative.draft.cache_type_v", "GGML_TYPE_F32"),
        (["-td", "1"], "speculative.draft.cpuparams.n_threads", 1),
        (["-tbd", "1"], "speculative.draft.cpuparams_batch.n_threads", 1),
        (["--spec-ngram-simple-size-n", "4"], "speculative.ngram_simple.size_n", 4),
        (["--spec-ngram-map-k-size-m", "8"], "speculative.ngram_map_k.size_m", 8),
        (["--spec-ngram-map-k4v-min-hits", "2"], "speculative.ngram_map_k4v.min_hits", 2),
        (["--spec-ngram-mod-n-max", "0"], "speculative.ngram_mod.n_max", 0),
        (["--spec-default"], "speculative.ngram_mod.n_min", 48),
        (["--spec-synth-len", " 2.5 "], "speculative.synth_len", 2.5),
        (["--spec-synth-rates", "0.9,0.8"], "speculative.synth_rates", (0.9, 0.8)),
    ],
)
def test_a_speculation_flag_becomes_a_setting(argv: list[str], path: str, value: object) -> None:
    assert setting(path, *argv) == value


@pytest.mark.parametrize(
    ("argv", "types"),
    [
        (["--spec-type", "ngram-simple"], ["NGRAM_SIMPLE"]),
        (["--spec-type", "ngram-map-k4v,draft-simple"], ["NGRAM_MAP_K4V", "DRAFT_SIMPLE"]),
        (["--spec-type", "ngram-mod", "--spec-type", "draft-mtp"], ["NGRAM_MOD", "DRAFT_MTP"]),
        (["--spec-type", "ngram-mod,none"], ["NONE"]),
        (["--spec-type", "ngram-mod", "--spec-type", "none"], ["NGRAM_MOD", "NONE"]),
        (["--spec-type", "ngram-simple", "--spec-default"], ["NGRAM_SIMPLE", "NGRAM_MOD"]),
    ],
)
def test_speculation_types_add_up(argv: list[str], types: list[str]) -> None:
    arguments = parsed(*argv)
    found = arguments.settings["speculative.types"]
    assert found == [f"COMMON_SPECULATIVE_TYPE_{name}" for name in types]
    assert not arguments.warnings


def test_an_explicit_whole_context_is_not_fitted() -> None:
    assert setting("fit_params_min_ctx", "-c", "0") == -1


def test_a_chosen_sampling_value_is_marked_as_chosen() -> None:
    marks = setting("sampling.user_sampling_config", "--temp", "0", "--top-k", "1")
    assert marks == frozenset({"TEMP", "TOP_K"})


def test_template_values_unite_and_can_be_taken_back() -> None:
    argv = ["--chat-template-kwargs", '{"a": [1, 2]}', "--reasoning", "off"]
    effort = ["--reasoning-effort", "high", "--reasoning-effort", "default"]
    assert setting("default_template_kwargs", *argv, *effort) == {
        "preserve_reasoning": "true",
        "a": "[1,2]",
        "enable_thinking": "false",
    }


def test_files_are_read_and_directories_looked_for() -> None:
    disk = FakeDisk({"keys": "# mine\none\n\ntwo\n", "cache": ""}, frozenset({"slots"}))
    argv = ["--api-key-file", "keys", "--slot-save-path", "slots", "-lcs", "cache"]
    settings = parsed(*argv, disk=disk).settings
    assert settings["api_keys"] == ["one", "two"]
    assert settings["slot_save_path"] == "slots/"
    assert settings["speculative.ngram_cache.lookup_cache_static"] == "cache"


@pytest.mark.parametrize(
    "argv", [["--api-key-file", "x"], ["--chat-template-file", "x"], ["-lcd", "x"]]
)
def test_a_missing_file_is_refused(argv: list[str]) -> None:
    assert f'argument "{argv[0]}": error: failed to open file' in complaint(*argv)


def test_the_last_of_equal_flags_wins_with_a_warning() -> None:
    arguments = parsed("--port", "1", "--port", "2")
    assert arguments.settings["port"] == 2
    assert arguments.warnings == [
        "DEPRECATED: argument '--port' specified multiple times, use comma-separated values"
        " instead (only last value will be used)"
    ]


@pytest.mark.parametrize("name", ["--nope", "-cd", "--port=80", "word", "--spec-draft-conf-min"])
def test_an_unknown_flag_is_refused(name: str) -> None:
    assert complaint(name, "1") == f"error: invalid argument: {name}"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--port", "abc"], "stoi"),
        (["-c", "99999999999"], "stoi"),
        (["--temp", "hot"], "stof"),
        (["--seed", "x"], "stoul"),
        (["--port"], "expected value for argument"),
        (["-fa", "maybe"], "error: unknown value for --flash-attn: 'maybe'"),
        (["-ctk", "q9"], "Unsupported cache type: q9"),
        (["--spec-type", "ngram-simple,eagle3"], "unknown speculative type: eagle3"),
        (["--spec-type", "draft"], "unknown speculative type: draft"),
        (["--spec-draft-n-max", "-1"], "invalid value"),
        (["--spec-ngram-simple-size-n", "0"], "ngram size N must be between 1"),
        (["--spec-ngram-map-k-size-m", "1025"], "ngram size M must be between 1"),
        (["--spec-ngram-map-k4v-min-hits", "0"], "ngram min hits must be at least 1"),
        (["--spec-ngram-mod-n-min", "-1"], "ngram n-min must be between 0 and 1024 inclusive"),
        (["-np", "0"], "error: invalid value for n_parallel"),
        (["--slot-save-path", "x"], "not a directory: x"),
        (["-C", "xyz"], "invalid cpumask"),
        (["-Cr", "7"], "invalid range"),
        (["--host", " , "], "--host requires at least one address"),
        (["--spec-synth-rates", "0.5x"], "invalid value"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_in_the_program_s_words(argv: list[str], reason: str) -> None:
    message = complaint(*argv)
    assert message.startswith(f'error while handling argument "{argv[0]}": {reason}')
    assert message.endswith("to show complete usage, run with -h")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("--draft-max", "use --spec-draft-n-max or --spec-ngram-mod-n-max"),
        ("--draft", "use --spec-draft-n-max or --spec-ngram-mod-n-max"),
        ("--draft-n-min", "use --spec-draft-n-min or --spec-ngram-mod-n-min"),
        ("--spec-ngram-size-n", "use the respective --spec-ngram-*-size-n"),
    ],
)
def test_a_removed_flag_is_an_error(name: str, advice: str) -> None:
    expected = f'error while handling argument "{name}": the argument has been removed. {advice}'
    assert complaint(name, "4").startswith(expected)


@pytest.mark.parametrize(
    "argv",
    [["-hf", "a/b"], ["--device", "none"], ["--override-kv", "a=int:1"], ["--no-log-prefix"]],
)
def test_what_cannot_be_honoured_is_refused(argv: list[str]) -> None:
    message = complaint(*argv)
    assert message.startswith(f"error: {argv[0]}: llama-server knows this argument, but the")


def test_no_model_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no model given"):
        parse([], {}, FakeDisk())


def test_a_variable_of_no_flag_is_refused() -> None:
    expected = "error: no flag of llama-server reads the variable LLAMA_ARG_METRICS"
    assert complaint(environ={"LLAMA_ARG_METRICS": "1"}) == expected


def test_the_environment_counts_and_the_argv_wins() -> None:
    arguments = parsed(
        "--port",
        "2",
        environ={"LLAMA_ARG_PORT": "1", "LLAMA_ARG_ENDPOINT_METRICS": "1", "OTHER": "x"},
    )
    assert arguments.settings["port"] == 2
    assert arguments.settings["endpoint_metrics"] is True
    assert arguments.warnings == [
        "warn: LLAMA_ARG_PORT environment variable is set, but will be overwritten by command"
        " line argument --port"
    ]


@pytest.mark.parametrize(
    ("environ", "path", "value"),
    [
        ({"LLAMA_ARG_REPACK": "0"}, "no_extra_bufts", True),
        ({"LLAMA_ARG_NO_REPACK": "anything"}, "no_extra_bufts", True),
        ({"LLAMA_ARG_ENDPOINT_METRICS": "off"}, "endpoint_metrics", None),
        ({"LLAMA_ARG_SPEC_DRAFT_N_MAX": "6"}, "speculative.draft.n_max", 6),
        ({"LLAMA_API_KEY": "k"}, "api_keys", ["k"]),
    ],
)
def test_variables_are_read_like_flags(environ: dict[str, str], path: str, value: object) -> None:
    assert parsed(environ=environ).settings.get(path) == value


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"LLAMA_ARG_PORT": "abc"}, "stoi"),
        ({"LLAMA_ARG_CACHE_PROMPT": "maybe"}, "invalid boolean value"),
        ({"LLAMA_ARG_DRAFT_MAX": "3"}, "the argument has been removed."),
        ({"LLAMA_ARG_HF_REPO": "a/b"}, "llama-server knows this argument"),
    ],
)
def test_a_bad_variable_is_refused(environ: dict[str, str], reason: str) -> None:
    (name,) = environ
    message = complaint(environ=environ)
    assert message.startswith(f'error while handling environment variable "{name}": {reason}')


def test_help_and_version_need_no_model() -> None:
    assert parse(["--help"], {}, FakeDisk()).action == "help"
    assert parse(["--version", "--nope"], {}, FakeDisk()).action == "version"


def test_help_lists_the_honoured_flags_alone() -> None:
    lines = help_text().splitlines()
    listed = {name for line in lines for name in line.replace(",", "").split() if name[:1] == "-"}
    for flag in FLAGS:
        assert (flag.names[0] in listed) is (flag.status == "honoured"), flag.names


def test_every_name_and_variable_belongs_to_one_flag() -> None:
    names = [name for flag in FLAGS for name in (*flag.names, *flag.negative)]
    variables = [name for flag in FLAGS for name in flag.variables]
    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))


def test_only_the_server_module_touches_the_engine() -> None:
    package = Path(parse.__code__.co_filename).parent
    touching = [file.name for file in package.glob("*.py") if '"xllamacpp")' in file.read_text()]
    assert sorted(touching) == ["__main__.py", "server.py"]
