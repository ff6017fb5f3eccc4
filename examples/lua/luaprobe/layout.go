package luaprobe

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	rt "github.com/arnodel/golua/runtime"
)

// golua does not tell a hook which continuation an event belongs to, nor the lines of a
// function that has not begun. Both are in unexported fields. They are found once, by name
// and type, and are not used if these differ.
var (
	parentField, parentOK = reflect.TypeFor[rt.Termination]().FieldByName("parent")
	linesField, linesOK   = reflect.TypeFor[rt.Code]().FieldByName("lines")
)

var checkLayout = sync.OnceValue(func() error {
	if !parentOK || parentField.Type != reflect.TypeFor[rt.Cont]() || !linesOK || linesField.Type != reflect.TypeFor[[]int32]() {
		return errors.New("luaprobe: this version of golua is not known")
	}
	return nil
})

// parent returns the continuation to which c returns, or nil. For a function that Go called,
// Parent omits one continuation: the function that led to the call.
func parent(c rt.Cont) rt.Cont {
	to, ok := c.(*rt.Termination)
	if !ok {
		return c.Parent()
	}
	// SAFETY: checkLayout has found a field of this type at this offset. Only the
	// goroutine that made the Termination uses it, and to keeps it alive.
	return *(*rt.Cont)(unsafe.Add(unsafe.Pointer(to), parentField.Offset))
}

// firstLine returns the first line on which a function has code, or 0.
func firstLine(c *rt.LuaCont) int32 {
	// SAFETY: as above; a function's lines do not change once it is compiled.
	lines := *(*[]int32)(unsafe.Add(unsafe.Pointer(c.Code), linesField.Offset))
	for _, l := range lines {
		if l > 0 {
			return l
		}
	}
	return 0
}
