package console

import (
	"errors"
	"strings"
	"syscall"
)

// TooManyFiles is the remedy for a lack of descriptors, and NoMemory that for a lack of memory.
const (
	TooManyFiles = "too many files are open: raise the limit (ulimit -n, LimitNOFILE= of systemd)"
	NoMemory     = "memory is short: raise the memory limit of the control group, or trace fewer probes"
)

// shortages are the errors that have the same remedy wherever they occur.
var shortages = []struct {
	errno  syscall.Errno
	remedy string
}{
	{syscall.EMFILE, TooManyFiles},
	{syscall.ENFILE, TooManyFiles},
	{syscall.ENOMEM, NoMemory},
}

// explained is an error whose text has the remedy in place of the kernel's words.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

// Unwrap returns the error.
func (e *explained) Unwrap() error { return e.err }

// Raw returns the error with the kernel's words.
func (e *explained) Raw() string { return e.err.Error() }

// raw is an error whose text has a remedy. Raw returns the kernel's own words.
type raw interface{ Raw() string }

// Explain returns an error that has the remedy if err is a shortage, and otherwise err.
func Explain(err error) error {
	var known raw
	if errors.As(err, &known) {
		return err
	}
	for _, s := range shortages {
		if !errors.Is(err, s.errno) {
			continue
		}
		text := strings.ReplaceAll(err.Error(), s.errno.Error(), s.remedy)
		if !strings.Contains(text, s.remedy) {
			text += ": " + s.remedy
		}
		return &explained{text, err}
	}
	return err
}

// WarnError prints an error that Explain has explained, and the kernel's words if verbose is true.
func (c *Console) WarnError(err error, verbose bool) {
	err = Explain(err)
	c.Warn("%v", err)
	c.WarnRaw(err, verbose)
}

// WarnRaw prints the kernel's words of an error if verbose is true and the error has them.
func (c *Console) WarnRaw(err error, verbose bool) {
	var has raw
	if verbose && errors.As(err, &has) {
		c.Warn("the kernel's error: %s", has.Raw())
	}
}
