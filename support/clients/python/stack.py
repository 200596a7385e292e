"""The stack under test, as a client's conversation needs it.

A conversation is run with the gateway's address, the address of the engine's metrics and the engine's
process id. It prints a line for every check that holds, and ends with 1 at the first that does not.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
import urllib.request

URL, ENGINE_METRICS, ENGINE_PID = sys.argv[1], sys.argv[2], int(sys.argv[3])
BASE = URL + "/v1"
QUESTION = [{"role": "user", "content": "Write the numbers from one to a thousand in words."}]
# More than the context of any stack that these conversations are run on.
ENDLESS = [{"role": "user", "content": "word " * 5_000}]
# How many requests are let in at once.
PLACES = 2
# An answer of this many tokens takes seconds.
LONG = 1800


def converse(*checks):
    """Runs the checks in order."""
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            check()
        except Exception:
            traceback.print_exc()
            sys.exit(f"DOES NOT HOLD: {name}")
        print(f"holds: {name}", flush=True)


@contextlib.contextmanager
def raises(kind):
    """The block ends with an error of this kind, which is then in `.error`."""
    caught = type("Caught", (), {"error": None})()
    try:
        yield caught
    except kind as error:
        caught.error = error
    assert caught.error is not None, f"no {kind} was raised"


@contextlib.contextmanager
def full_house():
    """Others have all the places, and leave as soon as someone was refused."""

    def refusals():
        return metric(URL + "/metrics", "cadence_gateway_refusals_total")

    def leave():
        eventually(lambda: refusals() > before)
        for guest in guests:
            guest.close()

    before = refusals()
    endless = {"max_tokens": LONG, "ignore_eos": True}
    body = json.dumps({"messages": QUESTION, "stream": True} | endless).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(BASE + "/chat/completions", body, headers)
    guests = [urllib.request.urlopen(request) for _ in range(PLACES)]
    leaving = threading.Thread(target=leave)
    leaving.start()
    yield
    leaving.join()
    assert refusals() > before, "nobody was refused"


def nothing_runs():
    """Whether the engine comes to rest: who leaves frees its place."""
    eventually(lambda: metric(ENGINE_METRICS, "cadence_engine_running") == 0)


def kill_the_engine():
    os.kill(ENGINE_PID, signal.SIGKILL)


def metric(url, name):
    """The sum of a metric's series."""
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((name + " ", name + "{")))


def eventually(condition):
    """Waits until the condition holds, for 10 s at most."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "not within 10 s"
        time.sleep(0.02)
