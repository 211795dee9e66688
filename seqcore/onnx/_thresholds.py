"""Thresholds: from how many on something else is done, and the figures behind them.

The figures are of two cores, onnxruntime 1.31 and 1.32, in the minima of many rounds. A threshold changes the
speed of a model and its memory, never its results.
"""

# Engines: onnxruntime copies the pointers of a list at each edit, 8.6 µs an iteration at 1,000 elements and
# 67 at 10,000. A step of ours takes 1 to 2 µs and a part in onnxruntime 5 µs, at any length.

# Up to here an edit costs no more than the steps of an iteration. An Identity in a loop copies the elements
# too: 22 µs an iteration at 512 small ones, beside 47 in steps.
LONG = 512
# A `while` may have more iterations, since not each makes a list longer: 1,000 that copy take 17 ms, beside
# 28 in steps.
LONG_WHILE = 1024
# Elements that nested loops, or many iterations, may copy so.
LONG_TO_COPY = 128
# A list that loops only read is not copied: onnxruntime takes 0.15 to 0.5 of the time of steps.
MOST_READ = 1 << 20
# Up to here an edit in a loop that has several parts costs no more than their calls. (1,000 iterations on
# lists that stay short take 0.1 to 0.7 of the time of steps, or of a model with tensors in their place.)
MOST_EDITED = 2048
# From so many elements on a loop that pads what it appends, and has up to 2.5 times the nodes, is quicker: it
# takes 0.5 to 1.1 of the time at 200 and 0.3 to 0.5 at 512, at 50 0.9 to 1.2.
LONG_TO_PAD = 128
# From so many elements on another model of tensors is mostly quicker, though it copies them at each edit: it
# takes 0.6 to 1.4 of the given one's time at 512 elements, in the mean 0.85.
LONG_TO_STACK = 384
# From so many iterations on, if not from fewer by its nodes, a lowered model without lists in its loops is
# quicker than a smaller one with them: by 8 % at 8 iterations and 45 % at 63 where its loops stay. At 2 it is
# slower, by up to 70 µs.
FEW = 8
# Lists of more elements, which go in one by one, are slower than values and lengths: these take 0.8 of their
# time at 16 elements and 0.4 at 63, at 8 1.2 times as long.
MOST_TO_CONVERT = 16
# Models are compared by their nodes, and one of lists counts as so many. So 1.6 times the nodes took 1.2 of
# the time, and 0.6 times the nodes 0.8.
LIST_TAKES = 2
# From fewer iterations on, if by these it has at most so many times the given one's nodes: it takes 0.6 to
# 1.1 of the time at 1 to 3 iterations.
AS_LARGE = 1.1
# A lowered model without lists of so many times the nodes of the given one, where loops have so many
# iterations, takes no longer at more, and up to 1.1 of the time at one element.
AS_SMALL, TRIPS = 1.1, 2
# A model with tensors in place of lists took 0.2 to 1.0 of the given one's time at 50 to 512 elements where,
# by many iterations, it has at most so many times its nodes. With a little more it takes up to 1.14 at 16.
MANY_TRIPS, MOST_LARGER = 128, 1.18
# With up to so many times the nodes it takes 0.3 to 0.6 of the given one's time at 128 to 512 elements (two
# models), with more 0.3 to 1.4.
LITTLE_LARGER = 1.25
# With up to so many times the nodes it takes 0.4 to 0.9 of the time of steps, and of onnxruntime's edits of
# lists of 1,000 elements.
MOST_LARGER_THAN_STEPS = 2.5
# So many runs take less than compiling a model does, 5 to 40 ms.
RUNS_AS_GIVEN = 2
# For so many combinations of ranks a model is compiled that doesn't declare them.
MOST_RANKS = 8
# After the k-th failure in a row 2ᵏ chances go by, with k up to this: at most one run in 256 is in vain.
MOST_DOUBLINGS = 8
# Loops that copy lists of more numbers at each edit, 256 KB in 20 µs, are slower than steps.
MOST_COPIED_IN_LOOPS = 1 << 16
# A run of a session, 5 µs, costs as much as so many operators in NumPy.
MOST_NUMPY_NODES = 4
# After so many iterations, 100 µs, a loop looks whether it was told to stop.
ITERATIONS_UNSEEN = 32

