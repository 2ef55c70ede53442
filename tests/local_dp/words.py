"""Streams whose words are given: to walk through every outcome of a mechanism."""

import numpy as np


class GivenWords:
    """As RecordStreams, with the words of each record as a row."""

    def __init__(self, words):
        self._words = np.asarray(words, np.uint32)

    def __len__(self):
        return len(self._words)

    def words(self, count):
        return self._words[:, :count]

    def batches(self, count):
        yield slice(0, len(self)), self.words(count)
