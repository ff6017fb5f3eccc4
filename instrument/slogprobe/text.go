package slogprobe

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt"
)

const (
	// maxText is the largest number of bytes that a tracer sees of a string.
	maxText = stapsdt.MaxString - 1
	// maxAttrs is the maximum number of attributes that are examined for one text. More do
	// not fit, because an attribute takes at least four bytes: a=1 and a space. It also
	// bounds the work on groups that contain themselves.
	maxAttrs = stapsdt.MaxString / 4
)

// text is the text of attributes, as slog.TextHandler writes them. It is cut while it is built.
type text struct {
	buf    []byte
	prefix []byte // the names of the groups, each with a dot
	attrs  int    // attributes examined so far
	format func(slog.Value) string
}

// texts holds the memory of texts.
var texts = sync.Pool{New: func() any { return new(text) }}

// newText returns a text that begins with another, in groups that are open.
func newText(begin, groups string, format func(slog.Value) string) *text {
	t := texts.Get().(*text)
	*t = text{
		buf: append(t.buf[:0], begin...), prefix: append(t.prefix[:0], groups...), format: format,
	}
	return t
}

// free gives up the text.
func (t *text) free() {
	if cap(t.buf) <= 2*stapsdt.MaxString { // otherwise the pool would keep it for a quoted text
		texts.Put(t)
	}
}

// full reports whether there is no room for more.
func (t *text) full() bool { return len(t.buf) >= maxText || t.attrs >= maxAttrs }

// String returns the text.
func (t *text) String() string { return string(cut(t.buf, maxText)) }

// attr appends an attribute.
func (t *text) attr(a slog.Attr) {
	if t.full() {
		return
	}
	t.attrs++
	if _, ok := a.Value.Any().(emptyGroupValuer); ok {
		return
	}
	switch {
	case a.Value.Kind() == slog.KindGroup:
		before := len(t.prefix)
		if a.Key != "" {
			t.group(a.Key)
		}
		for _, member := range a.Value.Group() {
			if t.full() {
				break
			}
			t.attr(member)
		}
		t.prefix = t.prefix[:before]
	case a.Key != "" || !a.Value.Equal(slog.Value{}): // handlers ignore empty attributes
		if len(t.buf) > 0 {
			t.buf = append(t.buf, ' ')
		}
		t.key(a.Key)
		t.buf = append(t.buf, '=')
		t.value(a.Value)
	}
}

// group opens a group.
func (t *text) group(name string) {
	if room := maxText - len(t.prefix); room > 0 {
		t.prefix = append(append(t.prefix, cut(name, room)...), '.')
	}
}

func (t *text) key(key string) {
	key = cut(key, maxText)
	if len(t.prefix) == 0 {
		t.string(key)
		return
	}
	if quoted(key) || quoted(string(t.prefix)) {
		t.buf = strconv.AppendQuote(t.buf, string(t.prefix)+key)
		return
	}
	t.buf = append(append(t.buf, t.prefix...), key...)
}

func (t *text) value(v slog.Value) {
	switch v.Kind() {
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindUint64:
		t.buf = append(t.buf, v.String()...)
	case slog.KindString:
		t.string(v.String())
	case slog.KindTime:
		t.buf = v.Time().AppendFormat(t.buf, "2006-01-02T15:04:05.000Z07:00")
	default:
		if t.format != nil {
			if s, ok := call(func() string { return t.format(v) }); ok {
				t.string(s)
				return
			}
		}
		t.string(plain(v))
	}
}

// string appends a string, with quotes if it needs them.
func (t *text) string(s string) {
	s = cut(s, maxText)
	if quoted(s) {
		t.buf = strconv.AppendQuote(t.buf, s)
		return
	}
	t.buf = append(t.buf, s...)
}

// plain returns the text of a value for which slog has no kind of its own. It calls no method
// of the program, and reads no memory that the program could be writing: a number, a boolean or
// a string is copied when it becomes a slog.Value. Values whose type has methods are shown by
// the type like all others, because the methods may exist to hide them.
func plain(v slog.Value) string {
	value := v.Any()
	if value == nil {
		return "<nil>"
	}
	typ := reflect.TypeOf(value)
	switch {
	case v.Kind() == slog.KindLogValuer:
	case immutable(typ):
		if s, ok := call(value.(error).Error); ok {
			return s
		}
	case typ.NumMethod() > 0:
	case typ.Kind() == reflect.String:
		return reflect.ValueOf(value).String()
	case typ.Kind() >= reflect.Bool && typ.Kind() <= reflect.Float64:
		return fmt.Sprint(value)
	}
	return typ.String()
}

// immutable reports whether a type is an error of the standard library with a text that never
// changes, and that is found without a call of a wrapped error: the types of errors.New and
// fmt.Errorf, and two more.
func immutable(typ reflect.Type) bool {
	name := typ.String()
	switch name {
	case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors":
		typ, name = typ.Elem(), name[1:]
	case "syscall.Errno", "context.deadlineExceededError":
	default:
		return false
	}
	pkg, _, _ := strings.Cut(name, ".")
	return typ.PkgPath() == pkg // not another package of that name
}

// call returns the result of f, and whether f returned without a panic.
func call(f func() string) (s string, ok bool) {
	defer func() { _ = recover() }()
	return f(), true
}

// quoted reports whether slog.TextHandler writes a string with quotes.
func quoted(s string) bool {
	return s == "" || strings.ContainsFunc(s, func(r rune) bool {
		if r < utf8.RuneSelf {
			return r <= ' ' || r == '=' || r == '"'
		}
		return r == utf8.RuneError || !unicode.IsPrint(r)
	})
}

// cut returns the first n bytes of s, or fewer so that it does not end within a rune.
func cut[S string | []byte](s S, n int) S {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for i := n; i > 0 && n-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // it is not UTF-8
}
