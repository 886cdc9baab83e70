"""Writing a trial's reports to files, each whole or not at all."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.gate.evidence import Trial
from orchestrator.gate.report.data import as_json
from orchestrator.gate.report.junit import junit_xml
from orchestrator.gate.report.markdown import markdown
from orchestrator.gate.report.page import page
from orchestrator.gate.report.shareable import shareable


def write_reports(
    folder: Path, trial: Trial, texts: Mapping[str, str], fleet: Path | None = None
) -> dict[str, Path]:
    """Write report.html, report.json, report.md and junit.xml; their paths by these names.

    `texts` holds prompts by id. What is posted elsewhere names files as seen from the folder
    `fleet`. Raises OrchestratorError when a file cannot be written; those written before it stay.
    """
    for_others = shareable(trial, folder, fleet)
    reports = {
        "report.html": page(trial, texts),
        "report.json": json.dumps(as_json(trial), indent=1, allow_nan=False) + "\n",
        "report.md": markdown(for_others, texts),
        "junit.xml": junit_xml([for_others]),
    }
    return {name: _write(folder / name, text) for name, text in reports.items()}


def _write(path: Path, text: str) -> Path:
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise OrchestratorError(f"{path} cannot be written: {error.strerror}") from error
    return path
