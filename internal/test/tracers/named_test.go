//go:build linux

package tracers

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

// The rows in this file are about the names and types of arguments, which the image has in DWARF.

// argument is an argument as a tracer declares it, in the spelling of bpftrace -lv.
type argument struct{ typ, name string }

// declared are the arguments of the subject's probe with names, whose types only Go has.
func (s *subject) declared() (probe string, arguments []argument) {
	if s.isC() {
		return fired.Pair.Name, []argument{{"uint64", "count"}, {"int64", "negative"}}
	}
	return fired.DoneName, []argument{
		{"int32", "status"}, {"const char*", "path"}, {"time.Duration", "elapsed"}, {"bool", "ok"}, {"float64", "ratio"},
		{"struct fired.Request*", "req"}, {"uint16", "code"}, {"uint64", "n"},
	}
}

// bpftraceNames is how many arguments bpftrace knows by name.
const bpftraceNames = 6

func bpftraceNameRows(h host) []row {
	version := h.versionOf("bpftrace", "--version")
	args := "args->"
	if h.newest {
		args = "args."
	}
	program := func(s *subject) string {
		probe, _ := s.declared()
		values := fmt.Sprintf(`"event %%lu %%ld\n", %[1]scount, %[1]snegative`, args)
		if !s.isC() {
			// The newer one counts the NUL that it appends.
			with := ""
			if h.newest {
				with = " + 1"
			}
			values = fmt.Sprintf(`"event %%d %%s %%ld %%d %%lu %%s %%ld %%s\n", %[1]sstatus, str(%[1]spath), %[1]selapsed, %[1]sok,
				%[1]sratio, str(%[1]sreq->Path.str, %[1]sreq->Path.len%[2]s), %[1]sreq->Size,
				str(%[1]sreq->Info.Method.str, %[1]sreq->Info.Method.len%[2]s)`, args, with)
		}
		return fmt.Sprintf(`uprobe:%s:%s { printf(%s); @n++; if (@n > %d) { exit(); } }`, s.path, probe, values, wanted)
	}
	prints := func(kind, probe, name string) func(s *subject) []string {
		return func(s *subject) []string {
			return []string{"bpftrace", "-e", fmt.Sprintf(`%s:%s:%s { printf("%%d\n", %s%s); exit(); }`, kind, s.path, probe, args, name)}
		}
	}
	return []row{
		{tool: "bpftrace", way: "`-lv 'uprobe:FILE:*'`", version: version, works: func(t *testing.T, s *subject) {
			out := h.run(t, "bpftrace", "-lv", "uprobe:"+s.path+":*")
			probe, arguments := s.declared()
			want := "uprobe:" + s.path + ":" + probe + "\n"
			for _, a := range arguments[:min(len(arguments), bpftraceNames)] {
				want += "    " + a.typ + " " + a.name + "\n"
			}
			require.Contains(t, out, want)
			_, rest, _ := strings.Cut(out, want)
			require.False(t, strings.HasPrefix(rest, " "), "more arguments follow")
		}},
		{tool: "bpftrace", way: "`uprobe:FILE:PROBE`, `" + args + "path`, `" + args + "req->Path.str`", version: version,
			works: func(t *testing.T, s *subject) {
				out := h.run(t, "bpftrace", "-e", program(s))
				require.NoError(t, compareValues(events(out, `^event (.*)$`), s.shownByBpftrace, plain))
			}},
		{tool: "bpftrace", way: "`" + args + "NAME`, an argument after the sixth", version: version, lacks: kind.isC,
			cannot: always(obstacle{"bpftrace rejects functions with more than six parameters, so the image describes further " +
				"arguments as local variables. bpftrace reads them as `argN` of a `usdt:` probe.",
				h.refuses(`Can't find function parameter n`, func(s *subject) []string {
					probe, _ := s.declared()
					return prints("uprobe", probe, "n")(s)
				})})},
		{tool: "bpftrace", way: "`usdt:FILE:PROBE`, `" + args + "NAME`", version: version,
			cannot: always(obstacle{"bpftrace knows arguments by name in `uprobe:` probes only.",
				h.refuses(`args builtin can only be used with .*\(usdt used here\)`, prints("usdt", fired.Pair.Name, "count"))})},
	}
}

// shownByBpftrace are the values of an event, of a float the bits.
func (s *subject) shownByBpftrace(n uint64) []any {
	if s.isC() {
		return fired.Pair.Values(n)
	}
	d := fired.NewDone(n)
	return []any{d.Status, d.Path, int64(d.Elapsed), bit(d.OK), math.Float64bits(d.Ratio), d.Req.Path, d.Req.Size, d.Req.Info.Method}
}

func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

func perfNameRows(h host) []row {
	version := h.versionOf("perf", "--version")
	variables := func(s *subject) []string {
		probe, _ := s.declared()
		return []string{"perf", "probe", "-x", s.path, "-V", probe}
	}
	noPath := onlyIn(inMemfd, obstacle{"perf needs the real path of a file, and a memfd has none.",
		h.refuses(`Failed to get the absolute path of /proc/\d+/fd/\d+: No such file`, variables)})
	return []row{
		{tool: "perf", way: "`probe -x FILE -V PROBE`", version: version, cannot: noPath, works: func(t *testing.T, s *subject) {
			out := h.run(t, variables(s)...)
			_, arguments := s.declared()
			for _, a := range arguments {
				require.Regexp(t, `(?m)^\s+`+regexp.QuoteMeta(strings.TrimPrefix(a.typ, "const "))+`\s+`+a.name+`$`, out)
			}
			require.Equal(t, len(arguments), strings.Count(out, "\n\t\t"))
		}},
		{tool: "perf", way: "`probe -x FILE --add 'PROBE path:string status'`, `record -a`, `script`", version: version, cannot: noPath,
			works: func(t *testing.T, s *subject) { perfNames(t, h, s) }},
	}
}

