"""Python's multiprocessing forks while a tracer is attached: the children fire, and live."""
import ctypes
import multiprocessing
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../bindings/python"))
from stapsdt import STRING, UINT64, Provider  # noqa: E402

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
FIRE, FILENAME = 32, 40  # in SDTProbe_t and SDTProvider_t


def attach(path, offset):
    """Opens a counter of the uprobe in this process: -1 where it may not."""
    with open("/sys/bus/event_source/devices/uprobe/type") as file:
        kind = int(file.read())
    name = ctypes.create_string_buffer(path.encode())
    attributes = struct.pack("=IIQQQQQIIQQ", kind, 72, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name), offset)
    return ctypes.CDLL(None).syscall(PERF_EVENT_OPEN[os.uname().machine], attributes, 0, -1, -1, 0)


def site(provider, probe):
    """Returns the file that the probe is in, and its offset there."""
    address = ctypes.c_uint64.from_address(probe._probe + FIRE).value
    path = ctypes.c_char_p.from_address(provider._provider + FILENAME).value.decode()
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if start <= address < end:
                return path, address - start + int(line.split()[2], 16)
    raise LookupError(path)


def work(number):
    for _ in range(100):
        probe.fire(f"task {number}", number)
    return probe.enabled()


provider = Provider("forked")
probe = provider.probe("task", name=STRING, id=UINT64)
provider.load()
counter = attach(*site(provider, probe))
assert counter >= 0 and probe.enabled()
work(0)
with multiprocessing.get_context("fork").Pool(3) as pool:
    # A child that dies is replaced forever: hence the limit.
    pool.map_async(work, range(20)).get(timeout=120)
work(0)
assert struct.unpack("=Q", os.read(counter, 8))[0] == 200
