// Package debugger is the side of kubectl stapsdt that runs in a pod: in an ephemeral container that waits for
// questions, or in the container of the node agent. Package kube is the other side, and asks by kubectl exec.
//
// A question has a standard input that kubectl stapsdt keeps open. When that ends, or a line arrives, the command ends
// as with Ctrl-C, and still prints its results: a connection that dies leaves nothing attached.
package debugger

// Verb is the hidden verb of the command under which this package's commands are.
const Verb = "debugger"

// Companion is the command that runs beside one with a terminal, and whose argument is the token of both.
const Companion = "accompany"

// Memory is how many bytes a command may allocate, unless it is told otherwise.
const Memory = 64 << 20

// Protocol is the version of what is in this file. A container with another one is not asked.
const Protocol = 1

// Answer is what look says.
type Answer struct {
	Protocol int `json:"protocol"`
	// UID and GID are those of the container in which look runs.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Processes are those of the container that is asked about, without descendants of others.
	Processes []Process `json:"processes"`
}

// Process is a process of the container that is asked about.
type Process struct {
	PID int    `json:"pid"`
	UID uint32 `json:"uid"` // effective, as the group is
	GID uint32 `json:"gid"`
	// Readable means that its files can be looked at, and Listens that it can be watched by its socket.
	Readable bool `json:"readable"`
	Listens  bool `json:"listens"`
}

// Recording says where a recording is that waits to be fetched, in memory of the process that made it.
type Recording struct {
	PID    int    `json:"pid"`
	FD     int    `json:"fd"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hexadecimal
}
