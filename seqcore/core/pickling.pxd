# Stored memory and pickles: what `seqcore/_pickles.py` reads of a sequence.
