//go:build linux

package target

import (
	"fmt"
	"sync/atomic"
)

// reason is why a file of a process was left out, or put off.
type reason int

const (
	// skipFUSE is for files of FUSE file systems.
	skipFUSE reason = iota
	// skipUnresponsive is for files of file systems that do not answer.
	skipUnresponsive
	// skipTime, skipDescriptors, skipProbes and skipMappings are for users who have used up what they may take of a tracer.
	skipTime
	skipDescriptors
	skipProbes
	skipMappings
	reasons
)

var reasonNames = [reasons]string{"fuse", "unresponsive", "time", "descriptors", "probes", "mappings"}

// Skips counts the files that were left out or put off, and says so once for each reason and user.
type Skips struct {
	counts [reasons]atomic.Uint64
	said   map[string]bool
	unsaid []error
}

// maxSaid is how many different texts are said at most.
const maxSaid = 1000

func (s *Skips) add(r reason, format string, args ...any) {
	s.counts[r].Add(1)
	err := fmt.Errorf(format, args...)
	if text := err.Error(); !s.said[text] && len(s.said) < maxSaid {
		if s.said == nil {
			s.said = map[string]bool{}
		}
		s.said[text] = true
		s.unsaid = append(s.unsaid, err)
	}
}

// Unsaid returns why files were left out or put off, as far as it has not returned that before.
func (s *Skips) Unsaid() []error {
	unsaid := s.unsaid
	s.unsaid = nil
	return unsaid
}

// Counts calls yield with the number of times that a file was left out or put off, by reason. It may
// be called by any goroutine.
func (s *Skips) Counts(yield func(reason string, n uint64)) {
	for r, name := range reasonNames {
		yield(name, s.counts[r].Load())
	}
}
