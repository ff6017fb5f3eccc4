//go:build linux

// Package objects checks what the command prints with -o json. It is not a part of package tracetest, because tests of other modules
// import that, and do not require the validator.
package objects

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// Decode decodes a line that the command has printed with -o json, for which it calls Check.
func Decode(t testing.TB, line string, into any) {
	t.Helper()
	Check(t, line)
	require.NoError(t, json.Unmarshal([]byte(line), into), line)
}

// Check requires that the schema that "stapsdt help json" prints describes a line. It is a schema for a validator of others,
// too. TestObjects of the command sees each of its members.
func Check(t testing.TB, line string) {
	t.Helper()
	known.once.Do(func() {
		known.schema, known.err = compileSchema(exec.Command(tracetest.Stapsdt(t), "help", "json"))
	})
	require.NoError(t, known.err)
	object, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	require.NoError(t, err, line)
	require.NoError(t, known.schema.Validate(object), line)
}

// known is the schema of the objects.
var known struct {
	once   sync.Once
	schema *jsonschema.Schema
	err    error
}

func compileSchema(print *exec.Cmd) (*jsonschema.Schema, error) {
	text, err := print.Output()
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("objects.json", document); err != nil {
		return nil, err
	}
	return c.Compile("objects.json")
}
