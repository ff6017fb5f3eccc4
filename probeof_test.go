package stapsdt

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"Path": "path", "HTTPStatus": "http_status", "UserID": "user_id", "ID": "id", "A": "a", "AB": "ab", "IsOK": "is_ok", "RequestDone": "request_done",
		"IDs": "ids", "UserIDs": "user_ids", "URLsSeen": "urls_seen", "APIServer": "api_server", "ASet": "a_set", "HTTPServer": "http_server", "URLStatus": "url_status",
		"IPv4": "ipv4", "IPv6Addr": "ipv6_addr", "TLSVersion": "tls_version", "Path2": "path2", "HTTP2Server": "http2_server", "X509Cert": "x509_cert", "UTF8": "utf8",
		"Base64URL": "base64_url", "Field_Name": "field_name", "Bytes_": "bytes_", "A_B": "a_b", "X": "x", "XMLHTTPRequest": "xmlhttp_request", "Größe": "größe", "ÄÖ": "äö",
	} {
		require.Equal(t, want, snake(name), name)
	}
}

type (
	object  struct{ A, B int }
	details struct {
		Status  int32
		Elapsed time.Duration
	}
	request struct {
		ID   userID
		Path string `probe:"url"`
		details
		Body    []byte
		Ratio   float64
		Object  *object
		_       [3]byte
		hidden  map[string]int `probe:"-"`
		Skipped chan int       `probe:"-"`
		Raw     unsafe.Pointer
		OK      bool
	}
)

func TestProbeOf(t *testing.T) {
	p := newProvider(t, "of")
	probe := NewProbeOf[request](p, "request")
	word := ArgType(unsafe.Sizeof(uintptr(0)))
	require.Equal(t, []ArgType{Uint64, String, Int32, Int64, String, Float64, word, word, Uint8}, probe.args)
	require.Equal(t, []string{"id", "url", "status", "elapsed", "body", "ratio", "object", "raw", "ok"}, probe.argNames())
	require.Len(t, probe.types, 9)
	require.EqualValues(t, 1<<6|1<<7, probe.pointers)
	require.Equal(t, unsafe.Offsetof(request{}.details)+unsafe.Offsetof(details{}.Elapsed), probe.offsets[3])
	require.NoError(t, p.err)
	probe.Fire(request{hidden: nil})
	probe.FireFunc(func() request { panic("no tracer is attached") })

	none := NewProbeOf[struct{}](p, "none")
	require.Empty(t, none.args)
	none.Fire(struct{}{})
	require.NoError(t, p.err)

	nowhere := NewProbeOf[request](nil, "request")
	nowhere.Fire(request{})
	NewProbeOf[int](nil, "request").Fire(1)
}

// TestTimes: a time is an argument, also if it is embedded, and not the fields that it has.
func TestTimes(t *testing.T) {
	type event struct {
		time.Time
		Began time.Time
		Count int32
	}
	p := newProvider(t, "times")
	fields := NewProbeOf[event](p, "fields")
	typed := NewProbe2[time.Time, string](p, "typed")
	dynamic, err := p.AddProbe("dynamic", Time, Int64)
	require.NoError(t, err)
	require.NoError(t, p.err)
	require.Equal(t, []ArgType{Time, Time, Int32}, fields.args)
	require.Equal(t, []string{"time", "began", "count"}, fields.argNames())
	require.Equal(t, []int8{-8, -8, -4}, fields.appendNotes(nil))
	var seen []any
	defer p.Observe(func(e *Event) {
		for i := range e.NumArgs() {
			seen = append(seen, e.Arg(i).Any())
		}
	})()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	fields.Fire(event{at.Local(), time.Time{}, 7})
	typed.Fire(at, "text")
	require.NoError(t, dynamic.Fire(at, 8))
	require.ErrorIs(t, dynamic.Fire(8, 8), ErrArgType)
	require.Equal(t, []any{at, time.Time{}, int64(7), at, "text", at, int64(8)}, seen)
}

// pair has a struct of any type, which Go cannot embed.
type pair[T any] struct {
	ID   uint64
	Rest T `probe:",inline"`
}

func TestInlineFields(t *testing.T) {
	p := newProvider(t, "of")
	probe := NewProbeOf[pair[details]](p, "request")
	require.NoError(t, p.err)
	require.Equal(t, []string{"id", "status", "elapsed"}, probe.argNames())
	require.Equal(t, unsafe.Offsetof(pair[details]{}.Rest)+unsafe.Offsetof(details{}.Elapsed), probe.offsets[2])
	require.Equal(t, []string{"id"}, NewProbeOf[pair[struct{}]](p, "nothing").argNames())
	require.NoError(t, p.err)
	NewProbeOf[pair[int]](p, "number")
	require.ErrorIs(t, p.err, ErrArgType)
	require.ErrorContains(t, p.err, "the field Rest of stapsdt.pair[int] has the type int, which is not a struct")
}

