"""Digests of specs with a linkage, as the first datasets have them: they must never change."""

import pytest

from ppodc.spec import Spec

COST = {"epsilon": 1.5, "delta": "1/1000000"}
NUMBERS = [{"name": "x", "low": 0, "high": 63}, {"name": "y", "low": -1.5, "high": 2}]
YEAR = {"name": "year", "low": 1900, "high": 2030}
NAME = {"name": "name", "text": "words", "longest": 12}
CODE = {"name": "code", "text": "digits", "longest": 5, "other": "map"}
SSE = {"rule": "sse", "weights": [1, 2], "limit": 3}
EDIT = {"rule": "edit", "attributes": 2, "limit": 1}
FIELDS = {
    "rule": "fields",
    "threshold": 3,
    "fields": [
        {"column": "name", "compare": "edit", "max": 1, "weight": 2},
        {"column": "code", "compare": "exact"},
        {"column": "year", "compare": "numeric", "max": 1},
    ],
}
TEXTS, MIXED = [NAME, CODE], [YEAR, NAME, CODE]
KEYS = [{"column": "year", **COST}, {"column": "name", "first": 2, "buckets": 50, **COST}]
BY_YEAR = {"blocks": "key", "key": "year", "lossy": True, **COST}
KMEANS = {"k": 2, "max_iter": 5}
JOBS = {
    "numbers": (NUMBERS, SSE),
    "a tree for each owner": (NUMBERS, {**SSE, "blocks": "adtree", "eta": 0.05, **COST}),
    "a tree for all": (NUMBERS, {**SSE, "blocks": "adtree-shared", "tree_of": "ann", **COST}),
    "flags": (NUMBERS, {**SSE, "blocks": "none", "output": "flags"}),
    "texts": (TEXTS, {**EDIT, "output": "links", "max_links": 4}),
    "lengths": (TEXTS, {**EDIT, "blocks": "length", "shortest": 2, **COST}),
    "embedding": (TEXTS, {**EDIT, "blocks": "embedding", **COST}),
    "embedding after lengths": (TEXTS, {**EDIT, "blocks": "embedding", "lengths": [4, 6], **COST}),
    "fields": (MIXED, FIELDS),
    "count": (MIXED, {**FIELDS, **BY_YEAR, "output": "count"}),
    "keys": (MIXED, {**FIELDS, "blocks": "key", "keys": KEYS, "lossy": True, "max_links": 2}),
    "one key, hashed": (MIXED, {**FIELDS, "blocks": "key", "keys": KEYS[1:], "lossy": True}),
    "all equal": (MIXED, {"rule": "exact", "columns": ["name", "year"]}),
    "all near": (MIXED, {"rule": "numeric", "columns": ["year"], "max": 2}),
    "filters": (
        [{"name": "clk", "text": "filter", "longest": 64}],
        {"rule": "dice", "bits": 64, "threshold": 0.85},
    ),
}
LINKED = {
    "numbers, clustered": (NUMBERS, SSE),
    "fields, clustered": ([{**YEAR, "use": "both"}, *TEXTS], {**FIELDS, **BY_YEAR}),
}
DIGESTS = {
    "numbers": "d6cc461da1b4fea856ddb1ca7f4eed565017634a28976bf974333b313f6a4052",
    "a tree for each owner": "9e20cda41700282a6d0b1523272df04fe4277a58124e03b5d5555d0e04e950da",
    "a tree for all": "fab8b109999df9953f7dcefb96d426a48b91bab8274513e9e1929aad1469f062",
    "flags": "0698391a0d15e7a267a5454f9fc93d2dde85356840cc2954f5d70f594e027c67",
    "texts": "1186de0c45df5acaffa8af0d16a16566e145e1750dde2bc466f77f9c00c6e5da",
    "lengths": "c13c9fa728321f2f8af98b706fa65feaf255c857815afd9829f5fdacebf0d80d",
    "embedding": "ecb1e618be129e758d28d83603570b3069c4d8bb2fae5ad3dbcc103ba4e98e41",
    "embedding after lengths": "2064569b5f4632c361a8c4cc8122617f351ce21376c32ff7412784f429dab388",
    "fields": "052760a1b1d55d7bd6436f0a3a88490efa7dd1accbbd4af0fbf934adec509de1",
    "count": "e3294e03948ffb26d1aaed2781703ff41a5a8f9f53a9a8a473901bf143edba6d",
    "keys": "661d20741493f3babaae404936dfa66a08133716f217abe75b84e3cdc0fece12",
    "one key, hashed": "a08b7b6ae4ced52db106174ed33b742e113ebf668b492eb19964fb536b92ad68",
    "all equal": "fa121184264d324eeca725173281b5ecbb8377a85dc3c2d1170030b53f667f3b",
    "all near": "bb5b63fe50592379c9f450534f7fce2b40163cb529010f2fdacf0101f91ec391",
    "filters": "ba5ecc1df2193f1291a6144085c79f179f814365636426138236d55a062ddbd5",
    "numbers, clustered": "66ef1cb64ad7cc8d5a0af15422d0f5d2b732aeca136103f88e4518cea2775489",
    "fields, clustered": "c6589409f6fd4809e60fcfa9e435ebf81438c70a4ddeb9c260c87a4229664e25",
}


def spec_of(name: str) -> Spec:
    columns, table = {**JOBS, **LINKED}[name]
    job = {"job": {"kind": "linkage", **table}}
    if name in LINKED:
        job = {"job": KMEANS, "linkage": table}
    return Spec.from_dict({"name": "d", "schema": {"ub": 100, "columns": columns}, **job})


@pytest.mark.parametrize("name", [*JOBS, *LINKED])
def test_the_digest_of_a_spec_is_that_of_the_first_release(name):
    spec = spec_of(name)
    assert spec.digest == DIGESTS[name]
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
