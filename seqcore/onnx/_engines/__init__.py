"""Engines: what runs a model, tried in this order.

onnxruntime whole    the lowered model in one go; where sequences are left, with checks that let it fail before
                     they get long, or where it departs from the text
in steps             parts in onnxruntime, sequences and their control flow in steps of ours; loops in batches
                     of iterations in onnxruntime, while that is quicker
"""
