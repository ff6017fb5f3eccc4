package stapsdt

// Option changes how a provider is loaded. Options are arguments of NewProvider, and must not
// be nil.
type Option func(*options)

type options struct {
	dir   string
	memfd bool
}

// WithDir keeps the provider's file in dir and nowhere else: if dir cannot be used, Load
// fails with ErrPlace or ErrMap. It takes precedence over $STAPSDT_DIR. A relative dir is
// relative to the working directory at the time of Load. Load creates the directory with
// mode 0700 if it does not exist; its parent must exist.
//
// The directory must belong to this user, no other user may be able to write to it, and it
// must not be a symbolic link. It must not be on a file system that is mounted noexec, nor on
// a network or FUSE file system, whose server could stop the program at any probe. Its path
// must not contain a colon or a control character, because tracers cannot handle them.
//
// WithDir("") leaves the choice of the directory to the environment. If several WithDir
// and [WithMemfd] options are given, the last one applies.
func WithDir(dir string) Option {
	return func(o *options) { o.dir, o.memfd = dir, false }
}

// WithMemfd keeps the provider in memory instead of a file, whatever the environment
// says. A tracer then finds it at Path, which is /proc/PID/fd/N, and only in this
// process; bpftrace 0.25 and later, Tetragon and libbpf do not find it by the process
// alone. If several WithDir and WithMemfd options are given, the last one applies.
func WithMemfd() Option {
	return func(o *options) { o.dir, o.memfd = "", true }
}
