"""Models with SequenceMap, which PyTorch doesn't export, as ONNX text.

Run with onnx 1.23: `python export_maps.py [NAME ...]`. `tests/onnx_engines/test_exported.py` has what they
compute.
"""

import onnx
from common import main, onnx_model

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def text(graph):
    return onnx.parser.parse_model(HEADER + graph)


@onnx_model
def map_norms():
    """Sentences by their lengths, each normalized; as a list, and joined."""
    return text("""
        map_norms (float[N, 8] x, int64[K] lengths) => (seq(float[A, 8]) normed, float[M, 8] joined) {
            parts = SplitToSequence <axis = 0> (x, lengths)
            tiny = Constant <value = float {0.001}> ()
            normed = SequenceMap (parts, tiny) <body = norm (float[R, 8] part, float eps) => (float[R, 8] y) {
                mean = ReduceMean <axes = [0]> (part)
                centred = Sub (part, mean)
                squares = Mul (centred, centred)
                variance = ReduceMean <axes = [0]> (squares)
                safe = Add (variance, eps)
                root = Sqrt (safe)
                y = Div (centred, root)
            }>
            joined = ConcatFromSequence <axis = 0> (normed)
        }""")


@onnx_model
def map_resized():
    """A list of images comes in, one tensor of thumbnails goes out."""
    return text("""
        map_resized (seq(float[2, H, W]) images) => (float[N, 2, 4, 4] thumbs, int64 n) {
            sizes = Constant <value = int64[3] {2, 4, 4}> ()
            small = SequenceMap (images, sizes) <body = resize (float[2, H, W] image, int64[3] to)
                                                     => (float[2, 4, 4] t) {
                t = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
                            nearest_mode = "floor"> (image, , , to)
            }>
            thumbs = ConcatFromSequence <axis = 0, new_axis = 1> (small)
            n = SequenceLength (images)
        }""")


@onnx_model
def map_pairs():
    """Two lists side by side, two results."""
    return text("""
        map_pairs (float[N, 4] x, float[N, 4] y, float[4] w) => (float[M] dots, float[M, 4] sums) {
            a = SplitToSequence <axis = 0> (x)
            b = SplitToSequence <axis = 0> (y)
            dot, sum = SequenceMap (a, b, w) <body = pair (float[1, 4] p, float[1, 4] q, float[4] v)
                                                      => (float[1] d, float[1, 4] s) {
                axis = Constant <value = int64[1] {1}> ()
                pq = Mul (p, q)
                pqv = Mul (pq, v)
                d = ReduceSum <keepdims = 0> (pqv, axis)
                s = Add (p, q)
            }>
            dots = ConcatFromSequence <axis = 0> (dot)
            sums = ConcatFromSequence <axis = 0> (sum)
        }""")


@onnx_model
def map_padded():
    """Each part is padded to four rows, and the parts to one tensor; with their lengths."""
    return text("""
        map_padded (seq(float[R, 4]) parts) => (float[N, 4, 4] padded, int64[N] lengths) {
            full, count = SequenceMap (parts) <body = pad (float[R, 4] part) => (float[4, 4] y, int64[1] n) {
                most = Constant <value = int64[1] {4}> ()
                none = Constant <value = int64[1] {0}> ()
                n = Shape <start = 0, end = 1> (part)
                behind = Sub (most, n)
                pads = Concat <axis = 0> (none, none, behind, none)
                y = Pad (part, pads)
            }>
            padded = ConcatFromSequence <axis = 0, new_axis = 1> (full)
            lengths = ConcatFromSequence <axis = 0> (count)
        }""")


@onnx_model
def map_rounds():
    """Rounds of a loop, in each of which all states of a list are mapped; the last round's list comes out."""
    return text("""
        map_rounds (seq(float[4]) states, float[4, 4] w, int64 rounds)
                => (seq(float[4]) last, float[R] norms) {
            yes = Constant <value = bool {1}> ()
            last, norms = Loop (rounds, yes, states) <body = round (int64 i, bool go, seq(float[4]) was)
                                                           => (bool on, seq(float[4]) now, float norm) {
                now = SequenceMap (was, w) <body = step (float[4] h, float[4, 4] m) => (float[4] next) {
                    t = MatMul (m, h)
                    next = Tanh (t)
                }>
                all = ConcatFromSequence <axis = 0> (now)
                norm = ReduceL2 <keepdims = 0> (all)
                on = Identity (go)
            }>
        }""")


@onnx_model
def map_then_pick():
    """The map's results are picked by positions, in a loop that makes another list."""
    return text("""
        map_then_pick (float[N, 4] x, int64[K] order) => (float[M, 4] y) {
            rows = SplitToSequence <axis = 0> (x)
            scaled = SequenceMap (rows) <body = scale (float[1, 4] row) => (float[1, 4] y) {
                top = ReduceMax <axes = [1]> (row)
                y = Sub (row, top)
            }>
            yes = Constant <value = bool {1}> ()
            none = SequenceEmpty ()
            shape = Shape (order)
            trips = Squeeze (shape)
            picked = Loop (trips, yes, none) <body = pick (int64 i, bool go, seq(float[1, 4]) was)
                                                   => (bool on, seq(float[1, 4]) now) {
                at = Gather (order, i)
                one = SequenceAt (scaled, at)
                now = SequenceInsert (was, one)
                on = Identity (go)
            }>
            y = ConcatFromSequence <axis = 0> (picked)
        }""")


if __name__ == "__main__":
    main()
