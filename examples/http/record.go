package main

import (
	"log/slog"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// recordBytes is the size of a recording: the last 200,000 events or so.
const recordBytes = 16 << 20

// record keeps the last events of a provider in a file, however the process ends.
func record(path string, app *stapsdt.Provider, log *slog.Logger) (*proberec.Recorder, error) {
	r, err := proberec.Create(path, recordBytes, app)
	if err != nil {
		return nil, err
	}
	r.Start()
	if kept, removed := r.Previous(); kept != "" {
		log.Info("the recording of the last run is kept", "file", kept, "removed", removed)
	}
	return r, nil
}
