"""The names of mechanisms in a spec."""

from typing import Literal

MechanismName = Literal["codebook", "joint", "privbv", "ldpseg", "ldpk-modes"]
NUMERIC = ("codebook", "privbv", "ldpseg")
