#!/usr/bin/env python3
"""Prints a pattern for go test -run: the tests, in the directories of standard input, that do more in the long run than in the gate.

These are the tests that call testenv.Long, Measures or Downloads, or ask testing.Short, themselves or in functions that they
call. Functions are told apart by their names and those of their directories, so that a test too many is possible, and one too few is not.
"""

import os
import re
import subprocess
import sys

ASKS = re.compile(r"\btesting\.Short\(\)|\btestenv\.(Long|Measures|Downloads)\(")
FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)", re.M)


def functions(path):
    """Yields the name and the rest of each function of a file that gofmt has formatted."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for part in re.split(r"^(?=func )", text, flags=re.M)[1:]:
        name = FUNCTION.match(part)
        yield name.group(1), part[name.end() :]


def main():
    root = subprocess.check_output(["git", "rev-parse", "--show-toplevel"], text=True).strip()
    files = subprocess.check_output(["git", "ls-files", "*.go"], cwd=root, text=True).split()
    bodies = {}
    for file in files:
        directory = os.path.dirname(file)
        if os.path.basename(directory) != "testenv":
            for name, text in functions(os.path.join(root, file)):
                bodies[directory, name] = bodies.get((directory, name), "") + text
    long = {key for key, text in bodies.items() if ASKS.search(text)}
    grown = True
    while grown:
        names = {}
        for directory, name in long:
            names.setdefault(directory, set()).add(name)
        others = "|".join(rf"\b{os.path.basename(d)}\.(?:{'|'.join(n)})\(" for d, n in names.items())
        grown = False
        for key, text in bodies.items():
            if key not in long:
                own = "|".join(names.get(key[0], ()))
                if own and re.search(rf"(?<!\.)\b(?:{own})\(", text) or re.search(others, text):
                    long.add(key)
                    grown = True
    wanted = {os.path.relpath(line.strip(), root) for line in sys.stdin}
    tests = sorted({name for directory, name in long if directory in wanted and re.match("(Test|Fuzz|Example)", name)})
    print(f"^({'|'.join(tests)})$")


main()
