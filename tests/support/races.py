"""Threads that start at one moment."""

import threading


def together(*bodies):
    """Run the bodies on a thread each, from one moment on; what one of them raises is raised here."""
    barrier, failures = threading.Barrier(len(bodies)), []

    def run(body):
        try:
            barrier.wait(10)
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread is stuck"
    if failures:
        raise failures[0]


def beside(edit, body):
    """Run a body while another thread edits over and over, until the body returns."""
    done, busy = threading.Event(), threading.Event()

    def run():
        try:
            busy.wait(30)
            body()
        finally:
            done.set()

    def go_on():
        while not done.is_set():
            edit()
            busy.set()

    try:
        together(run, go_on)
    finally:
        done.set()
