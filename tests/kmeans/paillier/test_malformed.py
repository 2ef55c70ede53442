"""Questions and answers that no honest cloud sends: refused in words, cheaply, without harm."""

import msgspec
import numpy as np
import pytest

from ppodc.errors import CiphertextError, PeerError, PpodcError, WireError
from ppodc.kmeans.paillier import exchange
from ppodc.kmeans.paillier.compare import Compare, Reveal
from ppodc.kmeans.paillier.ingest import Rows
from ppodc.kmeans.paillier.output import Count
from ppodc.kmeans.paillier.questions import Answers, Requests
from ppodc.kmeans.paillier.sbd import Bit, sbd
from ppodc.kmeans.paillier.smin_k import Positions
from ppodc.kmeans.paillier.smp import Products
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.kmeans.paillier.conftest import ANYTHING

NONE = np.zeros((0, 96), dtype=np.uint8)
ONE_PAIR = np.zeros((1, 2), dtype=np.uint32)
ONE = np.ones(1, dtype=np.uint32)


def ask(both, op, body, *arrays):
    raw = msgspec.Raw(msgspec.msgpack.encode(body))
    return exchange.answer(both.c2, ANYTHING, op, raw, arrays)


@pytest.mark.parametrize(
    ("op", "body", "arrays"),
    [
        ("nothing", Count(0), ()),
        ("products", Count(0), (NONE, ONE_PAIR, ONE)),
        ("products", Products(1, 1, 80, False), (NONE,)),
        ("products", Products(2**32, 0, 80, True), (NONE, ONE_PAIR, ONE)),
        ("products", Products(2**32, 1, 80, True), (NONE, ONE_PAIR, ONE)),
        ("products", Products(2**20, 1, 80, True), (NONE, np.zeros((99, 2), "u4"), 99 * ONE)),
        ("products", Products(1, 1, 1, True), (NONE, ONE_PAIR, ONE)),
        ("products", Products(1, 1, 10**6, True), (NONE, ONE_PAIR, ONE)),
        ("products", Products(1, 1, 80, True), (NONE, ONE_PAIR + 1, ONE)),
        ("products", Products(1, 1, 80, True), (NONE, ONE_PAIR, 2 * ONE)),
        ("products", Products(1, 1, 80, True), (NONE, ONE_PAIR, np.zeros(0, "u4"))),
        ("products", Products(1, 1, 80, True), (NONE, np.zeros(2, "u4"), ONE)),
        ("bit", Bit(3, 80, 0), (NONE,)),
        ("bit", Bit(1, 80, 80), (NONE,)),
        ("bit", Bit(1, 0, 0), (NONE,)),
        ("compare", Compare(2, 3, 1), (NONE, NONE)),
        ("reveal", Reveal(5), (NONE,)),
        ("positions", Positions(2, 2), (NONE,)),
        ("output", Count(1), (NONE,)),
        ("labels", Count(1), (NONE,)),
        ("share", Rows("nowhere", 0, 1), ()),
    ],
)
def test_questions_that_do_not_fit_are_refused(both, op, body, arrays):
    with pytest.raises(WireError):
        ask(both, op, body, *arrays)


@pytest.mark.parametrize("kind", ["zero", "too large", "not coprime", "cut short", "other type"])
def test_numbers_that_are_no_ciphertexts_are_refused(both, kind):
    key, width = both.c1.key, both.c1.key.ciphertext_bytes
    value = {"zero": 0, "too large": key.n2, "not coprime": both.c2.secret.p}.get(kind, 5)
    row = np.frombuffer(int(value).to_bytes(width, "little"), dtype=np.uint8)[None]
    if kind == "cut short":
        row = row[:, 1:]
    elif kind == "other type":
        row = row.astype(np.uint16)
    with pytest.raises((CiphertextError, WireError)) as caught:
        ask(both, "reveal", Reveal(1), row)
    assert str(both.c2.secret.p) not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [np.zeros((1, 96), dtype=np.uint8)],
        [np.zeros((2, 96), dtype=np.uint8)] * 2,
        [np.zeros(3, dtype=np.uint8)],
        [np.full((2, 96), 255, dtype=np.uint8)],
    ],
)
def test_answers_that_do_not_fit_are_errors_at_c1(both, answer):
    def first(channel):
        requests = Requests(channel)
        exchange.run([sbd(both.c1, both.encrypt([1, 2]), 3)], requests)

    with pytest.raises(PpodcError) as caught:
        together(first, lambda channel: Answers(channel, lambda *_: answer).serve())
    assert not isinstance(caught.value, PeerError)


def test_a_refused_question_ends_the_step_at_both_clouds(both):
    def first(channel):
        requests = Requests(channel)
        requests.answer(requests.submit("nothing", Count(0)))

    def second(channel):
        with pytest.raises(WireError):
            Answers(channel, lambda *a: exchange.answer(both.c2, ANYTHING, *a)).serve()

    with pytest.raises(PeerError, match="no operation"):
        together(first, second, memory_pair())
