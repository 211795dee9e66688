"""How many threads work on a map: the policy, against simulated bodies on a simulated clock."""

import heapq
from itertools import pairwise
from random import Random

import pytest

from seqcore._maps import pace
from seqcore._maps.pace import Pace, worth_a_trial
from seqcore._maps.threads import LATE

CHUNK_OVERHEAD = 1e-5  # seconds, as measured
LOOK = 16  # units between two looks at the clock
START = 1e-4  # seconds until a helper that is wanted works


@pytest.fixture(autouse=True)
def with_the_gil(monkeypatch):
    monkeypatch.setattr(pace, "SWITCH", 7e-5)
    monkeypatch.setattr(pace, "TINY", 4e-6)


class Simulation:
    """A map of units of so many seconds, and `slow(seconds, threads)` times that beside others."""

    def __init__(self, seconds, slow, most, delays=None, start=START):
        self.seconds, self.slow, self.start = seconds, slow, start
        self.delays = delays or {}  # seconds in which another process has the CPU, by unit
        self.pace = Pace(seconds[0], most)
        self.widths = []  # when the number of threads changed, and to what

    def run(self):
        """Return the seconds that the map takes."""
        now, self.left = 0.0, list(reversed(range(len(self.seconds))))
        events, running = [(now, 0)], {}
        while events:
            now, worker = heapq.heappop(events)
            if worker in running:
                began, until, claimed, done = running[worker]
                if done < len(claimed) and (now < until or done == 0 or done % LOOK):
                    seconds = self.seconds[claimed[done]]
                    took = seconds * self.slow(seconds, len(running)) + self.delays.get(claimed[done], 0.0)
                    running[worker] = began, until, claimed, done + 1
                    heapq.heappush(events, (now + took + CHUNK_OVERHEAD * (done + 1 == len(claimed)), worker))
                    continue
                del running[worker]
                self.left += reversed(claimed[done:])  # it was late
                self.pace.finished(worker, done, began, now)
            coming = {worker, *running, *(one for _, one in events)}
            for other in range(1, self.pace.width):
                if self.left and other not in coming:
                    heapq.heappush(events, (now + self.start, other))
            if not self.widths or self.widths[-1][1] != self.pace.width:
                self.widths.append((now, self.pace.width))
            if self.left and worker < self.pace.width:
                size = self.pace.size(worker, len(self.left), now)
            if self.left and worker < self.pace.width:  # it still is
                claimed = [self.left.pop() for _ in range(min(size, len(self.left)))]
                running[worker] = now, now + LATE * len(claimed) * self.pace.seconds, claimed, 0
                heapq.heappush(events, (now, worker))
            last = now
        return last


def that_share_the_gil(handover):
    """What units take longer on several threads, each of which waits for the GIL once in a unit."""
    return lambda seconds, threads: 1 + (threads > 1) * threads * handover / seconds


def that_hold_the_gil(seconds, threads):
    return threads


def that_share_nothing(seconds, threads):
    return 1


