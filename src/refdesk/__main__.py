"""The `refdesk` command, also as `python -m refdesk`."""

import gc
import sys


def program() -> None:
    """Runs the command line; its version alone needs none of it."""
    if sys.argv[1:] == ["--version"]:
        from refdesk import __version__

        print(f"refdesk, version {__version__}")  # as click says it
        return
    # Modules are no garbage: looking for some among them took an eighth of the processor time of a cold search.
    gc.set_threshold(20_000, 10, 10)
    from refdesk.cli import program as run

    run()


if __name__ == "__main__":
    program()
