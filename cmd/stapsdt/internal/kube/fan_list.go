//go:build unix

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// list lists the probes of each pod. Pods with the same probes are listed together.
func (f *fan) list() error {
	ctx := context.Background()
	all, err := f.kubectl.running(ctx, &f.request.selection)
	if err != nil {
		return err
	}
	found := make([]*listing, len(all))
	slots := make(chan struct{}, searches) // for the commands in the pods too, which are short
	err = f.each(all, func(ctx context.Context, i int, problems io.Writer) (err error) {
		slots <- struct{}{}
		defer func() { <-slots }()
		found[i], err = f.listPod(ctx, &all[i], problems)
		return err
	})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(l *listing) bool { return l == nil })
	if f.request.values["output"] == "json" {
		for _, l := range found {
			if _, err := f.out.Write(l.json()); err != nil {
				return err
			}
		}
		return nil
	}
	return f.writeListings(found)
}

// listing is what a pod has printed.
type listing struct {
	subject *subject
	text    []byte
}

func (f *fan) listPod(ctx context.Context, p *pod, problems io.Writer) (*listing, error) {
	s, at, err := f.place(ctx, p)
	if err != nil {
		return nil, err
	}
	l := &listing{subject: s}
	var out bytes.Buffer
	said := &held{}
	one := &session{kubectl: f.kubectl, out: &out, problems: &filter{to: said}}
	verb := append([]string{"--", f.request.verb}, f.request.passed...)
	words := slices.Concat(at.ask(s), verb, []string{"--"}, f.request.args)
	if err := one.start(words); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, one.release)()
	status, err := one.wait()
	one.release()
	if err != nil {
		return nil, err
	}
	if status != 0 {
		return nil, errStatus(status, said.last())
	}
	said.pass(problems)
	l.text = out.Bytes()
	return l, nil
}

// json returns the objects with the names of the pod.
func (l *listing) json() (all []byte) {
	of := l.subject
	names, _ := json.Marshal(struct {
		Namespace string `json:"namespace"`
		Pod       string `json:"pod"`
		Container string `json:"container"`
	}{of.Metadata.Namespace, of.Metadata.Name, of.container.Name})
	for line := range bytes.Lines(l.text) {
		rest, ok := bytes.CutPrefix(line, []byte("{"))
		if !ok {
			continue
		}
		all = append(append(append(all, names[:len(names)-1]...), ','), rest...)
	}
	return all
}

// writeListings writes each text once, under the names of its pods unless all have the same.
func (f *fan) writeListings(found []*listing) error {
	for len(found) > 0 {
		var names []string
		first := found[0]
		all := len(found)
		found = slices.DeleteFunc(found, func(l *listing) bool {
			same := bytes.Equal(l.text, first.text)
			if same {
				names = append(names, l.subject.String())
			}
			return same
		})
		if _, err := fmt.Fprintf(f.out, "%s:\n%s", strings.Join(names, ", "), first.text); err != nil {
			return err
		}
		if len(names) < all {
			fmt.Fprintln(f.out)
		}
	}
	return nil
}
