"""USDT probes for Python, through libstapsdt.so.0 and ctypes.

    app = Provider("myapp")
    done = app.probe("request__done", path=STRING, status=INT32)
    app.load()
    done.fire("/index.html", 200)

Build the library with make -C cstapsdt, and put its directory into LD_LIBRARY_PATH,
or install the library.
"""

import atexit
import ctypes
import weakref

UINT8, UINT16, UINT32, UINT64 = 1, 2, 4, 8
INT8, INT16, INT32, INT64 = -1, -2, -4, -8
STRING = 16  # the address of bytes that end with a NUL: str(arg0) in bpftrace

_MEMFD_DISABLED = 0

# PyDLL keeps the interpreter's lock during a call, so that no thread can unload a provider
# while another fires its probe.
_lib = ctypes.PyDLL("libstapsdt.so.0")
for _name, _result, *_arguments in (
    ("providerInit", ctypes.c_void_p, ctypes.c_char_p),
    ("providerAddNamedProbe", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p),
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


class _Argument(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int)]


class Error(Exception):
    """An error of the library, with its text."""


def _check(kind, value):
    """Raises an exception if a probe's argument of that type cannot have the value."""
    if kind == STRING:
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"{value!r} is neither str nor bytes")
        return
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no int")
    bits = 8 * abs(kind)
    if value >> (bits if kind > 0 else bits - 1) not in ((0,) if kind > 0 else (0, -1)):
        raise OverflowError(f"{value} is no {'u' if kind > 0 else ''}int{bits}")


class Probe:
    """A probe. Provider.probe returns one."""

    def __init__(self, provider, name, arguments):
        pairs = ((name.encode(), kind) for name, kind in arguments.items())
        array = (_Argument * len(arguments))(*pairs)
        self.name = name
        self.types = tuple(arguments.values())
        self.provider = provider  # owns the probe, and must live as long
        self._probe = _lib.providerAddNamedProbe(
            provider._provider, name.encode(), len(array), array)
        provider._check(self._probe)

    def enabled(self):
        """Reports whether a tracer is attached, or the probe is recorded or watched."""
        return bool(_lib.probeIsEnabled(self._probe))

    def fire(self, *values):
        """Reports an event. Pass a string as str or bytes.

        The values are checked whether a tracer is attached or not, so that a wrong one
        raises its exception in tests too.
        """
        if len(values) != len(self.types):
            raise TypeError(f"{self.name} takes {len(self.types)} arguments, but {len(values)} were given")
        for kind, value in zip(self.types, values):
            _check(kind, value)
        if not self.enabled():
            return
        strings = []  # must live until the probe has fired
        words = (ctypes.c_uint64 * len(values))()
        for i, (kind, value) in enumerate(zip(self.types, values)):
            if kind == STRING:
                if isinstance(value, str):
                    value = value.encode(errors="backslashreplace")
                strings.append(ctypes.c_char_p(value))
                value = ctypes.cast(strings[-1], ctypes.c_void_p).value
            words[i] = value & (1 << 64) - 1
        _lib.probeFireV(self._probe, words)


class Provider:
    """A set of probes that are loaded together. It is unloaded when the program ends."""

    def __init__(self, name):
        self._provider = _lib.providerInit(name.encode())
        if not self._provider:
            raise Error(f"no provider {name!r}")
        # It is freed after the last of its probes, which refer to it.
        weakref.finalize(self, _lib.providerDestroy, self._provider).atexit = False
        # In a file, because bpftrace -p from 0.25 on does not find probes in memory.
        self._check(_lib.providerUseMemfd(self._provider, _MEMFD_DISABLED) == 1)

    def probe(self, name, /, **arguments):
        """Adds a probe with the types of its arguments. The provider must not be loaded."""
        return Probe(self, name, arguments)

    def load(self):
        """Shows the probes to tracers."""
        self._check(_lib.providerLoad(self._provider) == 0)
        atexit.register(self.unload)

    def unload(self):
        """Hides the probes, and removes their file. They can be fired, but do nothing."""
        atexit.unregister(self.unload)
        self._check(_lib.providerUnload(self._provider) == 0)

    def _check(self, good):
        if not good:
            raise Error(_lib.providerError(self._provider).decode())
