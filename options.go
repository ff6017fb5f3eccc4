package stapsdt

// Option changes how a provider is loaded.
type Option func(*options)

type options struct {
	dir   string
	memfd bool
}

// WithDir keeps the provider's file in dir, which is tried before $STAPSDT_DIR
// and the folders after it. It is made, mode 0700, when it is not there; its
// parent must be. A folder that another user owns or can write to is passed over,
// as one that cannot be used is; Path tells where the file is.
func WithDir(dir string) Option {
	return func(o *options) { o.dir = dir }
}

// WithMemfd keeps the provider in memory instead of a file. A tracer then finds
// it at Path, which is /proc/PID/fd/N, and only in this process; bpftrace from
// version 0.25 on, Tetragon and libbpf do not find it by the process alone.
func WithMemfd() Option {
	return func(o *options) { o.memfd = true }
}
