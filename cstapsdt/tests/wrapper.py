"""A wrapper as one is written for libstapsdt 0.1: ctypes, structs by offset, the documented calls."""
import ctypes
import os


class Probe(ctypes.Structure):
    pass


class Provider(ctypes.Structure):
    pass


class ProbeList(ctypes.Structure):
    pass


Probe._fields_ = [("name", ctypes.c_char_p), ("argFmt", ctypes.c_int * 6),
                  ("_fire", ctypes.c_void_p), ("provider", ctypes.POINTER(Provider)),
                  ("argCount", ctypes.c_int)]
ProbeList._fields_ = [("probe", Probe), ("next", ctypes.POINTER(ProbeList))]
Provider._fields_ = [("name", ctypes.c_char_p), ("probes", ctypes.POINTER(ProbeList)),
                     ("errno", ctypes.c_int), ("error", ctypes.c_char_p),
                     ("_handle", ctypes.c_void_p), ("_filename", ctypes.c_char_p),
                     ("_memfd", ctypes.c_int), ("_use_memfd", ctypes.c_int)]

UINT64, INT32 = 8, -4

lib = ctypes.CDLL("libstapsdt.so")
lib.providerInit.argtypes = [ctypes.c_char_p]
lib.providerInit.restype = ctypes.POINTER(Provider)
lib.providerAddProbe.restype = ctypes.POINTER(Probe)
lib.probeFire.restype = None
lib.providerDestroy.restype = None

provider = lib.providerInit(b"pythonapp")
first = lib.providerAddProbe(provider, b"first", 2, UINT64, INT32)
second = lib.providerAddProbe(provider, b"second", 0)
assert first and second
assert [provider.contents.probes[0].probe.name,
        provider.contents.probes[0].next[0].probe.name] == [b"first", b"second"]
assert list(first.contents.argFmt) == [UINT64, INT32, 0, 0, 0, 0]

for use_memfd in 1, 0:
    assert lib.providerUseMemfd(provider, use_memfd) == 1
    assert lib.providerUnload(provider) == 0
    assert lib.providerLoad(provider) == 0, provider.contents.error
    assert lib.providerLoad(provider) == 0 and lib.providerUseMemfd(provider, use_memfd) == 0
    path = provider.contents._filename
    assert os.path.exists(path) and first.contents._fire
    assert lib.probeIsEnabled(first) == 0
    text = ctypes.create_string_buffer(b"hello")
    lib.probeFire(first, text, ctypes.c_longlong(-5))
    lib.probeFire(second)
    assert not lib.providerAddProbe(provider, b"late", 0)
    assert provider.contents.errno == 0 and b"is loaded" in provider.contents.error
    provider.contents._filename = None  # as Ruby's wrapper does
    assert lib.providerUnload(provider) == 0
    assert not os.path.exists(path)

assert not lib.providerAddProbe(provider, b"many", 7, 1, 1, 1, 1, 1, 1, 1)
assert provider.contents.errno == 0 and lib.providerUnload(provider) == 0

lib.providerDestroy(provider)
