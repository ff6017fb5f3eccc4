"""Forks while a tracer is attached: python3 forks.py LIBRARY file|memfd|gone|reload

Prints the path of the probes, and waits for a line before each step. A child fires
1,000 times and leaves with what Enabled says, 0 or 1; a signal would be negative.
"""
import ctypes
import multiprocessing
import os
import sys
import time

library = ctypes.CDLL(sys.argv[1])
library.Load.argtypes = [ctypes.c_bool]
library.Fire.argtypes = [ctypes.c_longlong]
library.Enabled.restype = ctypes.c_bool
library.Reload.restype = ctypes.c_bool


def fire():
    enabled = library.Enabled()
    for value in range(1000):
        library.Fire(value)
    return int(enabled)


def child():
    os._exit(fire())


library.Load(sys.argv[2] == "memfd")
sys.stdin.readline()  # the tracer is attached
if sys.argv[2] == "reload":
    fire()
    library.Reload()
print("before", fire(), flush=True)
time.sleep(0.1)  # Go's own threads rest: a lock that one holds is never given back in a child
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        child()
    print("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
context = multiprocessing.get_context("fork")
process = context.Process(target=child)
process.start()
process.join()
print("multiprocessing", process.exitcode, flush=True)
print("after", fire(), flush=True)
