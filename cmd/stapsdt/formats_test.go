//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"

	"github.com/stretchr/testify/require"
)

// isFormat reports whether an output is in the format of a word of -o.
func isFormat(t *testing.T, word string, out []byte) bool {
	switch word {
	case query.Text.Word():
		line, _, _ := bytes.Cut(out, []byte("\n"))
		return len(line) > 0 && !json.Valid(line)
	case query.JSON.Word():
		for line := range bytes.Lines(out) {
			if !json.Valid(line) {
				return false
			}
		}
		return len(out) > 0
	case query.CSV.Word():
		records, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		return err == nil && len(records) > 1 && len(records[0]) > 1
	}
	require.Contains(t, outfile.Timelines, word, "a format that this test does not know")
	return strings.HasPrefix(string(out), outfile.Timelines[word])
}

// TestFormats: every verb prints each format of its -o, and names it in its help.
func TestFormats(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, crossing(false, ""), 0o600))
	t.Setenv("STAPSDT_DIR", dir)
	provider := stapsdt.NewProvider("formats")
	stapsdt.NewProbe0(provider, "one")
	require.NoError(t, provider.Load())
	defer provider.Close()
	args := map[string][]string{
		"hist": {"*:*", "id", "--from", path}, "clean": {"-v", "--dry-run", dir},
		"list": {"--from", path}, "postmortem": {path}, "doctor": {"-v", "-p", strconv.Itoa(os.Getpid())},
	}
	for _, verb := range []string{"trace", "count", "latency", "top", "tree"} {
		args[verb] = []string{"*:*", "--from", path}
	}
	for _, c := range rootCommand(&console.Console{}).Commands() {
		flag := c.Flags().Lookup("output")
		if flag == nil || c.Name() == "stack" { // which has a test of its own
			continue
		}
		complete, found := c.GetFlagCompletionFunc("output")
		require.True(t, found, c.Name())
		words, _ := complete(c, nil, "")
		require.Contains(t, words, flag.DefValue, c.Name())
		for _, word := range words {
			require.Contains(t, strings.FieldsFunc(flag.Usage, isPunctuation), word, c.Name())
			require.Contains(t, args, c.Name(), "a verb that this test does not know")
			line := append([]string{c.Name(), "-o", word}, args[c.Name()]...)
			if outfile.Timelines[word] != "" {
				line = append(line, "-O", "-")
			}
			var out, problem bytes.Buffer
			execute(line, &out, &problem)
			require.True(t, isFormat(t, word, out.Bytes()), "%v: %s%s", line, &out, &problem)
			requireObjects(t, line, out.String())
		}
	}
}

func isPunctuation(r rune) bool { return strings.ContainsRune(" ,:", r) }
