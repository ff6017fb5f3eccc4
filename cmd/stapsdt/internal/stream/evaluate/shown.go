package evaluate

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
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

// Named is a value with its name, which is formatted if it is shown.
type Named struct {
	Name string
	Value
}

// Show formats the value.
func (n *Named) Show() Shown { return Show(n.Name, &n.Value) }

// ShowAll formats all values.
func ShowAll(all []Named) (shown []Shown) {
	for i := range all {
		shown = append(shown, all[i].Show())
	}
	return shown
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

// ArgItems describes the arguments of a probe that are not hidden. Strings are cut to textSize
// bytes.
func ArgItems(p *recording.Probe, textSize int) (items []value.Item) {
	for i, v := range Variables(p)[:len(p.Args)-p.Hidden] {
		item := value.Item{Name: v.Name, Type: v.Type, TextSize: textSize}
		item.Bare = p.Args[i].Bare
		items = append(items, item)
	}
	return items
}

// Arguments describes the arguments of each probe that had events.
type Arguments map[*recording.Probe][]value.Item

// Forget removes probes.
func (a Arguments) Forget(all []*recording.Probe) {
	for _, p := range all {
		delete(a, p)
	}
}

// Of returns the arguments of an event, except for the arguments named in without.
func (a Arguments) Of(e *recording.Event, without ...string) (all []Named) {
	items, known := a[e.Probe]
	if !known {
		items = ArgItems(e.Probe, TextSize)
		a[e.Probe] = items
	}
	for i := range items {
		if item := &items[i]; !slices.Contains(without, item.Name) {
			all = append(all, Named{item.Name, argument(item, e, i)})
		}
	}
	return all
}
