"""What SGLang itself makes of argument lists, without a GPU, a model's weights or an engine.

Reads a JSON object from standard input, name → arguments as after `sglang serve`, and writes one,
name → {"resolved": fields that speculation touches} or {"error": class, "message": text}. Run by
the python of a vLLM CPU environment with this project's root and SGLang's folder
(scripts/sglang-check.txt) in PYTHONPATH.
"""

import contextlib
import importlib
import io
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

from scripts.dump_sglang_flags import admit_known_configs, declare_operators

FIELDS = (
    "device",
    "disable_overlap_schedule",
    "enable_mixed_chunk",
    "max_running_requests",
    "page_size",
    "attention_backend",
    "cuda_graph_bs",
    "cuda_graph_bs_decode",
)


def fields(arguments: Any) -> dict[str, Any]:
    """The resolved record; before 0.5.19 it resolves itself while it is built."""
    if hasattr(arguments, "resolve_once"):
        arguments.resolve_once()
        arguments.check_server_args()
        everything = arguments.resolved_dict()
    else:
        arguments.check_server_args()
        everything = vars(arguments)
    return {
        name: value
        for name, value in everything.items()
        if name.startswith("speculative_") or name in FIELDS
    }


def resolve(prepare: Any, argv: Sequence[str]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return {"resolved": fields(prepare(list(argv)))}
    except SystemExit:  # argparse: its message is the last line it wrote
        return {"error": "SystemExit", "message": said.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # noqa: BLE001 — whatever the engine raises is the answer
        return {"error": type(error).__name__, "message": str(error)}


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr  # importing SGLang prints
    declare_operators()
    admit_known_configs()
    prepare = importlib.import_module("sglang.srt.server_args").prepare_server_args
    logging.disable(logging.CRITICAL)
    cases = json.load(sys.stdin)
    json.dump({name: resolve(prepare, argv) for name, argv in cases.items()}, out, default=str)


if __name__ == "__main__":
    main()
