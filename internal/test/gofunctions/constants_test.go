//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/objects"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closer is a program with constants of its types. It prints what the command shows of each call.
const closer = `package main

import (
	"bufio"
	"fmt"
	"os"

	"generated/kinds.v2"
)

type (
	Reason int8
	Size   uint64
	Same   int
)

const (
	Lost Reason = iota - 1
	Closed
	Violation
	Other Size = 1<<64 - 1
	Huge = Other - 1
	First Same = 3
	Second Same = 3
	Plain = 7
	// Different types have a constant of this name in two packages.
	Shared Size = 5
)

type conn struct{ why Reason; kind kinds.Kind }

//go:noinline
func leave(r Reason, s Size, k kinds.Kind, same Same, n int, c *conn) Reason { return r }

func main() {
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	leave(Lost, Other, kinds.Stream, First, Plain, &conn{Violation, kinds.Stream})
	leave(Closed, Huge, kinds.Datagram, Second, 1, &conn{Lost, kinds.Stream})
	leave(Violation, Shared, 9, 4, 1, &conn{})
	leave(77, 1, kinds.Shared, 0, 1, &conn{})
	fmt.Println("done", kinds.Shared.IsStream())
	in.ReadString('\n')
}
`

const kinds = `package kinds

type Kind uint16

const (
	Stream   Kind = 1
	Datagram Kind = 65535
	Shared   Kind = 6
)

//go:noinline
func (k Kind) IsStream() bool { return k == Stream }
`

// TestConstants: the names of constants are shown, and conditions use them.
func TestConstants(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, release := range []string{"", "go1.22.12", "go1.24.6", "go1.25.1", "go1.27.0"} {
		t.Run(release, func(t *testing.T) {
			var env []string
			if release != "" {
				testenv.Long(t, "it builds a program by another release of Go")
				env = append(env, "GOTOOLCHAIN="+release)
			}
			testConstants(t, tracetest.BuildFiles(t, map[string]string{
				"go.mod": "module generated\n\ngo 1.22\n", "main.go": closer, "kinds.v2/kinds.go": kinds,
			}, env))
		})
	}
}

func testConstants(t *testing.T, path string) {
	specs := []string{"go:main.leave"}
	run := func(args ...string) []string { return launch(t, path).run(specs, args...) }

	lines := run("trace", "--show", "r,s,k,same,n,c.why,c.kind")
	require.Len(t, lines, 5)
	for i, want := range []string{
		"r=Lost (-1) s=Other (18446744073709551615) k=Stream (1) same=First (3) n=7 c.why=Violation (1) c.kind=Stream (1)",
		"r=Closed (0) s=Huge (18446744073709551614) k=Datagram (65535) same=First (3) n=1 c.why=Lost (-1) c.kind=Stream (1)",
		"r=Violation (1) s=Shared (5) k=9 same=4 n=1 c.why=Closed (0) c.kind=0",
		"r=77 s=1 k=Shared (6) same=0 n=1 c.why=Closed (0) c.kind=0",
	} {
		assert.True(t, strings.HasSuffix(lines[i+1], " "+want), lines[i+1])
	}

	lines = run("trace", "-o", "json", "-w", "r == Violation || s == Other || k > Stream && c.why < Closed")
	require.Len(t, lines, 3)
	for i, want := range []map[string]string{
		{"r": "Lost", "s": "Other", "k": "Stream", "same": "First"},
		{"r": "Closed", "s": "Huge", "k": "Datagram", "same": "First"},
		{"r": "Violation", "s": "Shared"},
	} {
		var names struct{ Names map[string]string }
		assert.Equal(t, json.Number(fmt.Sprint(i-1)), decode(t, lines[i]).Args["r"])
		objects.Decode(t, lines[i], &names)
		assert.Equal(t, want, names.Names)
	}

	text := strings.Join(run("count", "--by", "r,k"), "\n")
	assert.Regexp(t, `1 .* Lost \(-1\) +Stream \(1\)`, text)
	assert.Regexp(t, `1 .* 77 +Shared \(6\)`, text)
}