# Loops of always so few iterations, of so many nodes together, are written out, with names in place of lists:
# that takes half the time.
MOST_WRITTEN_OUT, MOST_NODES_WRITTEN_OUT = 4, 64

# Lists as tensors.

# Each insert of an iteration is an output of the loop, 1 µs an iteration.
MOST_ADDITIONS = 32
# A tensor has fewer rows than this, and a list so few elements that so many rows of each don't overflow.
MOST_ROWS = 1 << 40
# Each element that is read from an end is a state of the loop; farther ones are rare.
FARTHEST = 16
# A Split makes so many pieces in the time of a few Gathers, though not all may be read.
MOST_AT_ONCE_PIECES = 16
# So many elements are as many states of a loop.
MOST_CARRIED = 16

# Loops at once: an iteration in onnxruntime costs 4 to 10 µs beside its work.

# Up to so many numbers an iteration costs more for being one than for its work; …
SMALL = 2048
# … and if padding has to be filled, up to so many.
SMALL_TO_FILL = 512
# From so many numbers on it gains nothing: it reads and writes them elsewhere than in the nearest cache.
LARGE = 1 << 13
# So many numbers at once, 1 MB, are in a cache still.
MOST_AT_ONCE = 1 << 18
# So many numbers may be padded at once, 16 MB, …
MOST_PADDED = 1 << 22
# … and so many items more than there are.
MOST_EXTRA = 1 << 12
# The limit of numbers for other runtimes, which have no other way: 256 MB.
MOST_UNPACKED = 1 << 26
# How many times as much as comes in or out an iteration may make on the way.
TIMES = 4
# So many nodes of branches cost less for all iterations than a branch for each, 3 µs.
LONGEST_BRANCHES = 24

# So many iterations at most go one by one where that takes fewer nodes: 0.5 to 0.8 of the time at 1 or 2. A
# loop takes as long as so many nodes, …
MOST_ONE_BY_ONE, LOOP_TAKES = 4, 3
# … and there have to be so many before the choice of all at once, or it is quick. Where more than so many are
# around the loop, which pack lists, nothing is gained.
LEAST_PREPARED, MOST_AROUND = 8, 8
# Up to so many iterations, a loop that joins what it appends takes 0.7 of the time of one that pads it.
MOST_NOT_PADDED = 16

# Bodies of maps: in copies a body of up to 6 nodes takes about half of the time of single runs.

# Arguments of more bytes gain nothing: copying them costs what a run costs.
MOST_ARGUMENT_NBYTES = 16384
# Fewer rows are as quick singly.
LEAST_ROWS = 8
# The number of elements from which building copies pays: 0.7 ms, and 0.3 ms a node.
COPIES_PAY, A_NODE_MORE = 300, 120
# Which arguments are whole may change from call to call: so many combinations are built for.
MOST_BUILT = 8
# onnxruntime looks each fed name up by walking the inputs: more copies cost more for that than they save.
COPIES = 16
# From some nodes on the 4 µs of a run are little; weights would be packed again for every copy.
MOST_COPIED_NODES, MOST_COPIED_NBYTES = 12, 1 << 16
# The number of elements from which a session of its own for flat arguments pays: 0.5 ms.
FLAT_PAYS = 160

# Models.

# Larger constants are weights: nothing is decided by their numbers.
MOST_NUMBERS = 4096
# Weights of more bytes than this are not held in two sessions.
HEAVY = 1 << 20
# Initializers of fewer bytes are parsed with the rest of a model, weights or not.
LEAST_LEFT = 1 << 14
# Constants of more numbers are left where they are, for all graphs to share.
MOST_OWN = 64
# Integers of more numbers than a shape can have aren't followed.
MOST_FOLLOWED = 64
# So many results are remembered of a node in a loop, whose types climb: more are never asked for again.
MOST_REMEMBERED = 3
