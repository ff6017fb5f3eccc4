//go:build linux

package symbol

import (
	"fmt"
	"slices"
	"strings"
)

// Function is a function that contains an address.
type Function struct {
	Name string
	// File and Line are the position of the call or the site, or "" and 0 if they are unknown.
	// They are known for Go functions, and for code with DWARF. Code that the compiler has added
	// can have no line.
	File string
	Line int
	// top means that it is the first function of a thread or a goroutine.
	top bool
}

// Frame is an address of a stack.
type Frame struct {
	// Address is an address of Module's file or, if Module is nil, an address of the
	// process.
	Address uint64
	// Module is the file that contains the address. It is nil if no file does, or if the file
	// is unknown.
	Module *Module
	// Functions contain the address: the functions that the compiler has inlined there, and then
	// the function itself. It is empty if they are unknown.
	Functions []Function
}

// Cut is the reason why a stack lacks its outermost callers.
type Cut int

// The values of a Cut.
const (
	Whole Cut = iota // the stack has all callers
	// CutDepth means that the stack has more frames than the kernel reads.
	CutDepth
	// CutFrame means that a function has no frame pointer, so that its callers are unknown.
	CutFrame
	// CutUnread means that the kernel could not read the stack at all.
	CutUnread
)

// String returns the line that is shown in place of the missing callers.
func (c Cut) String() string {
	switch c {
	case CutDepth:
		return "cut: too deep"
	case CutFrame:
		return "cut: no frame pointer"
	case CutUnread:
		return "cut: not readable"
	}
	return ""
}

// Stack is the calls that led to the fire of a probe.
type Stack struct {
	// Frames are the frames, the innermost first.
	Frames []Frame
	Cut    Cut
	// Exited means that the addresses are unknown, because the process had exited before its
	// memory map was read.
	Exited bool

	key string
}

// Key returns a string that is equal for stacks that look the same.
func (s *Stack) Key() string {
	if s.key != "" {
		return s.key
	}
	var b strings.Builder
	for i := range s.Frames {
		for _, line := range s.Frames[i].Lines() {
			fmt.Fprintf(&b, "%s\x00", line)
		}
	}
	s.key = b.String() + s.Cut.String()
	return s.key
}

// Lines returns the Lines of all frames, and one that tells why callers are missing, if they are.
func (s *Stack) Lines() (lines []string) {
	for i := range s.Frames {
		lines = append(lines, s.Frames[i].Lines()...)
	}
	if s.Cut != Whole {
		lines = append(lines, fmt.Sprintf("[%v]", s.Cut))
	}
	return lines
}

// Names returns the names of the functions at an address, the inlined ones first. For an
// address without a function, it returns the file and the offset, or the address.
func (f *Frame) Names() (names []string) {
	for _, fn := range f.Functions {
		names = append(names, fn.Name)
	}
	if len(names) == 0 {
		names = append(names, f.place())
	}
	return names
}

// Lines returns Names, each with its position in the source or the name of its file.
func (f *Frame) Lines() (lines []string) {
	for _, fn := range f.Functions {
		switch {
		case fn.File != "" && fn.Line == 0:
			lines = append(lines, fmt.Sprintf("%s (%s)", fn.Name, base(fn.File)))
		case fn.File != "":
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", fn.Name, base(fn.File), fn.Line))
		case f.Module != nil:
			lines = append(lines, fmt.Sprintf("%s (%s)", fn.Name, f.Module.Name()))
		default:
			lines = append(lines, fn.Name)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, f.place())
	}
	return lines
}

func (f *Frame) place() string {
	if f.Module == nil {
		return fmt.Sprintf("%#x", f.Address)
	}
	return fmt.Sprintf("%s+%#x", f.Module.Name(), f.Address)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isLibrary reports whether a function belongs to the library code between a program that fires
// a probe and the probe's site.
func isLibrary(name string) bool {
	const module = "github.com/go-stapsdt/stapsdt"
	rest, ok := strings.CutPrefix(name, module)
	for _, own := range []string{".", "/internal/call.", "/span.", "/instrument/"} {
		if ok && strings.HasPrefix(rest, own) {
			return true
		}
	}
	return name == "probeFire" || name == "probeFireV"
}

// trim removes the frames of a probe of this library: its site, which is the only code of its
// image, and the frames between the program and Fire, of a span or an instrumentation.
func (s *Stack) trim(probe string) {
	if len(s.Frames) < 2 || !s.Frames[0].isImageSite(probe) {
		return
	}
	frames := s.Frames[1:]
	for len(frames) > 0 {
		fns := frames[0].Functions
		for len(fns) > 0 && isLibrary(fns[0].Name) {
			fns = fns[1:]
		}
		if len(fns) > 0 || len(frames[0].Functions) == 0 {
			frames[0].Functions = fns
			break
		}
		frames = frames[1:]
	}
	if len(frames) > 0 {
		s.Frames = frames
	}
}

// unwrap removes wrappers that Go's compiler generates to call another method or function, as
// the runtime does in traces.
func (s *Stack) unwrap() {
	kept := s.Frames[:0]
	for _, f := range s.Frames {
		known := len(f.Functions) > 0
		if len(kept) > 0 {
			f.Functions = slices.DeleteFunc(
				f.Functions, func(fn Function) bool { return fn.File == "<autogenerated>" },
			)
		}
		if len(f.Functions) > 0 || !known {
			kept = append(kept, f)
		}
	}
	s.Frames = kept
}

// isImageSite reports whether a frame is a site in an image: the site itself has a symbol with
// the probe's name, and the image contains nothing that stripping would remove.
func (f *Frame) isImageSite(probe string) bool {
	return f.Module != nil && f.Module.isSite(f.Address, probe)
}

// end determines whether the stack was cut.
func (s *Stack) end(depth int) {
	switch n := len(s.Frames); {
	case n == 0:
		s.Cut = CutUnread
	case s.isWhole():
	case n >= depth:
		s.Cut = CutDepth
	default:
		s.Cut = CutFrame
	}
}

// isWhole reports whether the last function is the first of its thread. main counts as well,
// because its caller is in a C library that may have neither frame pointers nor symbols.
func (s *Stack) isWhole() bool {
	last := &s.Frames[len(s.Frames)-1]
	if last.isTop() || last.isMain() {
		return true
	}
	return len(s.Frames) > 1 && s.Frames[len(s.Frames)-2].isMain() && last.Module.isLibc()
}

func (f *Frame) isTop() bool {
	n := len(f.Functions)
	return n > 0 && f.Functions[n-1].top
}

func (f *Frame) isMain() bool {
	n := len(f.Functions)
	return n > 0 && f.Module != nil && f.Functions[n-1].Name == "main"
}
