package stapsdt

import (
	"errors"
	"strconv"
	"strings"
)

// The errors that a caller may want to act on. The functions of this package return them
// wrapped in an *Error: test for them with errors.Is.
var (
	// ErrLoaded means that the provider is already loaded, or, from NameArgs, that the probe is
	// loaded without these names.
	ErrLoaded = errors.New("the provider is already loaded")
	// ErrClosed means that the provider has been closed.
	ErrClosed = errors.New("the provider is closed")
	// ErrName means that tracers do not accept the name of a provider, a probe or an
	// argument, or that two arguments have the same name.
	ErrName = errors.New("invalid name")
	// ErrConflict means that a probe of the same name has other arguments, or other argument
	// names, in the same provider or in a loaded provider of the same name.
	ErrConflict = errors.New("conflicting arguments")
	// ErrTooManyArgs means that a probe was defined with more than MaxArgs arguments.
	ErrTooManyArgs = errors.New("too many arguments")
	// ErrArgCount means that the number of arguments passed to Fire, or the number of
	// names given to arguments, differs from the number of arguments that the probe
	// has.
	ErrArgCount = errors.New("wrong number of arguments")
	// ErrArgType means that an ArgType is invalid, or that a value passed to Fire
	// cannot be represented in it.
	ErrArgType = errors.New("wrong argument type")
	// ErrPlace means that the image could not be written anywhere. The error's text has the
	// reason for each place that was tried. Another directory may help: see WithDir.
	ErrPlace = errors.New("no usable location for the probe image")
	// ErrMap means that the image was written but could not be mapped as executable:
	// the program has no address space or mappings left (vm.max_map_count), or a
	// security policy forbids it.
	ErrMap = errors.New("the probe image cannot be mapped")
	// ErrUnload means that the mapping of the image could not be replaced by an empty one. The
	// mapping is kept, which only costs memory.
	ErrUnload = errors.New("the probe image cannot be unmapped")
	// ErrUnsupported means that this operating system or architecture has no probes.
	ErrUnsupported = errors.New("not supported on this system")
)

// errZero is the reason for every failure of a provider that is nil or zero.
var errZero = errors.New("the provider was not created by NewProvider")

// Error is the type of every error that this package returns, except that LoadAll joins the
// errors of the providers.
type Error struct {
	// Op is the operation that failed: "define" (a provider, a probe, or the names of its
	// arguments), "load", "unload" or "fire".
	Op string
	// Provider and Probe are the names of the provider and the probe for which the
	// operation failed. Probe is "" if the error concerns the provider as a whole.
	Provider, Probe string
	// Code is the step of loading or unloading that failed. It is NoError for every other error,
	// such as that of an invalid name.
	Code ErrorCode
	// Err is the reason. It wraps a sentinel if a caller can act on it.
	Err error
}

// Error returns one line that names the operation, its provider and probe, and the
// reason or, if there is no Err, the Code.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var s strings.Builder
	s.WriteString("stapsdt: ")
	if e.Op == "" {
		s.WriteString("error")
	} else {
		s.WriteString(e.Op)
	}
	if e.Provider != "" || e.Probe != "" {
		s.WriteByte(' ')
		s.WriteString(printable(e.Provider))
	}
	if e.Probe != "" {
		s.WriteByte(':')
		s.WriteString(printable(e.Probe))
	}
	switch {
	case e.Err != nil:
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	case e.Code != NoError:
		s.WriteString(": ")
		s.WriteString(e.Code.String())
	}
	return s.String()
}

// printable returns a name in a form that is safe to log, even if the name is invalid.
func printable(name string) string {
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// ErrorCode is the step of loading or unloading that failed. Its values are those of libstapsdt's
// SDTError_t, plus one, for programs that compare the two. Other programs use errors.Is with the
// sentinels, such as ErrPlace.
type ErrorCode int

// The steps of loading and unloading.
const (
	NoError            ErrorCode = iota // none of the steps below
	ELFCreation                         // the image could not be built
	TmpCreation                         // no file or memory was available for the image
	SharedLibraryOpen                   // the image could not be mapped
	SymbolLoading                       // the image's sites were not found
	SharedLibraryClose                  // the image could not be unmapped
)

// String returns libstapsdt's name for the code.
func (c ErrorCode) String() string {
	if c < 0 || int(c) >= len(errorCodes) {
		return "ErrorCode(" + strconv.Itoa(int(c)) + ")"
	}
	return errorCodes[c]
}

var errorCodes = [...]string{
	NoError: "noError", ELFCreation: "elfCreationError", TmpCreation: "tmpCreationError", SharedLibraryOpen: "sharedLibraryOpenError",
	SymbolLoading: "symbolLoadingError", SharedLibraryClose: "sharedLibraryCloseError",
}
