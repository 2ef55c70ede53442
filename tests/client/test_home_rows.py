"""Names of an owner's rows stay in its folder, and stand beside labels and links."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.cli.links_file import write_links
from ppodc.errors import InputError
from ppodc.linkage.result import LinkResult
from tests.client.two_gateways import finish_job, table


def people(platform, rows, case):
    names = [column.name for column in platform.stores[0].datasets.spec("clinic").schema.columns]
    frame = pd.DataFrame(table(rows, case), columns=names)
    return frame.assign(patient=[f"P{case}-{row}" for row in range(rows)], note="x")


def test_labels_have_the_rows_names(platform, tmp_path):
    first, second = people(platform, 8, 1), people(platform, 5, 2)
    second.iloc[1, 0] = None
    file, labels = tmp_path / "second.csv", tmp_path / "labels.csv"
    second.to_csv(file, index=False)
    config = ["--config", str(platform.deployment.party("ann").config)]
    with platform.owner("ann") as ann:
        ann.upload("clinic", first, id_column="patient", only=True, progress=False)
        sent = ["upload", "clinic", str(file), "--id", "patient", "--only", "--leave-out", *config]
        told = CliRunner().invoke(app, sent)
        assert told.exit_code == 0, told.output
        assert "1 row lacks a value and was left out" in told.output
        platform.seal()
        finish_job(platform)
        result = ann.result("clinic")
        told = CliRunner().invoke(app, ["result", "clinic", "--labels", str(labels), *config])
    assert told.exit_code == 0, told.output
    written = pd.read_csv(labels)
    assert written["id"].tolist() == [f"P1-{row}" for row in range(8)] + [
        f"P2-{row}" for row in (0, 2, 3, 4)
    ]
    assert written["row"].tolist() == [*range(8), 0, 2, 3, 4]
    assert written["label"].tolist() == result.labels_.tolist()
    for store in platform.stores:
        assert "P1-0" not in json.dumps([str(entry) for entry in store.ledger.entries()])


def test_withdrawn_rows_lose_their_names_and_damaged_ones_are_told(platform):
    with platform.owner("ann") as ann:
        sent = {"id_column": "patient", "only": True, "progress": False}
        receipt = ann.upload("clinic", people(platform, 6, 1), **sent)
        (path,) = platform.deployment.folder.rglob(f"rows/{receipt.upload_id}.json")
        assert path.stat().st_mode & 0o077 == 0
        kept = path.read_bytes()
        ann.withdraw("clinic")
        assert not path.exists()
        again = ann.upload("clinic", people(platform, 6, 1), **sent)
        path = path.with_name(f"{again.upload_id}.json")
        path.write_bytes(kept[:-5])
        platform.seal()
        with pytest.raises(InputError, match="damaged: remove it"):
            ann.row_names("clinic", 6)
        path.unlink()
        assert ann.row_names("clinic", 6) == {}


def test_links_have_the_rows_names(tmp_path):
    result = LinkResult([1, 0, 1], [(("bob", 0, 7),), (), (("bob", 1, 2),)])
    file = tmp_path / "links.csv"
    write_links(file, result, ["owner", "owner_upload", "owner_row"], {"row": ["0", "2", "3"]})
    assert file.read_text().splitlines()[1:] == ["0,bob,0,7", "3,bob,1,2"]
    write_links(file, result, ["owner", "owner_row"], {"id": ["A", "B", "C"]})
    assert file.read_text().splitlines() == ["row,id,owner,owner_row", "0,A,bob,7", "2,C,bob,2"]
