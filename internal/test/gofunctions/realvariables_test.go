//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// coder is a program that decodes and encodes objects.
const coder = `package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

type order struct {
	ID    int               ` + "`json:\"id\"`" + `
	Items []item            ` + "`json:\"items,omitempty\"`" + `
	Tags  map[string]string ` + "`json:\"tags\"`" + `
	At    time.Time         ` + "`json:\"at\"`" + `
	Next  *order            ` + "`json:\"next\"`" + `
	Any   any
}

type item struct {
	Name  string
	Price float64
	Raw   json.RawMessage
}

func main() {
	text := ` + "`{\"id\":7,\"items\":[{\"Name\":\"a\\u00e9<b>\",\"Price\":1.5e3,\"Raw\":{\"x\":[1,2]}},{\"Name\":\"c\"}],\"tags\":{\"k\":\"v\"},\"at\":\"2026-01-02T03:04:05Z\",\"next\":{\"id\":8},\"Any\":[1,\"x\",null,{\"y\":true}]}`" + `
	for range 20 {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		out, err := json.MarshalIndent(&o, "", " ")
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, len(out))
		_ = json.Unmarshal([]byte("{\"id\":true"), &o)
	}
}
`

// realLines are lines of a file of a program.
func realLines(t *testing.T, path string, files []string) (specs []string) {
	t.Helper()
	for _, file := range files {
		out, err := exec.Command(stapsdt(t), "list", "-o", "json", path, fmt.Sprintf("go:%s:1-100000", file)).Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			var p place
			require.NoError(t, json.Unmarshal([]byte(line), &p))
			specs = append(specs, "go:"+p.Probe)
		}
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

// TestRealVariables: no variable without a mark has a wrong value at a thousand random lines of real programs. The truth is what the
// programs do without optimization.
func TestRealVariables(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.Long(t, "it traces a thousand lines of two programs")
	input := filepath.Join(t.TempDir(), "input.go")
	require.NoError(t, os.WriteFile(input, []byte(counted), 0o600))
	gofmt := func(flags ...string) string {
		path := filepath.Join(t.TempDir(), "gofmt")
		out, err := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "cmd/gofmt")...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return path
	}
	const unoptimized = "-gcflags=all=-N -l"
	var total comparison
	for name, p := range map[string]struct {
		truth, path string
		args        []string
		files       []string
	}{
		"gofmt": {gofmt(unoptimized), gofmt(), []string{input}, []string{
			"go/parser/parser.go", "go/parser/resolver.go", "go/printer/nodes.go", "go/printer/printer.go", "go/scanner/scanner.go", "go/token/position.go", "text/tabwriter/tabwriter.go", "cmd/gofmt/gofmt.go",
		}},
		"json": {build(t, coder, nil, unoptimized), build(t, coder, nil), nil, []string{
			"encoding/json/decode.go", "encoding/json/encode.go", "encoding/json/scanner.go", "encoding/json/indent.go", "reflect/value.go", "strconv/atof.go", "time/format_rfc3339.go", "fmt/print.go",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			known := realLines(t, p.truth, p.files)
			lines := slices.DeleteFunc(realLines(t, p.path, p.files), func(s string) bool { return !slices.Contains(known, s) })
			random := rand.New(rand.NewPCG(79, 1))
			random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			lines = lines[:min(len(lines), 1000)]
			run := func(path string) map[moment][]variables {
				c := tracetest.Command(t, exec.Command(stapsdt(t), slices.Concat([]string{"trace", "-o", "json", "--budget", "100%"}, lines, []string{"--", path}, p.args)...))
				require.NoError(t, c.Wait(testenv.Patience), "%s", c.Dump())
				all := map[moment][]variables{}
				for _, line := range c.Lines() {
					if !strings.HasPrefix(line, `{"time"`) {
						continue // the program prints too
					}
					v := variablesOf(t, line)
					all[moment{v.Probe, 0}] = append(all[moment{v.Probe, 0}], v)
				}
				return all
			}
			truth, got := run(p.truth), run(p.path)
			equal := map[moment][]variables{}
			for at, events := range got {
				if len(events) == len(truth[at]) {
					equal[at] = events
				}
			}
			c := compare(t, "", truth, equal)
			t.Logf("%d lines, %d with equal numbers of events: %v", len(got), len(equal), &c)
			total.add(c)
		})
	}
	require.Greater(t, total.right, 10000)
}
