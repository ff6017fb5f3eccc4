package ending

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
)

// entry is an entry of the journal. A message that is not text is an array.
type entry struct {
	Time       string `json:"__REALTIME_TIMESTAMP"`
	Message    any    `json:"MESSAGE"`
	Unit       string `json:"_SYSTEMD_UNIT"`
	ExitCode   string `json:"EXIT_CODE"`
	ExitStatus string `json:"EXIT_STATUS"`
	Result     string `json:"UNIT_RESULT"`
}

func (e *entry) message() string {
	text, _ := e.Message.(string)
	return text
}

func (e *entry) at() time.Time {
	microseconds, _ := strconv.ParseInt(e.Time, 10, 64)
	return time.UnixMicro(microseconds)
}

// aftermath is the time after the last event in which the end of a process is looked for: it may
// have hung.
const aftermath = time.Hour

// journal returns the entries with a field, around the end of a process.
func journal(ctx context.Context, l *Life, fields ...string) (all []entry) {
	args := append([]string{
		"--no-pager", "--quiet", "--output=json",
		fmt.Sprintf("--since=@%d", l.Last.Unix()-1),
		fmt.Sprintf("--until=@%d", l.Last.Add(aftermath).Unix()),
	}, fields...)
	decoder := json.NewDecoder(bytes.NewReader(run(ctx, "journalctl", args...)))
	for {
		var one entry
		if decoder.Decode(&one) != nil {
			return all
		}
		all = append(all, one)
	}
}

// last is what a process has written to the journal at its end.
type last struct {
	unit    string // the unit of the process, or ""
	endings []Ending
}

// fatal matches the first line of what the runtime of Go prints before it ends a program.
var fatal = lazyregexp.New(`^(panic|fatal error|unexpected fault address|SIG[A-Z]+|runtime):? .`)

// maxLine is the number of bytes of a line of a log that are shown.
const maxLine = 160

// journalOf returns what a process has written to the journal at its end: the reason of its crash,
// or the last line.
func journalOf(ctx context.Context, l *Life) (w last) {
	all := journal(ctx, l, fmt.Sprintf("_PID=%d", l.PID))
	if len(all) == 0 {
		return w
	}
	shown, what := &all[len(all)-1], "its last line was"
	for i := range all {
		if fatal().MatchString(all[i].message()) {
			shown, what = &all[i], "it printed"
			break
		}
	}
	w.unit = shown.Unit
	text := strings.TrimSpace(shown.message())
	if text == "" {
		return w
	}
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	at := shown.at().UTC()
	w.endings = []Ending{{Source: Journal, Text: fmt.Sprintf("%s %q", what, text), Time: &at}}
	return w
}

// ofManager returns the end of the main process of a unit, as systemd has logged it: another
// process may run now.
func ofManager(ctx context.Context, l *Life, unit string) *Ending {
	if !IsUnit(unit) {
		return nil
	}
	var e *Ending
	s := service{unit: unit}
	var at time.Time
	for _, one := range journal(ctx, l, "_PID=1", "UNIT="+unit) {
		switch {
		case one.at().Before(l.Last.Add(-skew)):
		case s.code == "" && one.ExitCode != "" && strings.Contains(one.message(), ": Main process"):
			s.code, s.status, at = one.ExitCode, one.ExitStatus, one.at().UTC()
			s.nameSignal()
		case s.code != "" && s.result == "" && one.Result != "":
			s.result = one.Result
		}
	}
	if s.code != "" {
		found := s.ending(Systemd)
		found.Time = &at
		e = &found
	}
	return e
}
