"""A kind of job that exists in tests alone: columns summed, 16 bits a value.

With `clouds` = 1 the values go to cloud 1 as they are and cloud 2 gets nothing; with 2 both get
rows that add up to the values.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ppodc import kinds
from ppodc.records.schema import Column, Schema
from ppodc.records.upload_form import RowsPart, UploadForm
from ppodc.spec import Spec
from tests.service.data import members


@dataclass(frozen=True)
class Job(kinds.Job):
    clouds: int
    kind: ClassVar[str] = "sums"

    def check(self, schema):
        pass

    def to_dict(self):
        return {"clouds": self.clouds}


class Rows16(UploadForm):
    def __init__(self, spec):
        self.columns, self.clouds = len(spec.schema.columns), spec.job.clouds

    def part(self, cloud):
        if cloud > self.clouds:
            return None
        return RowsPart(np.uint16, self.columns, 999 if self.clouds == 1 else 65535)


class SumsKind(kinds.Kind):
    name = "sums"

    def parse_job(self, table):
        return Job(**table)

    def form(self, spec):
        return Rows16(spec)

    def describe(self, spec):
        return ["sums of all columns"]

    def row_outputs(self, spec):
        return ("twice",)


KIND = SumsKind()


def made_up_spec(monkeypatch: pytest.MonkeyPatch, clouds: int) -> Spec:
    """A spec of this kind, which is registered until the test ends."""
    monkeypatch.setitem(kinds.ROOMS, KIND.name, __package__)
    schema = Schema((Column("a", 0.0, 100.0), Column("b", 0.0, 100.0)), ub=100)
    return Spec(f"sums{clouds}", schema, Job(clouds), members("ann"))
