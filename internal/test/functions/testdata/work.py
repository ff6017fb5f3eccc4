"""Does on command what there are scripts for."""

import fcntl
import os
import sys
import threading
import time

try:
    import functions
except ImportError:
    functions = None  # to measure what the probes cost


def leaf(n):
    return n + 1


def branch(n):
    total = 0
    for i in range(n):
        total += leaf(i)
    return total


def failing():
    raise ValueError("on purpose")


def flow(_):
    branch(2)
    try:
        failing()
    except ValueError:
        pass
    leaf(3)


def down(n):  # takes 20 ms at every level
    time.sleep(0.02)
    if n > 1:
        down(n - 1)


def recursion(_):
    down(5)


def spin(ms):
    stop = time.process_time() + ms / 1000
    while time.process_time() < stop:
        pass


def outer():
    for _ in range(4):
        spin(50)
    stop = time.process_time() + 0.1
    while time.process_time() < stop:
        pass


def work(_):
    outer()


def allocate(size):
    return bytearray(size)


def memory(_):
    return [allocate(1 << 20) for _ in range(10)]


def critical(file):
    fcntl.flock(file, fcntl.LOCK_EX)


def lock(path):
    with open(path) as file:
        print("locking", flush=True)
        critical(file)


def acquire(mutex):
    mutex.acquire()


def mutex(_):
    held = threading.Lock()
    held.acquire()
    threading.Timer(0.5, held.release).start()
    acquire(held)


def ready(_):
    while not functions.tracing():
        time.sleep(0.005)


def idle(_):
    while functions.tracing():
        leaf(0)
        time.sleep(0.005)


def profile(*_):
    pass


# hostile shows whether the profile of the program's threads is still its own, and whether what is
# kept for functions is bounded.
def hostile(_):
    threading.setprofile(threading._profile_hook or profile)
    for _ in range(15_000):
        eval("lambda: 0")()
    kept = len(functions._functions._entry._texts) > functions.MOST
    print("hostile", threading._profile_hook is profile, kept, flush=True)


def fork(_):
    global child
    child = os.fork()
    if child == 0:
        ready(None)
        os._exit(0 if leaf(1) == 2 else 1)


def wait(_):
    print("status", os.waitpid(child, 0)[1], flush=True)


def bench(calls):
    start = time.process_time_ns()
    for i in range(int(calls)):
        leaf(i)
    print("bench", (time.process_time_ns() - start) // int(calls), flush=True)


for line in sys.stdin:
    command, _, argument = line.strip().partition(" ")
    globals()[command](argument)
    print("done", command, flush=True)
