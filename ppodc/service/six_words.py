"""Public keys as six words, for people who compare them over the telephone.

Whoever wants to pass off another key must find one with the same words. There are about 2^58
choices of six words, and each guess takes a memory-hard hash of 16 MB. No two words of the list are
one letter apart, so that a word that was misheard is noticed.
"""

import hashlib
from functools import cache
from pathlib import Path

_COUNT = 6
_SALT = b"ppodc six words 1"


@cache
def word_list() -> tuple[str, ...]:
    """All words, in the order that their numbers follow."""
    return tuple(Path(__file__).with_name("six_words.txt").read_text(encoding="ascii").split())


def six_words(*keys: str) -> list[str]:
    """The words of these public keys, in their order."""
    whole = " ".join(keys).encode("ascii")
    digest = hashlib.scrypt(whole, salt=_SALT, n=1 << 14, r=8, p=1, maxmem=64 << 20, dklen=32)
    number, words = int.from_bytes(digest, "big"), []
    for _ in range(_COUNT):
        number, place = divmod(number, len(word_list()))
        words.append(word_list()[place])
    return words
