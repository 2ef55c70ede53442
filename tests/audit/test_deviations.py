"""Each way to cheat is caught at its message; an honest cloud with a cheating peer passes."""

import re
import threading
from contextlib import suppress

import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ProtocolError
from ppodc.kmeans.job import Job
from ppodc.kmeans.shares import output, scaling, stop_test
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.mpc.lattice.products import LatticePair
from ppodc.mpc.ot import start
from ppodc.mpc.shares import look_up, select
from ppodc.mpc.shares.additive import U64, public
from ppodc.records.result_shares import OutputShare
from ppodc.service import operations
from ppodc.service.store.results import Results
from ppodc.spec import Spec
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import Job as Totals
from tests.audit.audited_jobs import AuditedJob
from tests.audit.test_replay import SCHEMA, TABLES

LABELLED = Job(k=2, seed=3, iterations=1, labels=True, min_size=2)
STOPS = Job(k=2, seed=3, max_iter=1, min_size=2)
KMEANS = Job(k=2, seed=3, iterations=1, products="lattice", min_size=2)


def planted(cloud, patch):
    """One coefficient of an own ciphertext is moved (M1)."""
    honest = LatticePair._exchanged

    def exchanged(self, session, own, group):
        if session.role != cloud:
            return honest(self, session, own, group)
        encrypt = self._key.encrypt

        def moved(*arguments):
            c0, primes = encrypt(*arguments), self._p.primes
            step = self._p.modulus >> (self._p.width + 1)
            c0[:, 0] = [(int(c) + step) % q for c, q in zip(c0[:, 0], primes, strict=True)]
            return c0

        self._key.encrypt = moved
        try:
            return honest(self, session, own, group)
        finally:
            del self._key.__dict__["encrypt"]

    patch.setattr(LatticePair, "_exchanged", exchanged)


def changed_share(half):
    def change(cloud, patch):
        """The own share of one row is another one than was uploaded (M2, M3)."""
        honest = half.ingest

        def ingest(self, shard, share):
            if self._session.role == cloud:
                share = share.copy()
                share[0] += U64(1)
            honest(self, shard, share)

        patch.setattr(half, "ingest", ingest)

    return change


def lower_threshold(cloud, patch):
    """Clusters of any size are told (M5)."""
    honest = output.large

    def large(session, counts, least):
        return honest(session, counts, 1 if session.role == cloud else least)

    patch.setattr(output, "large", large)


def other_table(cloud, patch):
    """The table of a look-up holds other entries."""
    honest = look_up.look_up

    def other(session, indices, bits, table, *arguments, **options):
        def written(first, count):
            entries = table(first, count)
            return entries + U64(1) if session.role == cloud else entries

        return honest(session, indices, bits, written, *arguments, **options)

    patch.setattr(scaling.look_up, "look_up", other)


def flipped_choice(cloud, patch):
    """The own share of one choice bit is the other one."""
    honest = select.select

    def flipped(session, bits, *arguments, **options):
        if session.role == cloud:
            bits = bits.copy()
            bits.reshape(-1)[0] ^= 1
        return honest(session, bits, *arguments, **options)

    patch.setattr(select, "select", flipped)


def ground_trees(cloud, patch):
    """The seeds of its trees are of its own choice, as who grinds pads would have them."""
    honest = start.grow

    def grow(name, pairs, random):
        mine = name[-1] == 3 - cloud  # the direction in which the peer is the sender
        return honest(name, pairs, SecureRandom(bytes(32)) if mine else random)

    patch.setattr(start, "grow", grow)


def chosen_stop_bit(cloud, patch):
    """The opened bit tells something else than whether a centre moved (Theorem 2)."""
    honest = stop_test.all_still

    def all_still(session, movements, rings):
        if session.role == cloud:
            movements = movements + public([1] * len(movements.limbs), movements.length, 1)
        return honest(session, movements, rings)

    patch.setattr(stop_test, "all_still", all_still)


CASES = {
    "planted coefficient": (KMEANS, planted, (1, 2), "ingest", "shares.lattice"),
    "changed share": (KMEANS, changed_share(SharesHalf), (1, 2), "ingest", "shares."),
    "changed share of totals": (Totals(least=2), changed_share(TotalsHalf), (1,), "ingest", ""),
    "changed min_size": (KMEANS, lower_threshold, (1,), "output", "shares."),
    "changed table": (KMEANS, other_table, (1, 2), "iterate", "shares.table"),
    "flipped choice": (KMEANS, flipped_choice, (2,), "iterate", "shares."),
    "ground trees": (Totals(least=2), ground_trees, (1, 2), "ingest", "shares.trees"),
    "chosen stop bit": (STOPS, chosen_stop_bit, (1,), "iterate", "shares."),
}


@pytest.mark.parametrize(
    ("name", "cheat"), [(name, cheat) for name, case in CASES.items() for cheat in case[2]]
)
def test_a_cheating_cloud_is_caught_and_its_peer_passes(name, cheat, tmp_path):
    options, deviate, _, step, kind = CASES[name]
    job = AuditedJob(tmp_path, Spec("d", SCHEMA, options), TABLES)
    with pytest.MonkeyPatch.context() as patch, suppress(TimeoutError):
        deviate(cheat, patch)
        job.run()  # an owner may not be able to open such a result
    honest = job.audit(3 - cheat)
    assert honest.deviation == ""
    assert honest.messages > 10
    found = job.audit(cheat)
    where = (
        rf"session \w+, step \d+ \({step} of iteration \d+\), pair 0\.0: "
        rf"message \d+ of lane 0, recorded as '{kind}[^']*', is not what the protocol sends there"
    )
    assert re.match(where, found.deviation), found.deviation


def test_a_wrong_half_for_an_owner_is_found_by_the_auditor_or_the_owner(tmp_path, monkeypatch):
    """A cloud writes down what it hands out, and is caught; or it does not, and is caught."""
    job = AuditedJob(tmp_path, Spec("d", SCHEMA, LABELLED), TABLES).run()
    assert not job.verdict.bad, job.verdict.notes
    assert [job.audit(cloud).deviation for cloud in (1, 2)] == ["", ""]

    def fetch(name):
        job.campaign.result(job.world, job.schedule, name, threading.Event())

    rows = Results.own_rows

    def other_rows(self, *arguments, **options):
        half = rows(self, *arguments, **options)
        return OutputShare.of(half.modulus, [(v + 1) % half.modulus for v in half.values])

    monkeypatch.setattr(Results, "own_rows", other_rows)
    with suppress(ProtocolError):  # made-up labels need not fit each other
        fetch("owner1")
    found = job.audit(2).deviation
    assert re.match(r"after the replay: the half of \w+ that it gave to owner1, by entry", found)
    monkeypatch.setattr(operations, "halves_digest", lambda *_: "0" * 64)
    with pytest.raises(ProtocolError, match="than its ledger says"):
        fetch("owner2")


def test_what_is_found_is_the_first_message_that_differs(tmp_path):
    """All messages before a changed threshold are compared, and hold."""
    job = AuditedJob(tmp_path, Spec("d", SCHEMA, KMEANS), TABLES)
    with pytest.MonkeyPatch.context() as patch:
        lower_threshold(1, patch)
        job.run()
    found = job.audit(1)
    number = int(re.search(r"message (\d+) of", found.deviation)[1])
    assert found.messages == number
