"""Reductions, packs, samplers and Columns on several threads at once, and edits beside them."""

import numpy as np
import pytest
from support.races import together
from support.random_cases import examples

import seqcore as sq

pytestmark = pytest.mark.thread_unsafe

ROUNDS = examples(60)


def ragged(*lengths):
    """Elements of ones, so that their sums are their lengths."""
    return sq.TensorSequence.from_lengths(np.ones(sum(lengths)), lengths)


def repeat(call, times=ROUNDS):
    return lambda: [call() for _ in range(times)]


STATES = {(1, 2, 3, 4): 10, (4, 3, 2, 1): 10, (5, 0, 7): 12, (7, 0, 5): 12}


def test_reductions_and_packs_beside_edits():
    seq = ragged(1, 2, 3, 4)

    def edit(*lengths):
        return repeat(lambda: seq.__setitem__(slice(None), ragged(*lengths)))

    def read():
        for _ in range(ROUNDS):
            assert tuple(seq.reduce(np.add).tolist()) in STATES
            assert tuple(seq.reduce(np.add, dtype="float32", axis=None).tolist()) in STATES
            counts = np.bincount(seq.segment_ids(), minlength=3)
            assert tuple(counts.tolist()) in STATES
            packs = sq.pack(seq, 7)
            assert sorted(int(i) for pack in packs for i in pack) in ([0, 1, 2], [0, 1, 2, 3])
            assert sq.BatchSampler(seq, max_tokens=30)._lengths.sum() in (10, 12)
            assert sq.sequence_map(np.sum, seq).values().sum() in (10, 12)

    together(edit(4, 3, 2, 1), edit(5, 0, 7), repeat(seq.reverse), repeat(seq.compact), read, read)
    seq._check()
    assert tuple(seq.lengths().tolist()) in STATES


def check(fine):
    assert fine


def test_values_that_a_thread_writes():
    """A reduction reads numbers that change meanwhile: any result, and nothing else."""
    values = np.ones((4000, 4))
    seq, ended = sq.TensorSequence.from_lengths(values, np.full(1000, 4)), []

    def write():
        while not ended:
            values[:] = np.nan
            values[:] = 1

    def read():
        try:
            for _ in range(ROUNDS):
                for how in (np.add, np.max, np.argmin, np.any, np.mean):
                    result = seq.reduce(how)
                    assert result.shape == (1000, 4)
                assert seq.reduce(np.argmax, axis=1).max() < 4
        finally:
            ended.append(True)

    together(write, read)


def test_one_sampler():
    """Each thread iterates by itself: all get the same batches."""
    sampler = sq.BatchSampler(np.arange(500) % 17, max_tokens=64)
    want = list(sampler)

    def edit():
        for epoch in range(ROUNDS):
            sampler.set_epoch(epoch)
            assert sampler.state_dict()["elements"] == 500
        sampler.set_epoch(0)

    together(*[repeat(lambda: check(list(sampler) == want), 20)] * 3)
    together(
        edit, repeat(lambda: check(sorted(i for batch in sampler for i in batch) == list(range(500))), 20)
    )
    assert list(sampler) == want
