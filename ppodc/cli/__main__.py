"""`python -m ppodc.cli` is the command `ppodc`."""

from ppodc.cli import main

main()
