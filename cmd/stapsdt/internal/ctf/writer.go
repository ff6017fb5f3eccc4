//go:build linux

package ctf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	packetMagic     = 0xc1fc1fc1
	packetHeadBytes = 4 + 4 + 5*8
	// packetBytes is the size at which a packet is written.
	packetBytes = 64 << 10
)

// preamble is the description of all traces. The clock's offset is a parameter.
const preamble = `/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;
trace {
	major = 1; minor = 8; byte_order = le;
	packet.header := struct { uint32_t magic; uint32_t stream_id; };
};
env { tracer_name = "stapsdt"; };
clock { name = fired; freq = 1000000000; offset = %d; absolute = true; };
typealias integer { size = 64; align = 8; signed = false; map = clock.fired.value; } := fired_t;
stream {
	id = 0;
	packet.context := struct {
		fired_t timestamp_begin; fired_t timestamp_end; uint64_t content_size; uint64_t packet_size; uint64_t events_discarded;
	};
	event.header := struct { uint32_t id; fired_t timestamp; };
	event.context := struct { uint32_t _pid; uint32_t _tid; uint64_t _goroutine; string _procname; };
};
`

// types are the CTF types of arguments, by kind.
var types = map[recording.Kind]string{
	recording.Int64: "int64_t", recording.Uint64: "uint64_t", recording.Float64: "float64_t", recording.String: "string",
	recording.Bool: "uint64_t", recording.Duration: "int64_t", recording.Pointer: "address_t",
}

// writer writes a trace: a directory with a description, and one stream of packets.
type writer struct {
	metadata, stream *os.File
	classes          strings.Builder // descriptions of events that are not in metadata yet
	known            uint32          // the number of classes
	began            bool            // metadata has the preamble
	packet           []byte
	first, last      time.Duration // of the packet
}

// create makes the directory.
func create(path string) (w *writer, err error) {
	if err := os.Mkdir(path, 0o777); err != nil {
		return nil, fmt.Errorf("-O %w", err)
	}
	w = &writer{packet: make([]byte, packetHeadBytes)}
	if w.metadata, err = os.Create(filepath.Join(path, "metadata")); err != nil {
		return nil, fmt.Errorf("-O %w", err)
	}
	if w.stream, err = os.Create(filepath.Join(path, "events")); err != nil {
		w.metadata.Close()
		return nil, fmt.Errorf("-O %w", err)
	}
	return w, nil
}

// class adds an event class, and returns its ID.
func (w *writer) class(p *recording.Probe) uint32 {
	number := w.known
	w.known++
	fmt.Fprintf(&w.classes, "event { id = %d; name = \"%s\"; stream_id = 0; fields := struct {", number, strings.Map(quotable, p.Provider+":"+p.Name))
	used := map[string]bool{}
	for i, a := range p.Args {
		name := "_" + strings.Map(identifier, cmp.Or(a.Name, fmt.Sprintf("arg%d", i)))
		for used[name] {
			name += fmt.Sprintf("_arg%d", i)
		}
		used[name] = true
		fmt.Fprintf(&w.classes, " %s %s;", types[a.Kind], name)
	}
	w.classes.WriteString(" }; };\n")
	return number
}

// quotable returns a character that is valid in a quoted name, and identifier one that is valid in an identifier.
func quotable(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' {
		return '_'
	}
	return r
}

func identifier(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

// event adds an event of a class. Its time is by the stream's clock.
func (w *writer) event(class uint32, at time.Duration, e *recording.Event, program string, lost func() uint64) error {
	if err := w.describe(time.Duration(e.Realtime) - at); err != nil {
		return err
	}
	if at = max(at, w.last); len(w.packet) == packetHeadBytes { // a stream is in the order of the times
		w.first = at
	}
	w.last = at
	le := binary.LittleEndian
	b := le.AppendUint32(w.packet, class)
	b = le.AppendUint64(b, uint64(at))
	b = le.AppendUint32(b, e.PID)
	b = le.AppendUint32(b, e.TID)
	b = le.AppendUint64(b, e.Goroutine)
	b = appendText(b, []byte(program))
	for i, a := range e.Probe.Args {
		if a.Kind == recording.String {
			b = appendText(b, e.Text(i))
		} else {
			b = le.AppendUint64(b, e.Word(i))
		}
	}
	if w.packet = b; len(b) < packetBytes {
		return nil
	}
	return w.flush(lost())
}

// appendText appends a NUL-terminated string.
func appendText(to, text []byte) []byte {
	return append(append(to, bytes.ReplaceAll(text, []byte{0}, []byte("\ufffd"))...), 0)
}

// describe writes the metadata of the events that follow. offset is the difference between the time of day and the clock.
func (w *writer) describe(offset time.Duration) error {
	if w.began && w.classes.Len() == 0 {
		return nil
	}
	text := w.classes.String()
	if !w.began {
		text = fmt.Sprintf(preamble, max(offset, 0)) + text
	}
	w.began = true
	w.classes.Reset()
	_, err := w.metadata.WriteString(text)
	return err
}

// flush writes the packet, if it has an event. lost is the number of events lost since the beginning.
func (w *writer) flush(lost uint64) error {
	if len(w.packet) == packetHeadBytes {
		return nil
	}
	le := binary.LittleEndian
	le.PutUint32(w.packet, packetMagic)
	le.PutUint32(w.packet[4:], 0)
	for i, n := range []uint64{uint64(w.first), uint64(w.last), 8 * uint64(len(w.packet)), 8 * uint64(len(w.packet)), lost} {
		le.PutUint64(w.packet[8+8*i:], n)
	}
	_, err := w.stream.Write(w.packet)
	w.packet = w.packet[:packetHeadBytes]
	return err
}

// close writes the last packet and closes the files.
func (w *writer) close(lost uint64) error {
	err := cmp.Or(w.describe(0), w.flush(lost))
	return cmp.Or(err, w.metadata.Close(), w.stream.Close())
}
