#!/usr/bin/env python3
"""Draws a flame graph from lines such as "main;handle;query 17", as SVG on standard output.

	stapsdt stack -p PID 'myapp:*' -d 10s -o folded | scripts/lib/flamegraph.py >graph.svg

A box is as wide as the part of the events that come from it. It shows the last part of a Go
package's path; the tooltip has the whole name and the number.
"""
import sys
from html import escape

WIDTH, HEIGHT, CHARACTER = 960, 17, 6.3
COLORS = ["#f2a65a", "#eec170", "#f58549", "#f2bb7b", "#e9a26d"]


class Box:
    def __init__(self):
        self.events, self.callees = 0, {}

    def depth(self):
        return 1 + max((box.depth() for box in self.callees.values()), default=0)


def read(lines):
    root = Box()
    for line in lines:
        stack, _, events = line.rstrip("\n").rpartition(" ")
        box = root
        box.events += int(events)
        for name in stack.split(";"):
            box = box.callees.setdefault(name, Box())
            box.events += int(events)
    return root


def draw(name, box, x, level, scale, depth):
    width = box.events * scale
    if width < 0.5:
        return
    y = (depth - 1 - level) * HEIGHT
    short = name[name.rfind("/") + 1:]
    letters = int((width - 6) / CHARACTER)
    text = short if len(short) <= letters else short[: letters - 1] + "…" if letters > 2 else ""
    color = COLORS[sum(map(ord, name)) % len(COLORS)]
    print(f'<g><title>{escape(name)}: {box.events}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT - 1}" '
          f'fill="{color}" rx="1"/><text x="{x + 3:.1f}" y="{y + 12}">{escape(text)}</text></g>')
    for callee, inner in sorted(box.callees.items()):
        draw(callee, inner, x, level + 1, scale, depth)
        x += inner.events * scale


def main():
    root = read(sys.stdin)
    if root.events == 0:
        sys.exit("flamegraph.py: there are no stacks")
    depth = root.depth()
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{depth * HEIGHT}" '
          f'font-family="monospace" font-size="10.5"><rect width="100%" height="100%" fill="#fff"/>')
    draw("all", root, 0, 0, WIDTH / root.events, depth)
    print("</svg>")


main()
