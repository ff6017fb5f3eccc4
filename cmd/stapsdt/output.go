//go:build linux

package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"

	"github.com/spf13/cobra"
)

// outputFlag is the flag of the commands that print text or JSON.
func outputFlag(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "text", "`FORMAT`: text, or json for one object per line")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return usagef("the output format %q is neither text nor json", output)
	}
	return nil
}

// newEncoder writes objects, one per line.
func newEncoder(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

// jsonObject returns an object with members of these names, whose values are JSON.
func jsonObject(names, values []string) string {
	members := make([]string, len(names))
	for i, name := range names {
		members[i] = string(render.AppendJSONString(nil, name)) + ":" + values[i]
	}
	return "{" + strings.Join(members, ",") + "}"
}

// unevaluated says how many events could not be evaluated.
func (t *tracing) unevaluated(stats program.Stats) {
	if n := stats.Unevaluated; n > 0 {
		t.warn("%d events are not included, because an expression could not be evaluated: memory that was not readable, a text that was cut, or a division by 0", n)
	}
	if n := stats.Foreign; n > 0 {
		t.warn("%d events are not included, because they were not fired by a goroutine of a program that is known", n)
	}
}
