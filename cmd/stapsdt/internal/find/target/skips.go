//go:build linux

package target

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// reason is the reason why a file of a process was left out or postponed.
type reason int

const (
	// skipFUSE is for files of FUSE file systems.
	skipFUSE reason = iota
	// skipUnresponsive is for files of file systems that do not answer.
	skipUnresponsive
	// skipTime, skipDescriptors, skipProbes and skipMappings are for users who have used up their
	// share of a tracer: skipDescriptors if there is no room for a file, a kind of probes
	// or links of programs, skipProbes for a file's probes.
	skipTime
	skipDescriptors
	skipProbes
	skipMappings
	reasons
)

// shareUsed are the messages about users who have used up their share.
var shareUsed = [reasons]string{
	skipTime:        "%v has used up its share of the time for reading files: its other files have to wait",
	skipDescriptors: "%v has used up its share of descriptors and memory: its other files and probes are left out",
	skipProbes:      "%v has too many probes: its other files are left out",
}

var reasonNames = [reasons]string{"fuse", "unresponsive", "time", "descriptors", "probes", "mappings"}

// Skips counts the files that were left out or postponed, and reports each reason once for each
// user.
type Skips struct {
	counts [reasons]atomic.Uint64
	said   map[string]bool
	unsaid []skip
}

// skip is a message about a file that was left out or postponed.
type skip struct {
	reason
	err error
}

// maxSaid is the maximum number of different messages.
const maxSaid = 1000

func (s *Skips) add(r reason, format string, args ...any) {
	s.counts[r].Add(1)
	err := fmt.Errorf(format, args...)
	if text := err.Error(); !s.said[text] && len(s.said) < maxSaid {
		if s.said == nil {
			s.said = map[string]bool{}
		}
		s.said[text] = true
		s.unsaid = append(s.unsaid, skip{r, err})
	}
}

// Unsaid returns the messages, about files that were left out or postponed, that were added since
// its last call.
func (s *Skips) Unsaid() (unsaid []error) {
	for _, one := range s.unsaid {
		unsaid = append(unsaid, one.err)
	}
	s.unsaid = nil
	return unsaid
}

// DropFiles drops the messages about files whose file system was the reason. A file that a user has
// named is not left out for that.
func (s *Skips) DropFiles() {
	s.unsaid = slices.DeleteFunc(s.unsaid, func(one skip) bool {
		return one.reason == skipFUSE || one.reason == skipUnresponsive
	})
}

// Counts calls yield with the number of times that a file was left out or postponed, by reason. Any
// goroutine may call it.
func (s *Skips) Counts(yield func(reason string, n uint64)) {
	for r, name := range reasonNames {
		yield(name, s.counts[r].Load())
	}
}
