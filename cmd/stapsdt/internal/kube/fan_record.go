//go:build unix

package kube

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// record writes the recording of each pod to a file of its own, or the recording of the only pod to
// the file that the user has named.
func (f *fan) record(ctx context.Context, all []pod) error {
	s, path := &f.request.selection, f.request.values[fileFlag]
	info, err := os.Stat(path)
	isDirectory := strings.HasSuffix(path, "/") || err == nil && info.IsDir()
	switch {
	case !isDirectory && len(all) > 1:
		return query.Usagef("-O %s is one file, but %v has %d pods: give -O DIRECTORY/ for a recording of each", path, s, len(all))
	case isDirectory:
		if err := os.MkdirAll(path, 0o777); err != nil {
			return err
		}
	}
	return f.each(all, func(i int) error {
		own := *f.request
		own.values = maps.Clone(own.values)
		if isDirectory {
			own.values[fileFlag] = filepath.Join(path, s.fileName(&all[i]))
		}
		_, err := f.ask(ctx, &all[i], &own, f.out)
		return err
	})
}

// fileName returns the name of the recording of a pod.
func (s *selection) fileName(p *pod) string {
	if s.everywhere {
		return p.Metadata.Namespace + "." + p.Metadata.Name + ".rec"
	}
	return p.Metadata.Name + ".rec"
}
