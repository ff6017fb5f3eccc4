//go:build linux

package script

import (
	_ "embed"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
)

// The script is the definitions between its head, a comment, and its body, which adds, prints
// and removes what they define.
//
//go:embed tracefs.sh
var body string

// Tracefs returns a shell script that makes an event of the kernel of each site, with typed
// arguments, prints what happens, and removes the events. skipped says of the arguments that
// are not in the events why tracefs cannot read them.
func (s *Script) Tracefs() (script string, skipped []string) {
	var head, define strings.Builder
	fmt.Fprintf(&head, "#!/bin/sh\n# Prints the events of %s", render.Printable(s.Specs))
	if len(s.PIDs) > 0 {
		fmt.Fprintf(&head, " of %s and what they fork", processes(s.PIDs))
	}
	head.WriteString(" by\n# the kernel's tracefs. Run it as root:\n#\n" +
		"#\tsh FILE           until Ctrl-C\n" +
		"#\tsh FILE add       only makes the events\n" +
		"#\tsh FILE print     prints what happens\n" +
		"#\tsh FILE remove    removes the events\n")
	for _, pid := range s.needed() {
		fmt.Fprintf(&head, "#\n# It finds a probe through process %d, and works as long as this runs.\n", pid)
	}
	head.WriteString("#\n")
	var names []string
	var file *File
	for i := range s.Sites {
		site := &s.Sites[i]
		if site.File != file {
			file = site.File
			fmt.Fprintf(&define, "\tfile %s %d %d\n", shellQuoted(file.Path), file.Sum, file.Size)
		}
		group := unique("stapsdt_"+site.Provider, maxEvent, nil)
		prefix := group + "/"
		name := unique(site.Name, maxEvent, after(names, prefix))
		names = append(names, prefix+name)
		fmt.Fprintf(&head, "# %s%s is %s\n", prefix, name, site.describe())
		definition, without := s.definition(site)
		for _, why := range without {
			skipped = append(skipped, render.Printable(site.Provider+":"+site.Name+": "+why))
		}
		semaphore := ""
		if site.SemaphoreOffset != 0 {
			semaphore = fmt.Sprintf("(%#x)", site.SemaphoreOffset)
		}
		fmt.Fprintf(&define, "\tdefine %s%s '%#x%s%s'\n", prefix, name, site.Offset, semaphore, definition)
	}
	pids := strings.Trim(fmt.Sprint(s.PIDs), "[]")
	settings := fmt.Sprintf("\npids='%s'\nevents='%s'\ndefine_all() {\n%s}\n", pids, strings.Join(names, " "), define.String())
	instance := fmt.Sprintf("instance=stapsdt_%08x\n", crc32.ChecksumIEEE([]byte(settings)))
	return head.String() + settings + instance + body, skipped
}

// after returns the rest of the names that begin with a prefix.
func after(names []string, prefix string) (rests []string) {
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			rests = append(rests, rest)
		}
	}
	return rests
}

// definition returns the arguments of an event, each after a space. They have no quotes.
func (s *Script) definition(site *Site) (definition string, without []string) {
	var names []string
	for i, v := range s.values(site) {
		what, why := site.fetch(i, &v)
		if why != "" {
			without = append(without, fmt.Sprintf("without %s: %s", v.name, why))
			continue
		}
		name := unique(v.name, maxArgument, names)
		names = append(names, name)
		definition += " " + name + "=" + what
	}
	return definition, without
}

// shellQuoted returns a word of the shell.
func shellQuoted(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Sum returns what cksum prints of a file: its checksum and its size. The checksum is that of
// POSIX, which is not IEEE's.
func Sum(r io.Reader) (sum uint32, size int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			sum = sum<<8 ^ posix[byte(sum>>24)^c]
		}
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, err
		}
	}
	for n := size; n > 0; n >>= 8 {
		sum = sum<<8 ^ posix[byte(sum>>24)^byte(n)]
	}
	return ^sum, size, nil
}

// posix is the table of IEEE's polynomial, with the bits in their natural order.
var posix = func() (table [256]uint32) {
	for i := range table {
		table[i] = bits.Reverse32(crc32.IEEETable[bits.Reverse8(uint8(i))])
	}
	return table
}()
