//go:build linux

package tracers

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/stretchr/testify/require"
)

// libbpfRows are of a C program that finds libbpf where it runs.
func libbpfRows(h host) []row {
	version := h.versionOf(built("usdt"), "--version")
	object := built("usdt.bpf.o")
	if h.newest {
		object = built("usdt.bpf.newest.o")
	}
	attach := func(pid func(*subject) string) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) {
			count := len(s.wide.Types)
			out := h.run(t, built("usdt"), object, pid(s), s.path, s.provider, s.wide.Name, format(s.wide, count))
			require.NoError(t, compare(events(out, `^(\d+ .*)$`), s.wide, count, plain))
		}
	}
	return []row{
		{tool: "libbpf", way: "`SEC(\"usdt\")`, a process", version: version, works: attach((*subject).pid)},
		{tool: "libbpf", way: "`SEC(\"usdt\")`, every process", version: version, works: attach(every)},
	}
}

// every is what it takes for every process.
func every(*subject) string { return "-1" }

// ciliumRows are of package link, which knows uprobes, and nothing of SDT notes: where the probe is, it is told. The arguments are in the
// first two registers of the platform's C calling convention, as in every image.
func ciliumRows() []row {
	version := func() string {
		requirements, _ := os.ReadFile("internal/test/go.mod") // the script runs in the root of the repository
		return string(number.Find(regexp.MustCompile(`github.com/cilium/ebpf .*`).Find(requirements)))
	}
	attach := func(pid func(*subject) int) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) { ciliumEvents(t, s, pid(s)) }
	}
	return []row{
		{tool: "cilium/ebpf", way: "`link.Executable.Uprobe`, a process", version: version, works: attach((*subject).PID)},
		{tool: "cilium/ebpf", way: "`link.Executable.Uprobe`, every process", version: version, works: attach(func(*subject) int { return 0 })},
	}
}

// ciliumEvents compares the first two arguments of events in a process, or in every process if it is 0.
func ciliumEvents(t *testing.T, s *subject, pid int) {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16})
	require.NoError(t, err)
	defer ring.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL", Instructions: sendTwo(ring)})
	require.NoError(t, err)
	defer program.Close()
	reader, err := ringbuf.NewReader(ring)
	require.NoError(t, err)
	defer reader.Close()
	notes, err := sdt.ReadFile(s.path)
	require.NoError(t, err)
	at := slices.IndexFunc(notes, func(n sdt.Site) bool { return n.Provider == s.provider && n.Name == fired.Pair.Name })
	require.GreaterOrEqual(t, at, 0)
	file, err := link.OpenExecutable(s.path)
	require.NoError(t, err)
	attached, err := file.Uprobe(fired.Pair.Name, program, &link.UprobeOptions{Address: notes[at].Offset, PID: pid})
	require.NoError(t, err)
	defer attached.Close()
	reader.SetDeadline(time.Now().Add(patience()))
	var list [][]string
	for range wanted {
		record, err := reader.Read()
		require.NoError(t, err)
		first, second := binary.NativeEndian.Uint64(record.RawSample), binary.NativeEndian.Uint64(record.RawSample[8:])
		list = append(list, []string{fmt.Sprint(first), fmt.Sprint(int64(second))})
	}
	require.NoError(t, compare(list, fired.Pair, 2, plain))
}

// sendTwo is a program that sends the first two arguments: it gets a struct pt_regs, copies two words of it onto its
// stack, and from there into the ring.
func sendTwo(ring *ebpf.Map) asm.Instructions {
	first, second := int16(0), int16(8) // arm64: x0 and x1
	if runtime.GOARCH == "amd64" {
		first, second = 14*8, 13*8 // rdi and rsi
	}
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, first, asm.DWord),
		asm.StoreMem(asm.RFP, -16, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, second, asm.DWord),
		asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -16),
		asm.Mov.Imm(asm.R3, 16),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
}

