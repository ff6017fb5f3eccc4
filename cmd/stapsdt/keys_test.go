//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"

	"github.com/stretchr/testify/require"
)

// links fires the events of a pooler, which links clients to servers. No part of a key tells two links apart.
type links struct {
	provider *stapsdt.Provider
	start    *stapsdt.Probe4[string, string, uint32, string]
	end      *stapsdt.Probe4[string, string, uint32, string]
}

func newLinks(t *testing.T) *links {
	l := &links{provider: stapsdt.NewProvider("pool")}
	l.start = stapsdt.NewProbe4[string, string, uint32, string](l.provider, "link__start", "client", "zone", "port", "server")
	l.end = stapsdt.NewProbe4[string, string, uint32, string](l.provider, "link__end", "client", "zone", "port", "error")
	require.NoError(t, l.provider.Load())
	t.Cleanup(func() { require.NoError(t, l.provider.Close()) })
	return l
}

// fire makes 63 times three links at once, leaves one open, and ends one that it has not begun.
func (l *links) fire() {
	for range 63 {
		l.start.Fire("a", "bc", 5000, "s")
		l.start.Fire("ab", "c", 5000, "s")
		l.start.Fire("a", "bc", 5001, "s")
		l.end.Fire("a", "bc", 5000, "")
		l.end.Fire("ab", "c", 5000, "")
		l.end.Fire("a", "bc", 5001, "")
	}
	l.start.Fire("x", "y", 7, "s")
	l.end.Fire("y", "x", 7, "")
}

// TestKeys: a key of several parts pairs what its parts alone confuse, in every verb and from every source.
func TestKeys(t *testing.T) {
	l := newLinks(t)
	file, page := openSources(t, l.fire, l.provider)
	pid := strconv.Itoa(os.Getpid())
	sources := map[string][]string{
		"file": {"--from", file}, "page": {page, "-v"}, "socket": {"-p", pid, "--via", "socket", "-v"},
	}
	if os.Getuid() == 0 {
		sources["kernel"] = []string{"-p", pid, "--via", "kernel", "-v"}
	}
	for name, source := range sources {
		run := func(verb string, args ...string) (objects []map[string]any) {
			args = slices.Concat([]string{verb}, source, args, []string{"-o", "json"})
			ready := announced.MatchString
			if name == "file" {
				ready = nil
			}
			for line := range strings.Lines(runSource(t, args, ready, l.fire)) {
				object := map[string]any{}
				require.NoError(t, json.Unmarshal([]byte(line), &object))
				objects = append(objects, object)
			}
			return objects
		}
		open := []any{"x", "y", 7.}
		for key, want := range map[string][]any{ // pairs, starts without an end, ends without a start, and the key of the open one
			"client,zone,port":      {189., 1., 1., open},
			"client,zone":           {126., 64., 64., open[:2]},
			"zone,port":             {189., 1., 1., []any{"y", 7.}},
			"port":                  {127., 63., 63., nil},
			"client,1000/len(zone)": {126., 64., 64., []any{"x", 1000.}},
		} {
			all := run("latency", "pool:link__start", "pool:link__end", "--key", key)
			require.Len(t, all, 2, "%s %s", name, key)
			u := all[1]
			var longest any
			if open := u["longest"].([]any); len(open) > 0 {
				longest = open[0].(map[string]any)["key"]
			}
			got := []any{all[0]["count"], u["starts_without_end"], u["ends_without_start"], longest}
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "%s %s", name, key)
		}
		all := run("latency", "pool:link", "--key", "client", "--key", "zone,port", "--by", "server", "-w", `server == "s" && error == ""`)
		require.Equal(t, []any{189., map[string]any{"server": "s"}}, []any{all[0]["count"], all[0]["by"]}, name)

		all = run("top", "pool:link", "--key", "client,zone,port", "-i", "1h")
		row, longest := all[0]["operations"].([]any)[0].(map[string]any), all[0]["longest"].([]any)
		require.Equal(t, []any{189., 1., 1.}, []any{row["count"], row["open"], all[0]["open"]}, name)
		require.Equal(t, open, longest[0].(map[string]any)["key"], name)

		all = run("tree", "pool:link", "--key", "client,zone,port", "--open")
		require.Len(t, all, 190, name)
		counts := map[string]int{}
		for _, tree := range all {
			root := tree["operations"].([]any)[0].(map[string]any)
			counts[fmt.Sprint(root["key"], root["ended"], root["args"], root["result"], root["id"])]++
		}
		require.Equal(t, map[string]int{
			"[a bc 5000] true map[server:s] map[] 0": 63, "[ab c 5000] true map[server:s] map[] 0": 63,
			"[a bc 5001] true map[server:s] map[] 0": 63, "[x y 7] false map[server:s] map[] 0": 1,
		}, counts, name)
	}
}
