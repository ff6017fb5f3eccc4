// Package table measures probes beside what else there is, and prints tables in
// Markdown. It consists of tests, which scripts/bench.sh runs with the programs that
// it has built.
//
// Everything is measured in rounds: each round asks every program for every row
// once, one after the other, so that what the machine does meanwhile falls on all
// of them alike. A figure is the median of the rounds.
package table
