//go:build linux

package main

import (
	"testing"
	"time"
)

func TestAnnouncement(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{announcement(3, 1, 2, 0), "3 probes of 1 process; Ctrl-C ends"},
		{announcement(1, 2, 2, 0), "1 probe of 2 processes; Ctrl-C ends"},
		{announcement(1, 0, 1, 10*time.Second), "1 probe of 1 file; ends after 10s or with Ctrl-C"},
		{string(erase(0, true)), "\r\x1b[K"},
		{string(erase(0, false)), ""},
		{string(erase(2, true)), "\x1b[2A\r\x1b[J"},
	} {
		if test.got != test.want {
			t.Errorf("%q, not %q", test.got, test.want)
		}
	}
}

// TestMost: the most frequent rows are shown, and the others are counted.
func TestMost(t *testing.T) {
	a := &aggregate{number: 2}
	rows := []*row{{count: 9}, {count: 5}, {count: 1}}
	if shown, others := a.most(rows); len(shown) != 2 || others != "and 1 event in 1 other row (-n 0 shows all)\n" {
		t.Errorf("%d %q", len(shown), others)
	}
	a.number = 0
	if shown, others := a.most(rows); len(shown) != 3 || others != "" {
		t.Errorf("%d %q", len(shown), others)
	}
}

// TestHeading: a path is in a heading once.
func TestHeading(t *testing.T) {
	for _, test := range []struct {
		o    operation
		want string
	}{
		{operation{"a:job__start", "a:job__end"}, "a:job__start → a:job__end"},
		{operation{"/usr/lib/postgres:p:query__start", "/usr/lib/postgres:p:query__done"}, "/usr/lib/postgres:p:query__start → p:query__done"},
		{operation{"/a:p:x", "/b:p:y"}, "/a:p:x → /b:p:y"},
	} {
		if got := test.o.String(); got != test.want {
			t.Errorf("%q, not %q", got, test.want)
		}
	}
}
