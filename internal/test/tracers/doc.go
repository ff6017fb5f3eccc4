// Package tracers attaches every tracer that can be had to running programs, and compares what each prints with what
// was fired. It holds nothing but tests, which scripts/lib/tracers.sh builds, gives what they need and runs: see there. What
// they find is in docs/measured/tracers.md.
//
// A row is a way to use a tracer, a column a program: the Go subject in both builds and cstapsdt's demo, each with its
// image in a file and in a memfd. Each cell has a subject of its own. Where a tracer cannot do what it is asked, the row
// has an obstacle: the reason, and the proof of it, which is what the tracer says. A tracer that fails for another reason
// fails the test, and so does one that works where there should be an obstacle.
//
// What needs the headers or the modules of the running kernel runs in a guest as well, where this machine has none:
// scripts/lib/guests.sh.
//
// Another table is of the D scripts of the examples: a row is a script, a column an example.
package tracers
