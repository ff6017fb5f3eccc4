"""Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000."""

import sys
import time

from stapsdt import INT32, STRING, Provider

app = Provider("languages")
probe = app.probe("bench", path=STRING, number=INT32)
app.load()


def nothing(text, number):
    pass


def empty(calls):
    for i in range(calls):
        nothing("/index.html", i)


def enabled(calls):
    for _ in range(calls):
        probe.enabled()


def fire(calls):
    for i in range(calls):
        probe.fire("/index.html", i)


print("ready", flush=True)
for line in sys.stdin:
    name, calls = line.split()
    start = time.perf_counter_ns()
    globals()[name](int(calls))
    print("took", (time.perf_counter_ns() - start) / int(calls), flush=True)
