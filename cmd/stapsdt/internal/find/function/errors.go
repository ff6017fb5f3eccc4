//go:build linux

package function

import (
	"debug/dwarf"
	"reflect"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
)

// errorTexts lists the types of the standard library whose method Error returns the string with
// which the value begins, in all supported releases that have them. A string type returns itself.
// TestErrorTexts compares them with the source. Of other types, only the names are known: the
// first string of an exec.Error is the name of a file.
var errorTexts = []string{
	"*encoding/json.SyntaxError", "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors",
	"*net.notFoundError", "*net.temporaryError", "*net/http.ProtocolError",
	"*net/http.httpError", "*net/http.timeoutError",
	"encoding/xml.UnmarshalError", "math/big.ErrNaN", "net.InvalidAddrError",
	"net/rpc.ServerError", "net/textproto.ProtocolError",
}

const (
	attrRuntimeType = dwarf.Attr(0x2904) // DW_AT_go_runtime_type
	errorName       = "error"
	// errorWork limits the work of finding these types.
	errorWork = 1 << 23
)

// errorTypes returns the addresses of the types in errorTexts that a program has.
func (p *Program) errorTypes() []uint64 {
	if p.errors == nil && p.debug.types.errorAt != 0 {
		p.errors = p.findErrors()
	}
	return p.errors
}

// findErrors reads the unit with the type error, which has all types.
func (p *Program) findErrors() []uint64 {
	all := []uint64{}
	entries := p.debug.types.entries
	entries.Left = errorWork
	units := p.debug.functions.Data.Units
	after := func(u debuginfo.Unit) bool { return u.Entry > p.debug.types.errorAt }
	i := slices.IndexFunc(units, after)
	if i < 0 {
		i = len(units)
	}
	if i == 0 {
		return all
	}
	root, err := entries.At(units[i-1].Entry)
	if err != nil || root == nil {
		return all
	}
	found := map[dwarf.Offset]uint64{}
	// If the budget is used up, the types that were found are right.
	_ = entries.Children(root, func(e *dwarf.Entry) {
		at, ok := e.Val(attrRuntimeType).(uint64)
		name := nameOf(e)
		if !ok || !slices.Contains(errorTexts, name) {
			return
		}
		if at < p.table.Types() {
			at += p.table.Types()
		}
		if p.NameOf(at) == withoutPath(name) {
			found[e.Offset] = at
		}
	})
	for offset, at := range found {
		typ, err := p.debug.types.read(offset, toValue, 0)
		if err == nil && typ.beginsWithText() {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// withoutPath returns the name that the runtime has for a type: *json.SyntaxError.
func withoutPath(name string) string {
	star := ""
	if rest, ok := strings.CutPrefix(name, "*"); ok {
		star, name = "*", rest
	}
	return star + name[strings.LastIndexByte(name, '/')+1:]
}

// beginsWithText reports whether what an interface with a value of the type points to begins with a
// string.
func (t *goType) beginsWithText() bool {
	if t.kind == reflect.Pointer && t.elem != nil {
		t = t.elem
	}
	if t.kind == reflect.Struct && len(t.fields) > 0 && t.fields[0].offset == 0 {
		t = t.fields[0].typ
	}
	return t.kind == reflect.String
}
