package query

import (
	"fmt"
	"path"
	"strings"
)

// PodPattern selects containers by the names of their pods, in which * stands for any characters.
type PodPattern struct {
	Namespace, Pod string
	Container      string // "" for all containers of the pod
}

// ParsePodPattern returns the pattern NAMESPACE/POD or NAMESPACE/POD/CONTAINER.
func ParsePodPattern(text string) (p PodPattern, err error) {
	words := strings.Split(text, "/")
	wrong := len(words) < 2 || len(words) > 3
	for _, word := range words {
		_, err := path.Match(word, "")
		wrong = wrong || word == "" || err != nil
	}
	if wrong {
		return p, fmt.Errorf("takes NAMESPACE/POD or NAMESPACE/POD/CONTAINER, not %q", text)
	}
	p.Namespace, p.Pod = words[0], words[1]
	if len(words) == 3 {
		p.Container = words[2]
	}
	return p, nil
}

func (p PodPattern) String() string {
	return strings.TrimSuffix(p.Namespace+"/"+p.Pod+"/"+p.Container, "/")
}
