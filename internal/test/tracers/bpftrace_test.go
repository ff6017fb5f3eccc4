//go:build linux

package tracers

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"

	"github.com/stretchr/testify/require"
)

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
	var letters, values []string
	for i, letter := range format(s.wide, b.arguments) {
		value := fmt.Sprintf("arg%d", i)
		switch letter {
		case 's':
			letters, value = append(letters, "%s"), "str("+value+")"
		case 'u':
			letters = append(letters, "%lu")
		default:
			letters = append(letters, "%ld")
		}
		values = append(values, value)
	}
	return fmt.Sprintf(`usdt:%s:%s:%s { printf("event %s\n", %s); @n++; if (@n > %d) { exit(); } }`,
		path, s.provider, s.wide.Name, strings.Join(letters, " "), strings.Join(values, ", "), wanted)
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
