#!/usr/bin/env python3
"""Works on tasks, and fires a probe after each: see README.md."""

import itertools
import os
import time

from stapsdt import INT32, STRING, UINT64, Error, Provider

tasks = Provider("tasks")
done = tasks.probe("task__done", task=STRING, microseconds=UINT64, result=INT32)
try:
    tasks.load()
except Error as error:
    print("no probes:", error)  # and continue
print(f"process {os.getpid()} works", flush=True)
for number in itertools.count(1):
    start = time.monotonic()
    time.sleep(0.05)
    done.fire(f"task {number}", int((time.monotonic() - start) * 1e6), -number)
