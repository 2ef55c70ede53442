"""An estimator against a deployment, through owners' configurations: real gateways, no master."""

from dataclasses import replace

import numpy as np
import pytest

from client.platforms.remote import _differences
from ppodc import RemotePlatform, SecureKMeans
from ppodc.linkage.outputs import Links
from ppodc.records.owner_side import OwnerSide
from tests.client.test_cells import linkage
from tests.client.two_gateways import finish_job, table
from tests.harness.patience import LONG
from tests.service.data import make_spec


def remote(platform, **options) -> RemotePlatform:
    config = platform.deployment.party("ann").config
    return RemotePlatform(config, dataset="clinic", timeout=LONG, **options)


def clinic(platform):
    return platform.stores[0].datasets.spec("clinic")


def test_an_owner_fits_its_own_table_and_learns_the_joint_centres(platform, monkeypatch):
    spec = clinic(platform)
    with platform.owner("bob") as bob:
        bob.upload("clinic", table(9, 1), progress=False)
    own, traces = table(12, 2), []

    def start(_name: str) -> None:
        platform.seal()
        traces.append(finish_job(platform))

    encode, encoded = OwnerSide.encode, []

    def counted(side, data, **options):
        encoded.append(data)
        return encode(side, data, **options)

    there = remote(platform, spec=spec.digest, start=start)
    with monkeypatch.context() as patch:
        patch.setattr(OwnerSide, "encode", counted)
        model = SecureKMeans.from_spec(spec, platform=there).fit(own)
    assert len(encoded) == 1, "to check the table before anything is sent, and to send it"
    (trace,) = traces
    assert model.sizes_.tolist() == trace.sizes.tolist()
    assert model.labels_.tolist() == trace.labels[9:].tolist()
    assert model.spec_ == spec
    assert np.array_equal(model.predict(own), model.labels_)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_clusters": 3}, "k is 2 and not 3"),
        ({"random_state": 1}, "seed is 7 and not 1"),
        ({"ub": 99}, "ub is 100 and not 99"),
        ({"bounds": (0, 11)}, "bounds is"),
    ],
)
def test_another_job_than_the_clouds_show_is_refused_and_nothing_sent(platform, change, said):
    model = SecureKMeans.from_spec(clinic(platform), platform=remote(platform))
    with pytest.raises(ValueError, match=said):
        model.set_params(**change).fit(table(6))
    assert not platform.stores[0].uploads.of("clinic")


def test_a_spec_that_offers_no_labels_will_do():
    spec = make_spec(labels=True)
    silent = replace(spec, job=replace(spec.job, labels=False, products="lattice"))
    assert _differences(spec, silent) == []
    assert _differences(spec, replace(spec, job=replace(spec.job, max_iter=3))) != []


def test_other_links_of_a_row_are_told_by_their_number():
    spec = linkage()
    more = replace(spec, job=replace(spec.job, output=Links(2)))
    assert _differences(more, spec) == ["max_links is 1 and not 2"]


def test_the_owner_must_have_agreed(platform):
    spec = replace(clinic(platform), name="other")
    for store in platform.stores:
        store.datasets.create(spec)
    config = platform.deployment.party("ann").config
    model = SecureKMeans.from_spec(spec, platform=RemotePlatform(config, dataset="other"))
    with pytest.raises(ValueError, match="2 tables for 1 owners"):
        model.fit([table(6), table(6)])
    with pytest.raises(Exception, match="not yet agreed"):
        model.fit(table(6))


def test_a_deployment_needs_owners_and_a_dataset(platform):
    with pytest.raises(Exception, match="dataset or the operator"):
        RemotePlatform(platform.deployment.party("ann").config)


def test_rows_of_an_earlier_upload_are_not_taken_for_those_of_a_table(platform):
    """Results by row count all rows of an owner; the same table again is no other upload."""
    spec, own = clinic(platform), table(12, 2)
    with platform.owner("ann") as ann:
        ann.upload("clinic", table(9, 1), progress=False)
        model = SecureKMeans.from_spec(spec, platform=remote(platform))
        with pytest.raises(ValueError, match="ann has given dataset 'clinic' other records before"):
            model.fit(own)
        assert [upload.rows for upload in ann.uploads("clinic")] == [9]
        ann.withdraw("clinic")
        ann.upload("clinic", own, progress=False)

    def start(_name: str) -> None:
        platform.seal()
        finish_job(platform)

    assert len(model.set_params(platform=remote(platform, start=start)).fit(own).labels_) == 12
