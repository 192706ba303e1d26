"""`python -m refdesk` is the same program as `refdesk`."""

from refdesk.cli import program

if __name__ == "__main__":
    program()
