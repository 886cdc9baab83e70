"""Telling a process from another one that got the same pid later."""

from pathlib import Path

import psutil


def created(pid: int) -> float | None:
    """A mark of when the process with this pid started; None when there is none (or only remains).

    Equal marks mean the same process. On Linux they are clock ticks since boot: a start in wall
    time would change when the clock is set.
    """
    try:
        if (stat := Path(f"/proc/{pid}/stat")).exists():
            fields = stat.read_text().rpartition(")")[2].split()  # from the 3rd one, proc(5)
            return None if fields[0] in "ZX" else float(fields[19])
        process = psutil.Process(pid)
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return None if is_dead else float(process.create_time())
    except (psutil.Error, OSError):
        return None
