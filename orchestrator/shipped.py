"""Where the files that come with draftgate are: in an installed wheel, or in the source tree."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Path of a shipped file or folder, such as `profiles` or `fleet.yaml`."""
    installed = _PACKAGE / "share" / name
    return installed if installed.exists() else _PACKAGE.parent / name