func TestWrongProbeOf(t *testing.T) {
	type embedded struct{ Name, Other string }
	p := func(t *testing.T) *Provider { return newProvider(t, "of") }
	for _, c := range []struct {
		define   func(p *Provider)
		sentinel error
		text     string
	}{
		{func(p *Provider) { NewProbeOf[int](p, "x").Fire(1) }, ErrArgType, "wrong argument type: int is not a struct"},
		{func(p *Provider) { NewProbeOf[*object](p, "x").Fire(nil) }, ErrArgType, "wrong argument type: *stapsdt.object is not a struct"},
		{func(p *Provider) { NewProbeOf[any](p, "x").Fire(nil) }, ErrArgType, "wrong argument type: interface {} is not a struct"},
		{func(p *Provider) { NewProbeOf[struct{ path string }](p, "x").Fire(struct{ path string }{}) }, ErrArgType,
			"wrong argument type: the field path of struct { path string } is not exported; export it, or give it the tag `probe:\"-\"`"},
		{func(p *Provider) { NewProbeOf[struct{ At time.Timer }](p, "x") }, ErrArgType, "the field At of struct { At time.Timer } has the type time.Timer, which an argument cannot have"},
		{func(p *Provider) { NewProbeOf[struct{ *details }](p, "x") }, ErrArgType, "the field details of"},
		{func(p *Provider) {
			NewProbeOf[struct {
				embedded `probe:"all"`
			}](p, "x")
		}, ErrArgType, "the field embedded of"},
		{func(p *Provider) { NewProbeOf[struct{ P *int }](p, "x") }, ErrArgType, "has the type *int"},
		{func(p *Provider) { NewProbeOf[struct{ P []int }](p, "x") }, ErrArgType, "has the type []int"},
		{func(p *Provider) { NewProbeOf[struct{ P [4]byte }](p, "x") }, ErrArgType, "has the type [4]uint8"},
		{func(p *Provider) { NewProbeOf[struct{ P error }](p, "x") }, ErrArgType, "has the type error"},
		{func(p *Provider) { NewProbeOf[struct{ P complex64 }](p, "x") }, ErrArgType, "has the type complex64"},
		{func(p *Provider) { NewProbeOf[struct{ P map[string]int }](p, "x") }, ErrArgType, "has the type map[string]int"},
		{func(p *Provider) { NewProbeOf[struct{ Größe int }](p, "x") }, ErrName, `invalid name: the name "größe" of argument 0 is not a C identifier`},
		{func(p *Provider) { NewProbeOf[struct{ Default int }](p, "x") }, ErrName, `invalid name: the name "default" of argument 0 is reserved`},
		{func(p *Provider) {
			NewProbeOf[struct {
				A int `probe:"a,b"`
			}](p, "x")
		}, ErrName, `the name "a,b" of argument 0 is not a C identifier`},
		{func(p *Provider) {
			NewProbeOf[struct {
				Name string
				embedded
			}](p, "x")
		}, ErrName, `the name "name" of argument 1 occurs twice`},
		{func(p *Provider) {
			NewProbeOf[struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R int }](p, "x")
		}, ErrTooManyArgs, "got 18, want at most 12"},
		{func(p *Provider) { NewProbeOf[struct{}](p, "not good") }, ErrName, "the name contains ' '"},
		{func(p *Provider) {
			NewProbeOf[struct{ A int }](p, "x")
			NewProbeOf[struct{ B int }](p, "x")
		}, ErrConflict, "a probe of this name has the argument names [a]"},
	} {
		p := p(t)
		c.define(p)
		err := p.Load()
		require.ErrorIs(t, err, c.sentinel)
		requireOneLine(t, err)
		require.True(t, strings.HasPrefix(err.Error(), "stapsdt: define of:"), err)
		require.Contains(t, err.Error(), c.text)
	}
}

// TestObservedFields: an observer sees the fields as they were, under their names.
func TestObservedFields(t *testing.T) {
	p := newProvider(t, "of")
	probe := NewProbeOf[request](p, "request")
	var event *Event
	defer p.Observe(func(e *Event) { event = e.Clone() })()
	x := &object{}
	want := fmt.Sprintf(`of:request(id=7, url="/", status=-5, elapsed=1m0s, body="text", ratio=0.1, object=%p, raw=0x0, ok=true)`, x)
	args := request{ID: 7, Path: "/", details: details{-5, time.Minute}, Body: []byte("text"), Ratio: 0.1, Object: x, OK: true}
	probe.Fire(args)
	require.Equal(t, want, event.String())
	event = nil
	probe.FireFunc(func() request { return args })
	require.Equal(t, want, event.String())
	require.Equal(t, KindPointer, event.Arg(6).Kind())
	require.Equal(t, KindDuration, event.Arg(3).Kind())
}
