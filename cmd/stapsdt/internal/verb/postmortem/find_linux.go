package postmortem

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/pods"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"golang.org/x/sys/unix"
)

// candidate is a recording that may be the one. Its path is that of a process, or of this one if
// pid is 0.
type candidate struct {
	recordings.Recording
	pid int
}

// search collects recordings.
type search struct {
	of     string
	unit   string
	all    []candidate
	looked []string // where
	// end is the time at which it stops to look into directories, in which other users can have any
	// number of files, and late means that it has stopped.
	end  time.Time
	late bool
}

// searchTime is the time that a search may take in directories.
const searchTime = 10 * time.Second

// find returns the recording that a word names: the path of one or of a directory, a PID, the name
// of a program or of a unit, or a pod. For "", it is the newest one of the machine.
func find(of string) (*subject, error) {
	s := &search{of: of, end: time.Now().Add(searchTime)}
	info, err := os.Stat(of)
	isPath := strings.Contains(of, "/")
	switch {
	case err == nil && info.IsDir() && isPath:
		s.directory(of)
	case err == nil && (isPath || isRecording(of)):
		return &subject{path: of}, nil
	case isPath && !path.IsAbs(of) && pods.Here():
		if err := s.pod(of); err != nil {
			return nil, err
		}
	case isPath || strings.Contains(of, "%p"): // there may be earlier recordings to it
		pattern, err := filepath.Abs(of)
		if err != nil {
			return nil, err
		}
		s.pattern(pattern)
	case ending.IsUnit(of) && s.service(of):
	default:
		s.named(of)
	}
	return s.choose()
}

