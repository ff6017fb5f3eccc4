//go:build linux && (amd64 || arm64)

package process

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/site"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const patience = time.Minute

func TestMain(m *testing.M) {
	tracetest.Main(m, map[string]func(args []string){
		"probes":   probesChild,
		"loadonce": loadOnceChild,
		"fault":    faultChild,
		"limit":    limitChild,
		"vanish":   vanishChild,
		"killed":   killedChild,
		"attacker": attackerChild,
		"victim":   victimChild,
		"dump":     dumpChild,
		"profile":  profileChild,
		"place":    placeChild,
	})
}

// tracedProbe is a probe that the kernel alone was attached to, with what an
// independent parser reads in its note.
type tracedProbe struct {
	*Probe
	uprobe *tracetest.Uprobe
	note   sdt.Probe
}

// trace attaches to probes of one provider, for what the test's own thread fires,
// and detaches when the test ends. (To detach an event takes the kernel tens of
// milliseconds, and for every thread it needs one for each processor.)
func trace(t testing.TB, probes ...*Probe) []tracedProbe {
	t.Helper()
	tracetest.NeedUprobes(t)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	thread := unix.Gettid()
	p := probes[0].Provider()
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	require.Len(t, notes, len(p.Probes()))
	list := make([]tracedProbe, len(probes))
	t.Cleanup(func() { detach(list) })
	for i, probe := range probes {
		note := notes[slices.Index(p.Probes(), probe)]
		u, err := tracetest.AttachUprobe(p.Path(), note.Offset, tracetest.WithThread(thread))
		require.NoError(t, err)
		list[i] = tracedProbe{probe, u, note}
	}
	for _, p := range list {
		require.Equal(t, p.Name(), p.note.Name)
		require.Equal(t, p.Provider().Name(), p.note.Provider)
		require.Len(t, p.note.Args, len(p.Args()))
	}
	return list
}

func detach(list []tracedProbe) {
	for _, p := range list {
		if p.uprobe != nil {
			p.uprobe.Close()
		}
	}
}

// read returns the next sample of a fire, which must have come from here.
func (p tracedProbe) read(t testing.TB) tracetest.Sample {
	t.Helper()
	s, err := p.uprobe.Read(patience)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), s.PID)
	return s
}

// arg returns an argument of a sample, decoded by the note.
func (p tracedProbe) arg(t testing.TB, s tracetest.Sample, i int) uint64 {
	t.Helper()
	word, err := s.Arg(p.note.Args[i])
	require.NoError(t, err)
	return word
}

// placements are the two places that an image can be in.
func placements() map[string][]Option {
	return map[string][]Option{"file": nil, "memfd": {WithMemfd()}}
}

// forEachSite runs a test with each kind of site that tracers can attach to
// here, in each placement.
func forEachSite(t *testing.T, test func(t *testing.T, opts ...Option)) {
	kinds := []*image.Nop{site.Chosen()}
	if runtime.GOARCH == "amd64" {
		kinds = []*image.Nop{image.Host().NopByName("nop1"), image.Host().NopByName("nop5")}
		if !slices.Contains(kinds, site.Chosen()) {
			kinds = append(kinds, site.Chosen())
		}
	}
	for _, kind := range kinds {
		for place, opts := range placements() {
			t.Run(kind.Name+"/"+place, func(t *testing.T) {
				t.Setenv("STAPSDT_SITE", kind.Name)
				test(t, opts...)
			})
		}
	}
}

