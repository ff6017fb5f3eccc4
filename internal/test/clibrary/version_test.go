//go:build linux && (amd64 || arm64)

package clibrary

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestVersion: what is installed has the version of the header, and so has the library that is loaded.
func TestVersion(t *testing.T) {
	built := build(t)
	var header, library int
	app := tracetest.Command(t, exec.Command(built+"/app"))
	app.Expect("ready ", testenv.Patience)
	app.Say("version")
	_, err := fmt.Sscan(app.Expect("version ", testenv.Patience), &library, &header)
	require.NoError(t, err)
	require.Positive(t, header)
	require.Equal(t, header, library)
	version := fmt.Sprintf("%d.%d.%d", header/1000000, header/1000%1000, header%1000)
	config := tracetest.Must(os.ReadFile(built + "/out/libstapsdt.pc"))(t)
	require.Contains(t, strings.Split(string(config), "\n"), "Version: "+version)
	manual := tracetest.Must(os.ReadFile(built + "/out/libstapsdt.3"))(t)
	require.Contains(t, string(manual), `"libstapsdt `+version+`" "Library Functions"`)
	said := tracetest.Must(exec.Command("make", "-s", "-C", source, "version").Output())(t)
	require.Equal(t, version+"\n", string(said))
}
