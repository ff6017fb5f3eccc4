// Package workload derives the name of a workload from the name of one of its pods.
package workload

import (
	"math"
	"strings"
)

// part is a part that controllers of Kubernetes add to a name, after a hyphen.
type part struct {
	characters string
	min, max   int // the number of characters
}

const (
	// random has the characters of the suffix that the API server generates: see
	// k8s.io/apimachinery/pkg/util/rand.
	random    = "bcdfghjklmnpqrstvwxz2456789"
	randomLen = 5
	// maxGenerated is the length to which the API server cuts a name before it adds the suffix: see
	// k8s.io/apiserver/pkg/storage/names.
	maxGenerated = 63 - randomLen

	digits = "0123456789"
	// encoded has the characters by which SafeEncodeString, in the package of random, replaces
	// digits.
	encoded = "456789bcdf"
)

var (
	// hash is the pod-template-hash of a Deployment: a uint32 with encoded digits. It has fewer
	// than 7 digits in one of 4,295 cases.
	hash = part{encoded, 7, 10}
	// scheduled is the time of a CronJob's run: minutes, or seconds before Kubernetes 1.21.
	scheduled = part{digits, 8, 10}
	// index is the ordinal of a StatefulSet's pod, or the index of an indexed Job's.
	index = part{digits, 1, math.MaxInt}
	// cutHash is the beginning of a hash in a name that was cut.
	cutHash = part{encoded, 1, 10}
)

// Of returns the name of the workload of a pod on a node, whose name may be "". It is the pod's
// name if no controller seems to have made it.
//
// Of knows the name only, so a name that ends like another controller's is shortened too: that of
// a Job migrate-2, for example, to migrate.
func Of(pod, node string) string {
	if name, ok := strings.CutSuffix(pod, "-"+node); ok && node != "" && name != "" {
		return name // a static pod
	}
	base := pod[:max(len(pod)-randomLen, 0)]
	switch {
	case strings.Trim(pod[len(base):], random) != "":
		return index.cut(pod)
	case len(base) > 1 && base[len(base)-1] == '-':
		return owner(base[:len(base)-1])
	case len(base) == maxGenerated:
		return ownerOfCut(base)
	}
	return index.cut(pod)
}

// owner returns the workload of the ReplicaSet, the Job or the other owner of a pod.
func owner(name string) string {
	if before := hash.cut(name); before != name {
		return before
	}
	if before := scheduled.cut(name); before != name {
		return before
	}
	return scheduled.cut(index.cut(name))
}

// ownerOfCut is owner for a name that was cut, perhaps in the middle of a part.
func ownerOfCut(name string) string {
	if before := index.cut(name); before != name {
		return before
	}
	return cutHash.cut(name)
}

// cut returns a name without the part, unless it has none, or nothing else.
func (p part) cut(name string) string {
	before := strings.TrimRight(name, p.characters)
	n, end := len(name)-len(before), len(before)-1
	if n < p.min || n > p.max || end < 1 || before[end] != '-' {
		return name
	}
	return before[:end]
}
