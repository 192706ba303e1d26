"""Nothing that reads untrusted text takes more than linear time."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.mcp_client.stdio import environment

MOST_CPU_S = 120  # for what re does not let itself be interrupted in


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="processor time can't be limited here")
def test_attacks_take_time_that_grows_with_the_text() -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({MOST_CPU_S}, {MOST_CPU_S})); "
    code = limited + "from tests.faults.linear import slow; print(*slow(1, 60), sep='\\n', end='')"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
