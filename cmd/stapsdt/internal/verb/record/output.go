//go:build linux

package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
)

// output is the file to which events are recorded.
type output struct {
	*console.Console
	options   *Options
	file      *recordfile.File
	writer    *recorder.Writer
	published bool              // the file has its name
	numbers   map[string]uint32 // the indexes of probes, by their entries in the table
	recorded  uint64
	sending   *sending // nil unless the recording is sent
}

// create creates the file for the events of processes, or of all processes if pids is empty.
func create(to *console.Console, options *Options, pids []int) (o *output, err error) {
	o = &output{Console: to, options: options, numbers: map[string]uint32{}}
	if fd, open := descriptor(options.Path); open {
		o.file, err = recordfile.Use(fd, options.Size)
		o.published = true // the file has no name
	} else {
		o.file, err = recordfile.Create(options.Path, options.Size, false)
	}
	if err != nil {
		return nil, fmt.Errorf("-O %s: %w", options.Path, err)
	}
	w := recorder.Options{Foreign: true, File: o.file}
	recordfile.Describe(&w.Head)
	w.Head.Executable, w.Head.Start = "", 0
	if len(pids) == 1 {
		w.Head.PID = uint32(pids[0])
		w.Head.Executable = proc.Executable(pids[0])
	}
	o.writer = recorder.New(o.file.Memory, o.file.Chunks, w)
	return o, nil
}

// descriptor returns the open file that a path such as /dev/fd/3 stands for.
func descriptor(path string) (fd int, ok bool) {
	digits, ok := strings.CutPrefix(path, "/dev/fd/")
	fd, err := strconv.Atoi(digits)
	return fd, ok && err == nil
}

// publish gives the file its name. Until then, an earlier recording has it.
func (o *output) publish() error {
	path := o.options.Path
	if o.published {
		return nil
	}
	if err := o.file.Publish(path, path); err != nil {
		return fmt.Errorf("-O %s: %w", path, err)
	}
	o.published = true
	if o.file.Path != path {
		o.Warn("%s belongs to another process or another user, so the events are recorded to %s", path, o.file.Path)
	}
	if o.file.Previous != "" {
		o.Warn("the earlier recording %s is now called %s", path, o.file.Previous)
	}
	if o.file.Removed != "" {
		o.Warn("%s is removed, because there were more than %d earlier recordings", o.file.Removed, recordfile.Keep)
	}
	return nil
}

// number returns the index of a probe in the file.
func (o *output) number(entry *recording.Probe) (number uint32, err error) {
	key := string(entry.Append(nil))
	number, ok := o.numbers[key]
	if !ok {
		if number, ok = o.writer.AddProbe(entry); !ok {
			return 0, errors.New("the recording has no room for its name: give a larger --size")
		}
		o.numbers[key] = number
	}
	return number, nil
}

// failed returns an error if the recording has ended.
func (o *output) failed() error {
	if o.writer.Failed() {
		return fmt.Errorf("%s: the recording has ended, because the file was truncated or its disk failed", o.file.Path)
	}
	return nil
}

// report prints the number of events in the recording, unless it is sent.
func (o *output) report() error {
	o.writer.Close()
	if o.sending != nil {
		return o.sending.finish()
	}
	reader, err := recording.NewReader(o.file.File)
	if err == nil {
		_, err = reader.More()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.file.Path, err)
	}
	to := ""
	if o.file.Path != "" {
		to = " to " + o.file.Path
	}
	o.Warn("recorded %s%s", render.Number(o.recorded, "event"), to)
	if oldest := reader.Lost() - o.writer.Dropped(); oldest > 0 {
		o.Warn("the oldest %d of them were dropped, because the file has room for %d bytes: see --size", oldest, o.options.Size)
	}
	return nil
}

// close closes the file, and removes it if it has no name.
func (o *output) close() {
	o.writer.Close()
	if o.sending != nil {
		_ = o.sending.finish() // it reads the memory
	}
	if o.published {
		_ = o.file.Close()
	} else {
		o.file.Remove()
	}
}
