package stapsdt

import (
	"errors"
	"strconv"
	"strings"
)

// What a caller may want to decide on. They come wrapped in an *Error: test
// for them with errors.Is.
var (
	// ErrLoaded: the provider is loaded, and must not be for this.
	ErrLoaded = errors.New("the provider is loaded")
	// ErrLate: a typed probe was defined while the provider was loaded, and is
	// not part of it.
	ErrLate = errors.New("it was defined while the provider was loaded")
	// ErrClosed: the provider was closed.
	ErrClosed = errors.New("the provider is closed")
	// ErrName: a provider's or a probe's name is not one that tracers take,
	// or it is taken by a probe with other arguments.
	ErrName = errors.New("invalid name")
	// ErrTooManyArgs: more than MaxArgs arguments were defined.
	ErrTooManyArgs = errors.New("too many arguments")
	// ErrArgCount: Fire was given another number of arguments than the probe
	// has.
	ErrArgCount = errors.New("wrong number of arguments")
	// ErrArgType: an ArgType is none, or Fire was given a value that the
	// argument's type cannot hold.
	ErrArgType = errors.New("wrong type of argument")
	// ErrUnsupported: there are no probes on this operating system or
	// architecture.
	ErrUnsupported = errors.New("not supported on this system")
)

// Error is what every function of this package returns when it fails.
type Error struct {
	// Op is what failed: "define", "load", "unload" or "fire".
	Op string
	// Provider and Probe are the names of what it failed for. Probe is ""
	// where it was the provider as a whole.
	Provider, Probe string
	// Code is libstapsdt's code for the failure, or NoError for one that it
	// has none for, such as a bad name.
	Code ErrorCode
	// Err is the reason.
	Err error
}

// Error returns one line that names what failed, for whom, and why.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString("stapsdt: ")
	s.WriteString(e.Op)
	s.WriteByte(' ')
	s.WriteString(printable(e.Provider))
	if e.Probe != "" {
		s.WriteByte(':')
		s.WriteString(printable(e.Probe))
	}
	if e.Code != NoError {
		s.WriteString(": ")
		s.WriteString(e.Code.String())
	}
	if e.Err != nil {
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	}
	return s.String()
}

// printable returns a name, which may be a bad one, fit for a log.
func printable(name string) string {
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode says at which step of loading or unloading something failed: the
// values of libstapsdt's SDTError_t.
type ErrorCode int

// The codes, by libstapsdt's values.
const (
	NoError            ErrorCode = -1 // none of the steps below
	ElfCreation        ErrorCode = 0  // the image could not be built
	TmpCreation        ErrorCode = 1  // no file or memory could be had for it
	SharedLibraryOpen  ErrorCode = 2  // it could not be mapped
	SymbolLoading      ErrorCode = 3  // its sites were not found
	SharedLibraryClose ErrorCode = 4  // it could not be unmapped
)

// String returns the name that libstapsdt has for the code.
func (c ErrorCode) String() string {
	switch c {
	case NoError:
		return "noError"
	case ElfCreation:
		return "elfCreationError"
	case TmpCreation:
		return "tmpCreationError"
	case SharedLibraryOpen:
		return "sharedLibraryOpenError"
	case SymbolLoading:
		return "symbolLoadingError"
	case SharedLibraryClose:
		return "sharedLibraryCloseError"
	}
	return "ErrorCode(" + strconv.Itoa(int(c)) + ")"
}
