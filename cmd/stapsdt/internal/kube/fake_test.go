//go:build unix

package kube

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// TestMain lets this program play kubectl and the plugin, too.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "kubectl":
		os.Exit(fakeKubectl(os.Args[1:]))
	case Name:
		if d, err := time.ParseDuration(os.Getenv("FAKE_RESUME_TIME")); err == nil {
			resumeTime = d
		}
		if d, err := time.ParseDuration(os.Getenv("FAKE_SILENCE")); err == nil {
			silence = d
		}
		if d, err := time.ParseDuration(os.Getenv("FAKE_STOP_GRACE")); err == nil {
			stopGrace = d
		}
		os.Exit(Main(os.Args[1:], "test", runVerb, os.Stdout, os.Stderr))
	}
	if role := roles[filepath.Base(os.Args[0])]; role != nil {
		endWithTest(os.Getenv("FAKE_KUBECTL"))
		os.Exit(role(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// cluster is what the fake kubectl plays. It is in a file that each call reads.
type cluster struct {
	Pods []pod
	// Objects are those that own pods.
	Objects []object
	// Refused is what kubectl says of a verb, as "exec", or of "agents" or "look", if it is refused.
	Refused map[string]string
	// Back is after how many looks the container of the first pod runs again, or 0 for never, and Late after how many the program listens.
	Back, Late int
	// Start is what becomes of a container that is added, and Polls how often it is only being created before.
	Start containerState
	Polls int
	// User and Group are those of the program, which Listens; Hidden means that nobody may look at it.
	User, Group     int64
	Listens, Hidden bool
	// Asked means that the program's environment asks it to listen.
	Asked bool
	// Cat means that the program's image has it.
	Cat bool
	// Short is how many transfers of a recording are cut, and Changed how many after that have a wrong byte.
	Short, Changed int
	// Behind is by how many versions all containers are behind.
	Behind int
	// Resumes is the version of inpod.Resume that all containers have.
	Resumes int
	// Down means that the server refuses connections, and has closed those that it had. A pod then fires Burst events.
	Down  bool
	Burst uint64
	// Hung means that the connections of requests die after the first frame, but do not end. Those that replace them live.
	Hung bool
	// Silence is how long connections may be silent, or 0 for the default.
	Silence time.Duration
	// Endless means that requests that can be resumed go on after their users have ended them, and send frames without end if they are.
	Endless bool
}

// recordingBytes is what the fake records.
var recordingBytes = []byte(strings.Repeat("recorded ", 10000))

// fake is one call of the fake kubectl.
type fake struct {
	directory string
	cluster
}

func fakeKubectl(args []string) int {
	f := &fake{directory: os.Getenv("FAKE_KUBECTL")}
	if changes := args[0] == "get" || args[0] == "debug"; changes {
		defer lockCluster(f.directory)()
	}
	if err := f.read(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	f.log(strings.Join(args, " "))
	if f.Down {
		return f.fail("The connection to the server was refused")
	}
	if text := f.Refused[args[0]]; text != "" {
		return f.fail(text)
	}
	switch args[0] {
	case "get":
		return f.get(args[1:])
	case "debug":
		return f.debug(args[1:])
	case "exec":
		endWithTest(f.directory)
		return f.exec(args[1:])
	case "auth":
		if f.Refused["exec"] == "" {
			fmt.Println("yes")
			return 0
		}
		fmt.Println("no")
		return 1
	}
	return f.fail("error: unknown command " + args[0])
}

func (f *fake) read() error {
	b, err := os.ReadFile(filepath.Join(f.directory, "cluster.json"))
	if err == nil {
		err = json.Unmarshal(b, &f.cluster)
	}
	return err
}

func (f *fake) log(line string) {
	log, err := os.OpenFile(filepath.Join(f.directory, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(log, line)
		log.Close()
	}
}

func (f *fake) fail(text string) int {
	fmt.Fprintln(os.Stderr, text)
	return 1
}

// lockCluster lets no other call change the cluster until unlock is called.
func lockCluster(directory string) (unlock func()) {
	lock, err := os.OpenFile(filepath.Join(directory, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		panic(err)
	}
	return func() { lock.Close() }
}

func (f *fake) save() {
	if err := saveCluster(f.directory, &f.cluster); err != nil {
		f.log(err.Error())
	}
}

// saveCluster replaces the cluster, which other calls may read.
func saveCluster(directory string, c *cluster) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file := filepath.Join(directory, "cluster.json")
	own := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(own, b, 0o600); err != nil {
		return err
	}
	return os.Rename(own, file)
}

// value returns the value of --name=value.
func value(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

func (f *fake) find(args []string, name string) *pod {
	namespace := value(args, "namespace")
	if namespace == "" {
		namespace = "default"
	}
	for i := range f.Pods {
		if f.Pods[i].Metadata.Namespace == namespace && f.Pods[i].Metadata.Name == name {
			return &f.Pods[i]
		}
	}
	return nil
}

func (f *fake) get(args []string) int {
	words := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "--") })
	if text := f.Refused["agents"]; text != "" && value(args, "selector") == agentLabel {
		return f.fail(text)
	}
	switch {
	case value(args, "output") == "name":
		return f.printNames(args, kindNamed(words[0]))
	case words[0] == "pods":
		return f.items(slices.DeleteFunc(slices.Clone(f.Pods), func(p pod) bool {
			node, ok := strings.CutPrefix(value(args, "field-selector"), "spec.nodeName=")
			return !f.lists(args, &p.Metadata) || ok && p.Spec.NodeName != node
		}))
	case words[0] != "pod":
		return f.getObjects(args, words)
	}
	p := f.find(args, words[1])
	if p == nil {
		return f.fail(fmt.Sprintf(`Error from server (NotFound): pods %q not found`, words[1]))
	}
	if f.Polls > 0 {
		f.Polls--
	} else {
		for i := range p.Status.EphemeralContainerStatuses {
			if s := &p.Status.EphemeralContainerStatuses[i]; s.State.Waiting != nil && s.State.Waiting.Reason == "ContainerCreating" {
				s.State = f.Start
			}
		}
	}
	if f.Back > 0 {
		if f.Back--; f.Back == 0 {
			f.Pods[0].Status.ContainerStatuses[0].State = f.Start
		}
	}
	f.save()
	_ = json.NewEncoder(os.Stdout).Encode(p)
	return 0
}

// printNames prints the names of the objects of a kind.
func (f *fake) printNames(args []string, of *objectKind) int {
	for _, o := range f.Objects {
		if of != nil && o.Kind == of.name && f.lists(args, &o.Metadata) {
			fmt.Printf("%s/%s\n", of.names[0], o.Metadata.Name)
		}
	}
	for _, p := range f.Pods {
		if of == podKind && f.lists(args, &p.Metadata) {
			fmt.Println("pod/" + p.Metadata.Name)
		}
	}
	return 0
}

// items prints a list of objects.
func (f *fake) items(all any) int {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"items": all})
	return 0
}

// lists reports whether an object is in the namespace that is asked for, and has the labels, which are in its annotations.
func (f *fake) lists(args []string, m *metadata) bool {
	selector := value(args, "selector")
	return (slices.Contains(args, "--all-namespaces") || m.Namespace == cmp.Or(value(args, "namespace"), "default")) &&
		(selector == "" || slices.Contains(strings.Split(m.Annotations["labels"], "; "), selector))
}

func (f *fake) getObjects(args, words []string) int {
	k := kindNamed(words[0])
	all := slices.DeleteFunc(slices.Clone(f.Objects), func(o object) bool { return o.Kind != k.name || !f.lists(args, &o.Metadata) })
	if len(words) == 1 {
		return f.items(all)
	}
	if i := slices.IndexFunc(all, func(o object) bool { return o.Metadata.Name == words[1] }); i >= 0 {
		_ = json.NewEncoder(os.Stdout).Encode(all[i])
		return 0
	}
	return f.fail(fmt.Sprintf(`Error from server (NotFound): %s.apps %q not found`, words[0], words[1]))
}

func (f *fake) debug(args []string) int {
	var custom struct {
		SecurityContext owner         `json:"securityContext"`
		VolumeMounts    []volumeMount `json:"volumeMounts"`
	}
	b, err := os.ReadFile(value(args, "custom"))
	if err == nil {
		err = json.Unmarshal(b, &custom)
	}
	name := args[slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "--") })]
	p := f.find(args, name)
	if err != nil || p == nil {
		return f.fail(fmt.Sprint("error: debug: ", err, p))
	}
	f.log("custom " + string(b))
	added := ephemeralContainer{TargetContainerName: value(args, "target")}
	added.VolumeMounts = custom.VolumeMounts
	added.Name, added.SecurityContext, added.Image = value(args, "container"), custom.SecurityContext, value(args, "image")
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, added)
	var state containerState
	_ = json.Unmarshal([]byte(`{"waiting":{"reason":"ContainerCreating"}}`), &state)
	p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, containerStatus{Name: added.Name, State: state})
	f.save()
	return 0
}

