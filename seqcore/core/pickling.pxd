# Stored memory and pickles: what `seqcore/_files/pickles.py` reads of a sequence.
