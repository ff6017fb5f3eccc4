//go:build linux

package tracers

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

func elfRows(h host) []row {
	binutils, elfutils := h.versionOf("readelf", "--version"), h.versionOf("eu-readelf", "--version")
	return []row{
		{tool: "readelf", way: "`-n`", version: binutils, works: func(t *testing.T, s *subject) {
			notes(t, s, h.run(t, "readelf", "-n", s.path),
				`Provider: (\S+)\s+Name: (\S+)\s+Location: \S+, Base: \S+, Semaphore: 0x0+\s+Arguments: (.*)$`)
		}},
		{tool: "eu-readelf", way: "`-n`", version: elfutils, works: func(t *testing.T, s *subject) {
			notes(t, s, h.run(t, "eu-readelf", "-n", s.path),
				`PC: \S+, Base: \S+, Semaphore: 0\s+Provider: (\S+), Name: (\S+), Args: '(.*)'$`)
		}},
		{tool: "eu-elflint", way: "no fault, but that it does not know SDT notes, whoever makes them", version: elfutils,
			works: func(t *testing.T, s *subject) { lint(t, h.run(t, "eu-elflint", s.path)) }},
	}
}

// notes compares what is listed with what was defined: names, sizes and signs, and then with where another reader finds
// the arguments.
func notes(t *testing.T, s *subject, out, expression string) {
	want, err := sdt.ReadFile(s.path)
	require.NoError(t, err)
	list := regexp.MustCompile("(?m)"+expression).FindAllStringSubmatch(out, -1)
	require.Len(t, list, len(s.probeNames()))
	require.Len(t, want, len(list))
	for i, m := range list {
		require.Equal(t, []string{s.provider, s.probeNames()[i]}, m[1:3])
		var operands []string
		for _, a := range want[i].Args {
			operands = append(operands, a.String())
		}
		require.Equal(t, strings.Join(operands, " "), m[3])
	}
	last := strings.Fields(list[len(list)-1][3])
	require.Len(t, last, len(s.wide.Types))
	for i, typ := range s.wide.Types {
		size := typ.Size()
		if typ.Signed() {
			size = -size
		}
		require.Equal(t, fmt.Sprint(size), strings.Split(last[i], "@")[0])
	}
}

// lint lets pass what eu-elflint says of every SDT note, also of those that a compiler made: "unknown" until elfutils
// 0.189 and later "malformed", as it knows only notes that have a size of zero.
func lint(t *testing.T, out string) {
	known := regexp.MustCompile(`^section \[ *\d+\] '\.note\.stapsdt': (unknown|malformed) object file note type 3 with owner name 'stapsdt' at offset \d+$`)
	for said := range strings.Lines(out) {
		said = strings.TrimSpace(said)
		if said != "" && said != "No errors" {
			require.Regexp(t, known, said)
		}
	}
}
