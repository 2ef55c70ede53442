"""A kind of job that exists in tests alone: columns summed, 16 bits a value.

With `clouds` = 1 the values go to cloud 1 as they are and cloud 2 gets nothing; with 2 both get
rows that add up to the values.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ppodc import job_kinds
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import mask
from ppodc.records.upload_form import RowsPart
from ppodc.spec import Spec
from tests.service.data import members


@dataclass(frozen=True)
class Job:
    clouds: int
    kind: ClassVar[str] = "sums"

    def check(self, schema):
        pass

    def to_dict(self):
        return {"clouds": self.clouds}


class Rows16:
    def __init__(self, spec):
        self.schema, self.clouds = spec.schema, spec.job.clouds

    def encode(self, data, *, header=True):
        return encode(data, self.schema, header=header)

    def part(self, cloud):
        if cloud > self.clouds:
            return None
        return RowsPart(np.uint16, len(self.schema.columns), 999 if self.clouds == 1 else 65535)

    def chunk(self, values, secret, first_row, cloud):
        noise = mask(secret, first_row, *values.shape).astype(np.uint16)
        if self.clouds == 1:
            return values.astype(np.uint16)
        return values.astype(np.uint16) + noise if cloud == 1 else np.negative(noise)


class SumsKind:
    name = "sums"

    def parse_job(self, table):
        return Job(**table)

    def upload(self, spec):
        return Rows16(spec)

    def in_words(self, spec):
        return ["sums of all columns"]

    def row_outputs(self, spec):
        return ("twice",)

    def open_result(self, spec, opened):
        return opened


KIND = SumsKind()


def made_up_spec(monkeypatch: pytest.MonkeyPatch, clouds: int) -> Spec:
    """A spec of this kind, which is registered until the test ends."""
    monkeypatch.setitem(job_kinds.ROOMS, KIND.name, __name__)
    schema = Schema((Column("a", 0.0, 100.0), Column("b", 0.0, 100.0)), ub=100)
    return Spec(f"sums{clouds}", schema, Job(clouds), members("ann"))
