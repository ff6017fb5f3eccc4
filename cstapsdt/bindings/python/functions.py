#!/usr/bin/env python3
"""Function probes for programs in Python, with the names and arguments of CPython's own:

    python:function__entry(file, function, line)
    python:function__return(file, function, line)

CPython has its own only if it was built with --with-dtrace, and in 3.11 function__entry is
not fired for every call. To run a program with these:

    LD_LIBRARY_PATH=cstapsdt/out python3 cstapsdt/bindings/python/functions.py PROGRAM [ARGUMENT...]

A program can also call start() itself. A generator enters when it is resumed and returns
when it yields, as in CPython. An exception that leaves a function is a return.

A thread asks every 100 ms whether a tracer is attached. Only then are there hooks in the
interpreter: those of sys.monitoring, or of sys.setprofile before Python 3.12. Then threads
that were running already, apart from the main thread, are not seen.
"""

import ctypes
import os
import runpy
import sys
import threading
import time

import stapsdt
from stapsdt import INT32, STRING

INTERVAL = 0.1  # seconds
MOST = 10_000  # functions whose texts are kept

_OWN = {__file__, stapsdt.__file__}


class _Event:
    """A probe that is fired at the entry or the return of functions.

    It keeps the texts of each function, because Probe.fire, which converts and checks every
    value, takes several times as long.
    """

    def __init__(self, probe):
        self.enabled = probe.enabled
        self._words = ctypes.c_uint64 * 3
        self._probe = probe._probe
        self._texts = {}  # by the function's id: what keeps it and its texts, and their addresses

    def fire(self, code, line):
        known = self._texts.get(id(code))
        if known is None:
            if len(self._texts) >= MOST:  # a program may make functions without end
                self.forget()
            known = self._texts[id(code)] = self._keep(code)
        stapsdt._lib.probeFireV(self._probe, self._words(known[2], known[3], line or 0))

    @staticmethod
    def _keep(code):
        texts = [ctypes.c_char_p(t.encode(errors="backslashreplace")) for t in (code.co_filename, code.co_name)]
        return (code, texts, *(ctypes.cast(t, ctypes.c_void_p).value for t in texts))

    def forget(self):
        """Frees the texts. An event that is fired at this moment has its own."""
        self._texts = {}


class _Monitoring:
    """Hooks of sys.monitoring, which has them for all threads at once."""

    def __init__(self, entry, leave):
        events = sys.monitoring.events
        self._callbacks = {
            events.PY_START: self._enters(entry, sys.monitoring.DISABLE),
            events.PY_RESUME: self._enters(entry, sys.monitoring.DISABLE),
            events.PY_THROW: self._enters(entry, None),
            events.PY_RETURN: self._leaves(leave, sys.monitoring.DISABLE),
            events.PY_YIELD: self._leaves(leave, sys.monitoring.DISABLE),
            events.PY_UNWIND: self._leaves(leave, None),
        }
        self._tool = None

    @staticmethod
    def _enters(event, never):
        def callback(code, *_):
            if code.co_filename in _OWN:
                return never
            event.fire(code, code.co_firstlineno)

        return callback

    @staticmethod
    def _leaves(event, never):
        def callback(code, *_):
            if code.co_filename in _OWN:
                return never
            event.fire(code, sys._getframe(1).f_lineno)

        return callback

    def install(self):
        """Reports whether the hooks are there: another tool may have taken every place."""
        free = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is None]
        if not free:
            return False
        self._tool = free[-1]
        sys.monitoring.use_tool_id(self._tool, "stapsdt")
        for event, callback in self._callbacks.items():
            sys.monitoring.register_callback(self._tool, event, callback)
        sys.monitoring.set_events(self._tool, sum(self._callbacks))
        return True

    def remove(self):
        sys.monitoring.set_events(self._tool, 0)
        sys.monitoring.free_tool_id(self._tool)


class _Profile:
    """Hooks of sys.setprofile, which a thread can only set for itself."""

    def __init__(self, entry, leave):
        self._fire = {"call": entry.fire, "return": leave.fire}
        self._on = False
        # The main thread makes the call between two of its instructions.
        self._pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._set)

    def _hook(self, frame, event, _):
        if not self._on:
            sys.setprofile(None)
            return
        fire, code = self._fire.get(event), frame.f_code
        if fire and code.co_filename not in _OWN:
            fire(code, frame.f_lineno)

    def _set(self, _):
        if self._on and sys.getprofile() is None:
            sys.setprofile(self._hook)
        return 0

    def install(self):
        """Reports whether the hooks are there: the interpreter may have too many calls to make."""
        self._on = True
        if threading._profile_hook is None:  # the program may have one
            threading.setprofile(self._hook)  # of threads that start later
        return ctypes.pythonapi.Py_AddPendingCall(self._pending, None) == 0

    def remove(self):
        self._on = False  # each hook removes itself
        if threading._profile_hook == self._hook:
            threading.setprofile(None)


class _Functions:
    def __init__(self):
        provider = stapsdt.Provider("python")
        self._entry = _Event(provider.probe("function__entry", file=STRING, function=STRING, line=INT32))
        self._leave = _Event(provider.probe("function__return", file=STRING, function=STRING, line=INT32))
        self._provider = provider  # owns the probes
        provider.load()
        self._hooks = (_Monitoring if hasattr(sys, "monitoring") else _Profile)(self._entry, self._leave)
        self.installed = False
        self._watch()
        os.register_at_fork(after_in_child=self._watch)

    def _watch(self):
        threading.Thread(target=self._poll, name="stapsdt", daemon=True).start()

    def _poll(self):
        while True:
            time.sleep(INTERVAL)
            traced = self._entry.enabled() or self._leave.enabled()
            if traced and not self.installed:
                self.installed = self._hooks.install()
            elif not traced and self.installed:
                self._hooks.remove()
                self._entry.forget()
                self._leave.forget()
                self.installed = False


_functions = None


def start():
    """Loads the probes, and begins to ask for tracers. Raises stapsdt.Error if it cannot."""
    global _functions
    if _functions is None:
        _functions = _Functions()


def tracing():
    """Reports whether the hooks are installed."""
    return _functions is not None and _functions.installed


def _main():
    if len(sys.argv) < 2:
        sys.exit("usage: functions.py PROGRAM [ARGUMENT...]")
    start()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    sys.modules["functions"] = sys.modules["__main__"]  # for programs that ask tracing()
    _main()
