//go:build linux && (amd64 || arm64)

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

type inlinedCall struct{ name, params, call, method string }

// inlined are the calls that must cost two loads, a compare and a branch while
// idle: the function that makes each, as it stands in the program that is built,
// and the method that must be inlined into it.
var inlined = []inlinedCall{
	{"idleEnabled", "p *P0, on *bool", "*on = p.Enabled()", `\(\*Probe\)\.Enabled`},
	{"idle0", "p *P0", "p.Fire()", `\(\*Probe0\)\.Fire`},
	{"idle1", "p *P1, a uint16", "p.Fire(a)", `\(\*Probe1\[.*\]\)\.Fire`},
	{"idle2", "p *P2, a uint64, b int32", "p.Fire(a, b)", `\(\*Probe2\[.*\]\)\.Fire`},
	{"idle3", "p *P3, a string, b int8, c []byte", "p.Fire(a, b, c)", `\(\*Probe3\[.*\]\)\.Fire`},
	{"idle4", "p *P4, a, b string, c bool, d int16", "p.Fire(a, b, c, d)", `\(\*Probe4\[.*\]\)\.Fire`},
	{"idle5", "p *P5, a, b, c string, d int, e uint32", "p.Fire(a, b, c, d, e)", `\(\*Probe5\[.*\]\)\.Fire`},
	{"idle6", "p *P6, a, b, c, d, e, f string", "p.Fire(a, b, c, d, e, f)", `\(\*Probe6\[.*\]\)\.Fire`},
	{"idle6Integers", "p *P6I, a int8, b uint16, c int32, d uint64, e bool, f uintptr", "p.Fire(a, b, c, d, e, f)", `\(\*Probe6\[.*\]\)\.Fire`},
	{"idleFunc1", "p *P1, f func() uint16", "p.FireFunc(f)", `\(\*Probe1\[.*\]\)\.FireFunc`},
	{"idleFunc6", "p *P6, f func() (a, b, c, d, e, f string)", "p.FireFunc(f)", `\(\*Probe6\[.*\]\)\.FireFunc`},
	{"idleOf", "p *POfSmall, a uint16, b int", "p.Fire(Pair{a, b})", `\(\*ProbeOf\[.*\]\)\.Fire`},
	{"idleOfFunc", "p *POf, f func() Request", "p.FireFunc(f)", `\(\*ProbeOf\[.*\]\)\.FireFunc`},
}

// copied is the call that is inlined, but copies its argument before the test, because it
// does not fit into registers.
var copied = inlinedCall{"idleOfLarge", "p *POf, r Request", "p.Fire(r)", `\(\*ProbeOf\[.*\]\)\.Fire`}

const programHead = `package main

import "github.com/go-stapsdt/stapsdt"

type (
	P0  = stapsdt.Probe0
	P1  = stapsdt.Probe1[uint16]
	P2  = stapsdt.Probe2[uint64, int32]
	P3  = stapsdt.Probe3[string, int8, []byte]
	P4  = stapsdt.Probe4[string, string, bool, int16]
	P5  = stapsdt.Probe5[string, string, string, int, uint32]
	P6  = stapsdt.Probe6[string, string, string, string, string, string]
	P6I = stapsdt.Probe6[int8, uint16, int32, uint64, bool, uintptr]

	POf      = stapsdt.ProbeOf[Request]
	POfSmall = stapsdt.ProbeOf[Pair]
)

type Request struct {
	A, B, C string
	D       *Pair
	E, F, G int
}

type Pair struct {
	A uint16
	B int
}
`

// inlineProgram returns a program that has all of inlined, each on a line of its
// own, and what keeps the linker from leaving them out.
func inlineProgram() string {
	var s strings.Builder
	s.WriteString(programHead)
	var names []string
	for _, f := range append(inlined, copied) {
		fmt.Fprintf(&s, "\n//go:noinline\nfunc %s(%s) {\n\t%s\n}\n", f.name, f.params, f.call)
		names = append(names, f.name)
	}
	fmt.Fprintf(&s, "\nvar all = []any{%s}\n\nfunc main() { println(len(all)) }\n", strings.Join(names, ", "))
	return s.String()
}

// buildInlineProgram builds it, and returns what the compiler says of it and the
// code of its functions.
func buildInlineProgram(t *testing.T, goarch string) (says string, code map[string][]instruction) {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte(inlineProgram()), 0o600))
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
		return string(out)
	}
	says = run("build", "-gcflags=-m", "-o", binary, source)
	return says, parseCode(t, run("tool", "objdump", "-s", `^main\.idle`, binary))
}

