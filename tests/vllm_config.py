"""What vLLM's own parser and config classes make of command lines, without an engine.

Usage: vllm_config.py < CASES (with the Python of a vLLM environment). CASES is JSON: names with
`argv` (what would follow `vllm serve`, the model first), `env`, `only_parse`, and `serve` where the
parser of the program `vllm` is meant, not the module's. A line of JSON
for each comes out: `refused` with the exit status or the error, or what it resolved to; `said` is
what was logged. One process does for all: the import takes seconds, a case 10 to 20 ms.
"""

import contextlib
import importlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

# Newest first: the parser moved between 0.32 and 0.33.
PARSER_MODULES = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args")
SPECULATIVE = (
    "method",
    "num_speculative_tokens",
    "num_speculative_tokens_per_batch_size",
    "prompt_lookup_min",
    "prompt_lookup_max",
    "parallel_drafting",
    "draft_tensor_parallel_size",
)


class Engine:
    """The entry points of whichever version is installed."""

    def __init__(self) -> None:
        self.cli = self._cli()
        self.parsing = importlib.import_module("vllm.utils.argparse_utils")
        self.parser = self.cli.make_arg_parser(self.parsing.FlexibleArgumentParser())
        self.args = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
        self.context = importlib.import_module("vllm.usage.usage_lib").UsageContext
        dynamic = importlib.import_module("vllm.v1.spec_decode.dynamic.utils")
        self.lookup = dynamic.build_dynamic_sd_schedule_lookup

    def _cli(self) -> Any:
        for name in PARSER_MODULES:
            with contextlib.suppress(ModuleNotFoundError):
                return importlib.import_module(name)
        raise SystemExit("this vLLM has no parser that is known here")

    def parse(self, argv: list[str], is_served: bool) -> Any:
        parser = self._serve_parser() if is_served else self.parser
        parsed = parser.parse_args(["serve", *argv] if is_served else argv)
        parsed.model = parsed.model_tag or parsed.model
        self.cli.validate_parsed_serve_args(parsed)
        return parsed

    def _serve_parser(self) -> Any:
        """As the program `vllm` nests it: it reads --config in another way than the module."""
        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        parser = self.parsing.FlexibleArgumentParser()
        serve.ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
        return parser

    def resolve(self, argv: list[str], is_served: bool) -> dict[str, Any]:
        made = self.args.from_cli_args(self.parse(argv, is_served))
        return summary(made.create_engine_config(usage_context=self.context.OPENAI_API_SERVER))

    def schedule(self, resolved: Mapping[str, Any]) -> list[int] | None:
        """Gamma by batch size, as the scheduler builds it when the engine starts."""
        ranges = resolved["num_speculative_tokens_per_batch_size"]
        gamma = resolved["num_speculative_tokens"]
        return None if ranges is None else self.lookup(ranges, resolved["max_num_seqs"], gamma)


def summary(config: Any) -> dict[str, Any]:
    scheduler, spec = config.scheduler_config, config.speculative_config
    found = {name: getattr(spec, name, None) for name in SPECULATIVE}
    return found | {
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_active_seqs": scheduler.max_num_active_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "async_scheduling": scheduler.async_scheduling,
        "max_model_len": config.model_config.max_model_len,
        "generation_config": config.model_config.generation_config,
        "enable_prefix_caching": config.cache_config.enable_prefix_caching,
        "cudagraph_mode": str(config.compilation_config.cudagraph_mode),
        "v2": bool(config.use_v2_model_runner),
    }


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def heard() -> Iterator[io.StringIO]:
    """Everything logged and written to standard error; vLLM says many things once only."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logger = logging.getLogger("vllm")
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stderr(text):
            yield text
    finally:
        logger.removeHandler(handler)


def outcome(engine: Engine, case: Mapping[str, Any]) -> dict[str, Any]:
    with environment(case.get("env", {})), heard() as text:
        try:
            if case.get("only_parse"):
                engine.parse(case["argv"], is_served=False)
                resolved: dict[str, Any] = {}
            else:
                resolved = engine.resolve(case["argv"], case.get("serve", False))
                resolved["gamma_by_batch"] = engine.schedule(resolved)
        except SystemExit as error:
            return {"refused": f"exit {error.code}", "said": tail(text)}
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            return {"refused": f"{type(error).__name__}: {error}", "said": tail(text)}
    return {"refused": None, "resolved": resolved, "said": tail(text)}


def tail(text: io.StringIO) -> str:
    """Without the usage that argparse prints before what is wrong."""
    return text.getvalue()[-4000:]


def main() -> None:
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    engine = Engine()
    for name, case in json.load(sys.stdin).items():
        found = {"name": name, **outcome(engine, case)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
