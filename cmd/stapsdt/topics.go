package main

import "github.com/spf13/cobra"

// topics returns the help pages that are not about a verb. The manual page of stapsdt includes
// them.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "expressions", Short: "The expressions of -w, --by, --show, --sum and --key", Long: expressionsHelp},
		jsonTopic(),
		{Use: "rights", Short: "The rights that tracing takes, and what works without", Long: rightsHelp},
	}
}

// jsonTopic returns the help page that is a JSON Schema for programs. The manual page refers to it.
func jsonTopic() *cobra.Command {
	c := &cobra.Command{Use: "json", Short: "The JSON Schema of what -o json prints", Long: jsonHelp}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_, _ = c.OutOrStdout().Write(schemaText()) // other pages do not report errors either
	})
	return c
}

const jsonHelp = `stapsdt help json prints a JSON Schema of the objects that the verbs print
with -o json. A line of trace is valid against its definition stapsdt-trace, and so on.`

const expressionsHelp = `An expression is one of Go, about an event:

  status >= 500 && strings.HasPrefix(path, "/api/")
  elapsed > 10ms || cached
  strings.Contains(str(arg0), "DELETE")

Its names are those of the arguments, arg0, arg1 and so on, and:

  pid, tid        the process and the thread
  comm            the name of the thread
  executable      the name of the program's file, without its directory
  cpu, uid        the processor and the user
  cgroup          the number of the control group of version 2
  goroutine       the goroutine, in recordings of programs
  failed          at a return of a function: whether a result of type error is not nil
  namespace, pod, container    those of Kubernetes, or ""
  workload, node    the pod's workload, derived from its name, and its node, or ""

The end of an operation (NAME__end, NAME__done) and the return of a function also have:

  elapsed         the time since the start or the call, unless an argument has this name
  start.path      the argument path of the start or the call; in an expression or beside
                  one with either of these, path is enough if the end has none

latency, top and tree have elapsed only, and their other names are those of both ends.

A line has the variables that list shows. One whose value may be old must be named so:

  unsure(total)   the variable total, or an older value of it

It consists of == != < <= > >=, && || !, + - * / %, & | ^ &^ << >>, len(text), strings.HasPrefix, strings.HasSuffix,
strings.Contains, durations such as 10ms and 2.5s, and str(arg0), which is the text at an address.
A duration is compared with durations only: 10 has no unit.
A time is compared with a text such as "2026-01-02T15:04:05Z"; the difference of two is a duration.
Numbers of different types may be compared and combined.

What the kernel evaluates is limited:

  texts           are compared with constants, by == and !=, of at most 63 bytes
  strings.Contains, HasSuffix    take constants of at most 16 bytes; Contains and HasPrefix see 64 bytes of a text
  floats          are compared with constants and with floats of the same size
  hist, --sum     take integers, which a time is not
  a program       has room for about five texts

Recordings have no such limits. They have no uid, cgroup, comm and cpu, no str(), and either the goroutine or tid.
At an address there is neither tid nor goroutine.

An event for which an expression has no value is left out and counted: after a division by zero, or if memory cannot be read.`

const rightsHelp = `Tracing needs Linux 5.8 or later, and root or these capabilities. If some are
missing, the command names them.

  CAP_BPF, CAP_PERFMON      to attach to probes
  CAP_SYS_ADMIN             in their place before Linux 6.6, if the kernel demands it
  CAP_SYS_PTRACE            to look at another user's process
  CAP_CHECKPOINT_RESTORE    to open a file that was deleted, is in memory or in another mount namespace;
                            with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH for another user's process
  CAP_SYS_RESOURCE          to lock memory before Linux 5.11

Without any:

  list FILE, list -p PID    of your own processes
  -p PID, -a                watch programs of yours that were started with STAPSDT_SOCKET=1
  --from FILE               reads the recording of one that was started with STAPSDT_RECORD=FILE
  http://HOST/debug/probes/    is the page of a program that mounts debugprobe

Go programs obey these variables if they call probeenv.Load, programs with the C library always.
A Go program can do the same by itself: see the packages probesock and proberec.

stapsdt doctor -p PID explains what keeps a tracer from a process.`
