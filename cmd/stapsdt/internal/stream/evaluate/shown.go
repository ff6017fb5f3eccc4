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

// Args are the arguments of a probe that are shown.
type Args []arg

type arg struct {
	index int
	item  value.Item
}

// NewArgs returns the arguments of a probe, except for the arguments named in without.
func NewArgs(p *recording.Probe, without ...string) (all Args) {
	for i, item := range ArgItems(p, TextSize) {
		if !slices.Contains(without, item.Name) {
			all = append(all, arg{i, item})
		}
	}
	return all
}

// Of returns the arguments of an event. It takes the memory of those of another.
func (a Args) Of(e *recording.Event, memory []Named) []Named {
	all := slices.Grow(memory[:0], len(a))[:len(a)]
	for i := range a {
		one := &a[i]
		all[i].Name = one.item.Name
		all[i].setArgument(&one.item, e, one.index)
	}
	return all
}

// Arguments describes the arguments of each probe that had events.
type Arguments map[*recording.Probe]Args

// Forget removes probes.
func (a Arguments) Forget(all []*recording.Probe) {
	for _, p := range all {
		delete(a, p)
	}
}

// Of returns the arguments of an event, except for the arguments named in without.
func (a Arguments) Of(e *recording.Event, without ...string) []Named {
	args, known := a[e.Probe]
	if !known {
		args = NewArgs(e.Probe)
		a[e.Probe] = args
	}
	return slices.DeleteFunc(args.Of(e, nil), func(one Named) bool {
		return slices.Contains(without, one.Name)
	})
}
