#!/usr/bin/env python3
"""Counts and compares the results of scripts/long.sh.

  go test -json ... | results.py tally    prints what go test prints without -json, of a test only if it has failed, and
                                          appends the counts to the file $STAPSDT_COUNTS
  results.py part NAME SECONDS STATUS LOG appends the result of a part to $STAPSDT_RESULTS, and fails if the part has failed
  results.py table NAME...                prints the last result of each part
  results.py compare OLD NEW              compares the last results in two files

The result of a part is a line of JSON: part, commit, date, seconds, passed, failed, skipped, failures (the names of what failed),
notRun (what could not be fetched, with the error), figures (what was measured, with the bound)."""
import collections, json, os, re, subprocess, sys, time


def lines(path):
    if not path or not os.path.exists(path):
        return []
    with open(path, errors="replace") as f:
        return [json.loads(line) for line in f if line.strip()]


def append(path, value):
    if path:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "a") as f:
            f.write(json.dumps(value) + "\n")


def tally():
    output = collections.defaultdict(list)  # what a test has printed, by package and name; a package's own has no name
    counts = collections.Counter()
    failures, broken, times = [], set(), []
    for line in sys.stdin:
        try:
            e = json.loads(line)
        except ValueError:
            print(line, end="", flush=True)
            continue
        package, action = e.get("Package") or e.get("ImportPath"), e["Action"]
        test = e.get("Test", "").split("/")[0]
        if action in ("output", "build-output"):
            output[package, test].append(e["Output"])
        elif action in ("pass", "fail", "skip"):
            failed = action == "fail"
            if not test and failed:
                own = [k for k in output if k[0] == package or k[0].startswith(package + " ")]
                for k in own:
                    print("".join(output.pop(k)), end="", flush=True)
                unfinished = [package + " " + k[1] for k in own if k[1]]
                failures += unfinished or ([] if package in broken else [package])
            elif not test:
                print("".join(output.pop((package, ""), ())[-1:]), end="", flush=True)
            elif "/" not in e["Test"]:
                text = "".join(output.pop((package, test), ()))
                if failed:
                    print(text, end="", flush=True)
                    failures.append(package + " " + test)
                    broken.add(package)
                counts[action] += 1
                times.append((e.get("Elapsed", 0), test))
    append(os.environ.get("STAPSDT_COUNTS"), {"passed": counts["pass"], "skipped": counts["skip"], "failures": failures})
    print("slowest: " + ", ".join("%s %.0f s" % (test, seconds) for seconds, test in sorted(times, reverse=True)[:8] if seconds >= 10))
    print("%d passed, %d skipped, failed: %s" % (counts["pass"], counts["skip"], ", ".join(failures) or "none"))
    return bool(failures)


def part(name, seconds, status, log):
    """The log of a script has its counts as scripts/lib/check.sh prints them, and "not run:" before what it could not fetch."""
    seconds, status = int(seconds), int(status)
    with open(log, errors="replace") as f:
        said = f.read()
    runs = lines(os.environ.get("STAPSDT_COUNTS"))
    scripts = re.findall(r"^(\d+) passed, (\d+) failed", said, re.M)
    failures = sum((r["failures"] for r in runs), []) + list(dict.fromkeys(re.findall(r"^not ok:? (.*)", said, re.M)))
    missing = lines(os.environ.get("STAPSDT_NOT_RUN"))
    for error in dict.fromkeys(re.findall(r"^(?:# )?not run: (.*)", said, re.M)):
        missing.append({"test": name, "what": "a download", "error": error})
    if status == 75 and not missing:
        missing.append({"test": name, "what": "a download", "error": "status 75"})
    before = last(os.environ["STAPSDT_RESULTS"]).get(name, {"notRun": []})
    late = {m["test"] for m in missing} & {m["test"] for m in before["notRun"]}
    failures += ["not run twice in a row: " + test for test in sorted(late)]
    if status not in (0, 75) and not failures:
        failures.append("status %d" % status)
    passed = sum(r["passed"] for r in runs) + sum(int(p) for p, _ in scripts)
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True).stdout.strip()
    append(os.environ["STAPSDT_RESULTS"], {
        "part": name, "commit": commit, "date": time.strftime("%FT%TZ", time.gmtime()), "seconds": seconds, "passed": passed,
        "failed": max(len(failures), sum(int(f) for _, f in scripts)), "skipped": sum(r["skipped"] for r in runs), "failures": failures, "notRun": missing,
        "figures": lines(os.environ.get("STAPSDT_FIGURES"))})
    return bool(failures)


def last(path):
    return {r["part"]: r for r in lines(path)}


def table(*names):
    results = last(os.environ["STAPSDT_RESULTS"])
    print("%-14s %7s %7s %7s %7s %7s" % ("part", "seconds", "passed", "skipped", "failed", "not run"))
    chosen = [results[n] for n in names if n in results]
    for r in chosen:
        print("%-14s %7d %7d %7d %7d %7d" % (r["part"], r["seconds"], r["passed"], r["skipped"], r["failed"], len(r["notRun"])))
    for r in chosen:
        for m in r["notRun"]:
            what = "" if m["test"] == r["part"] else "%s: %s: " % (m["test"], m["what"])
            print("not run: %s: %s%s" % (r["part"], what, m["error"].strip().split("\n")[-1].removeprefix("not run: ")))
        for f in r["failures"]:
            print("failed: %s: %s" % (r["part"], f))


def compare(old, new):
    old, new = last(old), last(new)
    for name, n in new.items():
        o = old.get(name)
        if not o:
            print("%s: new" % name)
            continue
        for f in n["failures"]:
            if f not in o["failures"]:
                print("%s: fails now: %s" % (name, f))
        if n["seconds"] > 1.5 * max(o["seconds"], 10):
            print("%s: slower: %d s, was %d s" % (name, n["seconds"], o["seconds"]))
        if n["passed"] < o["passed"]:
            print("%s: fewer tests passed: %d, were %d" % (name, n["passed"], o["passed"]))
        were = {(f["test"], f["figure"]): f["value"] for f in o["figures"]}
        for f in n["figures"]:
            was = were.get((f["test"], f["figure"]))
            if was is not None and was != f["value"]:
                print("%s: %s: %s: %.4g %s, was %.4g (bound %.4g)" % (name, f["test"], f["figure"], f["value"], f["unit"], was, f["bound"]))


if __name__ == "__main__":
    commands = {"tally": tally, "part": part, "table": table, "compare": compare}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]) or 0)
