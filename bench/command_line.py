"""CPU seconds of the command line, beside its limits and beside what it is built on, in one run.

python bench/command_line.py          prints a table; docs/performance.md holds one such output
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 7
PROFILES = 1000
PROFILE = """\
profile: edit-{n}
description: Edits repeat most of their input.
speculation:
  method: ngram
  gamma: 5
  lookup: {{min: 2, max: 5}}
  schedule:
    - {{batch: 1-4, gamma: 5}}
    - {{batch: 5-16, gamma: 3}}
    - {{batch: 17+, gamma: 0}}
expect: {{acceptance_rate: 0.45}}
engine:
  vllm: {{max_num_batched_tokens: 8192}}
"""
PARSE_ONLY = """
import pathlib, sys, yaml
for file in pathlib.Path(sys.argv[1]).glob("*.yaml"):
    yaml.load(file.read_text(), yaml.CSafeLoader)
"""


def cpu_seconds(argv: list[str]) -> tuple[float, float]:
    """Median and largest CPU time (user + system) of a command over some runs, after a warm-up."""
    times = []
    for run in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if run:
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times), max(times)


def main() -> None:
    command = str(Path(sys.executable).with_name("draftgate"))
    with tempfile.TemporaryDirectory() as folder:
        for n in range(PROFILES):
            (Path(folder) / f"edit-{n}.yaml").write_text(PROFILE.format(n=n))
        rows = [
            ("python -c pass", "", [sys.executable, "-c", "pass"]),
            ("python -c 'import click'", "", [sys.executable, "-c", "import click"]),
            ("draftgate --help", "0.25", [command, "--help"]),
            (
                f"PyYAML's C loader alone, {PROFILES} profiles",
                "",
                [sys.executable, "-c", PARSE_ONLY, folder],
            ),
            (f"draftgate check, {PROFILES} profiles", "2", [command, "check", folder]),
        ]
        sys.stdout.write(f"CPU seconds, {RUNS} runs after a warm-up\n\n")
        sys.stdout.write("| command | median | largest | limit |\n|---|---|---|---|\n")
        for name, limit, argv in rows:
            median, largest = cpu_seconds(argv)
            sys.stdout.write(f"| {name} | {median:.3f} | {largest:.3f} | {limit} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
