//go:build linux

// Package tracetest lets a test attach real tracers to a USDT probe and compare what they saw, by value.
//
//	func TestMain(m *testing.M) { tracetest.Main(m, map[string]func([]string){"fire": fire}) }
//
//	func TestRequest(t *testing.T) {
//		tracetest.NeedUprobes(t)
//		child := tracetest.Child(t, "fire")                      // this test binary again, running fire
//		path := child.Expect("image ", 5*time.Second)            // "image /run/user/0/stapsdt/myapp-….so"
//		notes, err := sdt.ReadFile(path)                         // where the site and the arguments are
//		require.NoError(t, err)
//		counter, err := tracetest.CountUprobe(path, notes[0].Offset)
//		require.NoError(t, err)
//		defer counter.Close()
//		child.Say("fire")
//		child.Expect("fired", 5*time.Second)
//		count, err := counter.Count()                            // how often the site was reached
//		…
//	}
//
// Two tracers are offered. [CountUprobe] and [AttachUprobe] are the kernel alone: the uprobe PMU of perf_event_open, which needs
// nothing installed, counts, and shows raw registers. [Bpftrace] is the tracer that users have. Neither shares code with what is tested:
// package sdt, which reads the notes, and the decoder here are written from the SystemTap SDT format, so that an error of
// the writer cannot be repeated by the reader.
//
// Nothing here sleeps. Whatever waits has a condition and a deadline, and tells all it saw when the deadline passes.
//
// What a test needs and does not find (root, a tool, the PMU) skips it on a laptop and fails it where the environment
// says CI=true: see package testenv.
package tracetest
