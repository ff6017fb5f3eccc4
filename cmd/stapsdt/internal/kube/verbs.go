//go:build unix

package kube

// Verb is a verb of the command that works for a pod.
type Verb struct {
	Name, Use, Short string
	Flags            []Flag
}

// Flag is a flag of a verb. It is passed unchanged to the command in the pod, unless it names a
// local file.
type Flag struct {
	Name, Short string
	Value       string // the name of its value, or "" for none
	Usage       string
}

var (
	where    = Flag{"where", "w", "EXPR", "only events for which the Go expression is true, such as 'status >= 500'"}
	duration = Flag{"duration", "d", "DURATION", "end after this time, such as 10s"}
	via      = Flag{"via", "", "ROUTE", "what delivers the events: socket, or the kernel, which takes the node agent"}
	budget   = Flag{"budget", "", "PERCENT", "detach from the most expensive probes if all together take more than this of the processes' time, which takes the node agent"}
	verbose  = Flag{"verbose", "v", "", "report which route was taken, and more"}
	output   = Flag{"output", "o", "FORMAT", "text, or json for one object per line"}
	number   = Flag{"number", "", "N", "end after N events, screens or trees, or show N rows"}
	strlen   = Flag{"strlen", "", "N", "at most N bytes of a text"}
	by       = Flag{"by", "", "EXPR,...", "separately for each value of the Go expressions"}
	interval = Flag{"interval", "i", "DURATION", "show the numbers at this interval too, such as 1s"}
	sort     = Flag{"sort", "", "COLUMN", "the rows by a column, the largest number first: count, sum with --sum, for hist and latency average, p50, p99 or max, and for functions total or own"}
	linear   = Flag{"linear", "", "LOW:HIGH:STEP", "buckets of one size"}
	table    = Flag{"table", "", "", "a table with a row for each value of --by, even for few"}
	key      = Flag{"key", "", "EXPR,...", "what a start and its end have in common: expressions, goroutine, or thread"}
	from     = Flag{fromFlag, "", "PATH", "read a recording in the pod: its path as the container sees it, or its name, as list shows it"}
	wait     = Flag{waitFlag, "", "", "if the container does not run, wait for its next life"}
	kept     = Flag{keptFlag, "", "", "fetch the recording of an earlier life of the container: the latest, or that of --from"}
	since    = Flag{"since", "", "TIME", "with --from, only events from this time on, such as 17:28:50, or from that long before the last event on, such as 10s"}
	until    = Flag{"until", "", "TIME", "with --from, only events until this time"}
	file     = Flag{fileFlag, "O", "FILE", "the file on this machine"}
)

// fileFlag is the flag that names a file on the user's machine.
const fileFlag = "output-file"

// ownFlags are the flags of verbs that the plugin obeys itself.
var ownFlags = []string{fileFlag, sizeFlag, fromFlag, keptFlag, waitFlag}

// Verbs are the verbs that work for a pod.
var Verbs = []Verb{
	{"list", "list", "List the probes of a container, their arguments, and its recordings", []Flag{verbose, output, from, since, until}},
	{"trace", "trace SPEC...", "Print a line for each event", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose,
		{"output", "o", "FORMAT", "text, json for one object per line, csv for a table, or chrome or perfetto for a timeline in the file of -O"}, file, number,
		{"show", "", "EXPR,...", "the values of Go expressions instead of all arguments"}, strlen,
		{"stack", "", "", "show the stack from which each event was fired, which takes the node agent"},
	}},
	{"count", "count SPEC...", "Count events", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose,
		output, by, number, interval, sort, {"sum", "", "EXPR", "also add the values of the Go expression"},
	}},
	{"hist", "hist SPEC EXPR", "Print a histogram and quantiles of a value", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose,
		output, by, number, interval, sort, linear, table,
	}},
	{"latency", "latency START END | SPEC", "Print how long operations take, from one probe to another", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose,
		output, by, number, interval, sort, linear, table,
		key,
	}},
	{"top", "top [SPEC...]", "Show which operations are running, and how long they take", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose,
		output, by, number, interval, key,
	}},
	{"tree", "tree [SPEC...]", "Print what each operation consists of, when it has ended", []Flag{
		where, duration, wait, via, budget, from, since, until, verbose, output, number, key,
		{"slowest", "", "N", "only the N slowest trees, when the command ends"},
		{"request", "", "ID", "only the tree of the operation with this ID, which trace and latency show"},
		{"open", "", "", "also trees whose roots have not ended, when the command or their process ends"},
		{"errors", "", "", "only trees in which an operation has failed"},
	}},
	{"postmortem", "postmortem", "Show what the container was doing when it ended, from its recording", []Flag{output, from}},
	{"record", "record (SPEC... | --kept) -O FILE", "Record events in a file on this machine", []Flag{
		where, duration, wait, via, budget, from, kept, verbose, file,
		{sizeFlag, "", "BYTES", "how many bytes of events it has room for (default 16M, or less in a small pod)"}, number, strlen,
	}},
}

// sizeFlag is the flag of record for the size of a recording in memory.
const sizeFlag = "size"
