//go:build linux

package rule

import (
	"fmt"
	"path"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/bpf"

	"github.com/cilium/ebpf"
)

// groups is the set of the control groups that match a pattern.
type groups struct {
	pattern string
	set     *ebpf.Map
}

func newGroups(pattern string) (*groups, error) {
	set, err := bpf.NewCgroups()
	if err != nil {
		return nil, bpf.MapError(err)
	}
	return &groups{pattern, set}, nil
}

// update adds new groups, and removes groups that no longer exist. It returns an error if there is no room for all
// groups. g may be nil.
func (g *groups) update(now map[uint64]string) (err error) {
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
		if full := g.set.Put(id, uint8(1)); full != nil {
			err = fmt.Errorf("more control groups match %q than can be told apart: %w", g.pattern, full)
		}
	}
	return err
}

// match reports whether a path matches, where * matches slashes too.
func (g *groups) match(name string) bool {
	const slash = "\x01" // is not special in a pattern, and occurs in no path
	ok, _ := path.Match(strings.ReplaceAll(g.pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok
}

func (g *groups) close() {
	if g != nil {
		g.set.Close()
	}
}
