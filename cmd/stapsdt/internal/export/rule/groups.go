//go:build linux

package rule

import (
	"fmt"
	"path"
	"strings"
)

// Regroup updates the set of the selected control groups, if the rule selects any: it adds new groups, and removes groups that
// no longer exist. now maps the ID of each group to its path. It is a problem if there is no room for all groups.
func (b *Base) Regroup(now map[uint64]string) {
	set := b.Env.Cgroups
	if set == nil {
		return
	}
	var id uint64
	var value uint8
	var gone []uint64
	for entries := set.Iterate(); entries.Next(&id, &value); {
		if _, ok := now[id]; !ok {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		_ = set.Delete(id)
	}
	var full error
	for id, path := range now {
		if !matches(b.cgroups, path) {
			continue
		}
		if err := set.Put(id, uint8(1)); err != nil {
			full = fmt.Errorf("more control groups match %q than can be told apart: %w", b.cgroups, err)
		}
	}
	if full != nil {
		b.Problem(full)
	}
}

// matches reports whether a path matches a pattern, where * matches slashes too.
func matches(pattern, name string) bool {
	const slash = "\x01" // is not special in a pattern, and occurs in no path
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok
}
