// Package proberec is a flight recorder for probes: it keeps the last events of providers, so
// that you can see, after a failure, what happened just before it. It needs no tracer, no root,
// and no Load.
//
// A recorder that [New] returns keeps the events in memory, and the program writes them after a
// failure:
//
//	recorder := proberec.New(8<<20, probes)
//	recorder.Start()
//	...
//	recorder.WriteTo(file)
//
// A recorder that [Create] returns keeps them in a file, which survives the program, even after a
// crash, SIGKILL, or the kernel's OOM killer. The command stapsdt reads it with --from FILE, even
// while the program runs; docs/recording.md is a guide, and describes the format:
//
//	recorder, err := proberec.Create("/dev/shm/myapp.rec", 8<<20, probes)
//	if err != nil {
//		return err
//	}
//	recorder.Start()
//
// [Recorder.WriteTo] writes such a file of either kind of recorder. [Recorder.WriteJSON] writes
// the events as lines of JSON:
//
//	{"time":"2026-01-02T15:04:05.123456789Z","provider":"myapp","probe":"request__done","pid":4711,"args":{"path":"/","status":200}}
//
// time is RFC 3339 with nanoseconds, in UTC. The arguments have their names, or arg0, arg1
// and so on. Integers are numbers, durations are numbers of nanoseconds, and pointers are
// strings such as "0xc000012345". NaN and the infinities are the strings "NaN", "+Inf" and
// "-Inf". In a string, bytes that are not UTF-8 become U+FFFD.
//
// With package probeenv, an environment variable determines whether the program records, and where.
//
// Arguments can be confidential. If they are, so are the output of WriteTo and WriteJSON, and the
// file of Create.
package proberec

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventjson"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/recording/sink"
)

// Recorder keeps the last events of providers. Its methods are safe for concurrent use. The methods
// of the zero Recorder and of a nil one do nothing, and return zero values.
//
// While it is started, the probes of its providers are enabled. Recording allocates nothing, and
// a fire does not wait for another. On amd64 with a version of Go that the package knows, a
// recorded event costs less than a reading of the clock. Elsewhere it costs a reading of the clock
// and a compare-and-swap: docs/cost.md has the figures. A child that is forked without exec records
// nothing.
type Recorder struct {
	size      int64
	providers []*stapsdt.Provider

	// state guards the following fields.
	state  sync.Mutex
	stop   func() // nil unless it is started
	writer *recorder.Writer
	file   *recordfile.File // the file of a recorder that Create has made, or nil
	closed bool
}

// New returns a recorder that keeps about size bytes of events: 16 MiB if size is 0, and otherwise
// at least 256 KiB and at most 1 GiB, to which other sizes are changed. It keeps the events of the
// given providers or, if none is given, of all providers of the process, including those that are
// defined later. An event takes 24 bytes, plus 8 bytes for each argument, plus the text and 1 to 8
// bytes for each string. The recorder records from Start on. The first Start allocates the memory.
func New(size int64, providers ...*stapsdt.Provider) *Recorder {
	size = min(recordingSize(size), recording.MaxBytes)
	return &Recorder{size: size, providers: slices.Clone(providers)}
}

// recordingSize returns the size of a recording for which a program asks.
func recordingSize(size int64) int64 {
	if size == 0 {
		return recording.DefaultBytes
	}
	return max(size, recording.MinBytes)
}

// Start begins or continues to record. It does nothing if the recorder is started or closed.
func (r *Recorder) Start() {
	if r == nil {
		return
	}
	r.state.Lock()
	defer r.state.Unlock()
	if r.stop != nil || r.closed || r.size == 0 {
		return
	}
	if r.writer == nil {
		chunks := recorder.Chunks(r.size)
		memory := make([]byte, recorder.Size(chunks))
		r.writer = newWriter(memory, chunks, recorder.Options{CannotFail: true})
	}
	r.stop = sink.Record(&recorder.Sink{Writer: r.writer}, r.providers)
}

// Stop ends the recording. The events stay: WriteTo writes them, and Start continues after
// them. Stop does nothing if the recorder is not started.
func (r *Recorder) Stop() {
	if r == nil {
		return
	}
	r.state.Lock()
	defer r.state.Unlock()
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// newWriter returns the writer of a recording of this process.
func newWriter(memory []byte, chunks uint64, o recorder.Options) *recorder.Writer {
	o.Head.PID = uint32(os.Getpid())
	recordfile.Describe(&o.Head)
	return recorder.New(memory, chunks, o)
}

// WriteTo writes a copy of the recording to w, in the format of the file that Create makes: stapsdt
// reads it with --from FILE. WriteTo neither stops the recording nor forgets the events. Events
// that are fired while it runs are missing, and may replace the oldest ones, which are then missing
// too. If a recorder of New was never started, there is no recording, and nothing is written. After
// Close, WriteTo still writes the recording of a recorder of New, and fails for one of Create,
// whose file is the recording. WriteTo returns the number of bytes written, and the error of w or
// of reading the recording.
//
// The copy takes as much memory as the recorder. It is written in pieces of at most 64 KiB.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	_, copied, err := r.snapshot()
	if copied == nil {
		return 0, err
	}
	// Hide the other methods: a method that writes everything at once could not distinguish a slow
	// reader from none.
	return io.CopyBuffer(
		struct{ io.Writer }{w}, struct{ io.Reader }{copied}, make([]byte, recording.ChunkBytes),
	)
}

// WriteJSON is like WriteTo, but writes the events as lines of JSON, the oldest first, which
// package proberec's comment describes. While it runs, it takes another 40 bytes of memory for each
// event.
func (r *Recorder) WriteJSON(w io.Writer) (int64, error) {
	until, copied, err := r.snapshot()
	if copied == nil {
		return 0, err
	}
	out := &writer{w: w, times: eventjson.Times(), heads: map[*recording.Probe]*eventjson.Head{}}
	err = out.write(copied, until)
	return out.n, err
}

// snapshot returns a copy of the recording, or nil if there is none, and the time by its clock
// before it was copied.
func (r *Recorder) snapshot() (until uint64, copied *io.SectionReader, err error) {
	if r == nil {
		return 0, nil, nil
	}
	r.state.Lock()
	if r.closed && r.file != nil {
		r.state.Unlock()
		return 0, nil, fmt.Errorf("proberec: the recorder is closed: the recording is the file %s", r.file.Path)
	}
	source := io.ReaderAt(r.writer)
	if r.file != nil {
		// another process may have truncated it, so that reading the mapping would be fatal
		source = r.file
	} else if r.writer == nil {
		source = nil // it was never started
	}
	r.state.Unlock()
	if source == nil {
		return 0, nil, nil
	}
	until = r.writer.Now()
	all, err := recording.Snapshot(source, r.writer.Bytes())
	if err != nil {
		return 0, nil, fmt.Errorf("proberec: read the recording: %w", err)
	}
	return until, io.NewSectionReader(all, 0, r.writer.Bytes()), nil
}
