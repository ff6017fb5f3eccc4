//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
)

func TestCompletion(t *testing.T) {
	t.Setenv("STAPSDT_DIR", t.TempDir())
	provider := stapsdt.NewProvider("completed")
	stapsdt.NewProbe2[string, int32](provider, "request__done", "path", "status")
	stapsdt.NewProbe1[uint64](provider, "query__start", "id")
	stapsdt.NewProbe1[uint64](provider, "query__end", "id")
	if err := provider.Load(); err != nil {
		t.Fatal(err)
	}
	defer provider.Unload()
	file := ""
	for line := range strings.Lines(read(t, "/proc/self/maps")) {
		if at := strings.Index(line, "/"); at >= 0 && strings.Contains(line, "completed") {
			file = strings.TrimSpace(line[at:])
		}
	}
	const noFiles, files = ":4", ":2"
	me := strconv.Itoa(os.Getpid())
	done, end := "completed:request__done\t(path string, status int32)", "completed:query__end\t(id uint64)"
	for _, verb := range []string{"trace", "count", "latency", "stack", "script", "hist", "doctor"} {
		got, directive := completed(t, verb, "-p", me, "")
		if !slices.Contains(got, done) || !slices.Contains(got, end) || directive != noFiles {
			t.Errorf("%s: %q %s", verb, got, directive)
		}
		got, _ = completed(t, verb, "-p", me, file+":")
		if !slices.Contains(got, file+":"+done) {
			t.Errorf("%s %s: %q", verb, file, got)
		}
		if got, directive = completed(t, verb, ""); len(got) > 0 || directive != files {
			t.Errorf("%s: %q %s", verb, got, directive)
		}
	}
	if got, _ := completed(t, "hist", "-p", me, "completed:request__done", ""); !slices.Equal(got, []string{"path\tstring", "status\tint32"}) {
		t.Errorf("the arguments: %q", got)
	}
	want := fmt.Sprintf("%s\t%s: completed", me, strings.TrimSpace(read(t, "/proc/self/comm")))
	got, directive := completed(t, "trace", "-p", "")
	if !slices.Contains(got, want) || directive != noFiles {
		t.Errorf("%q is not in %q", want, got)
	}
	if got, _ := completed(t, "list", "-p", "1,"); !slices.Contains(got, "1,"+want) {
		t.Errorf("%q", got)
	}
	provider.Unload()
	if got, _ := completed(t, "trace", "-p", ""); slices.Contains(got, want) {
		t.Errorf("a process without probes: %q", got)
	}
}
