//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
)

// measure asks for all of list, in so many rounds.
func (r results) measure(all subjects, list []measurement, rounds int) error {
	for range rounds {
		for _, m := range list {
			answers := results{}
			for range m.times {
				answer, err := all[m.subject].ask(m.row, m.n)
				if err != nil {
					return err
				}
				answers[""] = append(answers[""], answer/m.per)
			}
			r[m.key()] = append(r[m.key()], answers.median(""))
		}
	}
	return nil
}

// measureOutside is measure with a session of LTTng, whose program it starts. The programs of this repository start a
// watcher themselves, and fail when it has not seen every fire.
func (r results) measureOutside(all subjects, list []measurement, rounds int) error {
	session, err := startLTTng()
	if err != nil {
		return err
	}
	fired := 0
	for _, m := range list {
		if m.subject == lttngSubject {
			fired += rounds * m.n
		}
	}
	// The program waits until the daemon knows its tracepoints.
	if err := all.start(lttngSubject, filepath.Join(*work, "lttngsubject"), "LTTNG_UST_REGISTER_TIMEOUT=-1"); err != nil {
		return errors.Join(err, session.stop(0))
	}
	err = r.measure(all, list, rounds)
	all.end(lttngSubject)
	return errors.Join(err, session.stop(fired))
}

// measureTraced is measure with a tracer attached to each subject. It fails when
// the tracers have not counted every fire.
func (r results) measureTraced(all subjects, list []measurement, rounds int) error {
	tracers := map[string]*tracer{}
	defer func() {
		for _, t := range tracers {
			t.kill()
		}
	}()
	for name, s := range all {
		t, err := attach(s.cmd.Process.Pid, script)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tracers[name] = t
	}
	// The kernel optimises a site when it is hit for the first time.
	const first = 1000
	fired := map[string]int{}
	for _, m := range list {
		if m.row == clock || m.row == getppid {
			continue
		}
		if _, err := all[m.subject].ask(m.row, first); err != nil {
			return err
		}
		fired[m.subject] += first + rounds*m.n
	}
	if err := r.measure(all, list, rounds); err != nil {
		return err
	}
	for name, t := range tracers {
		seen, err := t.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if seen != fired[name] {
			return fmt.Errorf("%s: fired %d times, of which bpftrace has counted %d", name, fired[name], seen)
		}
	}
	return nil
}
