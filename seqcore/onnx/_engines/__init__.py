"""Engines: what runs a model, tried in this order.

whole        onnxruntime runs the model, or the lowered one, in one go; where there are sequences in it, with
             checks that let it fail before they get long, or where onnxruntime deviates from the
             specification
in steps     parts in onnxruntime, sequences and their control flow in steps of ours
"""