class TestBeside:
    """The time beside that of one thread."""

    @pytest.mark.parametrize("most", [2, 3, 8, 64])
    @pytest.mark.parametrize("slow", [that_share_the_gil(6e-6), that_share_the_gil(2e-5), that_hold_the_gil])
    @pytest.mark.parametrize(
        ("units", "seconds"),
        [(50_000, 1e-6), (20_000, 5e-6), (5000, 15e-6), (1000, 4e-5), (300, 1e-4), (20, 1e-3)],
    )
    def test_it_never_loses(self, units, seconds, slow, most):
        alone = units * seconds
        together = sum(seconds * slow(seconds, most) / most for _ in range(units))
        assert Simulation([seconds] * units, slow, most).run() < 1.1 * max(alone, min(alone, together))

    @pytest.mark.parametrize(
        ("units", "seconds"), [(2000, 4e-5), (100, 2e-4), (20, 2e-4), (100, 1e-3), (12, 1e-2)]
    )
    def test_two_threads_take_half_as_long(self, units, seconds):
        assert Simulation([seconds] * units, that_share_nothing, 2).run() < 0.62 * units * seconds

    @pytest.mark.parametrize(("windows", "beside"), [(1, (0.97, 1.1)), (pace.WINDOWS, (0.6, 0.87))])
    def test_threads_that_are_slow_at_first(self, windows, beside, monkeypatch):
        """One window can't tell them from threads that gain nothing, so a trial has several."""
        monkeypatch.setattr(pace, "WINDOWS", windows)
        together = []

        def slow(seconds, threads):
            together.extend([1] * (threads > 1))
            return 1 if threads == 1 else 2.1 if len(together) < 160 else 1.4

        least, most = beside
        assert least < Simulation([2e-5] * 3000, slow, 2).run() / (3000 * 2e-5) < most

    @pytest.mark.parametrize("most", [3, 4, 6, 8])
    @pytest.mark.parametrize(("units", "seconds"), [(5000, 4e-5), (500, 1e-3)])
    def test_more_threads_take_less_time(self, units, seconds, most):
        assert Simulation([seconds] * units, that_share_nothing, most).run() < 1.35 * units * seconds / most

    def test_without_a_gil_short_units_gain_too(self, monkeypatch):
        monkeypatch.setattr(pace, "SWITCH", 0.0)
        monkeypatch.setattr(pace, "TINY", 0.0)
        assert Simulation([2e-6] * 20_000, that_share_nothing, 2).run() < 0.56 * 20_000 * 2e-6


class TestAlongTheSequence:
    def best(self, seconds, slow, most):
        return sum(min(one, one * slow(one, most) / most) for one in seconds)

    def test_units_that_get_faster(self):
        seconds = [2e-4] * 1000 + [2e-6] * 40_000
        assert Simulation(seconds, that_share_the_gil(1e-5), 2).run() < 1.2 * self.best(
            seconds, that_share_the_gil(1e-5), 2
        )

    def test_units_that_get_slower(self):
        seconds = [1e-5] * 3000 + [2e-4] * 1000
        assert Simulation(seconds, that_share_the_gil(1e-5), 2).run() < 0.85 * sum(seconds)

    def test_units_that_get_slower_bit_by_bit(self):
        seconds = [2e-6 + i * 1e-8 for i in range(20_000)]
        assert Simulation(seconds, that_share_the_gil(1e-5), 2).run() < 0.75 * sum(seconds)

    @pytest.mark.parametrize("most", [2, 8])
    def test_units_of_all_sizes(self, most):
        seconds = [[1e-6, 3e-6, 3e-5, 1e-4][i * 7 % 11 % 4] for i in range(20_000)]
        assert Simulation(seconds, that_share_the_gil(1e-5), most).run() < 1.1 * sum(seconds)

    def test_a_delay_changes_nothing_for_long(self):
        """Another process has the CPU for 4 ms now and then."""
        seconds = [1e-6] * 100_000
        delays = dict.fromkeys(range(0, 100_000, 20_000), 4e-3)
        one = Simulation(seconds, that_share_the_gil(6e-6), 2, delays)
        assert one.run() < 1.1 * (sum(seconds) + sum(delays.values()))


