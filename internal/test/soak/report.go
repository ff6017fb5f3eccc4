//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"
)

// grace is how long a phase may take beyond its time, to begin, to end, and to give up waiting, before it is killed.
var grace = 2 * testenv.Patience

// row is a phase in a build.
type row struct {
	build, phase string
	result
}

// runChild runs a phase in this process.
func runChild(name string, scale float64, budget time.Duration) {
	p, ok := findPhase(name)
	if !ok {
		fatal(fmt.Errorf("there is no phase %q", name))
	}
	res, err := p.scaled(scale).execute(budget)
	if err != nil {
		res.Failure = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(res); err != nil {
		fatal(err)
	}
}

// runAll runs every phase in every build. What one leaves of its share of the time goes to those after it.
func runAll(builds []build, scale float64, total time.Duration) []row {
	end := time.Now().Add(total)
	weights := 0
	for _, p := range phases {
		weights += p.weight * len(builds)
	}
	var rows []row
	for _, b := range builds {
		for _, p := range phases {
			left := max(time.Until(end), time.Second)
			budget := left * time.Duration(p.weight) / time.Duration(weights)
			weights -= p.weight
			res := b.run(p, scale, budget)
			rows = append(rows, row{b.name, p.name, res})
			fmt.Println(rows[len(rows)-1].line())
		}
	}
	return rows
}

// run runs a phase in a process of its own. A crash is a result too.
func (b build) run(p phase, scale float64, budget time.Duration) result {
	ctx, cancel := context.WithTimeout(context.Background(), budget+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, "-phase", p.name,
		"-seconds", fmt.Sprint(scale*standard.Seconds()), "-budget", budget.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// SIGQUIT has it tell what its goroutines do.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("not done after %v", budget+grace), err)
	}
	var res result
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &res)
	}
	if err != nil {
		// The beginning of a crash tells the most.
		res.Failure = fmt.Sprintf("%v\n%.8000s", err, stderr.String())
	}
	return res
}

// verdict says how a phase has ended.
func (r row) verdict() string {
	switch {
	case r.Failure != "":
		return "FAILED"
	case r.Cycles < r.Goal:
		return "equal, time was over"
	}
	return "equal"
}

func (r row) line() string {
	s := fmt.Sprintf("%s %s: fired %d, seen %d, %d cycles of %d, %.1f s: %s", r.build, r.phase, r.Fired, r.Seen, r.Cycles, r.Goal, r.Seconds, r.verdict())
	if notes := strings.Join(r.Notes, ", "); notes != "" {
		s += "; " + notes
	}
	if r.Failure != "" {
		s += "\n" + r.Failure
	}
	return s
}

// printTable prints all results, and returns how many failed.
func printTable(rows []row) (failed int) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "build\tphase\tfired\tseen\tcycles\tof\tseconds\toutside: fired\tseen\t  verdict")
	for _, r := range rows {
		if r.Failure != "" {
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%d\t%d\t  %s\n",
			r.build, r.phase, r.Fired, r.Seen, r.Cycles, r.Goal, r.Seconds, r.Free, r.FreeSeen, r.verdict())
	}
	w.Flush()
	fmt.Printf("%d passed, %d failed\n", len(rows)-failed, failed)
	return failed
}
