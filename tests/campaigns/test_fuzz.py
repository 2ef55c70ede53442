"""Some thousands of mutated frames. `make fuzz` sends a million."""

import random

from ppodc.transport import wire
from tests.campaigns import fuzz
from tests.campaigns.frame_mutations import mutated, renumbered

FRAMES = 4000


def frame() -> list[bytes]:
    return [bytes(part) for part in wire.encode(bytes(16), 3, "kind", wire.encode_body(None))]


def test_mutated_traffic_breaks_nothing():
    document = fuzz.run(FRAMES, seed=11)
    assert document["frames"] == FRAMES
    counts = {name: document[name] for name in fuzz.COUNTS}
    assert counts == dict.fromkeys(fuzz.COUNTS, 0), document["notes"]
    assert len(document["to"]) == 9, "every way in"
    assert document["answers"]["reply"] > 0, "some get as far as the operations"
    assert document["answers"]["taken by a channel"] > 0


def test_a_seed_gives_the_same_frames():
    one, other = (
        [mutated(chance, frame()) for _ in range(50)]
        for chance in (random.Random(5), random.Random(5))
    )
    assert one == other
    assert any(len(parts) > 1 for parts in one)


def test_a_frame_at_another_place_still_decodes():
    moved = wire.decode(renumbered(frame(), b"s" * 16, 9))
    assert (moved.session, moved.seq, moved.message.kind) == (b"s" * 16, 9, "kind")


def test_a_crash_an_internal_error_and_a_wrong_answer_are_noticed():
    tally = fuzz.Tally()
    with tally.one("here", [b"x"]):
        raise ZeroDivisionError
    assert tally.crashes == 1
    assert "ZeroDivisionError" in tally.notes[0]
