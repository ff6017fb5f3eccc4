//go:build linux && (amd64 || arm64)

package kernels

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracers/fired"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// modules is where scripts/lib/systemtap.sh puts a directory for each program: its command, the
// path of its image, and the module that SystemTap has built for that path.
const modules = "/systemtap"

// TestSystemTap: SystemTap's modules print the values that the programs fire.
func TestSystemTap(t *testing.T) {
	commands := tracetest.Must(filepath.Glob(modules + "/*/command"))(t)
	if len(commands) == 0 {
		t.Skip("scripts/lib/systemtap.sh builds the modules, for a guest of its own")
	}
	t.Attr("kernel", release())
	require.Len(t, commands, 6)
	t.Setenv("STAPSDT_DIR", modules)
	t.Setenv("TMPDIR", modules)
	for _, command := range commands {
		dir := filepath.Dir(command)
		t.Run(filepath.Base(dir), func(t *testing.T) { testModule(t, dir) })
	}
}

func testModule(t *testing.T, dir string) {
	read := func(file string) string {
		content := tracetest.Must(os.ReadFile(filepath.Join(dir, file)))(t)
		return strings.TrimSpace(string(content))
	}
	words, path := strings.Fields(read("command")), read("path")
	startAs(t, words, path)
	// SystemTap prints from buffers, in which the order of the processors is kept.
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "staprun", "-R", filepath.Join(dir, "systemtap.ko")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	probe := fired.Wide
	if words[len(words)-1] == fired.Pair.Name {
		probe = fired.Pair // it fires no other
	}
	var first uint64
	events := regexp.MustCompile(`(?m)^event (\d+) .*$`).FindAllStringSubmatch(string(out), -1)
	require.Len(t, events, 10, "%s", out)
	for i, e := range events {
		if i == 0 {
			first = tracetest.Must(strconv.ParseUint(e[1], 10, 64))(t)
		}
		require.Equal(t, "event "+strings.TrimSpace(fmt.Sprintln(probe.Values(first+uint64(i))...)), e[0])
	}
}

// startAs starts a program with its image at a path. In memory that is one of /proc, with the
// number that the process then gets. The C library gives a file a random name, which is changed
// once the file is mapped.
func startAs(t *testing.T, words []string, path string) {
	start := func() (*tracetest.Process, string) {
		p := tracetest.Command(t, exec.Command(words[0], words[1:]...))
		t.Cleanup(func() {
			p.Hangup()
			p.Signal(unix.SIGTERM)
			_ = p.Wait(testenv.Patience)
		})
		loaded, _, _ := strings.Cut(p.Expect("loaded as ", testenv.Patience), ";")
		return p, loaded
	}
	var pid int
	if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
		_, loaded := start()
		if strings.HasSuffix(words[0], "/demo") {
			require.NoError(t, os.Rename(loaded, path))
			loaded = path
		}
		require.Equal(t, path, loaded)
		return
	}
	for range 20 { // a thread of this process may take the number
		require.NoError(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0))
		p, loaded := start()
		if p.PID() == pid {
			require.Equal(t, path, loaded)
			return
		}
		p.Signal(os.Kill)
	}
	require.Fail(t, "no process gets the number")
}
