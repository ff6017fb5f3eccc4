package postmortem

import (
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// plain matches a word that a shell takes as it is.
var plain = lazyregexp.New(`^[A-Za-z0-9_./:@%+,=-]+$`)

// word returns a word for a shell.
func word(text string) string {
	if plain().MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(render.Printable(text), "'", `'\''`) + "'"
}

// reads returns the command line of a verb that reads the recording.
func (r *report) reads(verb string, more ...string) string {
	words := []string{"stapsdt", verb}
	if r.container != nil {
		words = []string{"kubectl", "stapsdt", verb, word(r.container.Pod)}
	}
	words = append(append(words, "--from", word(r.path)), more...)
	return strings.Join(words, " ")
}

// commands returns the commands that show more.
func (r *report) commands() (all []string) {
	if r.known+r.unknown > 0 {
		all = append(all, r.reads("top"))
	} else if len(r.operations.Kinds()) > 0 {
		all = append(all, r.reads("tree", "--slowest", "3"))
	} else if r.events > 0 {
		all = append(all, r.reads("count", "'*:*'"))
	}
	if r.failed > 0 && len(r.operations.Kinds()) > 0 {
		all = append(all, r.reads("tree", "--errors"))
	}
	if r.events > 0 {
		all = append(all, r.reads("trace", "--since", "1s"))
	}
	return all
}

// treeOf returns the command that shows the whole tree of an operation.
func (r *report) treeOf(o *pairing.Operation) string {
	return r.reads("tree", "--request", word(o.Key.ForText()))
}
