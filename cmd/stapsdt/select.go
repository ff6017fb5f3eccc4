//go:build linux

package main

import (
	"fmt"
	"os/user"
	"path"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/program"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rules"

	"github.com/cilium/ebpf"
)

// conditions returns what a rule asks of an event, apart from the control group.
func conditions(s *rules.Select, where string) (all []string, err error) {
	if s.User != "" {
		uid, err := userNumber(s.User)
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("uid == %d", uid))
	}
	if s.Executable != "" {
		all = append(all, matches("executable", s.Executable))
	}
	return append(all, splitWhere(where)...), nil
}

func userNumber(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no user %q here: give the number", name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(uid), err
}

// matches returns a condition that a variable matches a pattern, which has a * at its beginning
// and its end at most.
func matches(variable, pattern string) string {
	text := strings.Trim(pattern, "*")
	before, after := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	switch {
	case text == "":
		return "true"
	case before && after:
		return fmt.Sprintf("strings.Contains(%s, %q)", variable, text)
	case before:
		return fmt.Sprintf("strings.HasSuffix(%s, %q)", variable, text)
	case after:
		return fmt.Sprintf("strings.HasPrefix(%s, %q)", variable, text)
	}
	return fmt.Sprintf("%s == %q", variable, text)
}

// conjunction returns one condition for several.
func conjunction(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return "(" + strings.Join(all, ") && (") + ")"
}

// groupSet is the set of the control groups that match a pattern.
type groupSet struct {
	pattern string
	set     *ebpf.Map
}

func newGroupSet(pattern string, groups *cgroup.Groups) (*groupSet, error) {
	set, err := program.NewCgroups()
	if err != nil {
		return nil, program.MapError(err)
	}
	g := &groupSet{pattern: pattern, set: set}
	return g, g.update(groups.All())
}

// update adds groups that are new, and removes those that are gone. It may be nil.
func (g *groupSet) update(now map[uint64]string) error {
	if g == nil {
		return nil
	}
	var id uint64
	var value uint8
	var gone []uint64
	for entries := g.set.Iterate(); entries.Next(&id, &value); {
		if _, ok := now[id]; !ok {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		_ = g.set.Delete(id)
	}
	for id, path := range now {
		if !g.match(path) {
			continue
		}
		if err := g.set.Put(id, uint8(1)); err != nil {
			return fmt.Errorf("more control groups match %q than can be told apart: %w", g.pattern, err)
		}
	}
	return nil
}

// match reports whether a path matches, where * matches slashes too.
func (g *groupSet) match(name string) bool {
	const slash = "\x01" // is not special, and in no path
	ok, _ := path.Match(strings.ReplaceAll(g.pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok
}

func (g *groupSet) close() {
	if g != nil {
		g.set.Close()
	}
}
