"""The `refdesk` command, also as `python -m refdesk`."""

import sys


def program() -> None:
    """Runs the command line; its version alone needs none of it."""
    if sys.argv[1:] == ["--version"]:
        from refdesk import __version__

        print(f"refdesk, version {__version__}")  # as click says it
        return
    from refdesk.cli import program as run

    run()


if __name__ == "__main__":
    program()
