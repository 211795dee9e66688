"""Choose how many threads work on a map: one or several, whichever has been measured to be faster.

Threads that release and take the GIL in every call can be slower together than one alone. How much is not
known before they run, and it may change along the sequence. So a map tries several threads for a short turn,
compares how many units each number of threads finishes in a second, goes on with the better number, and
looks again later::

    threads     1          2         4         4                           2         4
                sample ──▶ trial ──▶ trial ──▶ run until the next look ──▶ trial ──▶ run, twice as long

A trial is short beside the work that is left. Threads that have just started are slow, so a trial of more
threads has several windows: it goes on until one of them is a clear gain, or too much time is lost. If the
rate changes so that another number may be better now, the next trial is due at once.

A helper that needed the interpreter's whole switch interval to get the GIL shows that the body doesn't
release it, so there is nothing to try.
"""

import sys

LEAST, CHUNK = 2e-4, 1e-2  # seconds of work in a chunk, at least and at most
TRIAL = 4e-4, 2e-3  # seconds of a window of a trial: at least, and at most
SHARE = 1 / 40  # of the remaining work, for a window
WINDOWS = 4  # of a trial, at most
LOSS = 1 / 50  # of the remaining time, which a trial may lose before it ends, but no more than a window
GAIN = 1.1  # rates of more to fewer threads from which more are worth it
CLEAR = 1.25  # … from which they clearly are
DRIFT = 1.5  # a change of the rate that makes a look due
SOONEST = 4  # trials that would fit before such a look
REST, CLEAR_REST, LONGEST_REST = 16, 64, 256  # trials that would fit between two looks
NOT_WORTH_IT = 5e-4  # seconds of work that threads would not speed up
FORCED = 0.9  # of the switch interval: a helper that came as late had to wait until the GIL was taken away
LONG = 1e-4  # seconds a unit, from which threads hardly disturb each other
# Units of up to so many seconds gain less, or lose, because each needs the GIL: the shorter they are, the
# more work must pay for a trial. And seconds of a unit that always loses.
SWITCH, TINY = (7e-5, 4e-6) if getattr(sys, "_is_gil_enabled", lambda: True)() else (0.0, 0.0)


def worth_a_trial(seconds, units):
    """Return whether threads may pay for so many units of so many seconds, a trial included."""
    return seconds * units >= NOT_WORTH_IT * (1 + (SWITCH / max(seconds, 1e-9)) ** 2)


