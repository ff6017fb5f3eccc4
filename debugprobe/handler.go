package debugprobe

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/go-stapsdt/stapsdt/proberec"
)

//go:embed page
var files embed.FS

// Handler returns a handler that serves the page and its data. It serves GET and HEAD requests
// for any path: the last element of the path selects what it serves. Mount it below a path that
// ends in a slash. The handler is safe for concurrent use.
//
// The page also shows the events of the given flight recorders, and clients can download them as
// recordings. A nil Recorder is left out.
func Handler(recorders ...*proberec.Recorder) http.Handler {
	f := &flight{}
	for _, r := range recorders {
		if r != nil {
			f.recorders = append(f.recorders, r)
		}
	}
	return f.handler()
}

// handler returns the handler of the page and its data.
func (f *flight) handler() http.Handler {
	return handler{
		"":               page("index.html", "text/html; charset=utf-8"),
		"page.css":       page("page.css", "text/css; charset=utf-8"),
		"page.js":        page("page.js", "text/javascript; charset=utf-8"),
		"probes.json":    f.serveList,
		"events":         serveEvents,
		"events.json":    serveLines,
		"histogram.json": serveHistogram,
		"recorder.json":  f.serve,
		"recording.rec":  f.serveRecording,
	}
}

// Mount makes mux serve the page at /debug/probes/. It panics if mux has a handler there already.
// For other paths and multiplexers, use [Handler]. Package debugprobe's warning applies.
func Mount(mux *http.ServeMux, recorders ...*proberec.Recorder) {
	mux.Handle("/debug/probes/", Handler(recorders...))
}

// handler maps the last element of a path to its endpoint.
type handler map[string]func(http.ResponseWriter, *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	_, last := path.Split(r.URL.Path)
	err := allowed(r)
	if err == nil {
		endpoint := h[last]
		switch {
		case endpoint == nil:
			err = &problem{Status: http.StatusNotFound, Message: "there is no such page"}
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			err = &problem{Status: http.StatusMethodNotAllowed, Message: "use GET"}
		default:
			err = endpoint(w, r)
		}
	}
	if err != nil {
		fail(w, err)
	}
}

// protect sets the headers that keep the browser from running or showing anything except the
// page's own files, and from storing responses.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// allowed rejects requests that another site makes with the user's browser.
func allowed(r *http.Request) error {
	// Other sites may link to the page, but may neither embed it nor start a stream.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		_, last := path.Split(r.URL.Path)
		if r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" || last != "" {
			return &problem{Status: http.StatusForbidden, Message: "another site made this request"}
		}
	}
	// A name of another site that resolves to this machine makes the browser believe that
	// the page belongs to that site (DNS rebinding). The Host header still has the name.
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); ok && tcp.IP.IsLoopback() && !loopback(r.Host) {
		return &problem{Status: http.StatusForbidden, Message: fmt.Sprintf("this server was reached on a loopback address, but under the name %q; "+
			"use localhost, and let a reverse proxy set the header Host to localhost", r.Host)}
	}
	return nil
}

// loopback reports whether a Host header names this machine's loopback interface.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// page serves an embedded file.
func page(name, contentType string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		content, err := files.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(content)
		return nil
	}
}

// problem is an error that is reported to the client.
type problem struct {
	Status    int    `json:"-"`
	Message   string `json:"message"`
	Parameter string `json:"parameter,omitempty"`
	// Offset is the place of the error in the parameter, in bytes, and Text is a
	// rendering of several lines that points to it.
	Offset *int   `json:"offset,omitempty"`
	Text   string `json:"text,omitempty"`
}

func (p *problem) Error() string { return p.Message }

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	p := &problem{Status: http.StatusInternalServerError, Message: err.Error()}
	errors.As(err, &p)
	w.Header().Set("Content-Type", "application/json")
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(p.Status)
	writeJSON(w, map[string]*problem{"error": p})
}

func writeJSON(w http.ResponseWriter, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client is gone
}