func (f *fake) exec(args []string) int {
	i := slices.Index(args, "--")
	before, command := args[:i], args[i+1:]
	name := before[slices.IndexFunc(before, func(a string) bool { return !strings.HasPrefix(a, "--") })]
	p := f.find(before, name)
	if p == nil {
		return f.fail(fmt.Sprintf(`Error from server (NotFound): pods %q not found`, name))
	}
	if command[0] == "cat" {
		if !f.Cat {
			fmt.Fprintln(os.Stderr, "command terminated with exit code 127")
			return 127
		}
		fmt.Printf("Name:\tcat\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[2]d\t%[2]d\t%[2]d\t%[2]d\n", f.User, f.Group)
		return 0
	}
	switch command[2] {
	case "look":
		if text := f.Refused["look"]; text != "" {
			return f.fail(text)
		}
		return f.look(p, value(before, "container"))
	case "ask":
		return f.ask(command)
	case "send":
		return f.send()
	case inpod.Resume:
		if f.Endless {
			return f.sendNothing()
		}
		return f.relay(resumer, name, nil)
	case inpod.Keepalive:
		_, _ = io.Copy(io.Discard, os.Stdin)
		f.log("the keepalive has ended")
		return 0
	}
	return f.fail("error: exec")
}

func (f *fake) look(p *pod, container string) int {
	if f.Late > 0 {
		f.Late--
		f.Listens = f.Late == 0
		f.save()
	}
	answer := inpod.Answer{Protocol: inpod.Protocol - f.Behind, Resumes: f.Resumes, Processes: []inpod.Process{{PID: 1, UID: uint32(f.User), GID: uint32(f.Group), Readable: true, Listens: f.Listens, Asked: f.Asked}}}
	for _, c := range p.Spec.EphemeralContainers {
		if c.Name != container {
			continue
		}
		if u := c.SecurityContext.User; u != nil {
			answer.UID = uint32(*u)
		}
		if g := c.SecurityContext.Group; g != nil {
			answer.GID = uint32(*g)
		}
		readable := answer.UID == uint32(f.User) && answer.GID == uint32(f.Group) && !f.Hidden
		answer.Processes[0].Readable = readable
		answer.Processes[0].Listens = readable && f.Listens
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
	return 0
}

// ask does what the probe that is asked for says.
func (f *fake) ask(command []string) int {
	rest := command[slices.Index(command, "--")+1:]
	probe := rest[len(rest)-1]
	if value(command, inpod.Resume) != "" {
		return f.relay(asked, strings.Split(value(command, "pod"), "/")[1], command)
	}
	in := bufio.NewReader(os.Stdin)
	switch {
	case slices.Contains(rest, "--"+inpod.Increments):
		return f.increments(command, in)
	case rest[0] == "record":
		if !slices.Contains(command, "--kept") {
			_, _ = in.ReadString('\n')
		}
		sum := sha256.Sum256(recordingBytes)
		_ = json.NewEncoder(os.Stdout).Encode(inpod.Recording{PID: 7, FD: 3, Size: int64(len(recordingBytes)), SHA256: hex.EncodeToString(sum[:]), Path: "/rec/web.rec"})
		_, _ = io.Copy(io.Discard, in)
		f.log("held until the input ended")
		return 0
	case probe == "status:3":
		fmt.Fprintln(os.Stderr, "stapsdt: no file of the process has such a probe")
		fmt.Fprintln(os.Stderr, "command terminated with exit code 3")
		return 3
	case probe == "killed:137":
		fmt.Fprintln(os.Stderr, "command terminated with exit code 137")
		return 137
	case probe == "lost:connection":
		fmt.Println("an event")
		fmt.Fprintln(os.Stderr, "error: error reading from error stream: unexpected EOF")
		return 1
	case probe == "until:stopped":
		fmt.Println("an event")
		if _, err := in.ReadString('\n'); err != nil {
			f.log("the input has ended")
		}
		fmt.Println("the result")
		return 0
	case probe == "never:ends":
		fmt.Println("an event")
		_, _ = in.ReadString('\n')
		f.log("a line was sent")
		time.Sleep(testenv.Patience)
	}
	fmt.Println(strings.Join(rest, " "))
	return 0
}

func (f *fake) send() int {
	w := gzip.NewWriter(os.Stdout)
	b := recordingBytes
	if f.Short > 0 {
		f.Short--
		f.save()
		b = b[:len(b)/2]
	} else if f.Changed > 0 {
		f.Changed--
		f.save()
		b = slices.Concat(b[:9], []byte("R"), b[10:])
	}
	_, _ = w.Write(b)
	_ = w.Close()
	return 0
}
