package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxInit is the maximum number of bytes that a package of ours allocates when the command starts.
// A regular expression takes as many.
const maxInit = 5000

// initLine is what the runtime prints with GODEBUG=inittrace=1 for each package that is initialized.
var initLine = regexp.MustCompile(`(?m)^init (github.com/go-stapsdt/stapsdt/\S+) @.* (\d+) bytes, \d+ allocs$`)

// TestStart: our packages do little before main, because all of them do it for each command.
func TestStart(t *testing.T) {
	path, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(path, "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	said, err := c.CombinedOutput()
	require.NoError(t, err)
	found := initLine.FindAllStringSubmatch(string(said), -1)
	require.NotEmpty(t, found, "%s", said)
	for _, line := range found {
		if line[1] != command { // to which the tests add
			bytes, err := strconv.Atoi(line[2])
			require.NoError(t, err)
			assert.LessOrEqual(t, bytes, maxInit, "%s: see lazyregexp and sync.OnceValue", line[1])
		}
	}
}

// TestDearPackages: packages that take long to be initialized, and that the command needs for little, are
// not linked.
func TestDearPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	linked := strings.Fields(string(out))
	require.Contains(t, linked, "github.com/spf13/cobra")
	for _, dear := range []string{"github.com/russross/blackfriday/v2"} {
		require.NotContains(t, linked, dear)
	}
}

// TestOneCommand: a command that is made without the others prints the same.
func TestOneCommand(t *testing.T) {
	run := func(root *cobra.Command, args []string) (out, problem string) {
		var text bytes.Buffer
		root.SetArgs(args)
		root.SetOut(&text)
		root.SetErr(&text)
		err := root.Execute()
		return text.String(), fmt.Sprint(err)
	}
	for name := range verbs() {
		for _, args := range [][]string{{name, "--help"}, {name, "--bogus"}, {name, "http://host/debug/probes/"}} {
			to := &console.Console{Out: io.Discard, Err: io.Discard}
			one := commandFor(to, args)
			if args[1] == "http://host/debug/probes/" && isReader(one.Commands()[0]) {
				continue // it would read
			}
			require.Len(t, one.Commands(), 1)
			require.Equal(t, name, one.Commands()[0].Name())
			gotOut, gotErr := run(one, args)
			wantOut, wantErr := run(rootCommand(to), args)
			require.Equal(t, wantOut, gotOut, "%q", args)
			require.Equal(t, wantErr, gotErr, "%q", args)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"--help"}, {"lst"}, {"man"}, {"completion"}, {"__complete", "list"}} {
		require.Greater(t, len(commandFor(&console.Console{}, args).Commands()), len(verbs()), "%q", args)
	}
}
