//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCompletion: the shell completes probes, their arguments, files and processes.
func TestCompletion(t *testing.T) {
	t.Setenv("STAPSDT_DIR", t.TempDir())
	provider := stapsdt.NewProvider("completed")
	stapsdt.NewProbe2[string, int32](provider, "request__done", "path", "status")
	stapsdt.NewProbe1[uint64](provider, "query__start", "id")
	stapsdt.NewProbe1[uint64](provider, "query__end", "id")
	require.NoError(t, provider.Load())
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
		assert.Contains(t, got, done, verb)
		assert.Contains(t, got, end, verb)
		assert.Equal(t, noFiles, directive, verb)
		got, _ = completed(t, verb, "-p", me, file+":")
		assert.Contains(t, got, file+":"+done, "%s %s", verb, file)
		got, directive = completed(t, verb, "")
		assert.Empty(t, got, verb)
		assert.Equal(t, files, directive, verb)
	}
	got, _ := completed(t, "hist", "-p", me, "completed:request__done", "")
	assert.Equal(t, []string{"path\tstring", "status\tint32"}, got, "the arguments")
	for _, flag := range []string{"--where", "--by", "--sum"} {
		got, directive := completed(t, "count", "-p", me, "completed:request__done", flag, "path==\"/\"&&st")
		assert.Equal(t, []string{"path==\"/\"&&status\tint32"}, got, flag)
		assert.Equal(t, ":6", directive, flag)
	}
	want := fmt.Sprintf("%s\t%s: completed", me, strings.TrimSpace(read(t, "/proc/self/comm")))
	got, directive := completed(t, "trace", "-p", "")
	assert.Contains(t, got, want)
	assert.Equal(t, noFiles, directive)
	for _, verb := range []string{"top", "tree"} {
		got, directive = completed(t, verb, "-p", me, "")
		assert.Equal(t, []string{"completed:query\t(id uint64)"}, got, "operations, and no probes")
		assert.Equal(t, noFiles, directive)
	}
	got, _ = completed(t, "list", "-p", "1,")
	assert.Contains(t, got, "1,"+want)
	recorder, err := proberec.Create(filepath.Join(t.TempDir(), "recording"), 1<<20, provider)
	require.NoError(t, err)
	defer recorder.Close()
	recorder.Start()
	for _, verb := range []string{"trace", "count", "latency", "hist"} {
		got, directive = completed(t, verb, "--from", recorder.Path(), "")
		assert.Contains(t, got, done, verb)
		assert.Contains(t, got, end, verb)
		assert.Equal(t, noFiles, directive, verb)
	}
	got, _ = completed(t, "tree", "--from", recorder.Path(), "")
	assert.Equal(t, []string{"completed:query\t(id uint64)"}, got)
	got, _ = completed(t, "hist", "--from", recorder.Path(), "completed:request__done", "")
	assert.Equal(t, []string{"path\tstring", "status\tint32"}, got)
	got, _ = completed(t, "count", "--from", recorder.Path(), "completed:request__done", "--by", "st")
	assert.Equal(t, []string{"status\tint32"}, got)
	got, _ = completed(t, "trace", "--from", t.TempDir(), "")
	assert.Empty(t, got, "it is no recording")
	provider.Unload()
	got, _ = completed(t, "trace", "-p", "")
	assert.NotContains(t, got, want, "a process without probes")
}
