//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/go-stapsdt/stapsdt/internal/site"
)

// The subjects' names: the two builds of the Go program, and the C program by its
// nop.
const (
	pureGo  = "go"
	withCgo = "cgo"
)

// cSubject returns the name of the C program whose sites are of that kind.
func cSubject(kind string) string { return "c-" + kind }

// chosen is the C program whose sites are those that this kernel gets.
func chosen() string { return cSubject(site.Chosen().Name) }

// siteKinds are the kinds of site that are measured in C: those that any kernel
// attaches to, and the one that this kernel gets.
func siteKinds() []string {
	kinds := []string{site.Chosen().Name}
	if runtime.GOARCH == "amd64" {
		kinds = append(kinds, "nop1", "nop5")
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// subject is a program that is measured. It does what a line "ROW N" says, and
// answers with a number.
type subject struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

type subjects map[string]*subject

// startSubjects starts them all. What was started is returned on failure too.
func startSubjects() (subjects, error) {
	all := subjects{}
	for _, name := range []string{pureGo, withCgo} {
		if err := all.start(name, filepath.Join(*work, "subject-"+name)); err != nil {
			return all, err
		}
	}
	for _, kind := range siteKinds() {
		// A copy each: uprobes belong to files, and a tracer of one must
		// not slow down the others.
		path := filepath.Join(*work, "csubject-"+kind)
		if err := copyFile(filepath.Join(*work, "csubject"), path); err != nil {
			return all, err
		}
		if err := all.start(cSubject(kind), path, "STAPSDT_SITE="+kind); err != nil {
			return all, err
		}
	}
	return all, nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}

// start runs a program, with a directory of its own for its images, and waits until
// its probes are loaded.
func (all subjects) start(name, path string, env ...string) error {
	return all.startWith(name, path, nil, env...)
}

// startWith is start with arguments.
func (all subjects) startWith(name, path string, args []string, env ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), append(env, "STAPSDT_DIR="+filepath.Join(*images, name), "STAPSDT_BENCH_COMMAND="+filepath.Join(*work, "stapsdt"))...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := &subject{name, cmd, in, bufio.NewScanner(out)}
	all[name] = s
	if line, err := s.line(); err != nil || line != "ready" {
		return fmt.Errorf("%s is not ready: %q, %w", name, line, err)
	}
	return nil
}

func (s *subject) line() (string, error) {
	if s.out.Scan() {
		return s.out.Text(), nil
	}
	return "", fmt.Errorf("%s has ended: %w", s.name, errors.Join(s.out.Err(), io.ErrUnexpectedEOF))
}

// ask has the program do a row's operation and returns its answer.
func (s *subject) ask(row string, n int) (float64, error) {
	if _, err := fmt.Fprintln(s.in, row, n); err != nil {
		return 0, fmt.Errorf("%s, %s %d: %w", s.name, row, n, err)
	}
	line, err := s.line()
	if err != nil {
		return 0, fmt.Errorf("%s %d: %w", row, n, err)
	}
	var answer float64
	if _, err := fmt.Sscanf(line, "took %f", &answer); err != nil {
		return 0, fmt.Errorf("%s, %s %d: %q: %w", s.name, row, n, line, err)
	}
	return answer, nil
}

// stop has the programs end.
func (all subjects) stop() {
	for name := range all {
		all.end(name)
	}
}

// end has a program end, by the end of its input.
func (all subjects) end(name string) {
	s := all[name]
	delete(all, name)
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
	}
}
