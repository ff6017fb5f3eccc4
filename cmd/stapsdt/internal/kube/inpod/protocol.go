// Package inpod implements the side of kubectl stapsdt that runs in a pod: in an ephemeral
// container that waits for requests, or in the container of the node agent. Package kube is the
// other side, and sends each request by kubectl exec.
//
// kubectl stapsdt keeps the standard input of a request open. When the input ends or a line
// arrives, the command ends as with Ctrl-C and still prints its results. This way, nothing stays
// attached when a connection dies. A request that sends its recording while it is made may go on
// for a while if the input ends without a line, so that the stream can be resumed.
package inpod

import "time"

// Verb is the hidden verb of the command whose subcommands this package implements.
const Verb = "inpod"

// Keepalive is the command that runs beside a command with a terminal. Its argument is the token
// that both have.
const Keepalive = "accompany"

// Increments and Alternative are flags of the verb record in a pod. With Increments, it writes the
// recording to standard output while it is made, as package mirror sends it. Alternative is
// SPEC=SPEC: the second one is selected too, and need not exist if the first one does.
const (
	Increments  = "increments"
	Alternative = "alternative"
)

// Container is the flag of the verb postmortem for what Kubernetes tells about the container, as
// ending.ParseContainer takes it.
const Container = "container-status"

// Resume is the command that takes up the stream of a request again after its connection was lost.
// As a flag of a request, it is the time for which the request then records without a connection.
// Such a request first reads a line with a random token, which no other user can see. The command
// reads the same line and the frame of a mirror.Position. For both, a line then ends the request.
const Resume = "resume"

// ResumeTime is the time for which a request records after its connection was lost.
const ResumeTime = time.Minute

// Resumes is the version of Resume. A request whose container has another one ends with its
// connection.
const Resumes = 1

// Memory is the number of bytes that a command may allocate by default.
const Memory = 64 << 20

// Protocol is the version of the types and names in this file. A container with another version
// gets no requests.
const Protocol = 3

// Answer is the output of look.
type Answer struct {
	Protocol int `json:"protocol"`
	// UID and GID are the user and the group of the container in which look runs.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Resumes is the version of Resume, or 0 without it.
	Resumes int `json:"resumes,omitempty"`
	// Processes are the processes of the selected container, without descendants of others.
	Processes []Process `json:"processes"`
}

// Process is a process of the selected container. If the container does not run, it has the PID 0
// and the owner of the container's recordings.
type Process struct {
	PID int    `json:"pid"`
	UID uint32 `json:"uid"` // the effective UID; GID is effective too
	GID uint32 `json:"gid"`
	// Readable means that its files can be read, and Listens that it can be watched through its
	// socket.
	Readable bool `json:"readable"`
	Listens  bool `json:"listens"`
	// Asked means that its environment asks it to listen.
	Asked bool `json:"asked,omitempty"`
}

// Recording locates a recording that waits to be fetched: a file that a process has open.
type Recording struct {
	PID  int   `json:"pid"`
	FD   int   `json:"fd"`
	Size int64 `json:"size"`
	// SHA256 is the checksum of the file in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Path is the path as the container sees it, or that of a descriptor for a file in memory.
	Path string `json:"path"`
}
