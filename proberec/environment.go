package proberec

import (
	"fmt"
	"sync"

	"github.com/go-stapsdt/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// environment is the recording that the environment requests.
var environment struct {
	sync.Mutex
	recorder *Recorder
	own      bool // the program has called Create
}

// FromEnvironment records all providers to a file if the environment variable STAPSDT_RECORD is
// FILE or FILE,SIZE: it makes the file with [Create], and starts the recorder. SIZE is a number of
// bytes from 256K to 1G, optionally with the suffix K, M or G; the default is 16M. A number, true,
// yes, on and their opposites are not accepted as FILE: write ./1 for a file of that name. A FILE
// must not have control characters.
//
// FromEnvironment returns nil, and no error, if the variable is not set, if the program has already
// made a recording of all providers with Create, or if it gained rights when it was started, as a
// set-user-ID program does. Otherwise, it returns the same Recorder each time, even after Close. It
// fails if the variable is invalid, or as Create does. If the program makes a recording of all
// providers later, that takes precedence, and the Recorder is closed. Package probeenv calls
// FromEnvironment. Call it yourself in a program that must not contain the socket of package
// probesock.
func FromEnvironment() (*Recorder, error) {
	environment.Lock()
	defer environment.Unlock()
	value := proc.Getenv(recording.Variable)
	if value == "" || environment.own || environment.recorder != nil {
		return environment.recorder, nil
	}
	path, size, err := recording.ParseVariable(value)
	if err != nil {
		return nil, fmt.Errorf("proberec: %w", err)
	}
	r, err := create(path, size, nil)
	if err != nil {
		return nil, err
	}
	r.Start()
	environment.recorder = r
	return r, nil
}

// endEnvironment ends the recording that the environment has requested, because the program has its
// own.
func endEnvironment() {
	environment.Lock()
	defer environment.Unlock()
	environment.own = true
	if environment.recorder != nil {
		environment.recorder.Close()
		environment.recorder = nil
	}
}
