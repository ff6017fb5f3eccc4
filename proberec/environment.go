package proberec

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// variable is the environment variable that asks for a recording.
const variable = "STAPSDT_RECORD"

// defaultBytes is the size of a recording for which none is given.
const defaultBytes = 16 << 20

// environment is the recording that the environment asks for.
var environment struct {
	sync.Mutex
	recorder *Recorder
	own      bool // the program has called Create
}

// FromEnvironment records all providers to a file if the environment variable STAPSDT_RECORD is FILE or FILE,SIZE: it makes
// the file with [Create], and starts the recorder. In FILE, %p stands for the PID. SIZE is a number of bytes, optionally with
// the suffix K, M or G; the default is 16M.
//
// FromEnvironment returns nil if the variable is not set, if the program has called Create successfully, or if it
// gained rights when it was started, as a set-user-ID program does. A later Create ends the recording, because the program takes
// precedence. Package probeenv calls FromEnvironment.
func FromEnvironment() (*Recorder, error) {
	environment.Lock()
	defer environment.Unlock()
	value := proc.Getenv(variable)
	if value == "" || environment.own || environment.recorder != nil {
		return environment.recorder, nil
	}
	path, size, err := parse(value)
	if err != nil {
		return nil, fmt.Errorf("proberec: %w", err)
	}
	r, err := create(strings.ReplaceAll(path, "%p", strconv.Itoa(os.Getpid())), size, nil)
	if err != nil {
		return nil, err
	}
	r.Start()
	environment.recorder = r
	return r, nil
}

// endEnvironment ends the recording that the environment has asked for, because the program has its own.
func endEnvironment() {
	environment.Lock()
	defer environment.Unlock()
	environment.own = true
	if environment.recorder != nil {
		environment.recorder.Close()
		environment.recorder = nil
	}
}

// parse parses FILE or FILE,SIZE.
func parse(value string) (path string, size int64, err error) {
	path, size = value, defaultBytes
	if comma := strings.LastIndexByte(value, ','); comma >= 0 {
		path, size = value[:comma], recording.ParseSize(value[comma+1:])
	}
	if path == "" || size <= 0 {
		return "", 0, fmt.Errorf("%s=%s: it is FILE or FILE,SIZE, where SIZE may end in K, M or G", variable, value)
	}
	return path, size, nil
}
