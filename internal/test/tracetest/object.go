package tracetest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// DecodeObject decodes a line that the command has printed with -o json, for which it calls CheckObject.
func DecodeObject(t testing.TB, line string, into any) {
	t.Helper()
	CheckObject(t, line)
	require.NoError(t, json.Unmarshal([]byte(line), into), line)
}

// CheckObject requires that the schema that "stapsdt help json" prints describes a line. It is a schema for a validator of others,
// too. TestObjects of the command sees each of its members.
func CheckObject(t testing.TB, line string) {
	t.Helper()
	objects.once.Do(func() {
		objects.schema, objects.err = compileSchema(exec.Command(Stapsdt(t), "help", "json"))
	})
	require.NoError(t, objects.err)
	object, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	require.NoError(t, err, line)
	require.NoError(t, objects.schema.Validate(object), line)
}

// objects is the schema of the objects.
var objects struct {
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
