"""USDT probes for Python, through libstapsdt.so.0 and ctypes.

    app = Provider("myapp")
    done = app.probe("request__done", STRING, INT32)
    app.load()
    done.fire("/index.html", 200)

Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
or install the library.
"""

import ctypes

UINT8, UINT16, UINT32, UINT64 = 1, 2, 4, 8
INT8, INT16, INT32, INT64 = -1, -2, -4, -8
STRING = "string"  # the address of bytes that end with a NUL: str(arg0) in bpftrace

_MEMFD_DISABLED = 0

_lib = ctypes.CDLL("libstapsdt.so.0")
for _name, _result, *_arguments in (
    ("providerInit", ctypes.c_void_p, ctypes.c_char_p),
    ("providerAddProbeV", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p),
    ("providerUseMemfd", ctypes.c_int, ctypes.c_void_p, ctypes.c_int),
    ("providerLoad", ctypes.c_int, ctypes.c_void_p),
    ("providerUnload", ctypes.c_int, ctypes.c_void_p),
    ("providerDestroy", None, ctypes.c_void_p),
    ("providerError", ctypes.c_char_p, ctypes.c_void_p),
    ("probeFireV", None, ctypes.c_void_p, ctypes.c_void_p),
    ("probeIsEnabled", ctypes.c_int, ctypes.c_void_p),
):
    _function = getattr(_lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments


class Error(Exception):
    """An error of the library, with its text."""


class Probe:
    """A probe. Provider.probe returns one."""

    def __init__(self, provider, name, types):
        words = [UINT64 if t == STRING else t for t in types]
        array = (ctypes.c_int * len(words))(*words)
        self.types = types
        self.provider = provider  # owns the probe, and must live as long
        self._probe = _lib.providerAddProbeV(provider._provider, name.encode(), len(words), array)
        provider._check(self._probe)

    def enabled(self):
        """Reports whether a tracer is attached."""
        return bool(_lib.probeIsEnabled(self._probe))

    def fire(self, *values):
        """Reports an event. Pass a string as str or bytes.

        The values are converted only while a tracer is attached. Returns whether the event
        was reported. A wrong argument raises no exception, because it would do so only
        while a tracer is attached.
        """
        if not self.enabled() or len(values) != len(self.types):
            return False
        words = (ctypes.c_uint64 * len(values))()
        strings = []  # must live until the probe has fired
        try:
            for i, (kind, value) in enumerate(zip(self.types, values)):
                if kind == STRING:
                    strings.append(ctypes.c_char_p(value.encode() if isinstance(value, str) else value))
                    value = ctypes.cast(strings[-1], ctypes.c_void_p).value
                words[i] = value & (1 << 64) - 1
        except (TypeError, ValueError):
            return False
        _lib.probeFireV(self._probe, words)
        return True


class Provider:
    """A set of probes that are loaded together. As a context manager, it closes itself."""

    def __init__(self, name):
        self._provider = _lib.providerInit(name.encode())
        if not self._provider:
            raise Error(f"no provider {name!r}")
        # In a file, because bpftrace -p from 0.25 on does not find probes in memory.
        self._check(_lib.providerUseMemfd(self._provider, _MEMFD_DISABLED) == 1)

    def probe(self, name, *types):
        return Probe(self, name, types)

    def load(self):
        self._check(_lib.providerLoad(self._provider) == 0)

    def unload(self):
        self._check(_lib.providerUnload(self._provider) == 0)

    def close(self):
        """Frees the provider. Its probes must no longer be used."""
        _lib.providerDestroy(self._provider)
        self._provider = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check(self, good):
        if not good:
            raise Error(_lib.providerError(self._provider).decode())