class Pace:
    """The number of threads that work on a map, chosen by measurement.

    Worker 0 is the calling thread. A worker may claim units if its number is less than `width`. The methods
    are called under one lock.

    Parameters
    ----------
    seconds : float
        The time of a unit in the calling thread, as sampled.
    most : int
        The largest number of threads.
    least : int
        The units of a chunk, at least, because more of them at once take less time.
    """

    def __init__(self, seconds, most, least=1):
        self.most, self.least = most, least
        self.sample = 1 / max(seconds, 1e-9)  # units a second in the calling thread
        self.rates = {1: self.sample}  # … by the number of threads
        self.sampled = True  # the rate of one thread is only a sample
        self.width = self.chosen = 1  # threads at work, and when none was tried
        self.base = 0  # in a trial: the number to compare with
        self.looks = 0  # trials so far
        self.later = 0.0, 0.0  # units and seconds of the windows of a trial but the first
        self.rest, self.upwards = REST, False
        self.soonest = self.until = 0.0
        self.left = 0
        self.reference = self.last = self.rates[1]  # when the choice was made, and of the last turn
        self.began: float | None = None  # the turn, or the window of a trial
        self.asked: float | None = None  # for units first, before all workers have come
        self.waiting_for: set[int] = set()  # the workers that it begins with
        self.tallies: dict[int, tuple[float, float, int]] = {}
        if seconds < TINY:
            self._turn()
        else:
            self._try(most if seconds >= LONG or not SWITCH else 2)

    @property
    def seconds(self):
        """The time that one of the workers takes for a unit."""
        known = max(width for width in self.rates if width <= self.width)
        return known / self.rates[known]

    def size(self, worker, left, now):
        """Return how many of the units that are left a worker may claim, if it still belongs to the width."""
        self.left = left
        if self.began is None:
            if self.asked is None:
                self.asked = now
            # The others come later, because threads are started one after the other.
            if worker and len(self.waiting_for - {0}) == self.width - 1:
                self.check_for_gil(now)
            self.waiting_for.discard(worker)
            if not self.waiting_for:
                share = SHARE * left * self.seconds / max(self.width, self.base)
                trial = min(TRIAL[1], max(TRIAL[0], share))
                self.began, self.length = now, trial if self.base else CHUNK
                self.first, self.windows, self.lost = now, 0, 0.0
                self.may_lose = min(TRIAL[1], LOSS * left * self.seconds / (self.base or self.width))
        seconds = self.length if self.began is not None else max(TRIAL[1] / 4, now - self.asked)
        most = left // self.width
        size = min(most, max(self.least, int(seconds / self.seconds)))
        return max(1, size, int(LEAST / self.seconds))  # claiming a chunk takes 30 µs and more

    def check_for_gil(self, now):
        """Go on with one thread if another one, which has the GIL now, had to wait until it was taken."""
        if not SWITCH or self.base != 1 or self.began is not None or self.asked is None:
            return
        if now - self.asked >= FORCED * sys.getswitchinterval():
            self._go_on(1, False, now - self.asked, now)

    def finished(self, worker, units, began, ended):
        """Take note of a chunk; at the end of a turn, choose how many threads go on."""
        if self.began is None:
            if self.base == 1 and len(self.waiting_for) == self.width - 1:
                self._alone(units, ended - began)
            return
        within = (ended - max(began, self.began)) / max(ended - began, 1e-9)
        if within <= 0:
            return  # it belongs to the turn before
        done, seconds, chunks = self.tallies.get(worker, (0, 0.0, 0))
        self.tallies[worker] = done + within * units, seconds + within * (ended - began), chunks + 1
        enough = len(self.tallies) == self.width or self.tallies.get(0, (0, 0.0, 0))[2] >= 4
        if not enough or ended - self.began < self.length / 2:  # its chunks were about as long as that
            return
        # Without the time between chunks, which is long in a trial only: then they are short.
        rate = sum(done / max(seconds, 1e-9) for done, seconds, _ in self.tallies.values())
        if not rate:
            return
        if self.base:
            self.rates[self.width] = self.last = rate
            if self._needs_another_window(rate, ended):
                self.began, self.tallies = ended, {}
            else:
                self._choose(ended)
        else:
            # Other processes may have disturbed one of two turns.
            self.rates[self.width], self.last = max(rate, self.last), rate
            self._check(self.rates[self.width], ended)

    def _needs_another_window(self, rate, now):
        """Return whether more threads may still gain, at the end of a window of their trial.

        The trial's rate is that of a clear gain, or the mean of all windows but the first one.
        """
        base, took = self.rates[self.base], now - self.began
        self.windows += 1
        self.lost += took * (1 - rate / base)
        self.later = (self.later[0] + took * rate, self.later[1] + took) if self.windows > 1 else (0.0, 0.0)
        is_open = rate < CLEAR * base and self.lost < self.may_lose
        if self.width > self.base and is_open and self.windows < WINDOWS:
            return True
        if rate < CLEAR * base and self.later[1]:
            self.rates[self.width] = self.last = self.later[0] / self.later[1]
        return False

    def limit(self, most):
        """Go on with fewer threads, because no more can be started."""
        self.most = most
        if max(self.width, self.base) > most:
            self.base, self.width = 0, min(self.width, most)
            self._turn()

    def _turn(self):
        self.began = self.asked = None  # a turn begins when all of its workers have come
        self.waiting_for = set(range(self.width)) if self.base else set()
        self.tallies = {}  # by worker: finished units, the seconds that they ran, and their chunks
        self.alone = 0, 0.0  # units and seconds of the calling thread before that

    def _alone(self, units, seconds):
        """Measure the calling thread while it works alone, until helpers have started.

        Their start may slow it down, so the better rate counts.
        """
        self.alone = self.alone[0] + units, self.alone[1] + seconds
        if self.alone[0]:
            rate = self.alone[0] / max(self.alone[1], 1e-9)
            self.rates[1] = max(rate, self.sample)
            if self.seconds < TINY:
                self.base, self.width = 0, 1
                self._turn()

    def _try(self, width):
        self.base, self.width = self.width, min(width, self.most)
        self.looks += 1
        self._turn()

    def _choose(self, now):
        """Compare a trial with the number of threads before it, and go on with the better one."""
        trial, base = self.width, self.base
        confirms = trial == 1 and self.sampled
        self.sampled = self.sampled and not confirms
        fewer, more = sorted((trial, base))
        gain = self.rates[more] / self.rates[fewer]
        # Samples of short units differ by a factor from their time later, so a turn alone confirms a gain
        # that isn't large. Without the GIL a clear one is likely.
        unsure = gain < (DRIFT if SWITCH else CLEAR)
        if self.sampled and fewer == 1 and gain > 1 / DRIFT and unsure:
            self._try(1)
            return
        better = more if gain >= GAIN else fewer
        if 1 < better < self.most and (better == trial or confirms):
            self.width = better
            self._try(2 * better if confirms or trial > base else (trial + 1) // 2)
            return
        took = (now - self.first) * min(1, 2 / self.windows)
        self._go_on(better, not 1 / CLEAR < gain < CLEAR, max(self.length, took), now)

    def _go_on(self, better, is_clear, took, now):
        """Go on with a number of threads after a trial whose first windows took so many seconds."""
        again = 2 * self.rest if better == self.chosen else REST
        self.rest = min(LONGEST_REST, max(again, CLEAR_REST) if is_clear else again)
        self.soonest, self.until = now + SOONEST * took, now + self.rest * took
        self.upwards = self.width < better  # try the other side next
        self.base, self.width, self.chosen = 0, better, better
        self.reference = self.last = self.rates[better]
        self._turn()

    def _check(self, rate, now):
        """Look at other numbers of threads if the rate has changed, or after some time."""
        if not worth_a_trial(self.seconds / self.width, self.left):
            self._turn()
            return
        if now >= self.soonest:
            # Short units may be faster on one thread, long ones on more.
            if self.width > 1 and rate > DRIFT * self.reference:
                self._try(1)
                return
            if self.width < self.most and rate < self.reference / DRIFT and self.seconds >= TINY:
                self.rates[self.width] = self.last
                self._try(2 * self.width)
                return
        if now < self.until or (self.width == 1 and self.seconds < TINY):
            self._turn()
        elif self.width == 1 or (self.upwards and self.width < self.most):
            self._try(2 * self.width)
        else:
            self._try((self.width + 1) // 2)
