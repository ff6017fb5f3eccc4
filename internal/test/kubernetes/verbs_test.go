//go:build linux

package kubernetes

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keepBusy makes requests of the service in a pod until the test is over.
func keepBusy(t testing.TB, p pod) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		for ; t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
			if err := requestItems(p); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(group.Wait)
}

// names returns the names of the operations.
func (o *operations) names() (all []string) {
	for _, one := range o.Operations {
		all = append(all, one.Operation)
	}
	return all
}

// requireTree requires that lines have one tree, of a request and its queries.
func requireTree(t *testing.T, lines []string) {
	t.Helper()
	trees := decode[operations](t, lines)
	require.Len(t, trees, 1)
	require.Equal(t, "shop:request", trees[0].Operation)
	require.Contains(t, trees[0].names(), "shop:query")
}

// TestVerbs: each verb shows a developer what a busy service does.
func TestVerbs(t *testing.T) {
	shop := startShop(t)[0]
	user := developer(t, "shop")
	keepBusy(t, shop)
	verb := func(name, rest string, check func(t *testing.T, lines []string)) {
		t.Run(name, func(t *testing.T) {
			check(t, output(t, user, "%s -n shop %s %s", name, shop.Metadata.Name, rest))
		})
	}
	verb("list", "", func(t *testing.T, lines []string) {
		require.Contains(t, strings.Join(lines, "\n"), "\n  shop:request__end(")
	})
	verb("trace", "shop:request__end --number 5 -o json", func(t *testing.T, lines []string) {
		require.Len(t, lines, 5)
		for _, e := range decode[event](t, lines) {
			require.Equal(t, "request__end", e.Probe)
			require.Equal(t, http.StatusOK, e.Args.Status)
		}
	})
	verb("count", "shop:* -d 1s -o json", func(t *testing.T, lines []string) {
		require.Positive(t, countsOfProbes(t, lines)["request__end"])
	})
	verb("hist", "shop:request__end nanoseconds -d 1s -o json", func(t *testing.T, lines []string) {
		rows := decode[struct{ P99 float64 }](t, lines)
		require.Len(t, rows, 1)
		require.Positive(t, rows[0].P99)
	})
	verb("latency", "shop:request -d 1s -o json", func(t *testing.T, lines []string) {
		rows := decode[struct {
			Start string
			Count int
		}](t, lines)
		require.NotEmpty(t, rows)
		require.Equal(t, "shop:request__start", rows[0].Start)
		require.Positive(t, rows[0].Count)
	})
	verb("top", "--number 1 -o json", func(t *testing.T, lines []string) {
		screens := decode[operations](t, lines)
		require.Len(t, screens, 1)
		require.Contains(t, screens[0].names(), "shop:request")
	})
	verb("tree", `-w path=="/items" --number 1 -o json`, requireTree)
	file := filepath.Join(t.TempDir(), "shop.rec")
	verb("record", "shop:* -d 1s -O "+file, func(t *testing.T, _ []string) {
		requireTree(t, read(t, file, "tree --slowest 1"))
	})
}
