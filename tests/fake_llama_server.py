"""The fake engine behind a llama-server command line, for faults in a worker's life.

Used as `command:` of a fleet through a small script; FAKE_ENGINE holds further options of
tests/fake_engine.py, such as `--fail unhealthy` or `--gamma 0` for an engine that never drafts, and
FAKE_SPECULATING those only for engines that are told to speculate.
"""

import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path

VERSION = "11434"


def main(argv: list[str]) -> None:
    if argv == ["--version"]:
        sys.stdout.write(f"version: {VERSION} (fake)\n")
        return
    options = dict(pairwise(argv))
    gamma = options.get("--spec-ngram-simple-size-m", options.get("--spec-draft-n-max", "0"))
    passed = ["--dialect", "llama_cpp", "--engine-version", VERSION, "--gamma", gamma]
    passed += ["--model", options["--alias"], "--port", options["--port"]]
    passed += ["--weights", options["--model"]]
    passed += shlex.split(os.environ.get("FAKE_ENGINE", ""))
    if gamma != "0":
        passed += shlex.split(os.environ.get("FAKE_SPECULATING", ""))
    program = Path(__file__).with_name("fake_engine.py")
    os.execv(sys.executable, [sys.executable, str(program), *passed])


if __name__ == "__main__":
    main(sys.argv[1:])
