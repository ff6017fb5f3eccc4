package main

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schematest"

	"github.com/stretchr/testify/require"
)

// objectSchema returns the schema that "stapsdt help json" prints.
var objectSchema = sync.OnceValues(func() (*schematest.Schema, error) { return schematest.Parse(schemaText()) })

// requireObjects requires that a verb has printed what its schema describes, if its arguments
// have -o json.
func requireObjects(t *testing.T, args []string, out string) {
	t.Helper()
	at := slices.Index(args, "-o")
	if at < 0 || args[at+1] != "json" {
		return
	}
	s, err := objectSchema()
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		require.NoError(t, s.Check(args[0], line))
	}
}