func perfNames(t *testing.T, h host, s *subject) {
	probe, _ := s.declared()
	event := s.provider + ":named"
	definition, shown := event+"="+probe+" count negative", fired.Pair.Values
	if !s.isC() {
		definition = event + "=" + probe + " status path:string elapsed ok ratio size=req->Size code n"
		shown = func(n uint64) []any {
			d := fired.NewDone(n)
			return []any{d.Status, d.Path, int64(d.Elapsed), bit(d.OK), math.Float64bits(d.Ratio), d.Req.Size, d.Code, d.N}
		}
	}
	h.run(t, "perf", "probe", "-x", s.path, "--add", definition)
	t.Cleanup(func() { h.run(t, "perf", "probe", "-d", event) })
	require.NoError(t, compareValues(perfRecords(t, h, event), shown, func(v any) string {
		switch v.(type) {
		case uint8, uint16, uint64:
			return fmt.Sprintf("%#x", v)
		}
		return plain(v)
	}))
}

func gdbNameRows(h host) []row {
	return []row{{
		tool: "gdb", way: "`add-symbol-file FILE -o BASE`, `info scope PROBE`, `break PROBE`", version: h.versionOf("gdb", "--version"),
		works:  func(t *testing.T, s *subject) { gdbNames(t, h, s) },
		remark: ofGo("A `float64` argument is shown as its bits; gdb's `print/f NAME` shows its value."),
	}}
}

func gdbNames(t *testing.T, h host, s *subject) {
	probe, arguments := s.declared()
	commands := []string{fmt.Sprintf("add-symbol-file %s -o %#x", s.path, base(t, s)), "info scope " + probe, "break " + probe}
	show, shown := []string{`printf "event %lu %ld\n", count, negative`}, fired.Pair.Values
	if !s.isC() {
		show = []string{
			`printf "event %d %s %ld %d ", status, path, elapsed, ok`,
			`output/f ratio`,
			`eval "printf \" %%.%lds %%ld %%g\", req->Path.str, req->Size, req->Next->Ratio", req->Path.len`,
			`printf " %d %lu\n", code, n`,
		}
		shown = func(n uint64) []any {
			d := fired.NewDone(n)
			return []any{d.Status, d.Path, int64(d.Elapsed), bit(d.OK), d.Ratio, d.Req.Path, d.Req.Size, d.Req.Next.Ratio, d.Code, d.N}
		}
	}
	for range wanted {
		commands = append(append(commands, "continue"), show...)
	}
	out := h.run(t, gdb(s, append(commands, "backtrace")...)...)
	for _, a := range arguments {
		require.Regexp(t, `(?m)^Symbol `+a.name+` is `, out)
	}
	require.NoError(t, compareValues(events(out, `^event (.*)$`), shown, plain))
	caller := "main.fireDone"
	if s.isC() {
		caller = "fire_probes"
	}
	require.Regexp(t, `(?m)^#0 .* in `+probe+` \(.*\)(?s:.*)^#[1-9] .*\b`+regexp.QuoteMeta(caller)+` `, out)
}

// base is where the subject has mapped its image.
func base(t *testing.T, s *subject) uint64 {
	t.Helper()
	info, err := os.Stat(s.path)
	require.NoError(t, err)
	inode := info.Sys().(*syscall.Stat_t).Ino
	maps, err := os.ReadFile("/proc/" + s.pid() + "/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		var start, end, offset, ino uint64
		var flags, device string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &start, &end, &flags, &offset, &device, &ino); err == nil && ino == inode && offset == 0 {
			return start
		}
	}
	require.Fail(t, "the image is not mapped", "%s", maps)
	return 0
}

func dwarfRows(h host) []row {
	complaint := regexp.MustCompile(`(?i)error:|warning:|invalid|corrupt|\?\?\?`)
	reads := func(words ...string) func(t *testing.T, s *subject) {
		return func(t *testing.T, s *subject) {
			out := h.run(t, append(words, s.path)...)
			probe, arguments := s.declared()
			for _, a := range arguments {
				require.Regexp(t, `(?m)name .*\b`+a.name+`"?$`, out)
			}
			require.Contains(t, out, probe)
			require.NotRegexp(t, complaint, out)
		}
	}
	rows := []row{
		{tool: "readelf", way: "`--debug-dump`, no complaint", version: h.versionOf("readelf", "--version"), works: reads("readelf", "--debug-dump=info")},
		{tool: "eu-readelf", way: "`-w`, no complaint", version: h.versionOf("eu-readelf", "--version"), works: reads("eu-readelf", "-N", "-w")},
	}
	if !h.newest {
		rows = append(rows, row{tool: "llvm-dwarfdump", way: "`--verify`, no error", version: h.versionOf("llvm-dwarfdump", "--version"),
			works: func(t *testing.T, s *subject) {
				out := h.run(t, "llvm-dwarfdump", "--verify", s.path)
				require.Contains(t, out, "Verifying unit: 1 / 1")
				require.Contains(t, out, "No errors.")
			}})
	}
	return rows
}
