// Package paired gives the ends of operations values of their starts: the time since then, and the
// arguments of the start.
package paired

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// names are the names that the expressions of a command use. It is a replay.Pairing.
type names []string

// Of returns the Pairing for the expressions of a command and a condition, or nil if these use
// nothing that an end could have from its start.
func Of(n *replay.Needs, where string) replay.Pairing {
	if !n.Starts {
		return nil
	}
	all := names(expr.Names(append(slices.Clone(n.Exprs), where)...))
	if !query.UsesStart(all) {
		return nil
	}
	return all
}

// Complete implements replay.Pairing.
func (n names) Complete(p *recording.Probe, all []*recording.Probe) *recording.Probe {
	own := map[string]bool{}
	for _, v := range evaluate.Variables(p) {
		own[v.Name] = true
	}
	isOwn := func(name string) bool { return own[name] }
	if !slices.ContainsFunc(n, func(name string) bool { return !own[name] }) {
		return p
	}
	start := startOf(p, all)
	if start == nil || len(start.Args) == 0 || len(p.Args) == 0 {
		return p
	}
	ofStart := func(name string) bool { return argument(start, name) != nil }
	lacking := query.Lacking(n, isOwn, ofStart)
	if len(lacking) == 0 {
		return p
	}
	completed := *p
	completed.Args = slices.Clone(p.Args)
	if slices.Contains(lacking, query.ElapsedName) {
		of := query.Elapsed
		completed.Args = append(completed.Args, recording.Arg{
			Name: query.ElapsedName, Type: of.Kind.Type(of.Size), Kind: kind.Of(of.Kind, of.Unit),
		})
	}
	for _, name := range lacking {
		if name != query.ElapsedName {
			a := *argument(start, strings.TrimPrefix(name, query.StartPrefix))
			a.Name = name
			completed.Args = append(completed.Args, a)
			completed.Hidden++
		}
	}
	return &completed
}

// argument returns the argument of a probe with a name, or nil.
func argument(p *recording.Probe, name string) *recording.Arg {
	i := slices.IndexFunc(p.Args, func(a recording.Arg) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Args[i]
}

// startOf returns the start of the operations that a probe ends, or nil.
func startOf(end *recording.Probe, all []*recording.Probe) *recording.Probe {
	operation, isStart := spec.NameOf(end.Name)
	if operation == "" || isStart {
		return nil
	}
	for _, p := range all {
		if isSide(p, end, operation, true) {
			return p
		}
	}
	return nil
}

// Sides implements replay.Pairing.
func (n names) Sides(p *recording.Probe, all []*recording.Probe) (sides []*recording.Probe) {
	operation, isStart := spec.NameOf(p.Name)
	if operation == "" {
		return nil
	}
	for _, other := range all {
		if isSide(other, p, operation, !isStart) {
			sides = append(sides, other)
		}
	}
	return sides
}

// isSide reports whether a probe starts, or ends, the operation that another probe has.
func isSide(p, other *recording.Probe, operation string, start bool) bool {
	if p.Provider != other.Provider || p.PID != other.PID || !strings.HasPrefix(p.Name, operation) {
		return false
	}
	name, isStart := spec.NameOf(p.Name)
	return name == operation && isStart == start
}

// Explain implements replay.Pairing.
func (n names) Explain(err error, p *recording.Probe, all []*recording.Probe) error {
	var wrong *expr.Error
	start := startOf(p, all)
	if start == nil || !errors.As(err, &wrong) {
		return err
	}
	name := query.Undefined(wrong)
	if _, prefixed := query.OfStart(name); !prefixed && name != query.ElapsedName {
		return err
	}
	with := *wrong
	with.Msg = "undefined: " + name + "; " + reason(p, start)
	explained := fmt.Errorf("%s:%s: %w", p.Provider, p.Name, &with)
	if errors.Is(err, query.ErrUsage) {
		return query.Usagef("%w", explained)
	}
	return explained
}

// reason returns the reason why an end lacks a value of its start.
func reason(p, start *recording.Probe) string {
	if len(start.Args) == 0 || len(p.Args) == 0 {
		return "the start and the end have no first argument that pairs them"
	}
	var known []string
	for _, a := range start.Args {
		known = append(known, a.Name)
	}
	return "the arguments of the start are " + strings.Join(known, ", ")
}
