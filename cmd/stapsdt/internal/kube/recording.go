//go:build unix

package kube

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

const (
	// defaultSize is the size of a recording unless --size is given, and minSize its minimum in any
	// pod.
	defaultSize = 16 << 20
	minSize     = 1 << 20
	// fetches is the maximum number of attempts to fetch a recording.
	fetches = 5
)

// recordingSize returns the size of a recording. Its memory counts against the limit, which is 0
// for none.
func recordingSize(text string, limit int64) (int64, error) {
	if text == "" {
		if limit == 0 {
			return defaultSize, nil
		}
		return max(minSize, min(defaultSize, limit/memoryShare)), nil
	}
	switch size := recording.ParseSize(text); {
	case size <= 0:
		return 0, query.Usagef("--size takes a number of bytes, such as 65536, 64M or 1G")
	case limit > 0 && size > limit/2:
		return 0, query.Usagef("--size %d: the recording counts against the pod's memory limit of %d bytes; use at most half", size, limit)
	default:
		return size, nil
	}
}

// record records in the pod's memory, and fetches the recording.
func (a *execution) record(at *place) (int, error) {
	var extra []string
	if !a.request.readsRecording() {
		size, err := recordingSize(a.request.values[sizeFlag], at.limit)
		if err != nil {
			return 0, err
		}
		extra = append(extra, "--size="+strconv.FormatInt(size, 10))
	}
	path := a.request.values[fileFlag]
	if err := outfile.Check(path, recording.Magic); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	defer f.Close()
	reader, writer := io.Pipe()
	s := &session{kubectl: a.kubectl, out: writer, problems: &filter{to: a.err}}
	if err := s.start(a.words(at, extra...)); err != nil {
		return 0, err
	}
	done := s.onSignal(a.signals)
	defer done()
	var fetched inpod.Recording
	made := make(chan error, 1)
	go func() {
		defer s.release()
		line, err := bufio.NewReader(reader).ReadBytes('\n')
		if err == nil {
			done() // another signal ends this program
			fetched, err = a.fetch(at, f, line)
		}
		go func() { _, _ = io.Copy(io.Discard, reader) }()
		made <- err
	}()
	status, err := s.wait()
	writer.Close()
	if fetchErr := <-made; err == nil && status == 0 {
		err = fetchErr
	}
	if err != nil || status != 0 {
		return status, err
	}
	if err := outfile.Check(path, recording.Magic); err != nil {
		return 0, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return 0, err
	}
	if a.request.readsRecording() {
		a.warn("%s of the container is in %s: %d bytes, SHA-256 %s", fetched.Path, path, fetched.Size, fetched.SHA256)
	} else {
		a.warn("the recording is in %s", path)
	}
	return 0, nil
}

// fetch fetches the recording from the place that the command in the pod has printed, and retries
// if it does not arrive exactly.
func (a *execution) fetch(at *place, f *os.File, said []byte) (r inpod.Recording, err error) {
	if err := json.Unmarshal(said, &r); err != nil {
		return r, fmt.Errorf("the command in the pod did not report where the recording is: %.100q", said)
	}
	for n := range fetches {
		if n > 0 {
			a.warn("fetching the recording again: %v", err)
		}
		if err = a.fetchOnce(at, f, &r); err == nil {
			return r, nil
		}
	}
	return r, fmt.Errorf("fetch the recording: %w", err)
}

func (a *execution) fetchOnce(at *place, f *os.File, r *inpod.Recording) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	send := []string{binary, inpod.Verb, "send", strconv.Itoa(r.PID), strconv.Itoa(r.FD)}
	words := slices.Concat([]string{"exec"}, a.kubectl.flags, at.exec(), send)
	problems := &filter{to: a.err}
	c := exec.Command(a.kubectl.path, words...)
	c.Stderr = problems
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var n int64
	sum := sha256.New()
	unpacked, err := gzip.NewReader(out)
	if err == nil {
		n, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(unpacked, r.Size+1))
	}
	_, _ = io.Copy(io.Discard, out)
	if exitErr := c.Wait(); exitErr != nil {
		_, said := problems.end()
		return kubectlError(said, exitErr)
	}
	if err == nil && n != r.Size {
		err = fmt.Errorf("%d of %d bytes", n, r.Size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != r.SHA256 {
		return fmt.Errorf("it arrived changed: its SHA-256 is %s, not %s", got, r.SHA256)
	}
	if err != nil {
		return fmt.Errorf("it arrived incomplete: %w", err)
	}
	return nil
}
