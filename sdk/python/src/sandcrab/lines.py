"""Searching in the lines of an output."""

from __future__ import annotations

import re


def match_in_unfinished(wanted: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Searches in a line whose end is not known. The match must not depend on the end: more text may follow."""
    found = wanted.search(line)
    if found is None or not line:
        return None
    continued = wanted.search(line + "\0")
    return found if continued is not None and continued.start() == found.start() else None