// TestArgumentsAsTheKernelSeesThem fires every number of arguments, and every
// type in every place, with each of its extremes, and reads the registers and
// the stack at the site.
func TestArgumentsAsTheKernelSeesThem(t *testing.T) {
	types := []ArgType{Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64}
	forEachSite(t, func(t *testing.T, opts ...Option) {
		p := newProvider(t, "truth", opts...)
		var probes []*Probe
		for n := range MaxArgs + 1 {
			shifts := 1
			if n == MaxArgs {
				shifts = len(types)
			}
			for shift := range shifts {
				args := make([]ArgType, n)
				for i := range args {
					args[i] = types[(i+shift)%len(types)]
				}
				probe, err := p.AddProbe(fmt.Sprintf("n%d_%d", n, shift), args...)
				require.NoError(t, err)
				probes = append(probes, probe)
			}
		}
		load(t, p)
		list := trace(t, probes...)
		for _, p := range list {
			require.True(t, p.Enabled())
			for round := range 10 {
				args := make([]any, len(p.Args()))
				for i, typ := range p.Args() {
					args[i] = values.Extremes[typ][(round+i)%len(values.Extremes[typ])]
				}
				require.NoError(t, p.Fire(args...))
				s := p.read(t)
				for i := range args {
					require.Equal(t, values.Word(args[i]), p.arg(t, s, i), "%s argument %d of %v", p.Name(), i, args)
				}
			}
		}
		detach(list)
		for _, p := range list {
			require.False(t, p.Enabled())
		}
	})
}

func TestStringsAsTheKernelSeesThem(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 625) // 10,000 bytes
	p := newProvider(t, "strings")
	probe, err := p.AddProbe("say", String, Int32, String)
	require.NoError(t, err)
	load(t, p)
	traced := trace(t, probe)[0]
	for _, s := range []string{"", "a", long[:255], long[:4094], long[:4095], long[:4096], long, "nul\x00inside", "grüße, 世界", "\xff\xfe"} {
		for _, arg := range []any{s, []byte(s), path(s), blob(s)} {
			require.NoError(t, probe.Fire(arg, -7, "second"))
			sample := traced.read(t)
			want := s[:min(len(s), MaxString-1)] + "\x00"
			require.Equal(t, want, textAt(traced.arg(t, sample, 0), len(want)))
			require.Equal(t, "second\x00", textAt(traced.arg(t, sample, 2), 7))
		}
	}
}

func TestBothTracePointsOfAName(t *testing.T) {
	p := newProvider(t, "points")
	a, err := p.AddProbe("event", Int32)
	require.NoError(t, err)
	b, err := p.AddProbe("event", Int32)
	require.NoError(t, err)
	load(t, p)
	traced := trace(t, b)[0]
	require.False(t, a.Enabled())
	require.True(t, b.Enabled())
	require.NoError(t, a.Fire(1))
	require.NoError(t, b.Fire(2))
	require.EqualValues(t, 2, traced.arg(t, traced.read(t), 0))
	count, err := traced.uprobe.Count()
	require.NoError(t, err)
	require.EqualValues(t, 1, count)
}

// order is what a test asks its child to do.
type order struct {
	Op       string // "add", "load", "unload", "fire" or "repeat"
	Provider string
	Memfd    bool
	Probe    string
	Point    int // which of the trace points of that name
	Types    []ArgType
	Args     []arg
	Times    int
}

// arg is a value that survives JSON.
type arg struct {
	Word uint64
	Type ArgType
	Text []byte
}

func (a arg) value() any {
	switch a.Type {
	case String:
		return string(a.Text)
	case Int8, Int16, Int32, Int64:
		return int64(a.Word)
	}
	return a.Word
}

// probesChild does what the test says, an order a line, and answers each.
func probesChild([]string) {
	providers := map[string]*Provider{}
	answer := func(err error, text string) {
		if err != nil {
			fmt.Println("error", err)
		} else {
			fmt.Println("ok", text)
		}
	}
	tracetest.EachLine(func(line string) {
		var o order
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			panic(err)
		}
		p := providers[o.Provider]
		switch o.Op {
		case "add":
			if p == nil {
				var opts []Option
				if o.Memfd {
					opts = append(opts, WithMemfd())
				}
				p = NewProvider(o.Provider, opts...)
				providers[o.Provider] = p
			}
			_, err := p.AddProbe(o.Probe, o.Types...)
			answer(err, "")
		case "load":
			err := p.Load()
			answer(err, p.Path())
		case "unload":
			answer(p.Unload(), "")
		case "fire":
			answer(fire(p, o), "")
		case "repeat":
			var err error
			for range o.Times {
				err = fire(p, o)
			}
			answer(err, "")
		}
	})
}

