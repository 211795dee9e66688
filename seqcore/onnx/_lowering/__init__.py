"""Sequences compiled away: the passes, and the tensors that sequences go on as."""