// TestIdleIsInlined reads what the compiler made of a program that fires every
// typed probe: each call is inlined, and what runs while no tracer is attached is two
// loads, a test and a branch, and nothing else.
func TestIdleIsInlined(t *testing.T) {
	testenv.NotRaced(t, "the detector makes system calls of its own, and its programs take long to end")
	testenv.Long(t, "it builds a program for each architecture")
	testenv.NeedsTool(t, "go", "golang")
	for goarch := range arches {
		t.Run(goarch, func(t *testing.T) {
			says, code := buildInlineProgram(t, goarch)
			lines := strings.Split(inlineProgram(), "\n")
			for _, f := range append(inlined, copied) {
				at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "func "+f.name+"(") })
				call := at + 2 // the line after it, counted from one
				about := regexp.MustCompile(fmt.Sprintf(`main\.go:%d:.*\n`, call)).FindAllString(says, -1)
				require.Regexp(t, `inlining call to stapsdt\.`+f.method+`\n`, strings.Join(about, ""), "%s: %s", f.name, f.call)
				if f != copied {
					checkIdle(t, arches[goarch], f.name, code["main."+f.name])
				}
			}
		})
	}
}

// instruction is a line of go tool objdump.
type instruction struct {
	addr uint64
	text string
}

// parseCode reads lines as "  main.go:7\t0x4a5a40\t493b6610\tCMPQ SP, 0x10(R14)\t".
func parseCode(t *testing.T, dump string) map[string][]instruction {
	t.Helper()
	code := map[string][]instruction{}
	name := ""
	for _, line := range strings.Split(dump, "\n") {
		if rest, ok := strings.CutPrefix(line, "TEXT "); ok {
			name, _, _ = strings.Cut(rest, "(SB)")
			continue
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
		if len(fields) < 4 {
			continue
		}
		addr, err := strconv.ParseUint(fields[1], 0, 64)
		require.NoError(t, err, line)
		code[name] = append(code[name], instruction{addr, strings.TrimSpace(fields[3])})
	}
	return code
}

// arch knows an architecture's instructions, as far as an idle path may have any.
// An instruction that matches none of the expressions is one that an idle path must not have.
type arch struct {
	// stackCheck is the test for room on the stack that any function begins
	// with, ended by its branch. It belongs to the caller of Fire.
	stackCheck []*regexp.Regexp
	// frame is what sets up and takes down the caller's frame, and padding.
	frame *regexp.Regexp
	// frameSize finds the frame's size; spill the offset at which a register
	// is stored on the stack. One of the caller's own, in its caller's frame,
	// is stored for the garbage collector.
	frameSize, spill *regexp.Regexp
	load             *regexp.Regexp
	// test is of registers and constants; set makes a bool of its result.
	test, set *regexp.Regexp
	branch    *regexp.Regexp
	// target is how far a branch goes, or where to.
	target func(i instruction, operand string) (uint64, error)
}

var arches = map[string]arch{
	"amd64": {
		stackCheck: []*regexp.Regexp{regexp.MustCompile(`^(CMPQ SP, 0x10\(R14\)|LEAQ -0x[0-9a-f]+\(SP\), R12|CMPQ R12, 0x10\(R14\))$`), regexp.MustCompile(`^JBE `)},
		frame:      regexp.MustCompile(`^(PUSHQ BP|MOVQ SP, BP|(SUBQ|ADDQ) \$-?0x[0-9a-f]+, SP|POPQ BP|NOP[LW]?( .*)?|XCHGW AX, AX|RET)$`),
		frameSize:  regexp.MustCompile(`^SUBQ \$(-?0x[0-9a-f]+), SP$`),
		spill:      regexp.MustCompile(`^MOVQ [A-Z0-9]+, (0x[0-9a-f]+)\(SP\)$`),
		load:       regexp.MustCompile(`^(MOVQ|MOVZX|MOVBLZX) (0x)?[0-9a-f]+\((AX|BX|CX|DX|SI|DI|R8|R9|R1[0123])\), [A-Z0-9]+$`),
		test:       regexp.MustCompile(`^(ANDL|ANDQ|CMPL|CMPB|TESTL|TESTB) (\$0x[0-9a-f]+|[A-Z0-9]+), (\$0x[0-9a-f]+|[A-Z0-9]+)$`),
		set:        regexp.MustCompile(`^SETE ([A-Z]+|0\(BX\))$`),
		branch:     regexp.MustCompile(`^J([A-Z]+) (.*)$`),
		target: func(_ instruction, operand string) (uint64, error) {
			return strconv.ParseUint(operand, 0, 64)
		},
	},
	"arm64": {
		stackCheck: []*regexp.Regexp{regexp.MustCompile(`^(MOVD 16\(R28\), R16|SUB \$\d+, RSP, R17|CMP R1[67], (RSP|R17))$`), regexp.MustCompile(`^BLS `)},
		frame:      regexp.MustCompile(`^(MOVD\.W R30, -\d+\(RSP\)|MOVD R29, -8\(RSP\)|SUB \$8, RSP, R29|MOVD -8\(RSP\), R29|MOVD\.P \d+\(RSP\), R30|NOOP|RET)$`),
		frameSize:  regexp.MustCompile(`^MOVD\.W R30, -(\d+)\(RSP\)$`),
		spill:      regexp.MustCompile(`^(?:MOVD R\d+|STP \(R\d+, R\d+\)), (\d+)\(RSP\)$`),
		load:       regexp.MustCompile(`^(LDAR|MOVD|MOVBU) \d*\(R\d+\), R\d+$`),
		test:       regexp.MustCompile(`^(TSTW|TST|ANDW|AND|CMPW|CMP) (\$\d+|R\d+), R\d+(, R\d+)?$`),
		set:        regexp.MustCompile(`^(CSET EQ, R\d+|MOVB R\d+, \(R1\))$`),
		branch:     regexp.MustCompile(`^(?:B|CBZ|CBNZ|TBZ|TBNZ)([A-Z]*) (?:.*, )?(.*)$`),
		target: func(i instruction, operand string) (uint64, error) {
			words, err := strconv.ParseInt(strings.TrimSuffix(operand, "(PC)"), 10, 64)
			return i.addr + uint64(4*words), err
		},
	},
}

// checkIdle finds the one way through a function that calls nothing, which is
// what runs while no tracer is attached, and counts what is on it.
func checkIdle(t *testing.T, a arch, name string, code []instruction) {
	t.Helper()
	require.NotEmpty(t, code, "%s is not in the program", name)
	if a.stackCheck[0].MatchString(code[0].text) {
		end := slices.IndexFunc(code, func(i instruction) bool { return a.stackCheck[1].MatchString(i.text) })
		for _, i := range code[:end] {
			require.Regexp(t, a.stackCheck[0], i.text, name)
		}
		code = code[end+1:]
	}
	paths := a.quiet(t, code, 0, nil)
	listing := dump(code)
	require.Len(t, paths, 1, "%s: ways through it that call nothing\n%s", name, listing)
	loads, tests, branches, frame := 0, 0, 0, int64(0)
	for _, i := range paths[0] {
		switch text := i.text; {
		case a.frame.MatchString(text):
			if size := a.frameSize.FindStringSubmatch(text); size != nil {
				frame = number(t, size[1])
			}
		case a.spill.MatchString(text):
			at := number(t, a.spill.FindStringSubmatch(text)[1])
			require.Greater(t, at, frame, "%s: %s stores what Fire has made before its branch\n%s", name, text, listing)
		case a.load.MatchString(text):
			loads++
		case a.test.MatchString(text):
			tests++
		case a.branch.MatchString(text):
			branches++
		default:
			require.Regexp(t, a.set, text, "%s: this has no place in an idle Fire\n%s", name, listing)
		}
	}
	require.Equal(t, 2, loads, "%s: loads\n%s", name, listing)
	checkAlive(t, a, name, paths[0], listing)
	require.LessOrEqual(t, tests, 2, "%s: mask and compare\n%s", name, listing)
	require.LessOrEqual(t, branches, 1, "%s: branches\n%s", name, listing)
}

// checkAlive finds the probe's address somewhere between the load of the site's
// address and that of its first byte: on the stack, or still in its register. The
// collector, which may stop the goroutine in between, looks at both. A probe that it
// does not find there may be garbage, and the site unmapped.
func checkAlive(t *testing.T, a arch, name string, path []instruction, listing string) {
	t.Helper()
	first := slices.IndexFunc(path, func(i instruction) bool { return a.load.MatchString(i.text) })
	registers := regexp.MustCompile(`\(([A-Z0-9]+)\), ([A-Z0-9]+)$`).FindStringSubmatch(path[first].text)
	stored := slices.ContainsFunc(path[:first], func(i instruction) bool {
		return a.spill.MatchString(i.text) && regexp.MustCompile(`\b`+registers[1]+`\b`).MatchString(i.text)
	})
	require.True(t, stored || registers[1] != registers[2], "%s: %s leaves no reference to the probe\n%s", name, path[first].text, listing)
}

// quiet returns the ways from an instruction to a return on which there is no
// call. Fire has no loop, so that they end.
func (a arch) quiet(t *testing.T, code []instruction, at int, before []instruction) [][]instruction {
	t.Helper()
	require.Less(t, len(before), 1000, "it loops\n%s", dump(code))
	for ; at < len(code); at++ {
		i := code[at]
		before = append(slices.Clip(before), i)
		if strings.HasPrefix(i.text, "CALL ") {
			return nil
		}
		if i.text == "RET" {
			return [][]instruction{before}
		}
		jump := a.branch.FindStringSubmatch(i.text)
		if jump == nil {
			continue
		}
		to, err := a.target(i, jump[2])
		if err != nil {
			return nil // to the function's beginning, after its stack grew
		}
		next := slices.IndexFunc(code, func(i instruction) bool { return i.addr == to })
		require.GreaterOrEqual(t, next, 0, "%s leads out of\n%s", i.text, dump(code))
		paths := a.quiet(t, code, next, before)
		if jump[1] == "MP" || i.text[:2] == "B " {
			return paths
		}
		return append(paths, a.quiet(t, code, at+1, before)...)
	}
	return nil
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n := tracetest.Must(strconv.ParseInt(s, 0, 64))(t)
	return n
}

func dump(code []instruction) string {
	var s strings.Builder
	for _, i := range code {
		fmt.Fprintf(&s, "%#x\t%s\n", i.addr, i.text)
	}
	return s.String()
}

// TestTracedDoesNotAllocate fires under a tracer. The pool of buffers for strings
// is filled before, as it is in a program after its first fires.
func TestTracedDoesNotAllocate(t *testing.T) {
	testenv.NotRaced(t, "sync.Pool drops what it was given, at random")
	testenv.NeedsOptimization(t, "Fire is not inlined, and its arguments are allocated")
	p := newProvider(t, "allocs")
	two := stapsdt.NewProbe2[uint64, int32](p, "two")
	text := stapsdt.NewProbe2[string, int32](p, "text")
	six := stapsdt.NewProbe6[string, int32, []byte, bool, string, uint8](p, "six")
	fields := stapsdt.NewProbeOf[fieldArgs](p, "fields")
	dynamic := tracetest.Must(p.AddProbe("any", stapsdt.Uint64, stapsdt.Int32))(t)
	dynamicText := tracetest.Must(p.AddProbe("any_text", stapsdt.String, stapsdt.Int32))(t)
	load(t, p)
	notes, err := sdt.ReadFile(p.Path())
	tracetest.NeedUprobes(t)
	require.NoError(t, err)
	// AllocsPerRun sets GOMAXPROCS, which may move the goroutine to another
	// thread: count for all of them.
	for i, c := range []struct {
		probe *stapsdt.Probe
		fire  func()
	}{
		{dynamic, func() { err = dynamic.Fire(benchNumber, int32(200)) }},
		{dynamicText, func() { err = dynamicText.Fire(benchText, int32(200)) }},
		{&two.Probe, func() { two.Fire(benchNumber, 200) }},
		{&text.Probe, func() { text.Fire(benchText, 200) }},
		{&six.Probe, func() { six.Fire(benchText, 2, benchBytes, true, benchText, 6) }},
		{&text.Probe, func() { text.FireFunc(func() (string, int32) { return benchText, 200 }) }},
		{&fields.Probe, func() { fields.Fire(fieldArgs{A: benchText, B: 1, C: benchBytes, H: &fieldArgs{}}) }},
		{&fields.Probe, func() { fields.FireFunc(func() fieldArgs { return fieldArgs{A: benchText, H: nil} }) }},
	} {
		note := notes[slices.Index(p.Probes(), c.probe)]
		require.Equal(t, c.probe.Name(), note.Name)
		counter, attachErr := tracetest.CountUprobe(p.Path(), note.Offset)
		require.NoError(t, attachErr)
		t.Cleanup(func() { require.NoError(t, counter.Close()) })
		require.True(t, c.probe.Enabled())
		require.Zero(t, testing.AllocsPerRun(100, c.fire), "%d: %s", i, c.probe.Name())
		require.NoError(t, err)
		seen, countErr := counter.Count()
		require.NoError(t, countErr)
		require.EqualValues(t, 101, seen, "AllocsPerRun calls it once more, before")
	}
}

type fieldArgs struct {
	A          string
	B          float64
	C          []byte
	D, E, F, G int
	H          *fieldArgs
}

// benchNumber does not fit a byte: small ones are in an interface for free.
var benchNumber uint64 = 1 << 40

// TestEnterIsNotInlined: not even a profile makes it part of a function that can
// be preempted.
func TestEnterIsNotInlined(t *testing.T) {
	testenv.NeedsTool(t, "go", "golang")
	out, err := exec.Command("go", "build", "-gcflags=-m=2", "-o", os.DevNull, "../../..").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "cannot inline (*Probe).enter: marked go:noinline")
}
