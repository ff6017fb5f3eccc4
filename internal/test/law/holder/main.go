//go:build linux

// Command holder is a program that has operations of the ready-made packages in flight, as many
// as it is told, and says what they cost it. It talks with no other process: each package
// works with a transport, a driver or a listener in memory.
//
//	holder KIND...
//
// KIND is a kind of operations: see kinds.go. The probes of all kinds belong to the provider
// "law".
// It reads commands from standard input, a line each, and answers each with a line:
//
//	hold N       start N operations of each kind        held
//	release      end them, and look at their results    released
//	work         start and end operations all the time  working
//	go on        wait until each kind has done some     went on
//	rest         end that                               rested {"KIND":OPERATIONS,...}
//	observe      Provider.Observe                       watched
//	leave        end that                               left {"PROBE":EVENTS,...}
//	enabled      wait until all probes are enabled      enabled
//	disabled     wait until no probe is                 disabled
//	numbers      measure                                numbers {"threads":...}
//
// An operation without the result that it has without any probes is reported as "wrong KIND: ERROR" before the answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	law := stapsdt.NewProvider("law")
	h := &holder{provider: law}
	for _, name := range names {
		k, ok := kinds[name]
		if !ok {
			return fmt.Errorf("no kind %q", name)
		}
		h.kinds = append(h.kinds, kind{name, k(law)})
	}
	if err := law.Load(); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		answer, err := h.obey(word, rest)
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return in.Err()
}

// kind is a kind of operations, with its name.
type kind struct {
	name  string
	begin begin
}

// holder holds operations.
type holder struct {
	provider *stapsdt.Provider
	kinds    []kind
	held     []held
	watch    *observation
	crew     *crew
}

// held is an operation in flight.
type held struct {
	kind string
	end  end
}

// obey does what a command says and returns the answer.
func (h *holder) obey(word, rest string) (answer string, err error) {
	switch word {
	case "hold":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		return "held", h.hold(n)
	case "release":
		h.release()
		return "released", nil
	case "work":
		h.crew = work(h.kinds)
		return "working", nil
	case "go":
		h.crew.goOn()
		return "went on", nil
	case "rest":
		return object("rested", h.crew.rest())
	case "observe":
		h.watch = observe(h.provider)
		return "watched", nil
	case "leave":
		return object("left", h.watch.leave())
	case "enabled", "disabled":
		h.await(word == "enabled")
		return word, nil
	case "numbers":
		n, err := measure()
		if err != nil {
			return "", err
		}
		return object("numbers", n)
	}
	return "", fmt.Errorf("no command %q", word)
}

func object(word string, of any) (string, error) {
	text, err := json.Marshal(of)
	return word + " " + string(text), err
}

func (h *holder) hold(n int) error {
	for _, k := range h.kinds {
		for i := range n {
			end, err := k.begin(i)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			h.held = append(h.held, held{k.name, end})
		}
	}
	return nil
}

func (h *holder) release() {
	for _, o := range h.held {
		report(o.kind, o.end())
	}
	h.held = nil
}

// report reports an operation whose result is wrong.
func report(kind string, err error) {
	if err != nil {
		fmt.Printf("wrong %s: %v\n", kind, err)
	}
}

// await waits until all probes are enabled, or none is.
func (h *holder) await(enabled bool) {
	for {
		agreed := true
		for _, p := range h.provider.Probes() {
			agreed = agreed && p.Enabled() == enabled
		}
		if agreed {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
