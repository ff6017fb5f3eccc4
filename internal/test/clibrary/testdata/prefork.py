"""A server that forks workers, each of which fires until it is killed at a random moment: prefork.py WORKERS

For each worker it prints its PID, and how many of its fires had returned when it was killed.
"""

import mmap
import os
import random
import signal
import sys
import time

from stapsdt import STRING, UINT64, Provider

AT_ONCE = 10

app = Provider("server")
request = app.probe("request", path=STRING, n=UINT64)
app.load()


def work(index, done):
    n = 0
    while True:
        request.fire("/item/%d" % n, n)
        n += 1
        done[index] = n


def start(index, done):
    worker = os.fork()
    if worker == 0:
        work(index, done)
    return worker


def main():
    count = int(sys.argv[1])
    # What workers and the server share. It is written in one piece, unlike by struct.pack_into.
    done = memoryview(mmap.mmap(-1, 8 * count)).cast("Q")
    request.fire("server", 0)
    for first in range(0, count, AT_ONCE):
        workers = {start(i, done): i for i in range(first, first + AT_ONCE)}
        for worker in random.sample(list(workers), len(workers)):
            while done[workers[worker]] == 0:
                time.sleep(0.001)
            time.sleep(random.random() / 100)
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            # Later workers remove all but a few recordings of earlier ones.
            path = os.environ["STAPSDT_RECORD"].partition(",")[0].replace("%p", str(worker))
            os.link(path, path + ".kept")
            print("worker", worker, done[workers[worker]])
    print("over", flush=True)
    sys.stdin.readline()


main()
