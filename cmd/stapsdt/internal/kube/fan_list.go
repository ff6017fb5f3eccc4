//go:build unix

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
)

// list lists the probes of each pod. Pods with the same probes are listed together.
func (f *fan) list(ctx context.Context, all []pod) error {
	found := make([]*listing, len(all))
	slots := make(chan struct{}, searches) // for the commands in the pods too, which are short
	err := f.each(all, func(i int) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		var out bytes.Buffer
		s, err := f.ask(ctx, &all[i], f.request, &out)
		if err == nil {
			found[i] = &listing{s, out.Bytes()}
		}
		return err
	})
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(l *listing) bool { return l == nil })
	if f.request.values["output"] != "json" {
		return writeListings(f.out, found)
	}
	for _, l := range found {
		name := render.PodName{
			Namespace: l.subject.Metadata.Namespace, Pod: l.subject.Metadata.Name,
			Container: l.subject.container.Name,
		}
		if _, err := f.out.Write(AddPod(l.text, name)); err != nil {
			return err
		}
	}
	return nil
}

// listing is the output of the command in a pod.
type listing struct {
	subject *subject
	text    []byte
}

// AddPod returns the objects of list with the name of the pod.
func AddPod(objects []byte, name render.PodName) (all []byte) {
	names, _ := json.Marshal(name)
	for line := range bytes.Lines(objects) {
		rest, ok := bytes.CutPrefix(line, []byte("{"))
		if !ok {
			continue
		}
		all = append(append(append(all, names[:len(names)-1]...), ','), rest...)
	}
	return all
}

// writeListings writes each text once, under the names of its pods.
func writeListings(to io.Writer, found []*listing) error {
	var texts []string
	names := map[string][]string{}
	for _, l := range found {
		text := string(l.text)
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], l.subject.String())
	}
	for i, text := range texts {
		texts[i] = strings.Join(names[text], ", ") + ":\n" + text
	}
	_, err := io.WriteString(to, strings.Join(texts, "\n"))
	return err
}
