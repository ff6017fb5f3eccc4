package slogprobe

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
)

// handlerFacts holds the facts about a handler that follow from its type.
type handlerFacts struct {
	// resolves reports whether the handler is slog's own. Such a handler resolves every LogValuer
	// of a record that it wants once, in this goroutine, before anything else is done with it.
	resolves bool
	// format formats a value of no kind as the handler does. It is nil if the handler may
	// replace some of them instead.
	format func(slog.Value) string
}

// knownOf returns the facts about a handler.
func knownOf(h slog.Handler) handlerFacts {
	k := handlerFacts{resolves: true}
	switch h.(type) {
	case *slog.TextHandler:
		k.format = formatText
	case *slog.JSONHandler:
		k.format = formatJSON
	default:
		return handlerFacts{}
	}
	if replaces(h) {
		k.format = nil
	}
	return k
}

// replaces reports whether a handler of slog's own may have a function ReplaceAttr, according to
// its unexported fields.
func replaces(h slog.Handler) bool {
	v := reflect.ValueOf(h)
	for _, name := range []string{"commonHandler", "opts", "ReplaceAttr"} {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return true
		}
		v = v.FieldByName(name)
	}
	return v.Kind() != reflect.Func || !v.IsNil()
}

// formatText formats a value as slog.TextHandler does.
func formatText(v slog.Value) string {
	value := v.Any()
	if byType(v) {
		return fmt.Sprintf("%T", value)
	}
	if m, ok := value.(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return "!ERROR:" + err.Error()
		}
		return string(text)
	}
	return fmt.Sprintf("%+v", value)
}

// formatJSON formats a value as slog.JSONHandler does.
func formatJSON(v slog.Value) string {
	value := v.Any()
	if byType(v) {
		return fmt.Sprintf("%T", value)
	}
	_, marshals := value.(json.Marshaler)
	if err, ok := value.(error); ok && !marshals {
		return err.Error()
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "!ERROR:" + err.Error()
	}
	return string(text)
}

// byType reports whether a value is shown by its type nevertheless: if it could not be
// resolved, or if nearly all of its text would be cut.
func byType(v slog.Value) bool {
	if v.Kind() == slog.KindLogValuer {
		return true
	}
	switch value := reflect.ValueOf(v.Any()); value.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		return value.Len() > maxAttrs && value.NumMethod() == 0
	}
	return false
}

// resolveRecord resolves the LogValuers of a record that a handler of slog's own wants, so that
// the handler need not do it again.
func resolveRecord(r slog.Record) slog.Record {
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	resolved, changed := resolveAttrs(attrs)
	if !changed {
		return r
	}
	of := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	of.AddAttrs(resolved...)
	return of
}

// resolveAttrs resolves the LogValuers among attributes and in their groups. It does not write
// to attrs, and returns it if there are none.
func resolveAttrs(attrs []slog.Attr) (resolved []slog.Attr, changed bool) {
	for i, a := range attrs {
		value, other := resolve(a.Value)
		if !other {
			continue
		}
		if !changed {
			resolved, changed = append(resolved, attrs...), true
		}
		resolved[i].Value = value
	}
	if !changed {
		return attrs, false
	}
	return resolved, true
}

// maxLogValues is the number of times that slog calls LogValue for one value before it
// gives up.
const maxLogValues = 100

// resolve resolves a value. A value whose LogValue panics, or keeps returning a LogValuer,
// stays as it is: slog describes the failure with the stack of its own call.
func resolve(v slog.Value) (resolved slog.Value, changed bool) {
	resolved = v
	for range maxLogValues {
		if resolved.Kind() != slog.KindLogValuer {
			break
		}
		next, ok := logValue(resolved.LogValuer())
		if !ok {
			return v, false
		}
		resolved, changed = next, true
	}
	switch resolved.Kind() {
	case slog.KindLogValuer:
		return v, false
	case slog.KindGroup:
		if changed && len(resolved.Group()) == 0 {
			return slog.AnyValue(emptyGroupValuer{}), true
		}
		if members, other := resolveAttrs(resolved.Group()); other {
			return slog.GroupValue(members...), true
		}
	}
	return resolved, changed
}

// emptyGroupValuer replaces a LogValuer that resolves to an empty group. Records and groups drop an
// empty group at once, but not a LogValuer: a handler then writes the group in which it is.
type emptyGroupValuer struct{}

func (emptyGroupValuer) LogValue() slog.Value { return slog.GroupValue() }

func logValue(v slog.LogValuer) (value slog.Value, ok bool) {
	defer func() {
		if recover() != nil {
			value, ok = slog.Value{}, false
		}
	}()
	return v.LogValue(), true
}
