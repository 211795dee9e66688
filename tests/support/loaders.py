"""What the workers of data loaders do, with PyTorch and without; other processes import it from here."""

import os

import numpy as np


def padded(batch):
    """The type of a batch, its lengths, its elements padded, and by whom."""
    return type(batch).__name__, batch.lengths(), batch.to_padded(-1), os.getpid()


def flat(batch):
    return batch.values(), batch.offsets()


def elements(batch):
    return [np.array(element) for element in batch]


def total(seq):
    return float(sum(element.sum() for element in seq))


def totals(seq, positions):
    return [float(element.sum()) for element in seq[positions]]


def work(dataset, collate, questions, answers):
    """A worker process: batches of positions come in, what collate makes of them goes out."""
    while (question := questions.get()) is not None:
        number, positions = question
        answers.put((number, collate(dataset.__getitems__(positions))))
