package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client sends requests to a handler.
type Client struct {
	address *Address
	http    http.Client
}

// patience is the time that a server may take to answer, or may be silent in a stream,
// although it writes every second.
const patience = 15 * time.Second

// NewClient returns a client for the handler at an address.
func NewClient(a *Address) *Client {
	dialer := &net.Dialer{Timeout: patience}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, ForceAttemptHTTP2: true,
	}
	if a.socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", a.socket)
		}
	}
	return &Client{address: a, http: http.Client{Transport: transport}}
}

// Error is a refusal of the server, or an answer that does not come from a debugprobe handler.
type Error struct {
	Status int // the HTTP status
	// Text is one sentence, or marks the error in an expression, on several lines.
	Text string
}

func (e *Error) Error() string { return e.Text }

// ErrGone means that the connection ended before the stream did.
var ErrGone = errors.New("the connection has ended")

// Listing is a program's description of its probes.
type Listing struct {
	PID       int
	Program   string
	Providers []Provider
}

// Provider is a provider of a program.
type Provider struct {
	Name   string
	Loaded bool
	Path   string // the path of the image, if it is loaded
	Probes []Probe
}

// Probe is a probe of a program.
type Probe struct {
	Provider string `json:"-"`
	Name     string
	Args     []struct{ Name, Type string }
	Sites    int  // the number of sites
	Traced   bool // whether the kernel traces the probe
}

// maxListing is the maximum size of a listing in bytes. No program has a larger one.
const maxListing = 64 << 20

// Probes requests the probes of the program.
func (c *Client) Probes(ctx context.Context) (*Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := c.get(ctx, "probes.json", nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	l := &Listing{}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxListing)).Decode(l); err != nil ||
		l.PID == 0 {
		return nil, c.noHandler(http.StatusNotFound, "another server answered")
	}
	for i := range l.Providers {
		for j := range l.Providers[i].Probes {
			l.Providers[i].Probes[j].Provider = l.Providers[i].Name
		}
	}
	return l, nil
}

func (c *Client) noHandler(status int, why string) error {
	return &Error{status, fmt.Sprintf("there is no debugprobe at %s: %s", c.address, why)}
}

// get requests a resource, and returns the response if it was successful.
func (c *Client) get(ctx context.Context, name string, query url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address.at(name, query), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.address, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		var wrapped *url.Error // its message contains the whole URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", c.address, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	var body struct {
		Error struct{ Message, Text string }
	}
	isJSON := strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") &&
		json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(
			&body,
		) == nil && body.Error.Message != ""
	switch code := response.StatusCode; {
	case isJSON:
		return nil, &Error{code, printable(cmp.Or(body.Error.Text, body.Error.Message))}
	case code == http.StatusUnauthorized:
		return nil, &Error{code, fmt.Sprintf("%s: %s; give USER:PASSWORD@ before the host", c.address, printable(response.Status))}
	case code == http.StatusNotFound:
		return nil, c.noHandler(code, printable(response.Status))
	default:
		return nil, &Error{code, fmt.Sprintf("%s: %s", c.address, printable(response.Status))}
	}
}
