//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
)

// newRequests returns requests that a handler serves. A request is in flight while its handler runs.
func newRequests(p *stapsdt.Provider) begin {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /item/{n}", func(w http.ResponseWriter, r *http.Request) {
		callIn(r.Context()).stay()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Item", r.PathValue("n"))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s", r.Pattern, body)
	})
	handler := httpprobe.NewServer(p).Handler(mux)
	return func(n int) (end, error) {
		return callOf(func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("/item/%d", n), strings.NewReader("body"))
			if err != nil {
				return err
			}
			r.Header.Set("Traceparent", traceparent)
			r.RemoteAddr = "192.0.2.1:1234"
			w := &writer{header: http.Header{}}
			handler.ServeHTTP(w, r)
			return errors.Join(
				differs(http.StatusTeapot, w.status), differs("POST /item/{n} body", w.body.String()),
				differs(fmt.Sprint(n), w.header.Get("Item")), differs("POST /item/{n}", r.Pattern),
			)
		})
	}
}

// writer is the ResponseWriter of a request.
type writer struct {
	header http.Header
	status int
	body   strings.Builder
}

func (w *writer) Header() http.Header            { return w.header }
func (w *writer) WriteHeader(status int)         { w.status = status }
func (w *writer) Write(data []byte) (int, error) { return w.body.Write(data) }
func (w *writer) Flush()                         {}

// newFetches returns requests that a client sends. One is in flight until its answer is read.
func newFetches(p *stapsdt.Provider) begin {
	client := &http.Client{Transport: httpprobe.NewClient(p).Transport(service{})}
	return func(n int) (end, error) {
		answer, err := client.Post(fmt.Sprintf("http://service.example/%d", n), "text/plain", strings.NewReader("body"))
		if err != nil {
			return nil, err
		}
		return func() error {
			body, err := io.ReadAll(answer.Body)
			return errors.Join(err, answer.Body.Close(),
				differs(fmt.Sprintf("/%d body", n), string(body)), differs(http.StatusOK, answer.StatusCode))
		}, nil
	}
}

// service is a transport with the methods of an *http.Transport, and what answers there.
type service struct{}

func (service) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	text := r.URL.Path + " " + string(body)
	return http.ReadResponse(bufio.NewReaderSize(strings.NewReader("HTTP/1.0 200 OK\r\n\r\n"+text), 16), r)
}

func (service) CloseIdleConnections()       {}
func (service) CancelRequest(*http.Request) {}
