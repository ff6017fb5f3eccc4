//go:build linux

package region

import (
	"errors"
	"fmt"
	"os"
	"path" // path/filepath runs code before main
	"strconv"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// place is a place where an image may be kept.
type place struct {
	dir string // "" for memory
	// demand names the option or variable that demands this place and no other, or is "".
	demand string
	err    error // the reason why the place cannot be used, if it is already known
}

// store puts an image into the place.
func (p *place) store(im *image.Image) (*Home, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case p.dir == "":
		return placeMemfd(im)
	}
	return placeFile(p.dir, fileName(im.Provider, im.BuildID()), im.Bytes)
}

// because returns the error for a place that was not used. If the place is like a volume of a
// container, which often belongs to root and is writable by all, it suggests a directory in it,
// which can be ours.
func (p *place) because(err error) error {
	if p.demand == "" {
		return err
	}
	refused, ok := err.(*os.PathError)
	if ok && refused.Path == p.dir && errors.Is(err, errNotOurs) {
		return fmt.Errorf("%s: %w; name a directory in it, such as %s, and it is created for this user alone", p.demand, err, path.Join(p.dir, "app"))
	}
	return fmt.Errorf("%s: %w", p.demand, err)
}

// places returns the places where an image may be kept, best first. A place that is demanded
// is the only one. Opening a directory shows whether it can be used.
func places(opts Options) []place {
	if opts.Memfd {
		return []place{{}}
	}
	if opts.Dir != "" {
		return []place{demanded("WithDir", opts.Dir)}
	}
	if dir := proc.Getenv("STAPSDT_DIR"); dir != "" {
		return []place{demanded("$STAPSDT_DIR", dir)}
	}
	var list []place
	if dir := proc.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		list = append(list, runtimeDir(dir))
	}
	dir := proc.Getenv("TMPDIR")
	if dir == "" {
		dir = "/tmp"
	}
	temporary := place{dir: path.Join(dir, "stapsdt-"+strconv.Itoa(os.Geteuid()))}
	if !path.IsAbs(dir) {
		temporary.err = fmt.Errorf("$TMPDIR: %w", errRelative)
	}
	return append(list, temporary, place{})
}

// errRelative is the error for a variable that must hold an absolute path.
var errRelative = errors.New("it is not an absolute path")

// demanded returns the place that an option or a variable demands.
func demanded(by, dir string) place {
	p := place{demand: by}
	p.dir, p.err = absolute(dir)
	return p
}

// runtimeDir returns the place in $XDG_RUNTIME_DIR. After sudo that directory may belong to
// another user, and a directory of ours in it would be in the way of that user's programs.
func runtimeDir(dir string) place {
	p := place{dir: path.Join(dir, "stapsdt")}
	var st unix.Stat_t
	switch {
	case !path.IsAbs(dir):
		p.err = errRelative
	default:
		if p.err = unix.Stat(dir, &st); p.err == nil && st.Uid != uint32(os.Geteuid()) {
			p.err = fmt.Errorf("it is owned by user %d: %w", st.Uid, errNotOurs)
		}
	}
	if p.err != nil {
		p.err = fmt.Errorf("$XDG_RUNTIME_DIR: %w", p.err)
	}
	return p
}

// absolute returns an absolute path. (filepath.Abs would add a tenth of the package's size to
// every program.)
func absolute(dir string) (string, error) {
	if path.IsAbs(dir) {
		return path.Clean(dir), nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", os.NewSyscallError("getcwd", err)
	}
	working := unix.ByteSliceToString(buf[:n])
	if !path.IsAbs(working) { // "(unreachable)/…", outside the root directory
		return "", errors.New("the working directory has no path")
	}
	return path.Join(working, dir), nil
}

// InDirectory calls f with a directory in which images are kept, the best first, and its
// descriptor, until f returns nil. The directory may be on a file system that is mounted noexec. It
// fails with an *Error.
func InDirectory(f func(dir string, fd int) error) error {
	failure := new(Error)
	for _, p := range places(Options{}) {
		if p.dir == "" && p.err == nil {
			continue // memory
		}
		err := p.inDirectory(f)
		if err == nil {
			return nil
		}
		failure.Reasons = append(failure.Reasons, p.because(err))
	}
	return failure
}

func (p *place) inDirectory(f func(dir string, fd int) error) error {
	if p.err != nil {
		return p.err
	}
	fd, err := openDirectory(p.dir, checkLocal)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(p.dir, fd)
}
