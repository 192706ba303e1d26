"""Runs the program in a folder: `serve.py FOLDER ARGUMENTS…`."""

import os
import sys

from refdesk.cli import main

os.chdir(sys.argv[1])
sys.argv[:2] = ["refdesk"]
main()
