"""Sentences of different lengths in one tensor, scripted.

Run with PyTorch 2.13: `python export_sentences.py [NAME ...]`.
"""

import torch
import torch.nn.functional as F
from common import main, module
from torch import Tensor


@module
class RaggedSoftmax(torch.nn.Module):
    """A softmax for each part; the parts' lengths are an input."""

    def forward(self, x, lengths):
        out: list[Tensor] = []
        start = 0
        for i in range(lengths.size(0)):
            stop = start + int(lengths[i])
            out.append(torch.softmax(x[start:stop], 0))
            start = stop
        return torch.cat(out)


@module
class RaggedAttention(torch.nn.Module):
    """Words attend to the words of their own sentence; the list of sentences comes back padded."""

    def __init__(self):
        super().__init__()
        self.qk = torch.nn.Linear(8, 8)

    def forward(self, x, lengths):
        longest = int(lengths.amax())
        out: list[Tensor] = []
        start = 0
        for i in range(lengths.size(0)):
            n = int(lengths[i])
            part = x[start : start + n]
            weights = torch.softmax(self.qk(part) @ part.t(), 1)
            out.append(F.pad(weights @ part, [0, 0, 0, longest - n]))
            start += n
        return torch.stack(out)


@module
class SentenceMeans(torch.nn.Module):
    """The mean word of each sentence, from embeddings."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)

    def forward(self, tokens, lengths):
        out: list[Tensor] = []
        start = 0
        for i in range(lengths.size(0)):
            n = int(lengths[i])
            out.append(self.embed(tokens[start : start + n]).mean(0))
            start += n
        return torch.stack(out)


@module
class SplitAtMarks(torch.nn.Module):
    """Sentences end at 0: a list of them, with their mark; and the longest one's length."""

    def forward(self, tokens):
        sentences: list[Tensor] = []
        start = 0
        longest = 0
        for i in range(tokens.size(0)):
            if bool(tokens[i] == 0):
                sentence = tokens[start : i + 1]
                sentences.append(sentence)
                longest = max(longest, sentence.size(0))
                start = i + 1
        return sentences, longest, start


@module
class SortedByLength(torch.nn.Module):
    """Sentences, the longest first, as packed sequences want them, and what puts them back in order."""

    def forward(self, x, lengths):
        sentences: list[Tensor] = []
        start = 0
        for i in range(lengths.size(0)):
            stop = start + int(lengths[i])
            sentences.append(x[start:stop])
            start = stop
        order = (lengths * lengths.size(0) - torch.arange(lengths.size(0))).argsort(descending=True)
        packed: list[Tensor] = []
        for i in range(order.size(0)):
            packed.append(sentences[int(order[i])])
        return torch.cat(packed), order.argsort()


@module
class SpanPooling(torch.nn.Module):
    """Entities: the maximum over each span, a zero row for an empty one."""

    def forward(self, x, spans):
        out: list[Tensor] = []
        for i in range(spans.size(0)):
            span = x[int(spans[i, 0]) : int(spans[i, 1])]
            out.append(span.amax(0) if span.size(0) > 0 else torch.zeros(x.size(1)))
        return torch.stack(out)


if __name__ == "__main__":
    main()
