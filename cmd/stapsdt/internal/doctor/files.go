//go:build linux

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// otherFile: the file that a tracer attaches to is not the one that the process has mapped.
func otherFile(f *Facts) []Finding {
	if f.Spec == nil || f.Spec.File == "" || !f.looked() {
		return nil
	}
	file, has := f.Spec.File, ""
	im := f.likely()
	if im != nil {
		has = fmt.Sprintf(" The process has mapped %s.", im.Path)
	}
	cure := fmt.Sprintf("Attach with -p %d, and without the file.", f.PID)
	switch err := f.Named.Err; {
	case errors.Is(err, sdt.ErrNoProbes):
		return []Finding{fault(StatusNothing,
			file+" has no probes. A program that makes its probes at run time has them in another file, its image."+has, cure)}
	case errors.Is(err, fs.ErrNotExist) && f.Named.InRoot:
		return nil // mountNamespace says so
	case errors.Is(err, fs.ErrPermission):
		return []Finding{fault(StatusRights, fmt.Sprintf("The file cannot be opened: %v.", err), "Run the tracer as root (sudo).")}
	case err != nil:
		return []Finding{fault(StatusNothing, fmt.Sprintf("The file cannot be used: %v.%s", err, has), cure)}
	case f.isMapped():
		return fine(fmt.Sprintf("Process %d has mapped %s.", f.PID, file))
	}
	says := fmt.Sprintf("Process %d has not mapped %s, so that a tracer that is attached to it sees other processes or none.%s", f.PID, file, has)
	if im != nil {
		says += f.difference(im)
	}
	return []Finding{fault(StatusFault, says, cure)}
}

// isMapped reports whether the process has mapped the file that was named.
func (f *Facts) isMapped() bool {
	for _, im := range f.Images {
		if im.ID == f.Named.ID {
			return true
		}
	}
	return false
}

// likely returns the image that has the selected probes, whatever its file is.
func (f *Facts) likely() *Image {
	for i := range f.Images {
		for _, n := range f.Images[i].Probes {
			if f.selects(n) {
				return &f.Images[i]
			}
		}
	}
	return nil
}

// imageName matches the file name of an image in Go: the provider, and a hash of the content.
var imageName = regexp.MustCompile(`^(.*)-[0-9a-f]{32}\.so$`)

// difference explains why the process has mapped an image and not the file that was named.
func (f *Facts) difference(im *Image) string {
	file := f.Spec.File
	owner := -1
	if len(f.Process.UIDs) > 1 {
		owner = f.Process.UIDs[1]
	}
	named, mapped := imageName.FindStringSubmatch(path.Base(file)), imageName.FindStringSubmatch(path.Base(im.Path))
	switch {
	case path.Clean(file) == im.Path && f.Self.Namespaces.Mount != f.Process.Namespaces.Mount:
		return " It is a file of that path in the process's own file system."
	case path.Clean(file) == im.Path:
		return " The file was replaced since."
	case f.Named.Owner >= 0 && owner >= 0 && f.Named.Owner != owner:
		return fmt.Sprintf(" The process runs as user %d, and the file is one of user %d: each user has a directory of their own.", owner, f.Named.Owner)
	case path.Base(file) == path.Base(im.Path):
		return " The two have the same content, in different directories: STAPSDT_DIR, XDG_RUNTIME_DIR or TMPDIR of the process is another."
	case named != nil && mapped != nil && named[1] == mapped[1]:
		return " The names of the two differ by the hash of their content: the process has another set of probes, or another kind of nop, as in another version of the program."
	}
	return ""
}

// mountNamespace: the path is one in the process's own file system.
func mountNamespace(f *Facts) (all []Finding) {
	if f.Spec != nil && f.Spec.File != "" && f.looked() && errors.Is(f.Named.Err, fs.ErrNotExist) && f.Named.InRoot {
		return []Finding{fault(StatusFault,
			fmt.Sprintf("%s exists in the file system of process %d only, which is not the one here.", f.Spec.File, f.PID),
			fmt.Sprintf("Attach with -p %d, or to /proc/%d/root%s.", f.PID, f.PID, f.Spec.File))}
	}
	for _, im := range f.selected() {
		if im.InRoot == LeadsToImage && (im.Here == LeadsNowhere || im.Here == LeadsElsewhere) {
			here := "does not exist here"
			if im.Here == LeadsElsewhere {
				here = "is another file here"
			}
			all = append(all, note(
				fmt.Sprintf("Process %d has its own file system: %s %s.", f.PID, im.Path, here),
				fmt.Sprintf("Attach with -p %d, or to /proc/%d/root%s.", f.PID, f.PID, im.Path)))
		}
	}
	return all
}

// mapFiles is the path by which root reaches what is mapped, even if it has no other.
func (f *Facts) mapFiles(im Image) string {
	return fmt.Sprintf("/proc/%d/map_files/%s", f.PID, im.Mapping)
}

// deleted: the path leads nowhere.
func deleted(f *Facts) (all []Finding) {
	for _, im := range f.selected() {
		if im.InMemory || im.InRoot != LeadsNowhere {
			continue
		}
		what := im.Path + " was deleted"
		if !im.Deleted {
			what = "There is no file " + im.Path + ", although the kernel shows this path, as it does for an overlay on an overlay"
		}
		all = append(all, limit(
			what+". bpftrace and perf look for the file by this path, and find no probes; stapsdt does find them.",
			fmt.Sprintf("Attach bpftrace to %s, or let the program Unload and Load the provider, which writes the file again.", f.mapFiles(im))))
	}
	return all
}

// replaced: the path leads to another file.
func replaced(f *Facts) (all []Finding) {
	for _, im := range f.selected() {
		if im.InMemory || im.InRoot != LeadsElsewhere {
			continue
		}
		all = append(all, limit(
			fmt.Sprintf("%s was replaced: process %d has mapped an earlier file of this path. Tracers that are attached to the path see other processes only; stapsdt -p finds the mapped one.", im.Path, f.PID),
			fmt.Sprintf("Attach bpftrace to %s, or let the program Unload and Load the provider.", f.mapFiles(im))))
	}
	return all
}

// inMemory: tracers that look for files find none.
func inMemory(f *Facts) (all []Finding) {
	for _, im := range f.selected() {
		if !im.InMemory {
			continue
		}
		at := f.mapFiles(im)
		if im.Descriptor >= 0 {
			at = fmt.Sprintf("/proc/%d/fd/%d", f.PID, im.Descriptor)
		}
		all = append(all, limit(
			fmt.Sprintf("The image of %v is in memory (%s). bpftrace 0.25 and later do not find it by -p, and perf needs a file; bpftrace 0.17 and stapsdt find it.",
				im.Probes[slices.IndexFunc(im.Probes, f.selects)], im.Path),
			fmt.Sprintf("Attach bpftrace to %s, or start the program with STAPSDT_DIR.", at)))
	}
	return all
}

// overlay: the kernel traces the file, and the process executes another.
func overlay(f *Facts) []Finding {
	if t := f.Trial; !t.Known || t.Perf != nil || t.Before || t.During {
		return nil
	}
	return []Finding{fault(StatusFault,
		fmt.Sprintf("The kernel takes a tracer for %s, but the code of process %d stays as it is: the process executes another file. An overlay file system does this when a file of a lower layer is changed, and copies it.", f.Trial.Path, f.PID),
		"Unload and Load the provider, or start the program again. Keep the files of images out of container images.")}
}