// What bpftrace from 0.25 on says when -p finds nothing, and why it does.
const (
	nothingFound = `no valid attach points`
	skipsDeleted = "Since 0.25 bpftrace passes over what `/proc/PID/maps` shows as deleted, as it does every memfd; " +
		"`usdt:/proc/PID/fd/N:…` works."
)

func bpftraceRows(h host) []row {
	version := h.versionOf("bpftrace", "--version")
	b := bpftrace{host: h, arguments: 6}
	var cannot, cannotList func(kind) *obstacle
	if h.newest {
		b.arguments = len(fired.Wide.Types)
		cannot = onlyIn(inMemfd, obstacle{skipsDeleted, h.refuses(nothingFound, func(s *subject) []string {
			return []string{"bpftrace", "-p", s.pid(), "-e", b.program("*", s)}
		})})
		cannotList = onlyIn(inMemfd, obstacle{skipsDeleted, func(t *testing.T, s *subject) {
			out := h.run(t, "bpftrace", "-l", "-p", s.pid(), "usdt:*")
			require.Contains(t, out, "usdt:", "it lists nothing at all")
			require.False(t, strings.Contains(out, s.provider), "it works")
		}})
	}
	return []row{
		{tool: "bpftrace", way: "`-p PID`", version: version, cannot: cannot, works: func(t *testing.T, s *subject) {
			b.trace(t, s, "-p", s.pid(), "-e", b.program("*", s))
		}},
		{tool: "bpftrace", way: "a path, without `-p`", version: version, works: func(t *testing.T, s *subject) {
			b.trace(t, s, "-e", b.program(s.path, s))
		}},
		{tool: "bpftrace", way: "`-l -p PID`", version: version, cannot: cannotList, works: func(t *testing.T, s *subject) {
			b.list(t, s, "-p", s.pid(), "usdt:*")
		}},
		{tool: "bpftrace", way: "`-l` of a path", version: version, works: func(t *testing.T, s *subject) {
			b.list(t, s, "usdt:"+s.path+":*")
		}},
		{tool: "bpftrace", way: "`ustack`", version: version, works: b.stack},
	}
}

type bpftrace struct {
	host
	arguments int // how many it can read, for certain, on every architecture
}

// program prints the arguments of events, and ends when there were enough.
func (b bpftrace) program(path string, s *subject) string {
	words, arguments := printing(s.wide, b.arguments, func(i int, letter rune) (string, string) {
		if letter == 's' {
			return "%s", fmt.Sprintf("str(arg%d)", i)
		}
		return "%l" + string(letter), fmt.Sprintf("arg%d", i)
	})
	return fmt.Sprintf(`usdt:%s:%s:%s { printf("event %s\n", %s); @n++; if (@n > %d) { exit(); } }`,
		path, s.provider, s.wide.Name, words, arguments, wanted)
}

func (b bpftrace) trace(t *testing.T, s *subject, args ...string) {
	out := b.run(t, append([]string{"bpftrace"}, args...)...)
	require.NoError(t, compare(events(out, `^event (.*)$`), s.wide, b.arguments, plain))
}

func (b bpftrace) list(t *testing.T, s *subject, args ...string) {
	out := b.run(t, append([]string{"bpftrace", "-l"}, args...)...)
	for _, name := range s.probeNames() {
		require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`(?m)^usdt:.*:%s:%s$`, s.provider, name)), out)
	}
}

// stack looks for the site, and for who called it. C is compiled without frame pointers, so that nobody can tell.
func (b bpftrace) stack(t *testing.T, s *subject) {
	out := b.run(t, "bpftrace", "-e", fmt.Sprintf(`usdt:%s:%s:%s { printf("%%s\n", ustack()); exit(); }`,
		s.path, s.provider, s.wide.Name))
	frames := []string{s.wide.Name}
	if !s.isC() {
		frames = append(frames, "main.fire", "main.main", "runtime.main")
	}
	expression := `(?s)`
	for _, frame := range frames {
		expression += `\n\s*` + regexp.QuoteMeta(frame) + `\+.*`
	}
	require.Regexp(t, regexp.MustCompile(expression), out)
}
