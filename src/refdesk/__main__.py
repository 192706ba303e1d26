"""`python -m refdesk` is the same program as `refdesk`."""

from refdesk.cli import main

if __name__ == "__main__":
    main()
