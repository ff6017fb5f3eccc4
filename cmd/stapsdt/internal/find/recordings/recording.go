// Package recordings finds the files to which processes record, and those that earlier processes
// have left. The directories may be those of hostile containers.
package recordings

import (
	"fmt"
	"time"
)

// Recording is the recording of a process.
type Recording struct {
	PID     int    `json:"pid" doc:"process that records to the file, or beside it"`
	File    string `json:"file" doc:"path"`
	Deleted string `json:"deleted,omitempty" doc:"path for --from; the file was deleted or unmounted"`
	// Kept means that an earlier process has recorded to the path. The file may have been renamed
	// since.
	Kept bool `json:"kept,omitempty" doc:"of an earlier process; it made the recording"`
	// Closed means that the process has ended the recording itself, not by being killed.
	Closed bool  `json:"closed,omitempty" doc:"whether its process closed it"`
	Size   int64 `json:"size,omitempty" doc:"bytes; of the file"`
	Began  int64 `json:"began,omitempty" doc:"nanoseconds since 1970; of the beginning"`
	Last   int64 `json:"last,omitempty" doc:"nanoseconds since 1970; of the last event"`

	worth      uint64 // see recordfile.Worth
	id         fileID
	executable string
}

// Executable returns the path of the program of the process that made the recording.
func (r *Recording) Executable() string { return r.executable }

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
