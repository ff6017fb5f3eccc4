//go:build linux

package expose

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxAnswers is the maximum number of answers in memory: a client may read its answer slowly.
	maxAnswers = 4
	// maxScrapes is the maximum number of simultaneous scrapes. Further ones get the status 503.
	maxScrapes = 256
	// scrapePatience is how long scrapes wait for room for an answer. They then get the status 503.
	scrapePatience = 10 * time.Second
)

// answers is a handler that makes one answer at a time, for all scrapes that wait for the same one.
// A scrape never gets an answer that was begun before it came.
type answers struct {
	make     http.Handler
	patience time.Duration
	room     chan struct{} // has an element for each answer in memory
	turn     sync.Mutex    // held while an answer is made
	mu       sync.Mutex
	next     map[string]*answer // answers that are not begun, by the headers that determine them
	count    int                // of scrapes
}

// answer is the response to one or more scrapes.
type answer struct {
	ready  chan struct{} // closed when the other fields are set
	status int
	header http.Header
	body   [][]byte // pieces of bufferSize: one that grew would be copied
	count  int      // of scrapes that get it
	kept   bool     // whether it takes room
}

func newAnswers(h http.Handler) *answers {
	room := make(chan struct{}, maxAnswers)
	return &answers{make: h, patience: scrapePatience, room: room, next: map[string]*answer{}}
}

func (s *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// These headers determine the answer.
	asked := slices.Concat(r.Header.Values("Accept"), r.Header.Values("Accept-Encoding"))
	key := strings.Join(asked, "\n")
	a, isFirst := s.join(key)
	if a == nil {
		http.Error(w, "too many scrapes", http.StatusServiceUnavailable)
		return
	}
	defer s.leave(a)
	if isFirst {
		s.fill(a, key, r)
	}
	select {
	case <-a.ready:
	case <-r.Context().Done():
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	for _, piece := range a.body {
		_, _ = w.Write(piece) // if it fails, the client has gone
	}
}

// join returns the answer for a scrape, or nil if there are too many. The first scrape must fill
// it.
func (s *answers) join(key string) (a *answer, isFirst bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == maxScrapes {
		return nil, false
	}
	if a = s.next[key]; a == nil {
		a, isFirst = &answer{ready: make(chan struct{}), header: http.Header{}}, true
		s.next[key] = a
	}
	s.count++
	a.count++
	return a, isFirst
}

// leave ends a scrape. The last scrape of an answer frees its room.
func (s *answers) leave(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if a.count--; a.count == 0 && a.kept {
		<-s.room
	}
}

// fill makes an answer, which scrapes can join until it is begun. If making it panics, the other
// scrapes get an empty body.
func (s *answers) fill(a *answer, key string, r *http.Request) {
	defer close(a.ready)
	select {
	case s.room <- struct{}{}:
		a.kept = true
	case <-time.After(s.patience):
		a.status = http.StatusServiceUnavailable
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	delete(s.next, key)
	s.mu.Unlock()
	if !a.kept {
		return
	}
	a.status = http.StatusInternalServerError // if making it panics
	s.make.ServeHTTP(&answerWriter{a: a}, r)
}

// answerWriter writes an answer.
type answerWriter struct {
	a     *answer
	begun bool
}

func (w *answerWriter) Header() http.Header { return w.a.header }

func (w *answerWriter) WriteHeader(status int) {
	if !w.begun {
		w.begun, w.a.status = true, status
	}
}

func (w *answerWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	for rest := data; len(rest) > 0; {
		last := len(w.a.body) - 1
		if last < 0 || len(w.a.body[last]) == bufferSize {
			w.a.body = append(w.a.body, make([]byte, 0, bufferSize))
			last++
		}
		piece := w.a.body[last]
		n := min(len(rest), bufferSize-len(piece))
		w.a.body[last], rest = append(piece, rest[:n]...), rest[n:]
	}
	return len(data), nil
}
