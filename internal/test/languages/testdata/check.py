import sys

import stapsdt
from stapsdt import INT8, INT32, INT64, STRING, UINT8, UINT64


def refused(name, call, *arguments):
    try:
        call(*arguments)
        print(name, "accepted", flush=True)
    except Exception as error:
        print(name, type(error).__name__, flush=True)


app = stapsdt.Provider("languages")
values = app.probe("values", text=STRING, byte=UINT8, tiny=INT8, number=INT32, big=UINT64, low=INT64)
texts = app.probe("texts", left=STRING, right=STRING)
none = app.probe("none")
refused("nameless", stapsdt.Provider, "")
refused("many", lambda: app.probe("many", **{f"a{i}": UINT8 for i in range(13)}))
values.fire("not loaded", 1, 1, 1, 1, 1)
app.load()


def wrong():
    refused("late", app.probe, "late")
    refused("count", texts.fire, "one")
    refused("text", texts.fire, "one", 2)
    refused("number", values.fire, "one", "2", 3, 4, 5, 6)
    refused("large", values.fire, "one", 256, 3, 4, 5, 6)
    refused("small", values.fire, "one", 2, -129, 4, 5, 6)
    refused("fraction", values.fire, "one", 2, 3.5, 4, 5, 6)


print("enabled", str(values.enabled()).lower(), flush=True)
wrong()
print("ready", flush=True)
sys.stdin.readline()
print("enabled", str(values.enabled()).lower(), flush=True)
wrong()
values.fire("grüße", 200, -100, -2000000000, 9007199254740993, -9007199254740993)
none.fire()
for i in range(50):
    texts.fire("left " * 10 + str(i), "right " * 8 + str(i))
print("fired", flush=True)
sys.stdin.readline()
print("enabled", str(values.enabled()).lower(), flush=True)
app.unload()
none.fire()
app.load()
if sys.argv[1] == "exit":
    sys.exit(3)
if sys.argv[1] == "throw":
    raise RuntimeError("thrown")
