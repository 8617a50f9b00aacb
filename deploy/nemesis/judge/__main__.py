"""Judges the evidence of an earlier run again."""

import pathlib
import sys

from . import main

sys.exit(main(pathlib.Path(sys.argv[1])))
