//go:build linux && (386 || amd64 || arm || arm64 || ppc64le || riscv64 || s390x)

package stapsdt

import (
	"errors"
	"runtime"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/region"
	"github.com/go-stapsdt/stapsdt/internal/site"
)

// loader is what a provider has outside the Go heap: the addresses that its
// images were mapped at, the memory of one that is in no file, and what builds
// them. Its methods are called with the provider's lock held.
type loader struct {
	imager imager
	space  region.Space
	home   *region.Home
	kind   string // of the sites of the live image
}

// siteKind returns the kind of site that images are made with. Tests replace
// it.
var siteKind = site.Chosen

// load builds the provider's image, maps it, and publishes its sites. It
// returns where the image is.
func (l *loader) load(p *Provider) (path string, err error) {
	kind := siteKind()
	im, err := l.imager.image(p, image.Host(), kind)
	if err != nil {
		return "", err
	}
	home, sites, err := region.Load(&l.space, &region.Image{
		Bytes:    im.Bytes,
		ID:       im.BuildID(),
		Provider: p.name,
		Site:     kind,
		Text:     im.Text,
		TextSize: uint64(im.Sites) * image.SlotSize,
	}, region.Options{Dir: p.opts.dir, Memfd: p.opts.memfd})
	if err != nil {
		code := TmpCreation
		if errors.Is(err, region.ErrMap) {
			code = SharedLibraryOpen
		}
		return "", &Error{Op: "load", Provider: p.name, Code: code, Err: err}
	}
	l.home, l.kind = home, kind
	for i, probe := range p.probes {
		probe.move(sites.At(i))
	}
	return home.Path, nil
}

// unload replaces the image by slots that do nothing, when no probe points into
// it any more. traced says that a tracer is attached to one.
//
// That would be safe at any moment. But a fire that is in the kernel's hands just
// then would be lost to the tracer, so while there is one, those that have begun
// are let end: they are in assembly, where a goroutine does not stop, so that the
// world stops only when each has returned.
//
// With the ten-byte nop they must be, be there a tracer or not: a thread can stand
// in the middle of what the kernel made of it, where a parked slot leads it back,
// but not the nop of the next load.
func (l *loader) unload(traced bool) error {
	if traced || l.kind == "nop10" {
		runtime.ReadMemStats(new(runtime.MemStats)) // stops the world
	}
	err := l.space.Park()
	l.home.Close()
	l.home = nil
	return err
}

// close gives back what only a further load would need. The addresses stay: a
// goroutine may have loaded one just now.
func (l *loader) close() { l.imager.release() }

// release gives back everything, when the provider and its probes are garbage.
func (l *loader) release() {
	l.imager.release()
	l.space.Free()
	if l.home != nil {
		l.home.Close()
	}
}

// notes returns the probes as an image describes them, from the first-th on.
func (p *Provider) notes(first int) []image.Probe {
	list := make([]image.Probe, len(p.probes)-first)
	for i, probe := range p.probes[first:] {
		list[i].Name = probe.name
		list[i].Args = make([]int8, len(probe.args))
		for j, t := range probe.args {
			list[i].Args[j] = t.note()
		}
	}
	return list
}
