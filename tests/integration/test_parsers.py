"""The goldens say that we did not change; the engine's own parser says that it agrees."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.harness import ROOT

PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
for name, argv in json.load(sys.stdin).items():
    print(name, flush=True)
    parser.parse_args(argv)
print("all")
"""


def launches(folder: Path) -> dict[str, list[str]]:
    """The argv of each golden launch, without the program; goldens that end in errors have none."""
    found = {}
    for file in sorted(folder.glob("*.txt")):
        lines = file.read_text().partition("-" * 10 + "\n")[2].splitlines()
        if "serve" in lines:
            rest = lines[lines.index("serve") + 1 :]
            found[file.stem] = [
                shlex.split(line)[0] for line in rest if not line.startswith("env ")
            ]
    return found


@pytest.mark.engine
def test_every_golden_launch_is_accepted_by_vllm(vllm_python: Path) -> None:
    cases = launches(ROOT / "tests/golden/vllm-0.32")
    assert len(cases) >= 8
    done = subprocess.run(
        [vllm_python, "-c", PARSE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all"
