//go:build linux && (amd64 || arm64)

package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// serverVariable names the socket at which the test answers for the API server.
const serverVariable = "STAPSDT_TEST_API_SERVER"

// call is a call of kubectl, and its standard files.
type call struct {
	Args  []string
	files [3]*os.File
}

// callKubectl passes a call to the test, and returns the exit status.
func callKubectl(args []string) int {
	c, err := net.Dial("unix", os.Getenv(serverVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, "The connection to the server was refused:", err)
		return 1
	}
	defer c.Close()
	b, _ := json.Marshal(call{Args: args})
	if _, _, err := c.(*net.UnixConn).WriteMsgUnix(b, unix.UnixRights(0, 1, 2), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := 1
	_ = json.NewDecoder(c).Decode(&status)
	return status
}

// receiveCall receives what callKubectl has sent.
func receiveCall(c *net.UnixConn) (*call, error) {
	b, rights := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(3*4))
	n, size, _, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return nil, err
	}
	got := &call{}
	if err := json.Unmarshal(b[:n], got); err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != len(got.files) {
		return nil, fmt.Errorf("%d files: %w", len(fds), err)
	}
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		got.files[i] = os.NewFile(uintptr(fd), "standard file")
	}
	return got, nil
}

func (c *call) close() {
	for _, f := range c.files {
		f.Close()
	}
}

// fail prints a message as kubectl does, and returns the exit status.
func (c *call) fail(format string, args ...any) int {
	fmt.Fprintf(c.files[2], format+"\n", args...)
	return 1
}

func (c *call) print(v any) int {
	_ = json.NewEncoder(c.files[1]).Encode(v)
	return 0
}

// flags are those that each verb of kubectl has, as far as the plugin gives them.
var flags = map[string][]string{
	"get":   {"namespace", "output", "selector", "field-selector", "request-timeout"},
	"debug": {"namespace", "image", "image-pull-policy", "target", "container", "profile", "custom", "attach", "quiet", "request-timeout"},
	"exec":  {"namespace", "container", "stdin", "tty", "request-timeout"},
	"auth":  {"namespace", "subresource", "request-timeout"},
}

// line is a command line of kubectl.
type line struct {
	words   []string
	flags   map[string]string
	command []string // after --
}

func (c *call) parse() (*line, error) {
	l := &line{flags: map[string]string{}}
	verb := c.Args[0]
	if flags[verb] == nil {
		return nil, fmt.Errorf("error: unknown command %q for \"kubectl\"", verb)
	}
	for i, word := range c.Args[1:] {
		if word == "--" {
			l.command = c.Args[i+2:]
			break
		}
		flag, ok := strings.CutPrefix(word, "--")
		if !ok {
			l.words = append(l.words, word)
			continue
		}
		name, value, _ := strings.Cut(flag, "=")
		if !slices.Contains(flags[verb], name) {
			return nil, fmt.Errorf("error: unknown flag: --%s", name)
		}
		l.flags[name] = value
	}
	return l, nil
}

// install makes a directory for $PATH, with kubectl and the plugin.
func install(directory, plugin string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(directory, "kubectl")); err != nil {
		return err
	}
	return os.Symlink(plugin, filepath.Join(directory, "kubectl-stapsdt"))
}
