//go:build linux && (amd64 || arm64)

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// ofD is a definition in D with arguments of every kind.
const ofD = `typedef enum { LOW, HIGH } level_t;
provider generated {
	probe request__done(string path, int status, pid_t pid, uint64_t bytes, const char *agent, bool cached);
	probe numbers(int8_t a, unsigned short b, unsigned c, long d, long long e, level_t level, size_t size, double load, struct conn *conn);
	probe idle();
};
`

// fromD fires each probe of ofD once for each line that it reads. The directive does not begin a
// line here, because it would be one of this file.
const fromD = `package main

` + "//go:generate stapsdt generate ofd.d" + `

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	if err := GeneratedProvider.Load(); err != nil {
		panic(err)
	}
	fmt.Println("ready", GeneratedProvider.Path())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		RequestDone.Fire("/item", -1, 7, 1<<40, "curl", true)
		Numbers.Fire(NumbersArgs{A: -1, B: 2, C: 3, D: -4, E: -5, Level: 1, Size: 6, Load: 0.5})
		Idle.Fire()
	}
}
`

// startGenerated builds and starts a program whose probes are generated. It returns their image.
func startGenerated(t *testing.T) (p *tracetest.Process, image string) {
	t.Helper()
	dir := t.TempDir()
	root := tracetest.Must(filepath.Abs("../../.."))(t)
	for name, text := range map[string]string{"ofd.d": ofD, "main.go": fromD} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const build = `go mod init generated; go mod edit -replace github.com/go-stapsdt/stapsdt="$1"; go generate; go mod tidy; go vet; go build -o program .`
	cmd := exec.Command("sh", "-ec", build, "sh", root)
	cmd.Dir = dir
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(stapsdt(t), filepath.Join(bin, "stapsdt")))
	cmd.Env = append(os.Environ(), "GOWORK=off", "PATH="+bin+":"+os.Getenv("PATH"))
	runTool(t, cmd)
	program := exec.Command(filepath.Join(dir, "program"))
	program.Env = append(os.Environ(), "STAPSDT_DIR="+t.TempDir())
	p = tracetest.Command(t, program)
	return p, p.Expect("ready ", testenv.Patience)
}

// TestGenerate: tracers see the names, the types and the values of probes that were generated.
func TestGenerate(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it builds a program")
	p, image := startGenerated(t)
	require.Equal(t, image+" (process "+pid(p)+`)
  generated:idle()
  generated:numbers(a int8, b uint16, c uint32, d int, e int64, level int32, size uint, load float64, conn unsafe.Pointer)
  generated:request__done(path string, status int32, pid int32, bytes uint64, agent string, cached bool)
`, runCommand(t, "list", "-p", pid(p)).stdout)

	tr := startTrace(t, p, "trace", "-o", "json", "-p", pid(p), "generated:*")
	tell(p, "fire")
	events := map[string]map[string]any{}
	for _, e := range tr.stop() {
		events[e.Probe] = e.Args
	}
	require.Equal(t, map[string]map[string]any{
		"request__done": {"path": "/item", "status": -1., "pid": 7., "bytes": float64(1 << 40), "agent": "curl", "cached": true},
		"numbers":       {"a": -1., "b": 2., "c": 3., "d": -4., "e": -5., "level": 1., "size": 6., "load": 0.5, "conn": "0x0"},
		"idle":          {},
	}, events)

	b := tracetest.Bpftrace(t, "uprobe:"+image+`:request__done { printf("%s %d %s %d\n", str(args->path), args->status, str(args->agent), args->cached); }`)
	tell(p, "fire")
	require.Equal(t, []string{"/item -1 curl 1"}, b.WaitLines(1, testenv.Patience))
	b.Stop()
}
