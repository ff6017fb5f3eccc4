//go:build unix

package kube

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// record writes the recording of each pod to a file of its own, or the recording of the only pod to
// the file that the user has named.
func (f *fan) record() error {
	s, path := &f.request.selection, f.request.values[fileFlag]
	all, err := f.kubectl.running(context.Background(), s)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	isDirectory := strings.HasSuffix(path, "/") || err == nil && info.IsDir()
	switch {
	case len(all) == 0:
		return s.none(nil, nil)
	case !isDirectory && len(all) > 1:
		return console.Usagef("-O %s is one file, but %v has %d pods: give -O DIRECTORY/ for a recording of each", path, s, len(all))
	case isDirectory:
		if err := os.MkdirAll(path, 0o777); err != nil {
			return err
		}
	}
	return f.each(all, func(ctx context.Context, i int, problems io.Writer) error {
		file := path
		if isDirectory {
			file = filepath.Join(path, s.fileName(&all[i]))
		}
		return f.recordPod(ctx, &all[i], file, problems)
	})
}

// fileName returns the name of the recording of a pod.
func (s *selection) fileName(p *pod) string {
	if s.everywhere {
		return p.Metadata.Namespace + "." + p.Metadata.Name + ".rec"
	}
	return p.Metadata.Name + ".rec"
}

func (f *fan) recordPod(ctx context.Context, p *pod, file string, problems io.Writer) error {
	s, at, err := f.place(ctx, p)
	if err != nil {
		return err
	}
	own := *f.request
	own.values = maps.Clone(own.values)
	own.values[fileFlag] = file
	said := &held{}
	a := &execution{request: &own, kubectl: f.kubectl, subject: s, out: f.out, err: said}
	status, err := a.record(at)
	if err == nil && status != 0 {
		return errStatus(status, said.last())
	}
	said.pass(problems)
	return err
}