// isRecording reports whether a file begins like a recording. Another file can have the name of a
// program.
func isRecording(name string) bool {
	f, err := replay.OpenPath(name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, ok := recordings.IsKept(f)
	return ok
}

// named collects the recordings of the processes with a PID or a name, or all if name is "", and
// those of earlier processes that had it. If there is none, name is that of a unit.
func (s *search) named(name string) {
	if variable := os.Getenv(recording.Variable); name == "" && variable != "" {
		if pattern, _, err := recording.ParseVariable(variable); err == nil {
			s.pattern(pattern)
		}
		if len(s.all) > 0 {
			return // of the unit of which this is an ExecStopPost
		}
	}
	is := func(c *candidate) bool { return name == "" || path.Base(c.Executable()) == name }
	if pid, err := strconv.Atoi(name); err == nil {
		s.processes([]int{pid})
		s.keep(func(c *candidate) bool { return !c.Kept })
		if len(s.all) > 0 {
			return
		}
		is = func(c *candidate) bool { return c.Kept && c.PID == pid }
	} else {
		pids, _ := proc.Processes()
		s.processes(pids)
	}
	for _, place := range places() {
		s.directory(place)
		for _, directory := range below(place) {
			s.directory(directory)
		}
	}
	s.looked = append(places(), "the directories in them")
	s.keep(is)
	if unit := name + ".service"; len(s.all) == 0 && ending.IsUnit(unit) {
		s.service(unit)
	}
}

// keep removes the recordings that is does not report.
func (s *search) keep(is func(*candidate) bool) {
	s.all = slices.DeleteFunc(s.all, func(c candidate) bool { return !is(&c) })
}

// processes collects the recordings of processes, and those beside them.
func (s *search) processes(pids []int) {
	own, ownErr := os.Stat("/")
	for _, r := range recordings.Of(pids) {
		c := candidate{Recording: r, pid: r.PID}
		its, err := os.Stat(fmt.Sprintf("/proc/%d/root", proc.Task(r.PID)))
		if err == nil && ownErr == nil && os.SameFile(own, its) {
			c.pid = 0
		}
		s.all = append(s.all, c)
	}
}

// places returns the directories in which, or in directories of which, programs often record.
func places() (all []string) {
	directory, _ := os.Getwd()
	for _, place := range []string{
		directory, "/dev/shm", "/run", os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp", "/var/tmp",
	} {
		if place = path.Clean(place); path.IsAbs(place) && !slices.Contains(all, place) {
			all = append(all, place)
		}
	}
	return all
}

// maxBelow is the maximum number of directories in a directory that are looked at.
const maxBelow = 256

// below returns the directories in a directory, without links.
func below(parent string) (all []string) {
	all, _ = stall.Do(parent, func() (found []string, err error) {
		d, err := os.Open(parent)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		entries, _ := d.ReadDir(16 * maxBelow)
		for _, e := range entries {
			if e.IsDir() && len(found) < maxBelow {
				found = append(found, path.Join(parent, e.Name()))
			}
		}
		return found, nil
	}, nil)
	return all
}

// directory collects the recordings in a directory. Those of other users are among them, because
// services have users of their own.
func (s *search) directory(name string) {
	s.collect(name, func(from root.Root, at string) ([]recordings.Recording, error) {
		return recordings.Within(from, at, recordings.AnyUser)
	})
}

// pattern collects the recordings to a path, in which %p stands for a PID.
func (s *search) pattern(pattern string) {
	s.collect(path.Dir(pattern), func(from root.Root, at string) ([]recordings.Recording, error) {
		return recordings.In(from, path.Join(at, path.Base(pattern)), recordings.AnyUser)
	})
}

// collect collects the recordings that f finds in a directory, whose path without links it gets:
// the sandbox of a unit with DynamicUser=, whose directories in /run are links, lacks openat2.
func (s *search) collect(
	name string, f func(from root.Root, at string) ([]recordings.Recording, error),
) {
	if s.late = s.late || time.Now().After(s.end); s.late {
		return
	}
	s.looked = append(s.looked, name)
	found, _ := stall.Do(name, func() ([]recordings.Recording, error) {
		from, err := root.Of(0)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		at, err := filepath.EvalSymlinks(name)
		if err == nil {
			at, err = filepath.Abs(at)
		}
		if err != nil {
			return nil, err
		}
		return f(from, at)
	}, nil)
	for _, r := range found {
		r.File = path.Join(name, path.Base(r.File))
		s.all = append(s.all, candidate{Recording: r})
	}
}

// service collects the recordings of a unit, and reports whether there is such a unit.
func (s *search) service(unit string) bool {
	directories := map[string]string{
		"RuntimeDirectory": "/run", "StateDirectory": "/var/lib", "CacheDirectory": "/var/cache",
		"LogsDirectory": "/var/log",
	}
	names := []string{"MainPID", "Environment"}
	for name := range directories {
		names = append(names, name)
	}
	properties := ending.Show(context.Background(), unit, names...)
	if properties == nil {
		return false
	}
	s.unit = unit
	isNamed := false
	if _, rest, ok := strings.Cut(properties["Environment"], recording.Variable+"="); ok {
		value, _, _ := strings.Cut(rest, " ")
		pattern, _, err := recording.ParseVariable(strings.Trim(value, `"'`))
		if isNamed = err == nil && path.IsAbs(pattern); isNamed {
			s.pattern(pattern)
		}
	}
	if pid, _ := strconv.Atoi(properties["MainPID"]); pid > 0 {
		s.processes([]int{pid})
	}
	if isNamed {
		return true
	}
	for name, parent := range directories {
		for directory := range strings.FieldsSeq(properties[name]) {
			s.directory(path.Join(parent, directory))
		}
	}
	return true
}

// pod collects the recordings of a pod of this node: those of its processes, and those in its
// volumes, which outlive a container.
func (s *search) pod(name string) error {
	pattern, err := query.ParsePodPattern(name)
	if err != nil {
		return err
	}
	pids, _ := pods.PIDs([]query.PodPattern{pattern})
	s.processes(pids)
	parts := strings.Split(name, "/")
	logs, _ := filepath.Glob(fmt.Sprintf("/var/log/pods/%s_%s_*", parts[0], parts[1]))
	for _, log := range logs {
		uid := log[strings.LastIndexByte(log, '_')+1:]
		volumes := "/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir"
		for _, volume := range below(volumes) {
			s.directory(volume)
			for _, directory := range below(volume) {
				s.directory(directory)
			}
		}
	}
	return nil
}

// noneError is the error for a search that has found no recording.
type noneError string

func (e noneError) Error() string { return string(e) }

func (noneError) Is(target error) bool { return target == fs.ErrNotExist }

// choose returns the recording that tells most, and notes which process is alive.
func (s *search) choose() (*subject, error) {
	all := make([]recordings.Recording, len(s.all))
	for i := range s.all {
		all[i] = s.all[i].Recording
	}
	newest := recordings.Newest(all)
	if newest == nil {
		return nil, s.none()
	}
	isIt := func(r recordings.Recording) bool { return r == *newest }
	chosen := &s.all[slices.IndexFunc(all, isIt)]
	found, err := chosen.open()
	if err != nil {
		return nil, err
	}
	found.unit = s.unit
	if s.late {
		found.notes = append(found.notes, "there may be newer recordings: looking for them took too long; give FILE")
	}
	for i := range s.all {
		if c := &s.all[i]; !c.Kept && chosen.Kept && c.Executable() == chosen.Executable() {
			found.unit = cmp.Or(found.unit, ending.UnitOf(c.PID))
			found.notes = append(found.notes, fmt.Sprintf("process %d, which records to %[2]s, is alive: stapsdt postmortem %[2]s", c.PID, word(c.path())))
			break
		}
	}
	return found, nil
}

// none returns the error for a search that has found nothing.
func (s *search) none() error {
	what, file := "there is no recording", "app"
	if s.of != "" {
		what += " of " + s.of
	}
	if s.of != "" && !strings.ContainsAny(s.of, "/%") {
		file = strings.TrimSuffix(s.of, ".service")
	}
	if len(s.looked) > 0 {
		what += " in " + text.List(s.looked, "or")
	}
	return noneError(fmt.Sprintf("%s: start the program with %s=/dev/shm/%s.rec, or give FILE", what, recording.Variable, file))
}

// path returns the path of the recording for this process.
func (c *candidate) path() string {
	switch {
	case c.Deleted != "":
		return c.Deleted
	case c.pid != 0:
		return fmt.Sprintf("/proc/%d/root%s", proc.Task(c.pid), c.File)
	}
	return c.File
}

// open opens the recording. The directories of its path may be those of a hostile container.
func (c *candidate) open() (*subject, error) {
	s := &subject{path: c.path()}
	if c.Deleted != "" {
		return s, nil
	}
	found, err := c.refer()
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if s.file, err = root.Reopen(found, s.path); err != nil {
		return nil, err
	}
	if c.pid == 0 {
		return s, nil
	}
	if err := recordings.CheckMaker(s.file, c.pid); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// refer opens the recording as a reference.
func (c *candidate) refer() (*os.File, error) {
	if c.pid == 0 {
		return os.OpenFile(c.File, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	from, err := root.Of(c.pid)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	return from.Find(c.File, 0)
}

// ownerOf returns the user who has made a file, unless it is the user of this process.
func ownerOf(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	if uid == uint32(os.Geteuid()) {
		return ""
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// isEarlierBoot reports whether a recording is known to be of another boot or machine.
func isEarlierBoot(h *recording.Head) bool {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	own, hexErr := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	return err == nil && hexErr == nil && h.Boot != [16]byte{} && string(own) != string(h.Boot[:])
}
