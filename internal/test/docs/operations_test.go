//go:build linux && (amd64 || arm64)

package docs_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

var (
	took   = regexp.MustCompile(`>?[0-9.]+(?:ns|µs|ms|s)\b`)
	figure = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?`)
	none   = regexp.MustCompile(`(^| )-( |$)`)
	rest   = regexp.MustCompile(` h[ost=]*….*$| host=.*$`)
	route  = regexp.MustCompile(`"(GET|POST) /[^"…]*["…]`)
)

// seen returns a line of top or tree without what differs from run to run: numbers, addresses, and what did not fit.
func seen(line string) string {
	line = rest.ReplaceAllString(line, "")
	line = route.ReplaceAllString(strings.TrimSpace(line), "$1")
	line = figure.ReplaceAllString(took.ReplaceAllString(line, "1"), "1")
	for none.MatchString(line) {
		line = none.ReplaceAllString(line, "${1}1$2")
	}
	return strings.Join(strings.Fields(line), " ")
}

// TestOperations follows docs/operations.md: its commands look at the shop, to which its requests are sent.
func TestOperations(t *testing.T) {
	testenv.Long(t, "the requests have to be made in the three seconds that the guide's commands take")
	needs(t, "curl", "jq")
	buildCommand(t)
	d := module(t, "http")
	d.run(t, "go build -o shop .")
	p := d.start(t, "./shop -listen localhost:0 -db "+t.TempDir()+"/shop.db")
	serves := p.WaitMatch(regexp.MustCompile(`^process (\d+) serves http://(.*)`), testenv.Patience)
	g := readGuide(t, "operations.md")
	g.dir = d.dir
	g.replace = strings.NewReplacer("-p shop", "-p "+serves[1], "localhost:8080", serves[2], "127.0.0.1:8080", serves[2])
	requests := g.replace.Replace(strings.Join(g.find(t, "for i in $(seq 40)").lines, "\n"))
	traced := regexp.MustCompile(`"traced":true`)
	// The first request for an item that exists makes it.
	d.run(t, "curl -sS -o /dev/null -X POST 'http://"+serves[2]+"/items?name=pear'")
	for _, command := range []string{
		"top -p shop -n 1 -i 3s", "--by route,status", "-o json | jq -r '.longest", "tree -p shop -n 1 -w", "--errors", "--slowest 1", "-o chrome",
	} {
		t.Run(command, func(t *testing.T) {
			c := g.find(t, command).consoles()[0]
			look := startGroup(t, g.dir, "exec 2>&1; "+g.replace.Replace(c.command))
			before := 0
			require.Eventually(t, func() bool { // all probes are: their number stays
				now := len(traced.FindAllString(d.run(t, "stapsdt list -o json -p "+serves[1]), -1))
				same := now == before && now > 0
				before = now
				return same
			}, testenv.Patience, 100*time.Millisecond)
			load := exec.Command("bash", "-c", requests)
			require.NoError(t, load.Start())
			defer func() { require.NoError(t, load.Wait()) }()
			require.NoError(t, look.Wait(testenv.Patience))
			c.output = slices.DeleteFunc(c.output, func(line string) bool { // the program keeps connections open
				return strings.Contains(line, "shop:dial") || strings.Contains(line, "began before")
			})
			require.Empty(t, c.missing(look.Lines(), seen), "is not among\n%s", strings.Join(look.Lines(), "\n"))
		})
	}
	text := readFile(t, g.dir+"/shop.json")
	require.True(t, json.Valid([]byte(text)))
	require.Contains(t, text, `"name":"shop:order"`)
}
