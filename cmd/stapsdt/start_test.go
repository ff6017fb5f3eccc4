package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