func fire(p *Provider, o order) error {
	args := make([]any, len(o.Args))
	for i, a := range o.Args {
		args[i] = a.value()
	}
	point := 0
	for _, probe := range p.Probes() {
		if probe.Name() != o.Probe {
			continue
		}
		if point == o.Point {
			return probe.Fire(args...)
		}
		point++
	}
	return fmt.Errorf("no probe %s", o.Probe)
}

// child is a process that has probes.
type child struct {
	*tracetest.Process
	t *testing.T
}

func startChild(t *testing.T, env ...string) *child {
	t.Helper()
	env = append(env, "STAPSDT_DIR="+t.TempDir()+"/images")
	return &child{tracetest.Child(t, "probes", tracetest.WithEnv(env...)), t}
}

// do gives an order and returns what the child answers to it.
func (c *child) do(o order) string {
	c.t.Helper()
	line, err := json.Marshal(o)
	require.NoError(c.t, err)
	c.Say(string(line))
	return c.Expect("ok", patience)
}

func ints(typ ArgType, list ...any) []arg {
	args := make([]arg, len(list))
	for i, v := range list {
		args[i] = arg{Type: typ, Word: values.Word(v)}
	}
	return args
}

func (c *child) pid() string { return strconv.Itoa(c.PID()) }

// TestBpftraceReadsEveryType has bpftrace print six arguments of each type, its
// extremes among them.
func TestBpftraceReadsEveryType(t *testing.T) {
	c := startChild(t)
	var program strings.Builder
	for typ := range values.Extremes {
		c.do(order{Op: "add", Provider: "types", Probe: typ.String(), Types: slices.Repeat([]ArgType{typ}, 6)})
		verb := "%lu"
		if typ.Signed() {
			verb = "%ld"
		}
		fmt.Fprintf(&program, "usdt:*:types:%v { printf(\"%v%s\\n\", arg0, arg1, arg2, arg3, arg4, arg5); } ",
			typ, typ, strings.Repeat(" "+verb, 6))
	}
	c.do(order{Op: "load", Provider: "types"})
	tracer := tracetest.Bpftrace(t, program.String(), "-p", c.pid())
	var want []string
	for typ, list := range values.Extremes {
		for shift := range list {
			args := make([]any, 6)
			line := typ.String()
			for i := range args {
				args[i] = list[(i+shift)%len(list)]
				line += fmt.Sprint(" ", args[i])
			}
			want = append(want, line)
			c.do(order{Op: "fire", Provider: "types", Probe: typ.String(), Args: ints(typ, args...)})
		}
	}
	got := tracer.WaitLines(len(want), patience)
	require.ElementsMatch(t, want, got)
	tracer.Stop()
}

// TestBpftraceReadsStrings reads a string's beginning and its end, as the tracer
// shows no more than 64 bytes at once.
func TestBpftraceReadsStrings(t *testing.T) {
	c := startChild(t)
	c.do(order{Op: "add", Provider: "my-app.v2", Probe: "sub-entry", Types: []ArgType{String, Uint32}})
	c.do(order{Op: "load", Provider: "my-app.v2"})
	tracer := tracetest.Bpftrace(t, `usdt:*:my-app.v2:sub-entry { printf("<%s|%s|%s>\n", str(arg0), str(arg0 + 4086), str(arg0 + arg1)); }`, "-p", c.pid())
	long := strings.Repeat("0123456789", 1000)
	var want []string
	for _, s := range []string{"", "a", "nul\x00inside", "grüße, 世界", long[:4095], long} {
		first, _, _ := strings.Cut(s[:min(len(s), 63)], "\x00")
		end := min(len(s), MaxString-1)
		tail, last := "", ""
		if len(s) > 4086 {
			tail = s[4086:end]
		}
		if end > 3 {
			_, last, _ = strings.Cut(s[end-3:end], "\x00")
			if last == "" {
				last = s[end-3 : end]
			}
		}
		skip := max(end-3, 0)
		if end <= 3 {
			last = s
		}
		if len(s) <= 4086 {
			// What stands behind a short string is what an earlier one left.
			tail = "*"
		}
		want = append(want, fmt.Sprintf("<%s|%s|%s>", first, tail, last))
		c.do(order{Op: "fire", Provider: "my-app.v2", Probe: "sub-entry",
			Args: []arg{{Type: String, Text: []byte(s)}, {Type: Uint32, Word: uint64(skip)}}})
	}
	got := tracer.WaitLines(len(want), patience)
	require.Len(t, got, len(want))
	for i := range want {
		head, rest, _ := strings.Cut(got[i], "|")
		tail, last, _ := strings.Cut(rest, "|")
		w := strings.Split(want[i], "|")
		require.Equal(t, w[0], head)
		require.Equal(t, w[2], last)
		if w[1] != "*" {
			require.Equal(t, w[1], tail)
		}
	}
	tracer.Stop()
}

