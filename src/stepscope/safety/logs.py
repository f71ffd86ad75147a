"""Make text fit for the log of a CI system, which reads commands out of what is printed.

GitHub reads `::command::` at the beginning of a line and `##[command]` anywhere in it; Azure reads
`##vso[`, TeamCity `##teamcity[`. GitLab's commands begin with an escape character, which
`safety.text` spells out.
Source: docs.github.com, "Workflow commands for GitHub Actions"; actions/runner, ActionCommand.cs.
"""

from __future__ import annotations

import re

_COMMAND = re.compile(r"##(?=\w*\[)|^(\s*):(?=:)", re.MULTILINE)


def calm(text: str) -> str:
    """Return text in which no line is a command to a CI system.

    >>> calm("::error::x"), calm("a ##[add-mask]b"), calm("a::b")
    (': :error::x', 'a # #[add-mask]b', 'a::b')
    """
    return _COMMAND.sub(lambda hit: f"{hit[1]}: " if hit[1] is not None else "# #", text)
