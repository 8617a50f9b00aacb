"""Judges the evidence of earlier runs again; of several runs, prints a table of their faults too."""

import pathlib
import sys

from . import main, print_table

folders = [pathlib.Path(argument) for argument in sys.argv[1:]]
results = [main(folder) for folder in folders]
if len(folders) > 1:
    print_table(folders)
sys.exit(max(results))
