// Package recordings finds the files to which processes record, and those that earlier processes
// have left. The directories may be those of hostile containers.
package recordings

import (
	"fmt"
	"time"
)

// Recording is the recording of a process.
type Recording struct {
	// PID is the process that records to the file, or that was found to record beside it.
	PID  int    `json:"pid"`
	File string `json:"file"`
	// Deleted is a path in /proc that leads to the file, which was deleted or unmounted.
	Deleted string `json:"deleted,omitempty"`
	// Kept means that an earlier process has recorded to the path. The file may have been renamed
	// since.
	Kept bool `json:"kept,omitempty"`
	// Closed means that the process has ended the recording itself, not by being killed.
	Closed bool  `json:"closed,omitempty"`
	Size   int64 `json:"size,omitempty"`
	// Began and Last are the times of the beginning and of the last event by CLOCK_REALTIME, or 0.
	Began int64 `json:"began,omitempty"`
	Last  int64 `json:"last,omitempty"`

	worth uint64 // see recordfile.Worth
	id    fileID
}

// fileID identifies a file on the machine.
type fileID struct{ device, inode uint64 }

// Text describes the recording in a line.
func (r *Recording) Text() string {
	if r.Deleted != "" {
		return fmt.Sprintf("recorded by process %d, but the file of its recording was deleted or unmounted: %s; until the process ends, --from %s reads it", r.PID, r.File, r.Deleted)
	}
	if !r.Kept {
		return fmt.Sprintf("recorded in %s by process %d", r.File, r.PID)
	}
	line := fmt.Sprintf("recorded in %s by an earlier process", r.File)
	if r.Closed {
		line += ", which has closed it"
	}
	const clock = "2006-01-02 15:04:05.000000"
	switch {
	case r.Last != 0:
		line += time.Unix(0, r.Last).Format("; last event " + clock)
	case r.Began != 0:
		line += time.Unix(0, r.Began).Format("; no event since " + clock)
	}
	return fmt.Sprintf("%s; %d bytes", line, r.Size)
}
