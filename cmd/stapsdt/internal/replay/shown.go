//go:build linux

package replay

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Shown is a named value, formatted for people and for programs.
type Shown struct {
	Name, Text string
	JSON       json.RawMessage // nil if the value is unknown
}

// Show formats a value.
func Show(name string, v *Value) Shown {
	if v.Item == nil {
		return Shown{Name: name, Text: "-"}
	}
	return Shown{Name: name, Text: v.ForText(), JSON: v.ForJSON()}
}

// String returns NAME=VALUE.
func (s *Shown) String() string { return render.Printable(s.Name) + "=" + s.Text }

// Join formats all values as NAME=VALUE, separated by spaces.
func Join(all []Shown) string {
	var texts []string
	for i := range all {
		texts = append(texts, all[i].String())
	}
	return strings.Join(texts, " ")
}

// Object returns the known values as a JSON object.
func Object(all []Shown) (o render.JSONObject) {
	for _, s := range all {
		if s.JSON != nil {
			o.Names, o.Values = append(o.Names, s.Name), append(o.Values, s.JSON)
		}
	}
	return o
}

// ArgItems describes the arguments of a probe. Strings are cut to textSize bytes.
func ArgItems(p *recording.Probe, textSize int) (items []layout.Item) {
	for i, v := range Variables(p)[:len(p.Args)] {
		item := layout.Item{Name: v.Name, Type: v.Type, TextSize: textSize}
		if p.Args[i].Kind == recording.Pointer {
			item.Described = Pointer
		}
		items = append(items, item)
	}
	return items
}

// Arguments formats the arguments of the events of a probe.
type Arguments struct {
	*Evaluator
	items []layout.Item
}

// NewArguments returns the Arguments of a probe. Strings are cut to textSize bytes.
func NewArguments(p *recording.Probe, textSize int) *Arguments {
	return &Arguments{Evaluator: NewEvaluator(p), items: ArgItems(p, textSize)}
}

// Show formats the arguments of an event, except for the arguments named in without.
func (a *Arguments) Show(e *recording.Event, without ...string) (all []Shown) {
	a.At(e)
	for i := range a.items {
		if item := &a.items[i]; !slices.Contains(without, item.Name) {
			v := a.Arg(i, item)
			all = append(all, Show(item.Name, &v))
		}
	}
	return all
}
