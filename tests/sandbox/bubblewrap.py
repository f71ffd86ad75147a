"""What tests of the sandbox want of the machine."""

from __future__ import annotations

import shutil

import pytest

NEEDED = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not on the PATH")