// TestBpftraceTwoProviders traces two providers of one process, one in a file and
// one in memory, and both trace points of a name, and counts them all.
func TestBpftraceTwoProviders(t *testing.T) {
	testenv.NeedsRoot(t)
	c := startChild(t)
	c.do(order{Op: "add", Provider: "one", Probe: "event", Types: []ArgType{Int32}})
	c.do(order{Op: "add", Provider: "one", Probe: "event", Types: []ArgType{Int32}})
	major, minor := tracetest.BpftraceVersion(t)
	memfd := major == 0 && minor < 25 // later ones find no memfd by the process
	c.do(order{Op: "add", Provider: "two", Memfd: memfd, Probe: "event", Types: []ArgType{Int32}})
	c.do(order{Op: "load", Provider: "one"})
	c.do(order{Op: "load", Provider: "two"})
	tracer := tracetest.Bpftrace(t, `usdt:*:one:event { @one[arg0] = count(); } usdt:*:two:event { @two = count(); }`, "-p", c.pid())
	c.do(order{Op: "repeat", Provider: "one", Probe: "event", Point: 0, Times: 100, Args: ints(Int32, int32(1))})
	c.do(order{Op: "repeat", Provider: "one", Probe: "event", Point: 1, Times: 10, Args: ints(Int32, int32(2))})
	c.do(order{Op: "repeat", Provider: "two", Probe: "event", Times: 1000, Args: ints(Int32, int32(3))})
	require.ElementsMatch(t, []string{"@one[1]: 100", "@one[2]: 10", "@two: 1000"}, strings.Split(tracer.Stop(), "\n"))
}

// TestStackNamesTheCaller: the tracer's stack goes through the probe to the
// function that fired, by name. (A test binary has no symbols: hello has.)
func TestStackNamesTheCaller(t *testing.T) {
	testenv.NeedsRoot(t)
	hello := startHello(t)
	tracer := tracetest.Bpftrace(t, `usdt:*:hello:greeting { printf("%s\n", ustack); exit(); }`, "-p", strconv.Itoa(hello.PID()))
	frames := tracer.WaitLines(3, patience)
	stack := strings.Join(frames, "\n")
	at := -1
	for _, frame := range []string{"greeting+0", "main.main+", "runtime.main+"} {
		i := strings.Index(stack, frame)
		require.Greater(t, i, at, "%s in\n%s", frame, stack)
		at = i
	}
	tracer.Stop()
}

// TestTranslator: a bpftrace script reads the fields of a struct that an argument points
// to, and declares no struct.
func TestTranslator(t *testing.T) {
	testenv.NeedsRoot(t)
	path := strings.TrimPrefix(startExample(t, "translator", "the probes are in").Lines()[0], "the probes are in ")
	tracer := tracetest.Bpftrace(t, `uprobe:`+path+`:request__done { $r = args->info;
		printf("%r %r %d %u ms\n", buf($r->Method.str, $r->Method.len), buf($r->Path.str, $r->Path.len),
			$r->Status, (uint64)$r->Elapsed / 1000000); }`)
	for _, line := range tracer.WaitLines(4, patience) {
		var item, status, ms int
		_, err := fmt.Sscanf(line, "GET /item/%d %d %d ms", &item, &status, &ms)
		require.NoError(t, err, line)
		require.Equal(t, 200+item%2*204, status)
		require.GreaterOrEqual(t, ms, 100)
	}
	tracer.Stop()
}