class TestLooks:
    def test_bodies_that_hold_the_gil_are_not_tried(self):
        """A helper that comes as late as the switch interval had to take the GIL away."""
        one = Simulation([1e-4] * 400, that_hold_the_gil, 2, start=6e-3)
        assert one.run() < 1.001 * 0.04 + 1e-3
        assert one.pace.looks == 1
        assert one.pace.tallies.keys() <= {0}

    def test_late_helpers_are_tried_again_later(self):
        one = Simulation([1e-3] * 2000, that_share_nothing, 2, start=6e-3)
        one.start = 6e-3
        one.run()
        assert one.pace.looks > 1

    def test_without_a_gil_late_helpers_are_welcome(self, monkeypatch):
        monkeypatch.setattr(pace, "SWITCH", 0.0)
        one = Simulation([1e-3] * 100, that_share_nothing, 2, start=6e-3)
        assert one.run() < 0.6 * 0.1

    def test_many_threads_that_start_one_after_the_other_are_not_late(self):
        one = Pace(1e-3, 64)
        one.size(0, 10_000, 0.0)
        for worker in range(1, 64):
            one.size(worker, 10_000, worker * 2e-4)
        assert one.width == 64
        assert one.began == pytest.approx(63 * 2e-4)

    @pytest.mark.parametrize(("seconds", "width"), [(4e-3, 2), (6e-3, 1)])
    def test_a_helper_that_is_late_shows_a_held_gil(self, seconds, width):
        one = Pace(1e-4, 2)
        one.check_for_gil(1.0)  # before the calling thread has asked for units
        assert one.width == 2
        one.size(0, 10_000, 1.0)
        one.check_for_gil(1.0 + seconds)
        assert one.width == width

    @pytest.mark.slow
    def test_a_choice_that_is_confirmed_is_looked_at_less_often(self):
        one = Simulation([15e-6] * 200_000, that_share_the_gil(2e-5), 2)
        one.run()
        trials = [began for began, width in one.widths if width == 2]
        pauses = [b - a for a, b in pairwise(trials)]
        assert len(trials) == one.pace.looks >= 4
        assert pauses[2] > 1.5 * pauses[0]

    def test_units_that_always_lose_are_never_tried(self):
        one = Simulation([3.9e-6] * 100_000, that_share_the_gil(6e-6), 2)
        one.run()
        assert one.pace.looks == 0

    def test_few_threads_are_tried_before_many(self):
        one = Simulation([2e-5] * 100_000, that_share_nothing, 16)
        one.run()
        assert [width for _, width in one.widths][:4] == [2, 4, 8, 16]

    def test_long_units_begin_on_all_threads(self):
        one = Simulation([1e-3] * 100, that_share_nothing, 16)
        one.run()
        assert [width for _, width in one.widths] == [16]

    def test_helpers_that_never_come(self):
        """The caller goes on alone, and measures itself."""
        one = Pace(1e-3, 4)
        for k in range(100):
            assert one.size(0, 1000, k * 1e-5) >= 1
            one.finished(0, 1, k * 1e-5, (k + 1) * 1e-5)
        assert one.rates[1] == pytest.approx(1e5)
        one.limit(1)
        assert one.width == 1

    @pytest.mark.parametrize(("most", "width"), [(1, 1), (2, 2), (9, 4)])
    def test_a_limit(self, most, width):
        one = Pace(1e-3, 4)
        one.limit(most)
        assert one.width == width


@pytest.mark.parametrize(
    ("seconds", "units", "worth"),
    [(1e-2, 1, True), (1e-4, 7, False), (1e-4, 8, True), (1e-5, 2400, False), (1e-5, 2600, True)],
)
def test_so_much_work_is_worth_a_trial(seconds, units, worth):
    assert worth_a_trial(seconds, units) is worth


def test_the_sizes_of_chunks():
    one = Pace(1e-4, 2)
    assert one.size(0, 1000, 0.0) == 5  # until a helper comes
    assert one.size(1, 1000, 0.0) == 12  # a window of a trial has one for each: 1/40 of the work, by two
    assert one.size(1, 7, 0.0) == 3  # towards the end they become smaller, down to 0.2 ms
    assert one.size(1, 1, 0.0) == 2  # of which the map takes what is left
    assert Pace(1e-4, 2, least=64).size(0, 1000, 0.0) == 64


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_calls(seed):
    """The width stays between one thread and those that can be started, whatever the clock says."""
    random = Random(seed)
    most = random.choice([1, 2, 3, 7, 64])
    one = Pace(random.choice([0.0, 10 ** random.uniform(-10, 2)]), most, random.choice([1, 16, 1000]))
    now, left = random.uniform(0, 1e6), random.choice([5, 1000, 10**12])
    for _ in range(300):
        worker = random.randrange(most)
        call = random.random()
        if call < 0.6:
            if worker < one.width:
                size = one.size(worker, left, now)
                assert size >= 1
                left = max(1, left - size)
        elif call < 0.97:
            took = random.choice([0.0, 1e-9, 1e-4, 1.0, 100.0])
            one.finished(worker, random.choice([0, 1, 5, 1000]), now - took, now)
        else:
            most = random.randrange(1, most + 1)
            one.limit(most)
        now += random.choice([0, 0, 1e-7, 1e-4, 1e-2, 3.0, -1.0])
        assert 1 <= one.width <= most
        assert one.seconds > 0
