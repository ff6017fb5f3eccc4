//go:build linux && (amd64 || arm64)

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestGuideTesting runs the guide's tests, and one that fails as the guide says.
func TestGuideTesting(t *testing.T) {
	testenv.Long(t, "it builds programs")
	testenv.NeedsTool(t, "go", "golang")
	g := readGuide(t, "testing.md")
	code := func(text string) string { return strings.Join(g.find(t, text).lines, "\n") + "\n" }
	write := func(name, text string) { require.NoError(t, os.WriteFile(g.dir+"/"+name, []byte(text), 0o600)) }
	write("shop.go", code("Package shop sells things."))
	first := code("func TestOrder")
	write("order_test.go", first)
	for name, test := range map[string]string{
		"elapsed_test.go": "func TestElapsed", "background_test.go": "func TestBackground",
		"bubble_test.go": "func TestBubble", "bench_test.go": "func BenchmarkOrderObserved",
	} {
		write(name, code(test))
	}
	g.inModule(t, "example.com/shop", "go vet .")
	out := g.run(t, "go test -v -bench . -benchtime 10x .")
	for _, name := range []string{"TestOrder", "TestElapsed", "TestBackground", "TestBubble"} {
		require.Contains(t, out, "--- PASS: "+name+" ")
	}
	require.Contains(t, out, "BenchmarkOrderObserved")

	write("order_test.go", strings.Replace(first, `orderEnd.Fire("tea", 0, "")`, `orderEnd.Fire("tea", 0, "sold out")`, 1))
	out = g.run(t, "go test -run TestOrder . || true")
	elapsed := regexp.MustCompile(`elapsed=[1-9][\d.]*ms`)
	squeeze := func(s string) string {
		return strings.Join(strings.Fields(elapsed.ReplaceAllString(s, "elapsed=TIME")), " ")
	}
	require.Contains(t, squeeze(out), squeeze(code("the events of shop differ")))
}
