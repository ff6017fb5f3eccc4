//go:build linux && (amd64 || arm64)

package cluster

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mounted is where containers have the pod's volume, an emptyDir.
const mounted = "/run/stapsdt"

// localPod is the pod work/web, which runs here. Its container app runs a program.
type localPod struct {
	t         *testing.T
	group     *testenv.MemoryGroup
	directory string // has the volume and the roots of the containers
	app       container

	mu         sync.Mutex
	object     pod
	containers map[string]*running // by name
	groups     []*testenv.MemoryGroup
}

// podOptions are options of newPod.
type podOptions struct {
	program     *program
	limit       int  // of memory, in MB, or 0
	limitsPod   bool // the limit is one of the pod, not of its container
	environment []string
}

func (s *server) newPod(o podOptions) *localPod {
	t := s.t
	t.Helper()
	p := &localPod{t: t, directory: t.TempDir(), containers: map[string]*running{}}
	needsDisk(t)
	p.group = testenv.NeedsMemoryGroup(t, fmt.Sprintf("stapsdt-pod-%016x", rand.Uint64()))
	p.groups = append(p.groups, p.group)
	o.environment = append(o.environment, "STAPSDT_SOCKET=1", "STAPSDT_DIR="+mounted+"/app")
	p.object = newObject(o)
	if o.limit > 0 { // which is the sum of the limits of the containers, if the pod has none of its own
		p.group.SetLimit(t, int64(o.limit)<<20)
	}
	p.makeVolume()
	p.app = container{
		Hostname: "web", Image: filepath.Join(p.directory, "app"),
		Env: o.environment, Args: append([]string{"/app"}, o.program.args...),
		Mounts: append([]mount{{p.volume(), mounted, true}}, o.program.mounts...),
	}
	require.NoError(t, newImage(p.app.Image, o.program.path, "app", p.app.Mounts))
	p.startApp()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, p)
	return p
}

// newObject returns what the API tells of a pod that has not begun.
func newObject(o podOptions) (p pod) {
	p.Metadata = metadata{"web", "work"}
	p.Spec.NodeName = "node1"
	p.Spec.SecurityContext = securityContext{RunAsUser: user, RunAsGroup: user}
	app := containerSpec{Name: "app", Image: "app", VolumeMounts: []volumeMount{{Name: "stapsdt", MountPath: mounted}}}
	for _, text := range o.environment {
		name, value, _ := strings.Cut(text, "=")
		app.Env = append(app.Env, variable{name, value})
	}
	if o.limit > 0 {
		limits := &app.Resources
		if o.limitsPod {
			limits = &p.Spec.Resources
		}
		limits.Limits = map[string]string{"memory": fmt.Sprintf("%dMi", o.limit)}
	}
	p.Spec.Containers = []containerSpec{app}
	p.Status.Phase = "Running"
	p.Status.ContainerStatuses = []containerStatus{{Name: "app", RestartCount: -1}}
	return p
}

// makeVolume makes the pod's volume, an emptyDir in memory.
func (p *localPod) makeVolume() {
	p.t.Helper()
	require.NoError(p.t, os.Mkdir(p.volume(), 0o755))
	require.NoError(p.t, unix.Mount("none", p.volume(), "tmpfs", 0, "mode=1777"))
	p.t.Cleanup(func() { require.NoError(p.t, unix.Unmount(p.volume(), unix.MNT_DETACH)) })
}

func (p *localPod) volume() string { return filepath.Join(p.directory, "volume") }

// startApp starts the program, in a new life of its container.
func (p *localPod) startApp() {
	p.t.Helper()
	id := containerID()
	c := p.app
	c.Group = *p.newGroup(id)
	if p.object.Spec.Containers[0].Resources.Limits != nil {
		c.Group.SetLimit(p.t, p.group.Limit(p.t))
	}
	r := c.start(p.t, nil)
	r.Expect("ready", testenv.Patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.containers["app"] = r
	status := &p.object.Status.ContainerStatuses[0]
	status.ContainerID = "containerd://" + id
	status.RestartCount++
}

// newGroup makes the control group of a container.
func (p *localPod) newGroup(id string) *testenv.MemoryGroup {
	p.t.Helper()
	group := p.group.Add(p.t, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = append(p.groups, group)
	return group
}

// containerID returns the ID of a container, which names its control group too.
func containerID() string {
	return hex.EncodeToString(make([]byte, 24)) + fmt.Sprintf("%016x", rand.Uint64())
}

// killed returns how many processes of the pod the kernel has killed because of a limit.
func (p *localPod) killed() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, group := range p.groups {
		n += group.Killed(p.t)
	}
	return n
}

// running returns a container that runs, or nil.
func (p *localPod) running(name string) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.containers[name]; r != nil && !r.Ended() {
		return r
	}
	return nil
}

// tell returns what the API tells of the pod now.
func (p *localPod) tell() pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.object
	for _, statuses := range []*[]containerStatus{&o.Status.ContainerStatuses, &o.Status.EphemeralContainerStatuses} {
		*statuses = slices.Clone(*statuses)
		for i := range *statuses {
			(*statuses)[i].State = p.containers[(*statuses)[i].Name].state()
		}
	}
	return o
}

func (r *running) state() containerState {
	if !r.Ended() {
		return containerState{Running: &struct{}{}}
	}
	ended := &terminated{Reason: "Completed", Message: r.Dump()}
	var exit *exec.ExitError
	if errors.As(r.Wait(0), &exit) {
		ended.ExitCode, ended.Reason = exitStatus(exit), "Error"
	}
	return containerState{Terminated: ended}
}

// add adds an ephemeral container, which runs when add returns.
func (p *localPod) add(e *ephemeralContainer) error {
	target := p.running(e.TargetContainerName)
	if target == nil && e.TargetContainerName != "" {
		return fmt.Errorf("error: the container %s of the pod is not running", e.TargetContainerName)
	}
	if p.running(e.Name) != nil {
		return fmt.Errorf("error: the pod has a container %s", e.Name)
	}
	id := containerID()
	c := container{Hostname: "web", Image: filepath.Join(p.directory, e.Name), Args: e.Command, Group: *p.newGroup(id)}
	for _, m := range e.VolumeMounts {
		c.Mounts = append(c.Mounts, mount{p.volume(), m.MountPath, !m.ReadOnly})
	}
	if err := newImage(c.Image, tracetest.Stapsdt(p.t), "stapsdt", c.Mounts); err != nil {
		return err
	}
	r := c.start(p.t, target)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.containers[e.Name] = r
	p.object.Spec.EphemeralContainers = append(p.object.Spec.EphemeralContainers, *e)
	status := containerStatus{Name: e.Name, ContainerID: "containerd://" + id}
	p.object.Status.EphemeralContainerStatuses = append(p.object.Status.EphemeralContainerStatuses, status)
	return nil
}

// tell tells the program something, and returns what it answers.
func (r *running) tell(line, answer string) string {
	r.Say(line)
	return r.Expect(answer, testenv.Patience)
}