func startHello(t *testing.T) *tracetest.Process {
	t.Helper()
	return startExample(t, "hello", "bpftrace -p")
}

// startExample builds an example as this test was built, and starts it. It is
// ready when it says so.
func startExample(t *testing.T, name, ready string) *tracetest.Process {
	t.Helper()
	program := t.TempDir() + "/" + name
	out, err := exec.Command("go", "build", "-o", program, "../../../examples/"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir()+"/images")
	p := tracetest.Command(t, cmd)
	p.WaitLine(ready, patience)
	return p
}

// TestListings: the other tools that list a process's probes.
func TestListings(t *testing.T) {
	testenv.NeedsRoot(t)
	c := startChild(t)
	c.do(order{Op: "add", Provider: "listed", Probe: "first", Types: []ArgType{Uint8, String}})
	c.do(order{Op: "add", Provider: "listed", Probe: "second"})
	path := c.do(order{Op: "load", Provider: "listed"})
	for _, list := range [][]string{
		{"bpftrace", "-p", c.pid(), "-l", "usdt:*"},
		{"tplist-bpfcc", "-p", c.pid()},
		{"readelf", "-n", path},
		{"eu-readelf", "-n", path},
	} {
		out := run(t, list[0], list[1:]...)
		require.Regexp(t, `listed[\s\S]*first`, out)
		require.Regexp(t, `listed[\s\S]*second`, out)
		require.NotContains(t, out, "arning")
	}
	t.Setenv("HOME", t.TempDir()) // perf's cache
	run(t, "perf", "buildid-cache", "--add", path)
	require.Regexp(t, `sdt_listed:first[\s\S]*sdt_listed:second`, run(t, "perf", "list", "sdt"))
}

// run runs a tool that must be there and succeed, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	packages := map[string]string{"tplist-bpfcc": "bpfcc-tools", "readelf": "binutils", "perf": "linux-perf"}
	pkg := packages[name]
	if pkg == "" {
		pkg = name
	}
	if strings.HasPrefix(name, "eu-") {
		pkg = "elfutils"
	}
	path := testenv.NeedsTool(t, name, pkg)
	p := tracetest.Command(t, exec.Command(path, args...))
	if err := p.Wait(time.Minute); err != nil {
		t.Fatalf("%v\n%s", err, p.Dump())
	}
	return strings.Join(p.Lines(), "\n")
}

// TestGoroutinesFireWhileTraced counts, from many goroutines on growing stacks
// while the garbage collector runs.
func TestGoroutinesFireWhileTraced(t *testing.T) {
	tracetest.NeedUprobes(t)
	p := newProvider(t, "crowd")
	probe, err := p.AddProbe("event", Uint64, String, Uint64, Uint64, Uint64, Uint64, Uint64)
	require.NoError(t, err)
	load(t, p)
	notes, err := sdt.ReadFile(p.Path())
	require.NoError(t, err)
	counter, err := tracetest.CountUprobe(p.Path(), notes[0].Offset)
	require.NoError(t, err)
	defer counter.Close()
	const goroutines, fires = 32, 2000
	done := make(chan error)
	for g := range goroutines {
		go func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range fires {
				if err := deep(r.IntN(200), func() error {
					return probe.Fire(g, "text", i, 4, 5, 6, 7)
				}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range goroutines {
		require.NoError(t, <-done)
	}
	close(stop)
	count, err := counter.Count()
	require.NoError(t, err)
	require.EqualValues(t, goroutines*fires, count)
}

// deep calls f at a depth of the stack, each level of which takes 100 bytes or so.
//
//go:noinline
func deep(levels int, f func() error) error {
	var frame [64]byte
	frame[levels%64] = 1
	if levels == 0 {
		return f()
	}
	err := deep(levels-1, f)
	runtime.KeepAlive(&frame)
	return err
}
